"""Memory stays bounded, threads do not disturb each other."""

from __future__ import annotations

import functools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.engine import Lane
from holdfast.engine.identity import RequestSource, identities
from holdfast.engine.identity.continuation import Chain, ChainReader
from holdfast.engine.identity.lane_index import FIRST, MOST_ALIKE, RECENT, LaneIndex, LaneQuery, LaneRecord
from holdfast.store import open_store
from holdfast.wire import Body
from tests.engine.identity.desk import Desk, words

HEADERS = {"user-agent": "my-agent/1.0"}


def _known(number: int) -> LaneRecord:
    return LaneRecord(Lane(tenant="t", session=f"s{number}", id=f"s{number}/main/m"), "m", 0.0, 0.0)


def _chain(name: str, turns: int) -> Chain:
    places = [f"{name}-{turn}".encode() for turn in range(turns)]
    before = tuple(b"before " + place for place in places)
    return Chain(b"system", b"whole", b"end " + name.encode(), before, tuple(places), (b"tail " + name.encode(),))


def test_the_lanes_used_longest_ago_are_forgotten() -> None:
    lanes = LaneIndex(most=3)
    for number in range(5):
        lanes.put(each := _known(number), _chain(str(number), 0), now=float(number))
        lanes.put(each, _chain(str(number), 100), now=float(number))
        lanes.answered(each, [f"resp_{number}"])
    assert len(lanes) == 3
    assert lanes.places == 3 * (FIRST + RECENT + 2)
    assert [lanes.by_response("t", f"resp_{number}") is not None for number in range(5)] == [False, False] + [True] * 3
    assert lanes.match(LaneQuery(_chain("0", 101))) is None
    assert lanes.match(LaneQuery(_chain("4", 101))) == (each, False)


def test_stored_lanes_come_before_those_that_are_known() -> None:
    lanes = LaneIndex(most=3)
    lanes.put(each := _known(1), _chain("1", 0), now=1)
    stored = [_known(number) for number in (1, 2, 3, 4)]
    for one in stored:
        one.end = b"stored"
        lanes.restore(one)
    assert lanes.get(each.lane) is each
    assert [lanes.get(one.lane) is one for one in stored] == [False, True, True, False]
    for number in (5, 6):
        lanes.put(_known(number), _chain(str(number), 0), now=2)
    assert [lanes.get(_known(number).lane) is not None for number in (1, 2, 3)] == [True, False, False]


def test_turns_at_the_beginning_and_at_the_end_are_remembered() -> None:
    lanes = LaneIndex()
    lanes.put(each := _known(1), _chain("a", 0), now=0)
    lanes.put(each, _chain("a", 200), now=1)
    hits = [
        turn
        for turn in range(200)
        if lanes.match(LaneQuery(Chain(b"system", b"", b"x", (b"b",), (_chain("a", 200).after[turn],))))
        == (each, False)
    ]
    assert hits == [*range(FIRST), *range(200 - RECENT, 200)]


def test_conversations_that_begin_alike_are_remembered_up_to_a_limit() -> None:
    lanes = LaneIndex()
    for number in range(MOST_ALIKE + 10):
        lanes.put(_known(number), Chain(b"system", b"whole", b"end"), now=0)
    taken = set()
    for number in range(MOST_ALIKE + 10):
        found = lanes.match(LaneQuery(Chain(b"system", b"", b"e", (b"end",), (f"turn {number}".encode(),))))
        if found is not None:
            taken.add(found.record.lane.id)
            lanes.put(found.record, Chain(b"system", b"whole", f"on {number}".encode()), now=1)
    assert len(taken) == MOST_ALIKE


def test_where_a_lane_was_forgotten_none_of_the_others_is_certain() -> None:
    lanes = LaneIndex()
    made = [_known(number) for number in range(MOST_ALIKE + 1)]
    for each in made:
        lanes.put(each, Chain(b"system", b"whole", b"end"), now=0)
    for each in made[1:-1]:  # all but the one that was forgotten, and one
        lanes.put(each, Chain(b"system", b"whole", b"elsewhere " + each.lane.id.encode()), now=1)
    goes_on = Chain(b"system", b"", b"e", (b"end",), (b"turn",))
    assert lanes.match(LaneQuery(goes_on)) == (made[-1], True)
    assert lanes.match(LaneQuery(goes_on, care="memory")) is None


