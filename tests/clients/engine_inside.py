"""An engine inside the SDKs' HTTP clients, with a store to look into: what the tests of these clients share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast import Engine
from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings
from holdfast.config.sections.server import GatewaySettings, LimitSettings
from holdfast.store import Call as Row
from holdfast.store import Session, SqliteStore, open_store
from holdfast.store import operations as op
from tests.clients.sessions import Used

LIMITS = LimitSettings(stages_ms=60_000, wait_ms=60_000)  # a busy machine must not decide what is tested


class Inside:
    """An engine with a store."""

    def __init__(
        self,
        store: SqliteStore,
        cache: CacheSettings | None,
        gateway: GatewaySettings | None,
        clock: Callable[[], float],
    ) -> None:
        self.store = store
        self.engine = Engine(
            Settings(cache=cache or CacheSettings(), gateway=gateway or GatewaySettings(limits=LIMITS)),
            store=store,
            clock=clock,
        )

    def rows(self) -> list[Row]:
        """The calls that are stored, oldest first."""
        self.store.write(op.PutSession(Session(tenant="-", id="-", started_at=0))).result(30)  # it comes behind them
        return self.store.calls()

    def ends(self) -> list[tuple[str, str | None]]:
        """How each call ended."""
        return [(row.status, row.error) for row in self.rows()]


@contextmanager
def opened(
    path: Path,
    cache: CacheSettings | None = None,
    gateway: GatewaySettings | None = None,
    clock: Callable[[], float] = time.time,
) -> Iterator[Inside]:
    with open_store(path / "inside.db") as store:
        yield Inside(store, cache, gateway, clock)


def used(rows: list[Row]) -> list[Used]:
    """The usage that is stored, in the simulator's words."""
    found = [row.usage for row in rows if row.usage is not None]
    return [Used(use.input, use.read, use.written, use.output) for use in found]
