"""Seed three-block-system-prompt through its doors: what the agent and a gateway's clients send, and its bill to the
token; and that no preference, rank or tool comes where it does not belong."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import MemorySettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.strategies import STRATEGIES
from holdfast.engine import EngineCore
from holdfast.engine.passage import Passage
from holdfast.memory.prompt_texts import ANNOUNCEMENT_AGENT, END, NOTES
from holdfast.records import Usage
from holdfast.simulator.faults import Fault, Options
from holdfast.wire import DIALECTS
from tests.agent.knowledge_bench import LONG, KnowledgeBench
from tests.agent.summaries import LIMITS, summarizer, talk
from tests.memory.memory_door import PROJECT, MemoryDoor, client_request, contents, extends
from tests.memory.surfacing_bench import Bench as Choosing
from tests.memory.surfacing_bench import bench as choosing
from tests.memory.surfacing_bench import ids, told

BLOCKS = {"placement": "blocks"}
SEED = CacheSettings(strategy="three-block")
HOUR = {"type": "ephemeral", "ttl": "1h"}
LIKES, RULE = "Answers are short. " + LONG, "Deployments wait for the build server. " + LONG
QUESTION = "Where does the pointer come from?"
TOO_LONG = b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens"}}'


class Parts:
    """The tokens of a request: what stands before the context block, and what comes from there on."""

    def __init__(self, engine: EngineCore, raw: bytes, *, context: bool = True) -> None:
        body = DIALECTS["anthropic"].parse(raw)
        blocks = engine.read(body).prompt.blocks
        system = [block.tokens for block in blocks if block.section == "system"]
        assert len(system) == (3 if context else 2)
        self.stable = sum(block.tokens for block in blocks if block.section == "tools") + sum(system[:2])
        self.rest = sum(block.tokens for block in blocks) - self.stable


def split(used: Usage) -> tuple[int, int, int, int]:
    """Read, written for an hour and for five minutes, paid in full."""
    return used.read, used.written_for("1h"), used.written_for("5m"), used.input


async def begun(bench: KnowledgeBench) -> Any:
    bench.prefer("Short answers", LIKES)
    bench.add("Deployment rule", RULE)
    return await bench.begin("How does the deployment work?")


def parts(bench: KnowledgeBench) -> list[Parts]:
    return [Parts(bench.engine, raw) for _, _, raw in bench.sent]


async def test_e5_e7_e8_e17_cost_row_1_to_the_token(tmp_path: Path) -> None:
    """Context memory changes from turn 1 to 2: blocks 0 and 1 are read, block 2 and the messages are written anew for
    five minutes. Nothing changes from turn 2 to 3, and everything is read."""
    async with KnowledgeBench(tmp_path, memory=BLOCKS, cache=SEED) as bench:
        session = await begun(bench)
        (rule,) = bench.known.entries(categories=["gotcha"])
        bench.known.edit(rule.id, content="Deployments need a review. " + LONG)
        await session.ask("And now?")
        await session.ask("And then?")
        one, two, three = parts(bench)
        first, second, third = map(split, bench.used())
        assert one.stable == two.stable > 2_000
        assert first == (0, one.stable, one.rest, 0)
        assert second == (one.stable, 0, two.rest, 0)
        assert third == (one.stable + two.rest, 0, three.rest - two.rest, 0)
        assert bench.sent_by[1][1] == "memory_block_changed"
        assert not bench.breaks()


async def test_e9_e18_cost_row_2_to_the_token(tmp_path: Path) -> None:
    """Curation changes preferences: everything that was sent is read, and only the new messages are written."""
    async with KnowledgeBench(tmp_path, memory=BLOCKS, cache=SEED) as bench:
        session = await begun(bench)
        (liked,) = bench.known.entries(categories=["preference"])
        bench.known.edit(liked.id, content="Answers are long. " + LONG)
        bench.prefer("Tea", "Tea is preferred to coffee.")
        await session.ask("And now?")
        one, two = parts(bench)
        first, second = map(split, bench.used())
        assert first == (0, one.stable, one.rest, 0)
        assert second == (one.stable + one.rest, 0, two.rest - one.rest, 0)
        assert bench.system(0)[1] == bench.system(1)[1]
        assert not bench.breaks()


@pytest.mark.parametrize(("pause", "reads"), [(3_500, True), (3_700, False)])
async def test_e6_e11_e19_cost_row_3_to_the_token(tmp_path: Path, pause: int, reads: bool) -> None:
    """A new session within the hour, after curation: blocks 0 and 1 are read, its own context is written. Behind the
    hour both are written anew, with what was curated."""
    async with KnowledgeBench(tmp_path, memory=BLOCKS, cache=SEED) as bench:
        await begun(bench)
        bench.prefer("Tea", "Tea is preferred to coffee.")
        bench.clock.advance(pause)
        await bench.begin("Something else, and another day.")
        one, two = parts(bench)
        assert split(bench.used()[1]) == ((one.stable, 0, two.rest, 0) if reads else (0, two.stable, two.rest, 0))
        assert (bench.system(0)[1] == bench.system(1)[1]) is reads
        assert ("Tea is preferred" in bench.system(1)[1]["text"]) is not reads


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "passthrough"])
async def test_e3_every_strategy_marks_the_pinned_block_for_an_hour(tmp_path: Path, strategy: Any) -> None:
    """Also where it would have chosen another place or time: an injection may require a marker."""
    async with KnowledgeBench(tmp_path, cache=CacheSettings(strategy=strategy, retention="long")) as bench:
        bench.prefer("Short answers", LIKES)
        session = await bench.sessions.create()
        for number in range(3):
            await session.ask(f"And {number}?")
            assert bench.markers() == [None, HOUR]


async def test_the_agents_stable_text_announces_what_is_put_into_its_conversation(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        bench.prefer("Short answers", "Answers are short.")
        bench.add("Deployment rule", "make ships it.")
        await bench.begin("How does the deployment work?")
        host, stable = (block["text"] for block in bench.system())
        assert host.endswith(ANNOUNCEMENT_AGENT)  # behind it the preferences, in a block of their own
        assert "Answers are short." in stable
        delta = bench.texts()[-2]
        assert NOTES in delta.partition("\n")[0]
        assert delta.endswith(END)


@pytest.mark.parametrize("emergency", ["limit", "refused"])
async def test_e13_after_curation_an_emergency_renews_block_2_and_leaves_block_1(
    tmp_path: Path, emergency: str
) -> None:
    compaction: Any = {"compaction": LIMITS, "reply": summarizer()} if emergency == "limit" else {}
    async with KnowledgeBench(tmp_path, memory=BLOCKS, cache=SEED, **compaction) as bench:
        liked = bench.prefer("Short answers", LIKES)
        bench.add("Linting rule", "ruff checks it.")
        session = await bench.begin("What of the linting? " + "There is much to say of it. " * 40)
        stable = bench.system()[1]["text"]
        bench.known.edit(liked.id, content="Answers are long.")
        news = bench.add("Deployment rule", RULE)
        if emergency == "limit":
            await session.ask("What of the deployment?")
            assert news.id not in session.state.context
            await talk(session, bench, 12)
            assert session.state.compactions
        else:
            message = "prompt is too long: 213462 tokens > 200000 maximum"
            for number in range(5):
                await session.ask(f"More of it, {number}? " + "There is much to say of it. " * 40)
            bench.simulator.faults.add(Fault(kind="status", options=Options(status=400, message=message)))
            await session.ask("What of the deployment?")
        assert news.id in session.state.context
        assert bench.system()[1]["text"] == stable
        assert "Answers are short." in stable


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Choosing]:
    with choosing(tmp_path) as made:
        yield made


def test_e12_e22_preferences_take_no_place_among_the_candidates(home: Choosing) -> None:
    """However many of them fit better: neither of a search nor of the safety net."""
    for number in range(60):
        home.liked(f"k00000{number:02}", f"Rust preference {number}", "Rust, rust and rust.")
    home.add("k1000001", "Toolchain", "The rust toolchain is an old one.", everywhere=True, confidence=0.2)
    home.add("k1000002", "Unrelated", "Nothing of the kind.", confidence=0.2)
    surfacing = home.asks(placement="blocks")
    stable = surfacing.stable(now=home.now)
    assert ids(surfacing.context("which rust?", stable=stable)) == ["k1000001", "k1000002"]
    assert ids(surfacing.delta(told(stable), "which rust?", first=True, deltas=0)) == ["k1000001", "k1000002"]


@pytest.fixture
def door(tmp_path: Path) -> Iterator[MemoryDoor]:
    made = MemoryDoor(tmp_path / "m.db", MemorySettings(inject=True, project=PROJECT), SEED)
    yield made
    made.close()


def sent(door: MemoryDoor, said: Sequence[str], dialect: str = "anthropic", session: str = "s", **more: Any) -> Passage:
    passage, exchange = door.send(client_request(*said, dialect=dialect, **more), dialect, session=session)
    assert exchange.answer.status == 200, exchange.answer
    return passage


def used(passage: Passage) -> tuple[int, int, int, int]:
    return split(passage.prepared.verdict.usage)


def test_e8_e17_e19_a_clients_bill_to_the_token(door: MemoryDoor) -> None:
    door.configure(placement="blocks")
    known = door.learn()
    first = sent(door, [QUESTION])
    door.knowledge().edit(known["Pointer arithmetic"], content="It comes from elsewhere.")
    second = sent(door, [QUESTION, "So.", "Go on."])
    door.knowledge().edit(known["Small commits"], content="Each commit does two things.")
    third = sent(door, ["Something else."], session="t")
    one, two, three = (Parts(door.engine, each.raw) for each in (first, second, third))
    assert one.stable == two.stable == three.stable
    assert used(first) == (0, one.stable, one.rest, 0)
    assert used(second) == (one.stable, 0, two.rest, 0)
    assert used(third) == (one.stable, 0, three.rest, 0)


def test_e13_after_curation_a_clients_request_that_does_not_fit_keeps_block_1(door: MemoryDoor) -> None:
    door.configure(placement="blocks")
    known = door.learn()
    first = json.loads(sent(door, [QUESTION]).raw)["system"]
    door.knowledge().edit(known["Small commits"], content="Each commit does two things.")
    door.knowledge().add("Pointer sizes", "A pointer has eight bytes, where it comes from or not.")
    door.clock.advance(4_000)  # nothing is pinned any more
    said = [QUESTION, "So.", "Where does the pointer come from now?"]
    refused = door.begin(client_request(*said))
    refused.answer(400, [(b"content-type", b"application/json")])
    refused.feed(TOO_LONG)
    refused.finish()
    after = json.loads(sent(door, said).raw)["system"]
    assert "eight bytes" in after[2]["text"]
    assert [block["text"] for block in after[:2]] == [block["text"] for block in first[:2]]


def test_every_delta_stands_where_it_was_sent_also_before_words_that_are_said_again(door: MemoryDoor) -> None:
    known, said = door.learn(), [QUESTION]
    before = sent(door, said)
    for turn in range(4):
        door.knowledge().edit(known["Pointer arithmetic"], content=f"It comes from arena {turn}.")
        said += ["So.", "continue"]
        after = sent(door, said)
        assert extends(before, after)
        assert f"> It comes from arena {turn}.".encode() in contents(after)[-2]
        before = after


def test_nothing_is_looked_up_for_what_a_client_says_later(door: MemoryDoor) -> None:
    """Entries that rank before all others came in meanwhile; with `every_turn` they are told."""
    door.learn()
    before = sent(door, [QUESTION])
    for number in range(9):
        door.knowledge().add(f"Pointer {number}", "The pointer comes from where a pointer comes from.")
    after = sent(door, [QUESTION, "So.", QUESTION + " Say it again."])
    assert extends(before, after)
    assert len(contents(after)) == len(contents(before)) + 2
    door.configure(retrieve="every_turn")
    later = sent(door, [QUESTION, "So.", QUESTION + " Say it again.", "So.", QUESTION + " Once more."])
    assert extends(after, later)
    assert contents(later)[-2].count(b"- k") == 5


@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses", "gemini"])
def test_no_tool_is_offered_to_a_client_or_named_to_its_model(door: MemoryDoor, dialect: str) -> None:
    schema = {"type": "object", "properties": {}}
    tools: dict[str, list[Any]] = {
        "anthropic": [{"name": "look", "description": "Looks.", "input_schema": schema}],
        "openai_chat": [{"type": "function", "function": {"name": "look", "parameters": schema}}],
        "openai_responses": [{"type": "function", "name": "look", "parameters": schema}],
        "gemini": [{"functionDeclarations": [{"name": "look", "description": "Looks."}]}],
    }
    door.learn()
    passage = sent(door, [QUESTION], dialect, tools=tools[dialect])
    body = json.loads(passage.raw)
    plain = [{name: value for name, value in tool.items() if name != "cache_control"} for tool in body["tools"]]
    assert plain == tools[dialect]
    assert b"given by the gateway" in passage.raw
    assert not any(name in passage.raw for name in (b"recall", b"knowledge_add", b"knowledge_"))
    without = sent(door, [QUESTION], dialect, session="t")
    assert "tools" not in json.loads(without.raw)
