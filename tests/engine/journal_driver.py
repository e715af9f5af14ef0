"""An engine whose events, rows and break reports are all looked at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.config.sections.cache import CacheSettings
from holdfast.engine.reports import Reports
from holdfast.records.events import Bus, Envelope

from .driver import Driver


class JournalDriver(Driver):
    """A driver that listens to everything."""

    def __init__(self, tmp_path: Path, cache: CacheSettings | None = None) -> None:
        self.listening = Bus()
        self.heard = self.listening.subscribe()
        self.reported = tmp_path / "cache-breaks"
        super().__init__(cache, path=tmp_path / "h.db", bus=self.listening, reports=Reports(self.reported))

    def events(self) -> list[Envelope]:
        """What was published; the same stands in the store, in the same order."""
        return self.heard.drain()

    def stored(self) -> list[Envelope]:
        self.restart()
        return self.store.events("t", "s")

    def lines(self) -> list[dict[str, Any]]:
        self.engine.journal.flush()
        files = sorted(self.reported.glob("*.jsonl"))
        return [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]

    def close(self) -> None:
        self.engine.journal.flush()  # a report is written in a thread, and a restart has another engine
        super().close()

    def done(self) -> None:
        self.close()
        self.listening.close()


def types(events: list[Envelope]) -> list[str]:
    return [event.payload.type for event in events]
