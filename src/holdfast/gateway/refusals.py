"""Events of those who came without the right key. Seldom enough that whoever tries keys does not fill the store."""

from __future__ import annotations

import logging
from collections.abc import Callable

from holdfast.engine import EngineCore, Lane
from holdfast.engine.identity import LOCAL
from holdfast.engine.passage import place_of
from holdfast.records.events import GatewayAuthFailed

log = logging.getLogger(__name__)

EVERY_S = 1.0
LANE = Lane(tenant=LOCAL, session="gateway", id="gateway")


class RefusalEvents:
    """Emits an event for each door, once a second at most."""

    def __init__(self, engine: EngineCore, clock: Callable[[], float]) -> None:
        self._engine, self._clock = engine, clock
        self._emitted: dict[str, float] = {}

    def emit(self, door: str) -> None:
        now = self._clock()
        if now - self._emitted.get(door, 0.0) < EVERY_S:
            return
        self._emitted[door] = now
        try:
            self._engine.tell(LANE, GatewayAuthFailed(door=door), now=now)
        except Exception as error:  # noqa: BLE001  the answer is the same
            log.warning("a refusal was not told: %s", place_of(error))
