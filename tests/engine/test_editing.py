"""Recorded edits on the wire: durable before they are sent, the same bytes on every request, in every dialect."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast import facts
from holdfast.caches.entries import Entries
from holdfast.core.edits import EditRef
from holdfast.core.ledger import Ledger
from holdfast.engine.edits import Replacements, consider, inherit, record, recorded, replay, unfit
from holdfast.engine.fallible_store import FallibleStore
from holdfast.errors import HoldfastError
from holdfast.store import SqliteStore, open_store
from holdfast.store import operations as op
from holdfast.wire import DIALECTS
from holdfast.wire.openai import facts_for
from holdfast.wire.prompts import PromptReader
from tests import shapes
from tests.core.warm_pool import Pool, body_of, situation, talk
from tests.engine.driver import Driver, raw_of
from tests.engine.edits import (
    MODELS,
    TEXT,
    body_for,
    digest_at,
    each_dialect,
    none,
    prompt_of,
    put,
    result_blocks,
    send,
    shortened,
    through,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "holdfast.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with open_store(path) as opened:
        yield opened


@each_dialect
def test_an_edit_is_replayed_on_every_later_request_to_the_byte(dialect: str, store: SqliteStore, path: Path) -> None:
    first = body_for(talk(2), dialect)
    index = result_blocks(first)[0]
    put(store, digest_at(first, index), new := shortened(first, index))
    store.close()
    with open_store(path) as reopened:
        for rounds in (2, 3, 6):
            body = body_for(talk(rounds), dialect)
            out, done = through(reopened, body)
            assert done.edited == (result_blocks(body)[0],)
            assert done.reset is None
            assert out.text(out.blocks[index]) == new
            others = [i for i in range(len(body.blocks)) if i != index]
            assert [out.text(out.blocks[i]) for i in others] == [body.text(body.blocks[i]) for i in others]


@each_dialect
def test_the_edited_request_extends_the_edited_request_before_it(dialect: str, store: SqliteStore) -> None:
    bodies = [body_for(talk(rounds, parallel=3), dialect) for rounds in (2, 3, 4)]
    index = result_blocks(bodies[0])[1]
    put(store, digest_at(bodies[0], index), shortened(bodies[0], index))
    keys = [prompt_of(through(store, body)[0]).keys for body in bodies]
    assert keys[1][: len(keys[0])] == keys[0]
    assert keys[2][: len(keys[1])] == keys[1]
    assert prompt_of(bodies[0]).keys != keys[0]


@each_dialect
def test_no_edit_no_change(dialect: str, store: SqliteStore) -> None:
    body = body_for(talk(2), dialect)
    assert through(store, body)[0].raw == body.raw
    put(store, b"?" * 16, b'"never sent"')
    assert through(store, body)[0].raw == body.raw


@each_dialect
def test_one_of_three_parallel_results_is_edited(dialect: str, store: SqliteStore) -> None:
    body = body_for(talk(2, parallel=3), dialect)
    places = result_blocks(body)
    put(store, digest_at(body, places[1]), shortened(body, places[1]))
    out, done = through(store, body)
    assert done.edited == (places[1],)
    assert [TEXT.encode() in out.text(out.blocks[i]) for i in places] == [False, True, False, False, False, False]


@each_dialect
def test_equal_blocks_are_all_edited(dialect: str, store: SqliteStore) -> None:
    said = talk(2)
    said.turns += said.turns[-2:]
    body = body_for(said, dialect)
    *_, second, third = result_blocks(body)
    assert digest_at(body, second) == digest_at(body, third)
    put(store, digest_at(body, second), new := shortened(body, second))
    out, done = through(store, body)
    assert done.edited == (second, third)
    assert [out.text(out.blocks[i]) for i in (second, third)] == [new, new]


@each_dialect
def test_history_trimmed_in_front_keeps_its_edits(dialect: str, store: SqliteStore) -> None:
    said = talk(5)
    body = body_for(said, dialect)
    index = result_blocks(body)[3]
    put(store, digest_at(body, index), new := shortened(body, index))
    said.turns = said.turns[:1] + said.turns[5:]
    trimmed = body_for(said, dialect)
    out, done = through(store, trimmed)
    assert done.edited == (result_blocks(trimmed)[1],)
    assert out.text(out.blocks[done.edited[0]]) == new


@each_dialect
def test_a_fork_in_the_lane_and_a_fork_of_the_lane_get_the_same_edit(dialect: str, store: SqliteStore) -> None:
    body = body_for(talk(4), dialect)
    index = result_blocks(body)[0]
    put(store, digest_at(body, index), shortened(body, index))
    said = talk(2)
    said.turns += [("assistant", 50, ["another way"]), ("user", 51, ["take it"])]
    fork = body_for(said, dialect)
    in_lane, _ = through(store, fork)
    assert TEXT.encode() in in_lane.raw
    assert through(store, fork, lane="fork")[0].raw == fork.raw
    copies = inherit(FallibleStore(store), "t", "l", "fork", Replacements(FallibleStore(store)).of("t"), 2.0)
    assert [edit.result().lane for edit in copies.values()] == ["fork"]
    store.write(op.EndLane("t", "l", 3_000_000)).result()
    assert through(store, body)[0].raw == body.raw  # the lane is over, and its bytes with it
    assert through(store, fork, lane="fork")[0].raw == in_lane.raw


@each_dialect
def test_lost_bytes_let_the_original_out_and_say_so(dialect: str, store: SqliteStore, path: Path) -> None:
    body = body_for(talk(2), dialect)
    index = result_blocks(body)[0]
    put(store, digest_at(body, index), shortened(body, index))
    for file in path.with_name(path.name + ".blobs").rglob("*"):
        if file.is_file():
            file.unlink()
    out, done = through(store, body)
    assert out.raw == body.raw
    assert (done.reset, done.forgotten, done.edited) == ("repair_forgotten", (digest_at(body, index),), ())


def test_damaged_bytes_are_lost_bytes(store: SqliteStore, path: Path) -> None:
    body = body_for(talk(2), "anthropic")
    index = result_blocks(body)[0]
    put(store, digest_at(body, index), shortened(body, index))
    (file,) = (file for file in path.with_name(path.name + ".blobs").rglob("*") if file.is_file())
    file.write_bytes(b"{}")
    assert through(store, body)[1].reset == "repair_forgotten"


@pytest.mark.parametrize("garbage", [b"", b"{", b"{}x", b"[1]", b"7", b"null", b"\xff", b'{"a":1,"a":2}'])
def test_replacements_that_cannot_stand_in_a_body_are_never_put_there(garbage: bytes) -> None:
    body = body_for(talk(2), "anthropic")
    index = result_blocks(body)[0]
    ref = EditRef(digest_at(body, index), sha256(garbage).digest(), 0.0)
    out, done = send(body, {ref.block: ref}, lambda name: garbage)
    assert out.raw == body.raw
    assert done.reset == "repair_forgotten"
    assert unfit(DIALECTS["anthropic"], body, {index: garbage}) is not None


def test_a_record_is_made_once_and_kept_private(store: SqliteStore, path: Path) -> None:
    first = record(FallibleStore(store), "t", "l", b"d" * 16, b'"new"', 1.5).result()
    assert record(FallibleStore(store), "t", "l", b"d" * 16, b'"new"', 9.0).result() == first
    assert recorded(FallibleStore(store), "t", "l") == {b"d" * 16: EditRef(b"d" * 16, sha256(b'"new"').digest(), 1.5)}
    with pytest.raises(HoldfastError, match="already has a recorded edit with other bytes"):
        record(FallibleStore(store), "t", "l", b"d" * 16, b'"newer"', 2.0).result()
    (file,) = (file for file in path.with_name(path.name + ".blobs").rglob("*") if file.is_file())
    assert file.stat().st_mode & 0o777 == 0o600
    assert (
        recorded(FallibleStore(store), "t", "other lane") == recorded(FallibleStore(store), "other tenant", "l") == {}
    )


def test_a_tenant_loads_only_its_own_bytes(store: SqliteStore) -> None:
    name = sha256(b'"new"').digest()
    put(store, b"d" * 16, b'"new"')
    bytes_of = Replacements(FallibleStore(store))
    assert bytes_of.of("t")(name) == b'"new"'
    assert bytes_of.of("u")(name) is None


def test_memory_of_bytes_is_bounded_and_spares_the_disk(store: SqliteStore, path: Path) -> None:
    for letter in (b"a", b"b", b"c"):
        put(store, letter * 16, b'"' + letter * 98 + b'"')
    names = [sha256(b'"' + letter * 98 + b'"').digest() for letter in (b"a", b"b", b"c")]
    load = Replacements(FallibleStore(store), kept=200).of("t")
    assert all(load(name) for name in names)
    for file in path.with_name(path.name + ".blobs").rglob("*"):
        if file.is_file():
            file.unlink()
    assert [load(name) is not None for name in names] == [False, True, True]


@each_dialect
def test_every_recorded_client_takes_an_edit_of_every_result(dialect: str) -> None:
    """Whatever shape a client sends results in, the shortened one stands in its place and its prompt is read again."""
    seen = 0
    for shape in shapes.load():
        if shape.dialect != dialect or not shape.body:
            continue
        body = body_of(shape.body, dialect, "gemini-2.5-pro")
        model = facts.model(MODELS["gemini"]) if dialect == "gemini" else facts_for(body.model)
        prompt = PromptReader().read(body, model).prompt
        origin = list(prompt.origin or range(len(prompt.blocks)))
        for index in result_blocks(body):
            new = shortened(body, index)
            assert unfit(DIALECTS[dialect], body, {index: new}) is None, shape.id
            block = prompt.blocks[origin.index(index)].digest
            ref = EditRef(block, sha256(new).digest(), 0.0)
            done = replay(body, DIALECTS[dialect], prompt, {block: ref}, lambda name, new=new: new)  # type: ignore[misc]
            out = body_of(body.apply(done.splices), dialect, body.model)
            assert index in done.edited, shape.id
            assert len(out.blocks) == len(body.blocks)
            assert len(DIALECTS[dialect].markers(out)) == len(DIALECTS[dialect].markers(body)), shape.id
            seen += 1
    assert seen >= 4


@each_dialect
def test_consider_prices_records_and_then_replays(dialect: str, store: SqliteStore) -> None:
    model, body = facts.model(MODELS[dialect]), body_for(talk(6, marks=(("last", "5m"),)), dialect)
    index = result_blocks(body)[1]
    block, new = digest_at(body, index), shortened(body, index)
    load, ledger = Replacements(FallibleStore(store)).of("t"), Ledger()
    asked = situation(prompt_of(body), Entries(), 1.0, ledger=ledger, model=model)
    proposal, (ref,) = consider(body, asked, {block: new}, load, prompt_of, further=0)
    assert proposal.made
    record(FallibleStore(store), "t", "l", ref.block, new, ref.at).result()
    ledger.edits[ref.block] = ref
    assert recorded(FallibleStore(store), "t", "l") == ledger.edits
    out, _ = send(body, ledger.edits, load)
    assert proposal.removed == prompt_of(body).tokens - prompt_of(out).tokens > 0
    again, refs = consider(body, asked, {block: new}, load, prompt_of, further=0)
    assert (again.made, refs) == (False, ())
    assert "already" in again.why
    other, refs = consider(body, asked, {block: shortened(body, index, "shorter")}, load, prompt_of, further=0)
    assert (other.made, refs) == (False, ())
    assert "other bytes" in other.why


def test_consider_prices_on_top_of_recorded_edits(store: SqliteStore) -> None:
    """The second edit of a lane is measured against what the first one left, in the cache too."""
    body = body_for(talk(6, marks=(("last", "5m"),)), "anthropic")
    first, second = result_blocks(body)[3], result_blocks(body)[1]
    put(store, digest_at(body, first), shortened(body, first))
    load, edits = Replacements(FallibleStore(store)).of("t"), recorded(FallibleStore(store), "t", "l")
    out, _ = send(body, edits, load)
    sent_prompt, pool = prompt_of(out), Pool()
    pool.send(sent_prompt, 0.0)
    asked = situation(sent_prompt, pool, 1.0, ledger=Ledger(edits=edits))
    wanted = {digest_at(body, second): shortened(body, second)}
    refused, _ = consider(body, asked, wanted, load, prompt_of, further=1)
    assert not refused.made
    assert refused.behind < sent_prompt.tokens  # which the first one made shorter
    assert refused.removed < refused.behind
    made, refs = consider(body, asked, wanted, load, prompt_of, further=1e6)
    assert made.made
    assert [ref.block for ref in refs] == list(wanted)


def test_consider_refuses_what_does_not_fit() -> None:
    body = body_for(talk(2), "anthropic")
    index = result_blocks(body)[0]
    asked = situation(prompt_of(body), Entries(), 1.0)
    wanted = {digest_at(body, index): b'"no answer"'}
    proposal, refs = consider(body, asked, wanted, none, prompt_of, further=9)
    assert (proposal.made, refs) == (False, ())
    assert proposal.why


def test_a_lane_that_is_observed_goes_without_its_edits_and_says_so(tmp_path: Path) -> None:
    driver = Driver(path=tmp_path / "h.db").after(talk(2))
    body = driver.body(raw_of(talk(2), "anthropic"))
    index = result_blocks(body)[0]
    prompt = driver.engine.read(body).prompt
    block = (prompt.origin or range(len(prompt.blocks))).index(index)
    wanted = {prompt.blocks[block].digest: shortened(body, index)}
    edited, _, _ = driver.send(talk(3), 4_000.0, edits=wanted)
    assert TEXT.encode() in edited.raw
    observed = replace(driver.lane, observed=True)
    for rounds, reset in ((4, "bypassed"), (5, None)):
        raw = raw_of(talk(rounds), "anthropic")
        prepared, _, _ = driver.send(raw, lane=observed)
        assert prepared.raw == raw
        assert prepared.reset == reset
    driver.close()
