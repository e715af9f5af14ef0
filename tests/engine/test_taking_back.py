"""What a request is compared and taken back with is the lane's ledger as it is, also where its bytes were at hand."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import ledger, planner
from holdfast.engine import Lane, persistence
from holdfast.engine.persistence import Persistence

from .driver import Driver, talk


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of every request that begins: whether what it remembers is the ledger as it is."""
    found: list[bool] = []
    begin = Persistence.begin

    def checked(self: Persistence, lane: Lane) -> list[Future[Any]]:
        kept = self._lanes[lane.tenant, lane.id]
        was = ledger.encode(kept.ledger)
        writes = begin(self, lane)
        found.append(kept.before == was)
        return writes

    monkeypatch.setattr(Persistence, "begin", checked)
    return found


def abandoned(driver: Driver) -> None:
    driver.engine.abandon(driver.prepare(talk(1)), now=driver.now)


def announced(driver: Driver) -> None:
    driver.engine.announce(driver.lane, "compaction", now=driver.now)


def bypassed(driver: Driver) -> None:
    driver.engine.bypassed(driver.lane, driver.prepare(talk(1)).client, now=driver.now)


def at_once(driver: Driver) -> None:
    """Two at once, the second settled before the first."""
    first, second = driver.prepare(talk(1)), driver.prepare(talk(2))
    driver.finish(second, driver.bill(second))
    driver.finish(first, driver.bill(first))


def failed(driver: Driver) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "prepare", None)
        with pytest.raises(TypeError):
            driver.prepare(talk(1))


def pending(driver: Driver) -> None:
    driver.prepare(talk(1))


def nothing(driver: Driver) -> None:
    pass


@pytest.mark.parametrize("most", [128, 1])
@pytest.mark.parametrize("between", [nothing, abandoned, announced, bypassed, at_once, failed, pending])
def test_what_a_request_is_taken_back_to(
    tmp_path: Path,
    between: Callable[[Driver], None],
    most: int,
    begun: list[bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(persistence, "ENCODED", most)
    driver = Driver(path=tmp_path / "h.db")
    other = Lane(tenant="t", session="s", id="other", client="cli")
    for turn in range(3):
        driver.send(talk(turn))
        driver.send(talk(turn), lane=other)
        between(driver)
    driver.close()
    assert len(begun) >= 6
    assert all(begun)
