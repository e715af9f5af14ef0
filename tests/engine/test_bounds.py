"""What an engine remembers stays bounded however long it serves; what it let go of is read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.engine import Lane, persistence, state
from tests.engine.driver import Driver, talk


def test_lanes_and_sessions_used_longest_ago_are_let_go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(persistence, "MOST_LANES", 3)
    driver = Driver(path=tmp_path / "h.db")
    lanes = [Lane(tenant="t", session=f"s{number}", id=f"l{number}") for number in range(5)]
    for lane in lanes:
        driver.send(talk(1), lane=lane)
    keeper = driver.engine.state.persistence
    assert [keeper.known(lane) for lane in lanes] == [False, False, True, True, True]
    assert list(keeper.sessions) == [("t", "s2"), ("t", "s3"), ("t", "s4")]
    driver.send(talk(2), lane=lanes[2])  # the oldest of those that are known, and now the newest
    _, used, verdict = driver.send(talk(2), lane=lanes[0])
    assert verdict.predicted == replace(used, cost=None, price_version=None)
    assert used.read > 0
    assert [keeper.known(lane) for lane in lanes] == [True, False, True, False, True]
    driver.close()


def test_what_was_written_last_is_kept_of_some_lanes_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(persistence, "ENCODED", 2)
    driver = Driver(path=tmp_path / "h.db")
    lanes = [replace(driver.lane, id=f"l{number}") for number in range(4)]
    for lane in lanes:
        driver.send(talk(1), lane=lane)
    assert list(driver.engine.state.persistence.encoded) == [("t", "l2"), ("t", "l3")]
    driver.close()


def test_tenants_used_longest_ago_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MOST_TENANTS", 2)
    driver = Driver()
    for name in ("a", "b", "a", "c"):
        driver.send(talk(1), lane=replace(driver.lane, tenant=name, id=name))
    assert list(driver.engine.state.tenants) == ["a", "c"]
