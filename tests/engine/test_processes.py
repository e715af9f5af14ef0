"""Two engines on two handles of one store, as two processes have them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.config.sections.cache import CacheSettings
from holdfast.core import experience
from holdfast.core.experience import Experience
from holdfast.core.planner import Verdict
from holdfast.engine import PreparedCall
from holdfast.store import SqliteStore
from holdfast.store import operations as op
from tests.engine.driver import worked
from tests.properties.sessions import Talk

from .driver import Driver, clocked, instead_of, raw_of, talk
from .edits import edit_of


class Pair:
    """Two processes in front of one provider."""

    def __init__(self, path: Path, cache: CacheSettings | None = None) -> None:
        self.both = Driver(cache, path=path), Driver(cache, path=path)
        for driver in self.both:
            driver.clock, driver.simulator = self.both[0].clock, self.both[0].simulator

    def send(self, which: int, raw: bytes | Talk, gap: float = 10.0, **more: Any) -> tuple[PreparedCall, Verdict]:
        prepared, _, verdict = self.both[which].send(raw, gap, **more)
        self.durable(which)
        return prepared, verdict

    def durable(self, which: int) -> None:
        """What was written behind the request is there."""
        self.store(which).write(op.AppendEvents("t", ())).result()

    def store(self, which: int) -> SqliteStore:
        found = self.both[which].store
        assert found is not None
        return found

    def learned(self) -> Experience:
        row = self.store(0).pool("t", "")
        return experience.decode(row.data)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    found = Pair(tmp_path / "h.db", CacheSettings(repair="on"))
    yield found
    for driver in found.both:
        driver.close()


def extends(after: PreparedCall, before: PreparedCall) -> bool:
    blocks = [[block.digest for block in each.core.prompt.blocks] for each in (after, before)]
    return blocks[0][: len(blocks[1])] == blocks[1]


@pytest.mark.parametrize("minutes", [(0, 1, 2, 3, 4, 5, 6, 7), (0, 1, 2, 2, 2, 2, 3, 3)], ids=["moving", "resting"])
def test_a_lane_that_moves_between_processes_goes_on_to_the_byte(pair: Pair, minutes: tuple[int, ...]) -> None:
    """Also where the process has nothing new to say itself: it replays what the other has told."""
    before: PreparedCall | None = None
    for turns, (which, minute) in enumerate(zip((0, 0, 1, 1, 0, 0, 1, 0), minutes, strict=True)):
        prepared, verdict = pair.send(which, clocked(turns, minute))
        assert prepared.reset is None
        assert verdict.finding is None
        if before is not None:
            assert extends(prepared, before), turns
        before = prepared
    assert len([m for m in json.loads(before.raw)["messages"] if "Current values" in json.dumps(m)]) == (
        7 if minutes[-1] == 7 else 3
    )
    assert pair.both[0].engine.ledger(before.lane, now=0).requests == 8


@pytest.mark.parametrize("end", ["settled", "cut"])
def test_what_another_process_announces_meanwhile_does_not_hide_a_call_on_its_way(pair: Pair, end: str) -> None:
    pair.send(1, clocked(0, 0))
    driver = pair.both[1]
    driver.wait(10)
    prepared = driver.prepare(clocked(1, 1))
    exchange = driver.bill(prepared)
    driver.begin(prepared, exchange)
    pair.both[0].engine.announce(driver.lane, "compaction", now=driver.now)
    pair.durable(0)
    if end == "settled":
        assert driver.finish(prepared, exchange).explained
    else:
        driver.engine.abandon(prepared, now=driver.now)
        exchange.finish()
    ledger = driver.engine.ledger(driver.lane, now=driver.now)
    assert (ledger.last.call, ledger.last.at, ledger.requests) == (prepared.call, prepared.core.outcome.at, 2)
    assert ledger.reset == "compaction"
    pair.durable(1)
    following, verdict = pair.send(0, clocked(2, 2))
    assert extends(following, prepared)
    assert following.core.before.call == prepared.call
    assert verdict.finding is None


def test_an_edit_of_one_process_is_replayed_by_the_other(pair: Pair) -> None:
    pair.send(0, worked(3))
    pair.send(1, worked(3))
    digest, data = edit_of(pair.both[0], worked(4))
    made, _ = pair.send(0, worked(4), 4_000, edits={digest: data})
    assert data in made.raw
    again, verdict = pair.send(1, worked(5))
    assert data in again.raw
    assert verdict.finding is None


def test_what_is_written_between_the_decision_and_its_write_is_decided_again(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process tells the minute first: both inserts stand in what goes out."""
    pair.send(0, clocked(0, 0))
    pair.send(0, clocked(1, 1))
    pair.send(1, clocked(2, 2))
    store, write = pair.store(0), pair.store(0).write
    between: list[PreparedCall] = []

    def crossed(operation: op.PutLedger) -> Future[int]:
        if not between:
            between.append(pair.send(1, clocked(3, 3))[0])
        return write(operation)

    instead_of(monkeypatch, store, op.PutLedger, crossed)
    prepared, verdict = pair.send(0, clocked(4, 4))
    assert between
    assert extends(prepared, between[0])
    assert verdict.finding is None
    assert pair.send(1, clocked(5, 5))[1].finding is None


