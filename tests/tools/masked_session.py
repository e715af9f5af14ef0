"""An agent's session with a masker in front of the engine, and a simulated provider behind it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from holdfast.config.sections.agent import MaskSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.planner import Verdict
from holdfast.engine import PreparedCall, PrepareOptions
from holdfast.tools.masking import MaskedResult, Masker
from tests.engine.driver import Driver
from tests.tools.results import Did, raw_of


class Session:
    """One lane. Every request is rendered with its results in full; what was sent is in `sent`."""

    def __init__(
        self,
        settings: MaskSettings,
        *,
        dialect: str = "anthropic",
        strip: bool = False,
        cache: CacheSettings | None = None,
        path: Path | None = None,
    ) -> None:
        self.driver, self.dialect = Driver(cache, path=path), dialect
        self.masker = Masker(settings, strip=strip)
        self.defined: tuple[str, ...] = ()
        self.sent: list[PreparedCall] = []
        self.verdicts: list[Verdict] = []
        self.masked: list[tuple[MaskedResult, ...]] = []
        self.asked: list[int] = []

    def restart(self) -> None:
        """The process ends and another one goes on."""
        self.driver.restart()
        self.masker = Masker(self.masker.settings, strip=self.masker.strip)

    def close(self) -> None:
        self.driver.close()

    @property
    def edits(self) -> Any:
        return self.driver.engine.ledger(self.driver.lane, now=self.driver.now).edits

    def send(self, turns: Sequence[Did | Sequence[Did]], gap: float = 10.0) -> PreparedCall:
        return self.send_raw(raw_of(turns, self.dialect), gap)

    def send_raw(self, raw: bytes, gap: float = 10.0, *, check: bool = True, model: str = "") -> PreparedCall:
        driver, lane = self.driver, self.driver.lane
        driver.wait(gap)
        engine, now = driver.engine, driver.now
        body = driver.body(raw, self.dialect, model)
        wanted = self.masker.requests(
            body,
            engine.read(body).prompt,
            fence=lambda: engine.fence(lane, now=now),
            already=engine.ledger(lane, now=now).edits,
            defined=self.defined,
        )
        prepared = engine.prepare(body, lane=lane, now=now, options=PrepareOptions(edits=wanted.edits))
        self.asked.append(len(wanted.edits))
        self.masked.append(self.masker.settle(prepared.edits is not None and prepared.edits.made))
        self.sent.append(prepared)
        self.verdicts.append(driver.finish(prepared, driver.bill(prepared, check=check)))
        return prepared

    @property
    def dollars(self) -> Decimal:
        """What the provider has billed so far."""
        return sum((verdict.usage.cost or Decimal(0) for verdict in self.verdicts), Decimal(0))
