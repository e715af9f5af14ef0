"""Requests that went out as the client sent them: because preparing them failed, or past the engine altogether.

Nothing stays of what would have been done, and what follows is compared with what really went out.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.experience import encode as encode_experience
from holdfast.core.ledger import encode
from holdfast.core.strategies import STRATEGIES
from holdfast.engine import PreparedCall, UnplannedCall, persistence
from holdfast.engine import engine as engine_core
from holdfast.errors import HoldfastError
from holdfast.records import Usage
from holdfast.simulator import HttpRequest
from holdfast.store import Operation, open_store
from holdfast.store import operations as op
from holdfast.wire import DIALECTS, prompts
from tests.properties.sessions import PATHS

from .driver import HEADERS, ON, Driver, clocked, instead_of, raw_of, talk, told_behind, worked
from .edits import edit_of


def past(driver: Driver, raw: bytes) -> None:
    """The client's bytes reach the provider without us."""
    exchange = driver.simulator.begin(HttpRequest("POST", PATHS["anthropic"], HEADERS, {}, raw))
    exchange.first_token(driver.now)
    exchange.finish()


def full(*_args: Any, **_more: Any) -> Future[Any]:
    """A write to a full disk."""
    future: Future[Any] = Future()
    future.set_exception(HoldfastError("the disk is full"))
    return future