def test_a_settle_finds_what_the_other_wrote_in_between(pair: Pair) -> None:
    pair.send(0, talk(0))
    first = pair.both[0]
    first.wait(10)
    prepared = first.prepare(talk(1))
    exchange = first.bill(prepared)
    pair.send(1, talk(0))
    first.finish(prepared, exchange)
    pair.durable(0)
    row = pair.store(1).ledger("t", "l")
    assert row is not None
    assert first.engine.ledger(first.lane, now=first.now).settled == 3
    assert pair.send(1, talk(2))[1].finding is None


def test_a_write_behind_does_not_undo_what_the_other_has_kept(pair: Pair) -> None:
    """A ledger that is behind is not written over the newer one."""
    pair.send(0, clocked(0, 0))
    pair.send(0, clocked(1, 1))
    pair.send(1, clocked(2, 2))
    first, lane = pair.both[0], pair.both[0].lane
    before = pair.store(0).ledger("t", "l")
    first.engine.state.persistence.save_lane(lane)
    first.engine.state.persistence.save_lane(lane)
    pair.durable(0)
    after = pair.store(0).ledger("t", "l")
    assert after.data == before.data
    assert first.engine.ledger(lane, now=first.now).requests == 2
    pair.send(0, clocked(3, 3))
    assert first.engine.ledger(lane, now=first.now).requests == 4


def test_a_lane_that_the_other_has_ended_begins_anew(pair: Pair) -> None:
    pair.send(0, talk(0))
    pair.send(1, talk(1))
    pair.both[1].engine.end(pair.both[1].lane, now=pair.both[1].now)
    pair.durable(1)
    pair.send(0, talk(2))
    assert pair.both[0].engine.ledger(pair.both[0].lane, now=pair.both[0].now).requests == 1
    pair.send(0, talk(3))
    row = pair.store(1).ledger("t", "l")
    assert row.version == 2


def test_what_both_have_learned_is_added_up(pair: Pair) -> None:
    lanes = [replace(driver.lane, id=f"l{number}") for number, driver in enumerate(pair.both)]
    saved = 0.0
    for turns, which in enumerate((0, 1, 1, 0, 0, 1, 0, 1, 1, 1)):
        saved += pair.send(which, talk(turns), 400, lane=lanes[which])[1].saved
    learned = pair.learned()
    client = learned.clients["cli"]
    assert client.requests == 10
    assert client.lanes == 2
    assert sum(client.gaps.user) == 8
    assert client.saved == pytest.approx(saved)
    assert sum(route.reads for route in learned.routes.values()) > 0
    # each knows of the other what it had written when it wrote last itself
    last = [pair.send(which, talk(11), lane=lanes[which])[1].saved for which in (0, 1)]
    known = pair.both[1].engine.state.tenant("t").experience.clients["cli"]
    assert known.requests == pytest.approx(12, abs=1)
    assert known.saved == pytest.approx(pair.learned().clients["cli"].saved, abs=max(last))
    assert known.saved > min(client.saved, client.saved + min(last))


def test_a_credit_is_the_tenant_s_and_not_the_process_s(pair: Pair) -> None:
    other = replace(pair.both[1].lane, id="other")
    saved = sum(pair.send(0, talk(turns))[1].saved for turns in range(4))
    saved += sum(pair.send(1, talk(turns), lane=other)[1].saved for turns in range(3))
    saved += sum(pair.send(0, talk(turns))[1].saved for turns in (4, 5))
    assert pair.both[0].engine.state.tenant("t").experience.clients["cli"].saved == pytest.approx(saved)
    assert pair.learned().clients["cli"].saved == pytest.approx(saved)


def full(*_args: Any, **_more: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(OSError("the disk is full"))
    return future


def test_what_could_not_be_written_is_added_later(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.send(0, talk(0))
    with monkeypatch.context() as broken:
        instead_of(broken, pair.store(0), op.PutPool, full)
        pair.send(0, talk(1))
        pair.send(0, talk(2))
    pair.send(1, talk(3))
    pair.send(0, talk(4))
    assert pair.learned().clients["cli"].requests == 5


def test_a_ledger_that_could_not_be_written_is_written_later(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.send(0, talk(0))
    with monkeypatch.context() as broken:
        instead_of(broken, pair.store(0), op.PutLedger, full)
        pair.send(0, talk(1))
    prepared, _ = pair.send(0, talk(2))
    assert pair.both[0].engine.ledger(prepared.lane, now=0).requests == 3
    pair.send(1, talk(3))
    assert pair.both[1].engine.ledger(prepared.lane, now=0).requests == 4


def test_another_process_knows_the_first_order_of_keys_before_the_answer_comes(pair: Pair) -> None:
    """As after a kill: what was sent last is not settled, and nobody has closed anything."""

    def request(turns: int) -> bytes:
        raw = json.loads(raw_of(talk(turns)))
        for message in raw["messages"]:
            block = {"type": "text", "text": message["content"]}
            message["content"] = [dict(reversed(block.items())) if turns % 2 else block]
        return json.dumps(raw).encode()

    pair.send(0, request(1))
    pair.send(0, request(2))
    sent = pair.both[0].prepare(request(3))
    pair.durable(0)
    later = pair.both[1].prepare(request(4))
    assert [repair.name for repair in later.repairs] == ["key-order"] * len(later.repairs) != []
    assert later.reset is None
    messages = [json.loads(prepared.raw)["messages"] for prepared in (sent, later)]
    plain = [json.dumps(strip(each)) for each in messages]
    assert plain[1].startswith(plain[0].removesuffix("]"))


def strip(messages: Any) -> Any:
    """Without markers."""
    for message in messages:
        for block in message["content"]:
            block.pop("cache_control", None)
    return messages
