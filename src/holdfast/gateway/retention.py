"""How long data is kept according to `store.retention`, and when removal may begin.

The default removes nothing without warning: it applies two weeks after it was first announced. A value set by the user
applies at once. Conversations of Holdfast's own agent are never removed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from holdfast.config import Config
from holdfast.store import Store
from holdfast.store import operations as op

GRACE_DAYS = 14
AGENT = "holdfast"
"""The client of Holdfast's own agent."""
SESSIONS = "sessions"
"""Where its conversations are, in HOLDFAST_HOME."""

_ANNOUNCED = "retention_announced"
_DAY_S = 86_400.0
_US = 1_000_000


class RetentionPeriod(Struct, frozen=True):
    """`days` that things are kept, 0: for ever. `chosen`: by the user."""

    days: int
    chosen: bool
    home: Path

    @classmethod
    def configured(cls, config: Config) -> RetentionPeriod:
        chosen = config.origin("store.retention").kind != "default"
        return cls(config.settings.store.retention, chosen, config.home)

    def begins(self, store: Store) -> float | None:
        """When things may be removed; None where that was never announced."""
        if self.chosen:
            return 0.0
        announced = store.marks().get(_ANNOUNCED)
        return None if announced is None else announced / _US + GRACE_DAYS * _DAY_S

    def cutoff(self, store: Store, now: float) -> int | None:
        """Microseconds before which things are to be removed now; None where nothing is."""
        if not self.days:
            return None
        begins = self.begins(store)
        return None if begins is None or now < begins else round((now - self.days * _DAY_S) * _US)

    def agent_sessions(self) -> frozenset[str]:
        """The conversations of Holdfast's own agent: those that have a log."""
        return frozenset(path.stem for path in (self.home / SESSIONS).glob("*.jsonl"))

    def sentence(self, store: Store, now: float) -> str:
        """Describe the retention for the start of a gateway."""
        if not self.days:
            return "for ever (store.retention)."
        begins = self.begins(store)
        if begins is None:
            begins = now + GRACE_DAYS * _DAY_S
        if begins <= now:
            return f"{self.days:,} days (store.retention); sums, Holdfast's own conversations and memory for ever."
        day = datetime.fromtimestamp(begins, UTC).astimezone().date()
        return (
            f"from {day} on, calls, events and sessions of clients that are older than {self.days:,} days will be "
            "removed; sums, Holdfast's own conversations and memory stay. Set store.retention to other days, or to 0 "
            "to keep everything."
        )

    def is_news(self, store: Store) -> bool:
        """Return whether the retention was not announced yet."""
        return bool(self.days) and not self.chosen and _ANNOUNCED not in store.marks()

    def announced(self, store: Store, now: float) -> None:
        """Record that the retention was announced."""
        if self.is_news(store):
            store.write(op.PutMark(_ANNOUNCED, round(now * _US)))