def test_many_conversations_of_many_tenants_stay_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identities, "MOST_HEADS", 10)
    monkeypatch.setattr(identities, "MOST_TENANTS", 10)
    store = open_store(tmp_path / "h.db")
    desk = Desk(store)
    monkeypatch.setattr(desk.identities, "lanes", LaneIndex(most=20))
    for number in range(60):
        tenant = {**HEADERS, "x-api-key": str(number)}
        desk.send(tenant, desk.body("anthropic", words(f"Hello {number}")))
        desk.send({**tenant, "x-holdfast-session": str(number)}, desk.body("anthropic", words("Hello")))
        sub = {"x-claude-code-session-id": str(number), "x-claude-code-agent-id": "a"}
        desk.send({**tenant, **sub}, desk.body("anthropic", words("Hello")))
        desk.find({**tenant, **sub, "x-claude-code-session-id": "unseen"}, desk.body("anthropic", words("Hello")))
    kept = desk.identities
    assert len(kept.lanes) == 20
    assert kept.lanes.places == 20
    assert len(kept.heads) == 10
    assert len(kept.tenants) == 10
    store.close()


def test_a_session_with_many_models_remembers_a_few() -> None:
    desk = Desk()
    for number in range(50):
        desk.send({"x-holdfast-session": "s"}, desk.body("anthropic", words("Hello", model=f"m{number}")))
    assert [list(heads) for heads in desk.identities.heads.values()] == [[f"m{n}" for n in range(42, 50)]]


def test_bodies_that_are_never_sent_are_let_go() -> None:
    desk = Desk()
    for number in range(50):
        desk.find(HEADERS, desk.body("anthropic", words(f"Hello {number}")))
    assert len(desk.identities.chains) <= 8
    other = Desk()
    other.send(HEADERS, other.body("anthropic", words("Hello")))
    assert len(other.identities.chains) == 0


def test_the_prompts_to_go_on_from_are_bounded() -> None:
    desk, chains = Desk(), ChainReader(kept_blocks=10)
    for number in range(8):
        body = desk.body("anthropic", words(f"Hello {number}", "Hi", "Go on"))
        chains.read(desk.read(body).prompt, b"scope")
    assert sum(len(walk.blocks) for walk in chains.walks.values()) <= 10
    body = desk.body("anthropic", words(*["x"] * 40))
    assert len(chains.read(desk.read(body).prompt, b"scope").after) == 20
    assert len(chains.walks) == 0


def test_a_chain_gone_on_from_is_the_chain_read_anew() -> None:
    desk, kept = Desk(), ChainReader()
    texts = ("Hello", "Hi", "Read it", "Done", "Thanks", "Bye", "Wait", "Yes")
    for end in (1, 2, 3, 5, 3, 7, 8, 1):
        for system in ("You help.", "Other."):
            prompt = desk.read(desk.body("anthropic", words(*texts[:end], system=system))).prompt
            assert kept.read(prompt, b"scope") == ChainReader().read(prompt, b"scope")


def test_threads_do_not_disturb_each_other() -> None:
    desk = Desk()
    texts = [text for number in range(12) for text in (f"Question {number}", f"Answer {number}")]
    requests = [
        (name, [desk.body("anthropic", words(f"I am {name}", *texts[1:end])) for end in range(1, 24, 2)])
        for name in range(8)
    ]
    reads = {id(body): desk.read(body) for _, bodies in requests for body in bodies}

    def talk(each: tuple[int, list[Body]]) -> set[str]:
        found = set()
        for body in each[1]:
            read = functools.partial(reads.__getitem__, id(body))
            lane = desk.identities.find(RequestSource(HEADERS, "", body, read), 0.0)
            desk.identities.sent(lane, body, read, 0.0)
            found.add(lane.lane.id)
        return found

    with ThreadPoolExecutor(8) as pool:
        lanes = list(pool.map(talk, requests))
    assert [len(each) for each in lanes] == [1] * 8
    assert len(set.union(*lanes)) == 8
