"""The economic strategy for sub-agents: what all of them begin with is written once, nothing for an hour, and no end of
a conversation that has none."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.caches.prompts import Block, Entry, Mark
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.experience import VERSION, Client, Experience, decode
from holdfast.core.ledger import Ledger, Position
from holdfast.core.reuse_odds import odds
from holdfast.core.situation import Situation
from holdfast.core.strategies.economic import economic
from holdfast.engine import EngineCore, Lane, PrepareOptions
from holdfast.wire import DIALECTS, Body
from tests.caches.prompts import SMALL
from tests.core.lanes import SLOW, SOL, knowing, places, said, situation, system, tool, warm
from tests.core.turns import RAISES

HEAD = [tool("bash"), tool("read"), system("host")]
TASK = [*HEAD, said(0, 2_000, name="surroundings"), said(0, 200, name="task")]
"""What a sub-agent is sent first: block 3 is what the others begin with too, block 4 is its own."""


def asked(blocks: list[Block] | None = None, *, asked: int = 1, **more: object) -> Situation:
    found = situation(blocks or TASK, **{"subagent": True, "common": 3, **more})  # type: ignore[arg-type]
    return replace(found, ledger=Ledger(client="c", asked=asked))


def ended(first: int, *, sub: bool = True, heads: float = 100.0) -> Experience:
    """A client that has seen so many sub-agents, each of which ended with its first request."""
    client = Client(heads=[heads, 0.0])
    for _ in range(first):
        client.count(1, subagent=sub)
    return Experience(clients={"c": client})


def test_what_all_begin_with_is_marked_and_so_is_the_end_while_it_may_go_on() -> None:
    assert places(economic(asked())) == [(1, "5m"), (2, "5m"), (3, "5m"), (4, "5m")]


def test_without_a_place_that_is_named_nothing_more_is_marked() -> None:
    assert places(economic(asked(common=None))) == [(1, "5m"), (2, "5m"), (4, "5m")]


def test_c9_a_sub_agent_writes_nothing_for_an_hour() -> None:
    """Where pauses are usual everybody else does."""
    for facts in (SMALL, RAISES):
        found = asked(experience=knowing(SLOW), facts=facts)
        others = economic(replace(found, subagent=False))
        assert {ttl for _, ttl in places(others)} == {"1h"}
        assert {ttl for _, ttl in places(economic(found))} == {"5m"}


def test_c9_not_where_an_hour_is_pinned_or_set() -> None:
    assert (2, "5m") in places(economic(asked(pinned=(Mark(2, "1h"),))))
    long = asked(settings=CacheSettings(retention_overrides={SMALL.ref: "long"}))
    assert {ttl for _, ttl in places(economic(replace(long, subagent=False)))} == {"1h"}
    assert {ttl for _, ttl in places(economic(long))} == {"5m"}


def test_c9_what_its_parent_wrote_for_an_hour_is_read() -> None:
    found = warm(asked(experience=ended(40)), 3, seconds=3_600.0, ttl="1h")
    assert places(economic(found))[-1] == (3, "5m")  # no marker behind it: it is only read


@pytest.mark.parametrize(("seen", "buys"), [(0, True), (8, True), (16, True), (24, False), (100, False)])
def test_c9_the_end_of_a_conversation_that_has_none_is_not_bought(seen: int, buys: bool) -> None:
    """A few in flight at once are no proof; some dozens that ended are."""
    plan = economic(asked(experience=ended(seen)))
    assert [block for block, _ in places(plan)] == [1, 2, 3, *([4] if buys else [])]


def test_those_that_go_on_have_their_end_written() -> None:
    client = Client(heads=[100.0, 0.0])
    for _ in range(50):
        client.count(1, subagent=True)
        client.count(2, subagent=True)
    plan = economic(asked(experience=Experience(clients={"c": client})))
    assert [block for block, _ in places(plan)] == [1, 2, 3, 4]


def test_one_that_went_on_once_is_expected_to_go_on() -> None:
    longer = [*TASK, said(1), said(2, name="results")]
    plan = economic(asked(longer, asked=2, experience=ended(100)))
    assert places(plan)[-1][0] == 6


def test_whatever_sub_agents_do_is_counted_for_others_as_before() -> None:
    """Constants were fitted on both together."""
    mine, theirs = ended(30), ended(30, sub=False)
    lane = Ledger(client="c", asked=1)
    assert odds(lane, mine, "user", 9_000) == odds(lane, theirs, "user", 9_000)
    assert odds(lane, mine, "user", 9_000, subagent=True).ends > 0.8
    ends = odds(lane, None, "user", 9_000).ends
    assert odds(lane, theirs, "user", 9_000, subagent=True).ends == pytest.approx(ends)


def test_what_was_learned_before_sub_agents_were_counted_is_still_known() -> None:
    client = msgspec.to_builtins(Client(lanes=7))
    del client["sub_asked"], client["sub_followed"]
    found = decode(msgspec.msgpack.encode({"version": VERSION, "clients": {"c": client}}))
    assert found.clients["c"].lanes == 7
    assert found.clients["c"].sub_asked == [0.0] * 5


# What all begin with


def test_an_agent_marks_it_for_its_sub_agents() -> None:
    assert (3, "5m") in places(economic(asked(subagent=False)))


def test_what_is_alive_is_not_marked_again() -> None:
    found = warm(asked(subagent=False), 3)
    assert [block for block, _ in places(economic(found))] == [1, 2, 4]


def test_nothing_is_marked_for_others_that_never_come() -> None:
    alone = Experience(clients={"c": Client(lanes=1_000, heads=[0.0, 1_000.0])})
    assert 3 not in [block for block, _ in places(economic(asked(subagent=False, experience=alone)))]


def test_nor_behind_a_place_that_keeps_changing() -> None:
    found = replace(asked(), ledger=Ledger(client="c", compared=3, positions={"system:0": Position(seen=3, changed=3)}))
    assert [block for block, _ in places(economic(found))] == [1]


def test_nor_on_a_block_that_carries_no_marker() -> None:
    assert 3 not in [block for block, _ in places(economic(asked(volatile=frozenset({3}))))]


def test_a_bridge_comes_first() -> None:
    """Four markers are all there are: one that reads what is there is worth more than one that others might read."""
    long = [*TASK, *(said(number, 100) for number in range(1, 60))]
    found = asked(long, subagent=False)
    key, tokens = found.prompt.keys[20], found.prompt.ends[20]
    found.pool.put([Entry(key, tokens, "5m", 300.0, -1.0, 300.0, -1.0)], 0.0)  # type: ignore[attr-defined]
    blocks = [block for block, _ in places(economic(found))]
    assert 3 not in blocks
    assert any(20 <= block < 63 for block in blocks)


def test_on_openai_it_is_marked_by_each_of_them_because_only_what_is_marked_is_found() -> None:
    for alive in (False, True):
        found = asked(facts=SOL)
        if alive:
            found = warm(found, 3)
        assert 3 in [block for block, _ in places(economic(found))]


# Through the engine


def body(task: str) -> Body:
    raw = msgspec.json.encode(
        {
            "model": "claude-opus-4-6",
            "max_tokens": 100,
            "system": "All is done in order. " * 1_500,
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "The directory holds nothing. " * 100},
                        {"type": "text", "text": task},
                    ],
                }
            ],
        }
    )
    found = DIALECTS["anthropic"].parse(raw, model="claude-opus-4-6")
    assert isinstance(found, Body)
    return found


@pytest.fixture
def engine() -> Iterator[EngineCore]:
    made = EngineCore()
    yield made
    made.close(now=1_000.0)


def test_the_engine_is_told_the_place_by_its_path(engine: EngineCore) -> None:
    path = "messages[0].content[0]"
    read = []
    for number in range(3):
        lane = Lane(tenant="t", session=f"s{number}", id=f"l{number}", client="c", subagent=True)
        prepared = engine.prepare(
            body(f"Task {number}."), lane=lane, now=number * 10.0, options=PrepareOptions(common=path)
        )
        engine.first_token(prepared, now=number * 10.0 + 1)
        read.append(prepared.core.outcome.read)
        assert (path in [place for place, _ in prepared.markers]) is (number == 0)
        engine.abandon(prepared, now=number * 10.0 + 2)
    common = prepared.core.outcome.prompt.ends[1]
    assert read == [0, common, common]


def test_a_place_that_is_not_there_is_none(engine: EngineCore) -> None:
    lane = Lane(tenant="t", session="s", id="l", client="c")
    prepared = engine.prepare(
        body("Task."), lane=lane, now=0.0, options=PrepareOptions(common="messages[7].content[0]")
    )
    assert [place for place, _ in prepared.markers] == ["system[0]", "messages[0].content[1]"]
    engine.abandon(prepared, now=1.0)