@pytest.mark.parametrize("kind", [op.PutBlob, op.PutLedger])
def test_a_repair_that_could_not_be_kept_was_never_made(
    kind: type[Operation[Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(ON, path=tmp_path / "h.db").after(clocked(0, 0))
    before, _, _ = driver.send(clocked(1, 1))
    assert told_behind(before) == [2]
    experience = driver.engine.state.tenant("t").experience
    ledger = driver.engine.ledger(driver.lane, now=driver.now)
    known = encode(replace(ledger, last=None))

    with monkeypatch.context() as broken:
        instead_of(broken, driver.store, kind, full)
        driver.wait(20)
        with pytest.raises(HoldfastError):
            driver.prepare(clocked(2, 2))
    assert encode(replace(ledger, last=None)) == known
    assert experience.client("cli").reserved == 0
    past(driver, clocked(2, 2))
    again, used, verdict = driver.send(clocked(3, 3))
    assert told_behind(again) == [2, 6]
    assert again.reset == "bypassed"
    assert verdict.explained
    assert used.read == before.core.prompt.tokens  # it goes on where we were before
    following, _, verdict = driver.send(clocked(4, 4))
    assert following.reset is None
    assert verdict.explained
    assert verdict.finding is None
    driver.close()


@pytest.mark.parametrize("where", ["plan", "markers"])
def test_an_error_of_ours_leaves_nothing(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver().after(talk(0))
    state = driver.engine.state
    before = encode(replace(driver.engine.ledger(driver.lane, now=driver.now), last=None))

    def fails(*_args: Any, **_more: Any) -> Any:
        raise RuntimeError("a bug")

    with monkeypatch.context() as broken:
        if where == "plan":
            broken.setitem(STRATEGIES, "economic", fails)
        else:
            broken.setattr(engine_core, "marked", fails)
        driver.wait(20)
        with pytest.raises(RuntimeError, match="a bug"):
            driver.prepare(talk(1))
    ledger = driver.engine.ledger(driver.lane, now=driver.now)
    assert encode(replace(ledger, last=None)) == before
    assert state.tenant("t").experience.client("cli").reserved == 0
    past(driver, raw_of(talk(1)))
    prepared, _, verdict = driver.send(talk(2))
    assert prepared.reset is None  # the client's own bytes are what we would have sent, but for markers
    assert verdict.explained
    assert verdict.finding is None


def test_a_reason_that_is_none_lets_the_client_s_bytes_out() -> None:
    driver = Driver().after(talk(0))
    driver.wait(20)
    with pytest.raises(HoldfastError, match="no reason for a reset"):
        driver.prepare(talk(1), reset="mood")
    last = driver.engine.ledger(driver.lane, now=driver.now).last
    assert (last.call, last.at) == ("", driver.now)


def test_an_edit_that_could_not_be_kept_was_never_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(path=tmp_path / "h.db").after(worked(3))
    driver.wait(4_000)
    digest, data = edit_of(driver, worked(4))
    with monkeypatch.context() as broken:
        instead_of(broken, driver.store, op.PutEdit, full)
        with pytest.raises(HoldfastError, match="full"):
            driver.prepare(worked(4), edits={digest: data})
    past(driver, raw_of(worked(4)))
    prepared, _, verdict = driver.send(worked(5))
    assert data not in prepared.raw
    assert prepared.reset is None
    assert verdict.explained
    driver.close()


def test_an_edit_that_was_kept_too_late_is_made_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is recorded, so that it counts from now on; what went out meanwhile was the original."""
    driver = Driver(path=tmp_path / "h.db", timeout=0.01).after(worked(3))
    driver.wait(4_000)
    digest, data = edit_of(driver, worked(4))
    write = driver.store.write

    def late(operation: op.PutEdit) -> Future[Any]:
        write(operation).result()
        return Future()

    with monkeypatch.context() as slow:
        instead_of(slow, driver.store, op.PutEdit, late)
        with pytest.raises(HoldfastError, match=r"did not keep an edit within 0\.01 s"):
            driver.prepare(worked(4), edits={digest: data})
    past(driver, raw_of(worked(4)))
    prepared, _, verdict = driver.send(worked(5))
    assert data in prepared.raw
    assert prepared.reset == "bypassed"
    assert verdict.explained
    assert driver.send(worked(6))[0].reset is None
    driver.close()


@pytest.mark.parametrize(("timeout", "own"), [(10.0, 0.01), (0.01, 10.0)])
def test_who_gives_a_timeout_goes_without_what_is_not_kept_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, timeout: float, own: float
) -> None:
    """Planned all the same, with what was edited before; the edit counts from when it is kept, with its reason."""
    driver = Driver(path=tmp_path / "h.db", timeout=timeout).after(worked(3))
    driver.wait(4_000)
    digest, data = edit_of(driver, worked(4))
    held: list[tuple[op.PutEdit, Future[Any]]] = []

    def waits(operation: op.PutEdit) -> Future[Any]:
        held.append((operation, Future()))
        return held[-1][-1]

    with monkeypatch.context() as slow:
        instead_of(slow, driver.store, op.PutEdit, waits)
        prepared = driver.prepare(worked(4), edits={digest: data}, timeout=own)
    assert data not in prepared.raw
    assert prepared.markers
    assert prepared.reset is None
    driver.finish(prepared, driver.bill(prepared))
    operation, future = held[0]
    future.set_result(driver.store.write(operation).result())
    prepared, _, verdict = driver.send(worked(5))
    assert data in prepared.raw
    assert prepared.core.expectation.reset == "priced_edit"
    assert verdict.explained
    driver.close()


def test_an_edit_that_is_kept_after_other_requests_went_out_is_a_reset_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(path=tmp_path / "h.db", timeout=0.01).after(worked(3))
    driver.wait(4_000)
    digest, data = edit_of(driver, worked(4))
    held: list[tuple[op.PutEdit, Future[Any]]] = []

    def waits(operation: op.PutEdit) -> Future[Any]:
        held.append((operation, Future()))
        return held[-1][-1]

    with monkeypatch.context() as slow:
        instead_of(slow, driver.store, op.PutEdit, waits)
        with pytest.raises(HoldfastError, match="did not keep"):
            driver.prepare(worked(4), edits={digest: data})
    past(driver, raw_of(worked(4)))
    prepared, _, _ = driver.send(worked(5))
    assert data not in prepared.raw
    assert prepared.reset is None
    operation, future = held[0]
    future.set_result(driver.store.write(operation).result())
    prepared, _, verdict = driver.send(worked(6))
    assert data in prepared.raw
    assert prepared.core.expectation.reset == "priced_edit"
    assert verdict.explained
    assert verdict.finding.reason == "priced_edit"
    driver.restart()
    prepared, _, verdict = driver.send(worked(7))
    assert data in prepared.raw
    assert verdict.finding is None
    driver.close()


def test_a_fork_whose_edits_could_not_be_copied_at_first_goes_on_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(path=tmp_path / "h.db")
    digest, data = edit_of(driver, worked(3))
    made = driver.prepare(worked(3), edits={digest: data})
    assert driver.finish(made, driver.bill(made)).explained
    fork = replace(driver.lane, id="fork", parent="l")
    with monkeypatch.context() as broken:
        instead_of(broken, driver.store, op.PutEdit, full)
        driver.wait(20)
        with pytest.raises(HoldfastError, match="full"):
            driver.prepare(worked(4), lane=fork)
    past(driver, raw_of(worked(4)))
    prepared, _, verdict = driver.send(worked(5), lane=fork)
    assert data in prepared.raw
    assert prepared.reset == "bypassed"
    assert verdict.explained
    assert driver.send(worked(6), lane=fork)[0].reset is None
    driver.close()


def test_what_a_call_past_us_loses_says_how_it_is_avoided(tmp_path: Path) -> None:
    driver = Driver(ON, path=tmp_path / "h.db").after(clocked(0, 0))
    prepared, _, _ = driver.send(clocked(1, 1))
    model = prepared.core.request.model.ref
    billed = Usage(input=50_000, read=0, writes=(), output=1)
    call, now = driver.engine.call_id(), driver.now
    driver.engine.note(
        UnplannedCall(id=call, lane=driver.lane, kind="bypassed", model=model, started=now, ended=now + 1, usage=billed)
    )
    driver.close()
    with open_store(tmp_path / "h.db") as store:
        [reset] = store.breaks(call=call)
    assert (reset.reason, reset.cure) == ("bypassed", "bypass")
    assert b"x-holdfast-memory" in (reset.data or b"")


@pytest.mark.parametrize("stored", [False, True], ids=["memory", "store"])
def test_what_went_past_us_is_what_the_next_request_is_compared_with(stored: bool, tmp_path: Path) -> None:
    driver = Driver(ON, path=tmp_path / "h.db" if stored else None).after(clocked(0, 0), clocked(1, 1))
    driver.wait(20)
    raw = clocked(2, 2)
    past(driver, raw)
    driver.engine.bypassed(driver.lane, driver.body(raw), now=driver.now)
    if stored:
        driver.restart()
    prepared, _, verdict = driver.send(clocked(3, 3))
    assert prepared.reset == "bypassed"
    assert prepared.core.comparison.divergence.section == "system"
    assert verdict.finding is None
    assert driver.send(clocked(4, 4))[0].reset is None
    driver.close()


def test_what_went_past_us_unchanged_is_no_reset_and_is_read() -> None:
    driver = Driver().after(talk(0))
    driver.wait(20)
    raw = raw_of(talk(1, marks=(("last", "5m"),)))
    past(driver, raw)
    driver.engine.bypassed(driver.lane, driver.body(raw), now=driver.now)
    prepared, used, verdict = driver.send(talk(2))
    assert prepared.reset is None
    assert verdict.explained
    assert verdict.finding is None
    assert used.read > 0


def test_what_went_past_us_has_read_what_we_had_written() -> None:
    """The client alone would have had nothing to read."""
    driver = Driver().after(talk(0))
    driver.wait(20)
    raw = raw_of(talk(1, marks=(("last", "5m"),)))
    exchange = driver.simulator.begin(HttpRequest("POST", PATHS["anthropic"], HEADERS, {}, raw))
    driver.engine.bypassed(driver.lane, driver.body(raw), now=driver.now)
    last, usage = driver.engine.ledger(driver.lane, now=driver.now).last, exchange.record.usage
    assert last.read == usage.read > 0
    assert last.covered == usage.read + usage.written


def test_a_client_that_changes_its_bytes_after_a_bypass_is_not_excused() -> None:
    driver = Driver().after(talk(4))
    driver.wait(20)
    past(driver, raw_of(talk(5)))
    driver.engine.bypassed(driver.lane, driver.body(raw_of(talk(5))), now=driver.now)
    assert driver.send(talk(6, system=("Something else. " * 900,)))[0].reset is None


def test_a_prepared_call_may_be_given_up_for_the_client_s_bytes() -> None:
    driver = Driver(ON).after(clocked(0, 0), clocked(1, 1))
    driver.wait(20)
    prepared = driver.prepare(clocked(2, 2))
    driver.engine.abandon(prepared, now=driver.now, error="400")
    past(driver, prepared.client.raw)
    driver.engine.bypassed(driver.lane, prepared.client, now=driver.now)
    again, _, verdict = driver.send(clocked(3, 3))
    assert again.reset == "bypassed"
    assert verdict.explained
    assert driver.send(clocked(4, 4))[2].finding is None


def test_a_body_that_cannot_be_read_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver().after(talk(0))
    before = encode(driver.engine.ledger(driver.lane, now=driver.now))
    learned = encode_experience(driver.engine.state.tenant("t").experience)

    def fails(*_args: Any, **_more: Any) -> Any:
        raise RuntimeError("a bug")

    with monkeypatch.context() as broken:
        broken.setattr(driver.engine.reader, "read", fails)
        with pytest.raises(RuntimeError):
            driver.prepare(talk(1))
    assert encode(driver.engine.ledger(driver.lane, now=driver.now)) == before
    assert encode_experience(driver.engine.state.tenant("t").experience) == learned
    assert driver.send(talk(1))[2].explained


# Ends that come twice


def test_a_second_settle_gives_the_first_verdict() -> None:
    driver = Driver()
    prepared, used, verdict = driver.send(talk(0))
    before = encode(driver.engine.ledger(driver.lane, now=driver.now))
    assert driver.engine.settle(prepared, replace(used, read=99_999), now=driver.now + 1) is verdict
    assert encode(driver.engine.ledger(driver.lane, now=driver.now)) == before


@pytest.mark.parametrize("begun", [False, True])
def test_a_settle_after_an_abandon_books_nothing(begun: bool, tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db").after(talk(0))
    prepared = driver.prepare(talk(1))
    exchange = driver.bill(prepared)
    if begun:
        driver.begin(prepared, exchange)
    driver.engine.abandon(prepared, now=driver.now)
    before = encode(driver.engine.ledger(driver.lane, now=driver.now))
    learned = encode_experience(driver.engine.state.tenant("t").experience)
    usage = exchange.record.usage
    assert usage is not None
    verdict = driver.engine.settle(prepared, usage, now=driver.now)
    assert verdict.explained
    assert verdict.usage.cost is not None
    assert (verdict.finding, verdict.saved) == (None, 0.0)
    assert prepared.verdict is None
    assert encode(driver.engine.ledger(driver.lane, now=driver.now)) == before
    assert encode_experience(driver.engine.state.tenant("t").experience) == learned
    driver.restart()
    assert [call.status for call in driver.store.calls("t")] == ["settled", "abandoned"]
    driver.close()


# Waiting for the store


def test_other_lanes_go_on_while_one_waits_for_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(ON, path=tmp_path / "h.db").after(clocked(0, 0))
    waiting, gate = threading.Event(), threading.Event()
    names = (replace(driver.lane, id=f"l{number}") for number in count())
    other = next(lane for lane in names if driver.engine.lane_lock(lane) is not driver.engine.lane_lock(driver.lane))
    wait = persistence.wait

    def slow(writes: list[Future[Any]], timeout: float) -> None:
        if threading.current_thread() is thread:
            waiting.set()
            assert gate.wait(60)
        wait(writes, timeout)

    monkeypatch.setattr(engine_core, "wait", slow)
    body, found = driver.body(clocked(1, 1)), []
    now = driver.now + 20
    thread = threading.Thread(target=lambda: found.append(driver.engine.prepare(body, lane=driver.lane, now=now)))
    thread.start()
    try:
        assert waiting.wait(60)
        assert driver.send(talk(1), lane=other)[2].explained  # would hang if the lock were held
    finally:
        gate.set()
        thread.join()
    driver.wait(20)
    assert driver.finish(found[0], driver.bill(found[0])).explained
    driver.close()


def test_other_lanes_go_on_while_a_body_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large bodies take long to read: nobody waits for that, not even in a lane that shares the turn."""
    driver = Driver(ON, path=tmp_path / "h.db").after(talk(0))
    reading, gate = threading.Event(), threading.Event()
    names = (replace(driver.lane, id=f"l{number}") for number in count())
    other = next(lane for lane in names if driver.engine.lane_lock(lane) is driver.engine.lane_lock(driver.lane))
    read = prompts.read_block

    def slow(*arguments: Any) -> Any:
        if threading.current_thread() is thread:
            reading.set()
            assert gate.wait(60)
        return read(*arguments)

    monkeypatch.setattr(prompts, "read_block", slow)
    now = driver.now + 20
    found: list[PreparedCall] = []

    def large() -> None:
        body = driver.engine.parse(DIALECTS["anthropic"], raw_of(talk(7)))
        found.append(driver.engine.prepare(body, lane=driver.lane, now=now))

    thread = threading.Thread(target=large)
    thread.start()
    try:
        assert reading.wait(60)
        assert driver.send(clocked(1, 1), lane=other)[2].explained  # would hang if the lock were held
    finally:
        gate.set()
        thread.join()
    driver.wait(20)
    assert driver.finish(found[0], driver.bill(found[0])).explained
    driver.close()


def test_what_is_drafted_is_durable_before_it_goes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes, edits and the ledger that names them are written in one go and waited for once."""
    driver = Driver(ON, path=tmp_path / "h.db").after(clocked(0, 0))
    waited: list[int] = []
    wait = persistence.wait

    def counted(writes: list[Future[Any]], timeout: float) -> None:
        waited.append(len(writes))
        wait(writes, timeout)

    monkeypatch.setattr(engine_core, "wait", counted)
    driver.send(clocked(1, 1))
    driver.send(clocked(2, 1))
    assert waited[0] >= 2
    assert waited[1] == 0
    driver.close()
