"""What outlives a process: read back from a real store, the same as it was."""

from __future__ import annotations

import math
from concurrent.futures import Future
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.caches.prompts import Entry
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.ledger import Ledger, encode
from holdfast.core.pool import Effect, Pool
from holdfast.engine import EngineCore, Lane, persistence
from holdfast.engine.persistence import REBUILT, Persistence
from holdfast.engine.pool_effects import Effects, effects_from, effects_of
from holdfast.errors import HoldfastError
from holdfast.facts import model
from holdfast.store import open_store
from holdfast.store import operations as op
from tests.properties.sessions import Talk

from .driver import HOST, MODELS, Driver, instead_of, talk

LANE = Lane(tenant="t", session="s", id="l", client="cli")
SONNET = "anthropic:claude-sonnet-5-5"


@pytest.mark.parametrize("dialect", [name for name in MODELS if name != "gemini"])
def test_a_lost_pool_is_rebuilt_and_predicts_exactly(dialect: str, tmp_path: Path) -> None:
    """Cancelled, cut, parallel, resent and forked calls, and a restart behind each of them."""
    driver = Driver(path=tmp_path / "h.db")
    for turns in range(3):
        driver.send(talk(turns), 30, dialect=dialect)
    driver.restart()
    assert driver.send(talk(3), 30, dialect=dialect)[2].explained
    cancelled = driver.prepare(talk(4), dialect=dialect)
    driver.bill(cancelled).abandon()
    driver.engine.abandon(cancelled, now=driver.now)
    driver.restart()
    _, used, verdict = driver.send(talk(4), 30, dialect=dialect)
    assert verdict.predicted == replace(used, cost=None, price_version=None)
    cut = driver.prepare(talk(5), dialect=dialect)
    driver.begin(cut, driver.bill(cut))
    driver.engine.abandon(cut, now=driver.now)
    calls = [driver.prepare(talk(6), dialect=dialect) for _ in range(2)]
    billed = [driver.bill(call) for call in calls]
    for pair in zip(calls, billed, strict=True):
        assert driver.finish(*pair).explained
    for said in (talk(6), talk(2), talk(7)):
        driver.restart()
        _, used, verdict = driver.send(said, 30, dialect=dialect)
        assert verdict.predicted == replace(used, cost=None, price_version=None)
        assert verdict.explained
        assert used.read > 0
    driver.close()


def test_a_pool_is_rebuilt_for_every_lifetime(tmp_path: Path) -> None:
    driver = Driver(CacheSettings(strategy="zones", adaptive=False), path=tmp_path / "h.db").after(talk(1))
    for gap in (200.0, 290.0, 1_000.0, 3_500.0, 3_700.0):
        driver.restart()
        _, used, verdict = driver.send(talk(1), gap)
        assert verdict.explained
        assert (used.read > 0) is (gap < 3_600)
    driver.close()


@pytest.mark.parametrize("later", ["closed", "killed"])
def test_pools_that_were_kept_are_taken_over_with_the_calls_since(later: str, tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db").after(talk(0), talk(1))
    driver.wait(1)
    driver.engine.close(now=driver.now)
    driver.restart()
    assert driver.store.pool("t", SONNET) is not None
    pool = Pool(model(SONNET))
    assert Persistence(driver.store).load_pool("t", pool, Pool(model(SONNET)), driver.now) == 0
    assert len(pool.live(driver.now)) >= 2
    driver.send(talk(2))
    driver.send(talk(3))
    if later == "closed":
        driver.engine.close(now=driver.now)
    driver.restart()
    _, used, verdict = driver.send(talk(4))
    assert verdict.explained
    assert used.read > 6_000
    driver.close()


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x82\xa4sent\xc4\x01\xc1\xa5alone\xc4\x01\xc1"], ids=len)
def test_pools_that_were_kept_badly_are_rebuilt_from_the_calls(data: bytes, tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db").after(talk(0))
    driver.restart()
    driver.store.write(op.PutPool("t", SONNET, data, expected=0)).result()
    _, used, verdict = driver.send(talk(1))
    assert verdict.explained
    assert used.read > 0
    driver.engine.close(now=driver.now)
    driver.restart()
    assert driver.send(talk(2))[2].explained
    driver.close()


def test_what_no_call_used_for_an_hour_is_not_asked_for() -> None:
    assert REBUILT > 3_600


def test_pools_of_two_models_are_rebuilt_apart(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db")
    for name in ("claude-sonnet-5-5", "claude-opus-5-5"):
        driver.send(talk(1), model=name, lane=replace(LANE, id=name))
    driver.restart()
    for name in ("claude-sonnet-5-5", "claude-opus-5-5"):
        _, used, verdict = driver.send(talk(2), model=name, lane=replace(LANE, id=name))
        assert verdict.explained
        assert used.read > 0
    driver.close()


def test_a_call_that_was_pending_when_the_process_died_leaves_nothing(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db").after(talk(0))
    driver.prepare(talk(1))
    driver.restart()
    assert [call.status for call in driver.store.calls("t")] == ["settled", "pending"]
    verdict = driver.send(talk(1))[2]
    assert verdict.explained
    driver.close()


def test_a_ledger_goes_on_where_it_was(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db").after(*(talk(turns) for turns in range(4)))
    before = encode(driver.engine.ledger(LANE, now=driver.now))
    driver.restart()
    assert encode(driver.engine.ledger(LANE, now=driver.now)) == before
    driver.send(talk(4))
    assert driver.engine.ledger(LANE, now=driver.now).requests == 5
    driver.close()


def test_what_was_learned_goes_on_where_it_was(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db").after(talk(0))
    driver.send(talk(1), 400)
    driver.send(talk(2))
    driver.restart()
    assert driver.store is not None
    learned = Persistence(driver.store).tenant("t").experience
    assert learned.clients["cli"].requests == 3
    assert learned.clients["cli"].gaps.user == [1, 1, 0]
    assert all(learned.clients["cli"].fixed)
    assert learned.clients["cli"].saved != 0
    assert learned.routes[SONNET].reads == 1
    driver.close()


def test_a_ledger_of_another_version_begins_anew(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db").after(talk(0))
    driver.restart()
    row = driver.store.ledger("t", "l")
    driver.store.write(op.PutLedger("t", "l", encode(Ledger(version=99)), expected=row.version)).result()
    driver.restart()
    assert driver.engine.ledger(LANE, now=driver.now).requests == 0
    verdict = driver.send(talk(1))[2]
    assert verdict.explained
    driver.restart()
    assert driver.engine.ledger(LANE, now=driver.now).requests == 1  # it is written again
    driver.close()


def test_a_call_that_had_begun_when_the_process_died_has_written(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db").after(talk(0))
    prepared = driver.prepare(talk(1))
    driver.begin(prepared, driver.bill(prepared))
    driver.restart()
    pending = driver.store.calls("t")[-1]
    assert (pending.status, pending.first_token_at) == ("pending", round(driver.now * 1_000_000))
    _, used, verdict = driver.send(talk(1))
    assert verdict.predicted == replace(used, cost=None, price_version=None)
    assert verdict.explained
    assert used.written == 0
    driver.close()


def test_what_another_process_announces_for_a_lane_is_heard(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db").after(talk(0))
    driver.store.write(op.AppendEvents("t", ())).result()  # what was written behind the request is there
    with open_store(tmp_path / "h.db") as other:
        beside = EngineCore(driver.settings, store=other)
        beside.announce(LANE, "compaction", now=driver.now)
        beside.announce(LANE, "history_trimmed", now=driver.now)
    assert driver.prepare(talk(1)).core.expectation.reset == "history_trimmed"
    for turns in (1, 2, 3):
        driver.send(talk(turns))
    driver.restart()
    assert driver.engine.ledger(LANE, now=driver.now).requests == 5
    driver.close()


def test_a_session_and_a_lane_are_known_to_the_store(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db")
    child = Lane(tenant="t", session="s", id="child", client="cli", agent="helper", parent="l", subagent=True)
    driver.send(talk(0))
    driver.send(talk(0), lane=child)
    driver.restart()
    session = driver.store.session("t", "s")
    assert session.client == "cli"
    lanes = {lane.id: lane for lane in driver.store.lanes("t", "s")}
    assert (lanes["child"].parent, lanes["child"].agent) == ("l", "helper")
    driver.engine.end(child, now=driver.now)
    driver.restart()
    ended = driver.store.lane("t", "child")
    assert ended.ended_at is not None
    assert driver.store.ledger("t", "child") is None
    driver.close()


def test_lanes_are_let_go_of_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistence, "MOST_LANES", 2)
    driver = Driver(path=tmp_path / "h.db")
    lanes = [replace(LANE, id=f"l{number}") for number in range(4)]
    for turns in range(3):
        for lane in lanes:
            assert driver.send(talk(turns), lane=lane)[2].explained
            driver.store.write(op.AppendEvents("t", ())).result()  # what was written behind the request is there
    assert [driver.engine.ledger(lane, now=driver.now).requests for lane in lanes] == [3] * 4
    driver.close()


def test_a_damaged_effect_is_passed_over(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db").after(talk(0), talk(1))
    driver.restart()
    first, second = driver.store.calls("t")
    driver.store.write(op.PutCall(replace(first, chain=b"\xc1"))).result()
    pool, alone = Pool(model(SONNET)), Pool(model(SONNET))
    assert Persistence(driver.store).load_pool("t", pool, alone, driver.now) == 1
    assert pool.live(driver.now) != []
    assert second.chain is not None
    driver.close()


def test_caches_without_entries_are_not_rebuilt(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db")
    driver.send(talk(0), dialect="gemini")
    assert driver.store is not None
    gemini = model(f"gemini:{MODELS['gemini']}")
    assert Persistence(driver.store).load_pool("t", Pool(gemini), Pool(gemini), driver.now) == 0
    driver.close()


def test_without_a_store_nothing_is_kept() -> None:
    keeper = Persistence(None)
    keeper.lane(LANE, 0)
    keeper.save_lane(LANE)
    assert keeper.write_lane(LANE) == []
    keeper.save_tenant("t", keeper.tenant("t"))
    keeper.keep_bytes(LANE, {b"name": b"data"}, 0)
    assert keeper.load("t", b"name") == b"data"
    assert keeper.load("other", b"name") is None
    keeper.end_lane(LANE, 1)
    assert not keeper.known(LANE)


def test_bytes_are_durable_before_they_are_sent(tmp_path: Path) -> None:
    """A clock in the system text, kept at its first value, is read back by another process."""
    driver = Driver(CacheSettings(repair="on"), path=tmp_path / "h.db")

    def said(turns: int, clock: str) -> Talk:
        return talk(turns, system=(HOST + f"\nCurrent time: 2026-11-15 13:{clock}:00\n",))

    reads = []
    for turns, clock in enumerate(("01", "02", "03", "04", "05")):
        if turns > 1:  # a text is kept once it stands in the place of another
            driver.restart()
        prepared, used, verdict = driver.send(said(turns, clock))
        assert verdict.explained
        reads.append(used.read)
    assert any(repair.name == "volatile-value" and repair.applied for repair in prepared.repairs)
    assert b"13:05:00" in prepared.raw
    assert reads[-1] > 3_000
    driver.close()


def test_a_store_that_does_not_keep_it_in_time_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(tmp_path / "h.db") as store:
        keeper = Persistence(store)
        instead_of(monkeypatch, store, op.PutBlob, lambda _: Future())
        with pytest.raises(HoldfastError, match="did not keep"):
            persistence.wait(keeper.keep_bytes(LANE, {b"name": b"data"}, 0), 0.01)


def test_effects_are_written_and_read_back() -> None:
    entry = Entry(b"key", 40, "5m", 300.0, 1.0, 301.0, math.inf)
    sent = Effect(1.0, 2.0, (entry,), (replace(entry, readable=1.5), replace(entry, key=b"other")), (b"gone",))
    for alone in (sent, Effect(1.0, None)):
        assert effects_from(effects_of(sent, alone)) == Effects(sent, alone)
    assert len(effects_of(sent, replace(sent))) < len(effects_of(sent, Effect(1.0, None)))
    assert effects_from(b"\xc1") is None
    assert effects_from(msgspec.msgpack.encode({"sent": 1})) is None


def test_calls_that_a_process_left_behind_are_not_pending_for_ever(tmp_path: Path) -> None:
    """One whose answer had begun, one whose had not, and one of a release that booked nothing before the end."""
    path = tmp_path / "h.db"
    driver = Driver(path=path)
    begun, waiting = driver.prepare(talk(2)), driver.prepare(talk(3))
    driver.begin(begun, driver.bill(begun))
    with open_store(path) as store:
        driver.store.flush()
        older = replace(store.calls()[0], id="older", usage=None, verdict=None, status="pending", started_at=1)
        store.write(op.PutCall(older)).result()
        assert [call.status for call in store.calls()] == ["pending"] * 3
        hours = store.call_hours(0, 2**60)
    driver.restart()
    driver.store.flush()
    found = {call.id: call for call in driver.store.calls()}
    assert {call.status for call in found.values()} == {"unknown"}
    first, second = found[begun.call], found[waiting.call]
    assert (first.usage.writes, first.verdict) == (begun.core.outcome.writes, b'{"estimated":true}')
    assert found["older"].usage == first.usage
    assert second.usage is None
    assert second.verdict.startswith(b'{"possible":"0.0')
    assert sum(hour.calls for hour in driver.store.call_hours(0, 2**60)) == sum(hour.calls for hour in hours) + 1
    assert driver.store.calls_by_status("pending") == []
    driver.close()


def test_one_of_another_process_that_lives_ends_all_the_same(tmp_path: Path) -> None:
    """What was taken for left behind is written again by who knows better."""
    driver = Driver(path=tmp_path / "h.db")
    begun = driver.prepare(talk(2))
    billed = driver.bill(begun)
    driver.begin(begun, billed)
    driver.store.flush()
    with open_store(tmp_path / "h.db") as store:
        EngineCore(store=store)
        store.flush()
        assert [call.status for call in store.calls()] == ["unknown"]
    driver.finish(begun, billed)
    driver.store.flush()
    (call,) = driver.store.calls()
    assert (call.status, call.error) == ("settled", None)
    (hour,) = driver.store.call_hours(0, 2**60)
    assert (hour.calls, hour.output) == (1, call.usage.output if call.usage is not None else -1)
    driver.close()
