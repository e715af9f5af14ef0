"""Laws 1, 4, 5 and 8 of the engine, whatever clients do: parallel tools and turns, sub-agents, forks, resends,
compaction, restarts, clients with faults.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Barrier, Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.caches.prompts import Block, Prompt
from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.strategies import STRATEGIES
from holdfast.engine import EngineCore, Lane, PreparedCall, PrepareOptions
from holdfast.engine.state import facts_of
from holdfast.records import Usage
from holdfast.store import open_store
from holdfast.wire import DIALECTS, Body, rewrite
from holdfast.wire.prompts import PromptReader
from tests.properties.bodies import BODIES
from tests.properties.lanes import Step, timeline
from tests.properties.runner import START, Runner, begins_with, dollars, prompt_of, refusal
from tests.properties.sessions import RENDER, Talk, words

NAMES = tuple(STRATEGIES)
MODELS = (
    ("anthropic", "claude-opus-4-6"),
    ("anthropic", "claude-sonnet-5-5"),
    ("openai_chat", "gpt-6.1-sol"),
    ("openai_responses", "gpt-6.1-sol"),
)
CACHES = st.builds(
    CacheSettings,
    strategy=st.sampled_from(NAMES),
    client_markers=st.sampled_from(["respect", "improve", "manage"]),
    repair=st.sampled_from(["off", "suggest", "on"]),
)
SEEDS = st.integers(0, 2**32)
moderate = settings(max_examples=15, derandomize=True, deadline=None)


class Sent:
    """What went out on one lane, in the order it was prepared: the client's prompt, ours, and why it departs."""

    def __init__(self, run: Runner) -> None:
        theirs, ours = PromptReader(), PromptReader()
        self.lanes: dict[str, list[tuple[Step, Prompt, Prompt, PreparedCall]]] = {}
        for step, prepared in run.sent:
            pair = prompt_of(step, step.body, theirs), prompt_of(step, prepared.raw, ours)
            self.lanes.setdefault(step.lane, []).append((step, *pair, prepared))

    def extensions(self) -> Iterator[tuple[Step, Prompt, Prompt]]:
        """Each request whose client's bytes begin with those of an earlier one of its lane, with what was sent for
        both; as far back as none in between departed for a reason of ours."""
        for sent in self.lanes.values():
            for number, (step, client, ours, prepared) in enumerate(sent):
                if prepared.reset is not None and step.reset is None:
                    continue
                for _, earlier, before, other in reversed(sent[:number]):
                    if begins_with(client, earlier):
                        yield step, before, ours
                    if other.reset is not None:
                        break


@pytest.mark.slow
@moderate
@given(SEEDS, st.sampled_from(MODELS), CACHES, st.booleans())
def test_what_we_do_never_breaks_a_prefix(
    seed: int, model: tuple[str, str], cache: CacheSettings, faulty: bool
) -> None:
    with TemporaryDirectory() as home, Runner(cache, path=Path(home) / "h.db") as run:
        for _ in run.play(timeline(Random(seed), *model, faulty=faulty)):
            pass
        for step, before, after in Sent(run).extensions():
            assert begins_with(after, before), step.tags


@moderate
@given(SEEDS, st.sampled_from(MODELS), CACHES, st.booleans())
def test_plans_are_legal_and_touch_nothing_without_need(
    seed: int, model: tuple[str, str], cache: CacheSettings, faulty: bool
) -> None:
    with Runner(cache) as run:
        for _ in run.play([s for s in timeline(Random(seed), *model, faulty=faulty) if s.kind != "restart"]):
            pass
        for step, prepared in run.sent:
            assert refusal(step, step.body) is None
            assert refusal(step, prepared.raw) is None
            asked, plan = prepared.core.request, prepared.core.plan
            ours = {mark.block for mark in plan.marks} - {mark.block for mark in asked.prompt.marks}
            assert not ours & asked.volatile
            assert len(plan.marks) <= 4
            if plan.marks == asked.alone.marks and not plan.mode and not any(r.applied for r in prepared.repairs):
                assert prepared.raw is prepared.client.raw


@pytest.mark.slow
@pytest.mark.parametrize("dialect", BODIES)
@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.data(), CACHES)
def test_odd_bodies_are_sent_as_legal_as_they_came(dialect: str, data: st.DataObject, cache: CacheSettings) -> None:
    """Also as the second request of a lane, with any first one."""
    engine, lane = EngineCore(Settings(cache=cache), strict=True), Lane(tenant="t", session="s", id="l")
    model = "gemini-3-pro" if dialect == "gemini" else ""
    for number in range(2):
        raw = data.draw(BODIES[dialect])
        body = engine.parse(DIALECTS[dialect], raw, model=model)
        if not isinstance(body, Body):
            return
        prepared = engine.prepare(body, lane=lane, now=10.0 * number)
        engine.settle(prepared, prepared.core.outcome.usage(), now=10.0 * number + 1)
        if dialect == "openrouter":
            continue
        step = Step(kind="prepare", at=0.0, dialect=dialect, model=body.model or model, body=raw)
        if refusal(step, raw) is None:
            assert refusal(step, prepared.raw) is None


# Clients with faults that can be repaired


def _faulty(step: Step, fault: str) -> Step:
    """The request of a client with a clock in its system text, a memory that grows there, or no order in its tools and
    in the keys of what it calls."""
    if step.kind != "prepare":
        return step
    random, body = Random(f"{fault} {step.call}"), json.loads(step.body)
    system = body["system"][0]
    if fault == "clock":
        system["text"] = f"Current time: 2026-11-02T09:{step.call:02}:00.000+00:00\n\n{system['text']}"
    elif fault == "memory":
        facts = "\n".join(f"- fact {number}" for number in range(step.call // 3 + 1))
        system["text"] = f"{system['text']}\n\n# Memory\n{facts}"
    elif fault == "tools":
        random.shuffle(body["tools"])
    for message in body["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                members = [*block["input"].items(), ("y", {"a": 1, "b": 2}), ("z", 3)]
                block["input"] = dict(random.sample(members, 3) if fault == "keys" else members)
    return replace(step, body=json.dumps(body).encode())


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["clock", "memory", "tools", "keys"])
@settings(max_examples=8, derandomize=True, deadline=None)
@given(SEEDS, st.sampled_from(NAMES), st.sampled_from(["respect", "improve", "manage"]))
def test_a_repaired_client_extends_what_it_sent(fault: str, seed: int, name: Any, markers: Any) -> None:
    steps = [_faulty(step, fault) for step in timeline(Random(seed)) if step.kind != "restart"]
    with Runner(CacheSettings(strategy=name, client_markers=markers, repair="on")) as run:
        for _ in run.play(steps):
            pass
        for sent in Sent(run).lanes.values():
            before: Prompt | None = None
            for step, _, ours, prepared in sent:
                goes_on = step.reset is None and not {"fork", "resend", "concurrent"} & set(step.tags)
                if before is not None and goes_on and prepared.reset is None:
                    assert begins_with(ours, before), (step.tags, prepared.repairs)
                assert refusal(step, prepared.raw) is None
                before = ours


# Edits

RESULTS = ("tool_result", "function_call_output")


class Editor:
    """Asks, at random, for old results of tools to be shortened."""

    def __init__(self, seed: int) -> None:
        self.random, self.reader = Random(seed), PromptReader()

    def __call__(self, step: Step, body: Body) -> Mapping[bytes, bytes]:
        if self.random.random() < 0.5:
            return {}
        found = [(place, block) for place, block in _blocks(self.reader, body) if block.kind in RESULTS]
        wanted = {}
        for place, block in found:
            if self.random.random() < 0.3:
                value = json.loads(rewrite.plain(body, place))
                value["output" if "output" in value else "content"] = f"[removed {self.random.randrange(9)}]"
                wanted[block.digest] = json.dumps(value).encode()
        return wanted


def _blocks(reader: PromptReader, body: Body) -> list[tuple[int, Block]]:
    prompt = reader.read(body, facts_of(body)).prompt
    return list(zip(prompt.origin or range(len(prompt.blocks)), prompt.blocks, strict=True))


def _replayed(run: Runner) -> int:
    """See that a result, once sent in some form, is sent in that form for ever, unless an edit is made then and there;
    gives how many edited results were sent again."""
    first: dict[tuple[str, bytes], bytes] = {}
    reader, ours, again = PromptReader(), PromptReader(), 0
    for step, prepared in run.sent:
        sent = prepared.sent  # markers may turn a string into a list of one; what they stand on stays as it is
        assert len(sent.blocks) == len(prepared.client.blocks)
        assert begins_with(prompt_of(step, prepared.raw), ours.read(sent, facts_of(sent)).prompt)
        made = prepared.edits is not None and prepared.edits.made
        for place, block in _blocks(reader, prepared.client):
            now, client = rewrite.plain(sent, place), rewrite.plain(prepared.client, place)
            if block.kind not in RESULTS:
                assert now == client
                continue
            name = (step.lane, block.digest)
            was = first.get(name, first.get((step.parent or "", block.digest)) if "branch" in step.tags else None)
            if was is not None and not (made and was == client):
                assert now == was, step.tags
                again += now != client
            first[name] = now
    return again


@pytest.mark.slow
@moderate
@given(SEEDS, st.sampled_from(MODELS[:1] + MODELS[3:]), CACHES, st.booleans())
def test_an_edit_is_replayed_to_the_byte(seed: int, model: tuple[str, str], cache: CacheSettings, stored: bool) -> None:
    steps = timeline(Random(seed), *model, requests=18)
    steps = steps if stored else [step for step in steps if step.kind != "restart"]
    with TemporaryDirectory() as home:
        path = Path(home) / "h.db" if stored else None
        with Runner(replace(cache, repair="suggest"), path=path, edits=Editor(seed)) as run:
            for _ in run.play(steps):
                pass
    _replayed(run)


@pytest.mark.slow
def test_edits_are_made_and_sent_again() -> None:
    """The law before would hold if none ever were."""
    again = 0
    for seed in range(6):
        with Runner(CacheSettings(), edits=Editor(seed)) as run:
            for _ in run.play([step for step in timeline(Random(seed), requests=18) if step.kind != "restart"]):
                pass
        again += _replayed(run)
    assert again > 20


def _turns(turns: int) -> bytes:
    said = Talk(["s " + "all that was said is kept " * 900], ["bash"], [("user", 0, ["hi"])])
    for number in range(turns):
        said.turns += [("calls", number, [f"c{number}"]), ("results", number, [f"r{number} " + "kept " * 200])]
    return json.dumps(RENDER["anthropic"](said, "claude-opus-4-6")).encode()


def _send(engine: EngineCore, lane: Lane, turns: int, at: float, *, shorten: int | None = None) -> PreparedCall:
    body = engine.parse(DIALECTS["anthropic"], _turns(turns))
    assert isinstance(body, Body)
    edits = {}
    if shorten is not None:
        digests = [block.digest for _, block in _blocks(PromptReader(), body) if block.kind == "tool_result"]
        gone = {"type": "tool_result", "tool_use_id": f"{shorten}.0", "content": "[gone]"}
        edits = {digests[shorten]: json.dumps(gone).encode()}
    prepared = engine.prepare(body, lane=lane, now=START + at, options=PrepareOptions(edits=edits))
    engine.settle(prepared, prepared.core.outcome.usage(), now=START + at + 1)
    return prepared


@pytest.mark.parametrize("how", ["in memory", "stored", "restarted"])
def test_a_fork_keeps_the_edits_it_was_born_with_and_gets_no_others(how: str, tmp_path: Path) -> None:
    path = None if how == "in memory" else tmp_path / "h.db"
    store = None if path is None else open_store(path)
    engine = EngineCore(Settings(), store=store, strict=True)
    parent = Lane(tenant="t", session="s", id="p")
    child = Lane(tenant="t", session="s", id="c", parent="p")
    _send(engine, parent, 3, 0)
    assert b"[gone]" in _send(engine, parent, 3, 4_000, shorten=0).raw
    assert _send(engine, child, 4, 4_010).raw.count(b"[gone]") == 1
    assert _send(engine, parent, 4, 9_000, shorten=1).raw.count(b"[gone]") == 2
    if how == "restarted" and store is not None and path is not None:
        store.close()
        store = open_store(path)
        engine = EngineCore(Settings(), store=store, strict=True)
    assert _send(engine, child, 5, 9_010).raw.count(b"[gone]") == 1
    if store is not None:
        store.close()


# What changes stands behind what does not


@pytest.mark.parametrize("name", [name for name in NAMES if name != "passthrough"])
@settings(max_examples=10, derandomize=True, deadline=None)
@given(SEEDS, st.sampled_from(["claude-opus-4-6", "claude-sonnet-5-5"]))
def test_news_in_the_volatile_part_or_the_memory_keeps_tools_and_stable_text(name: Any, seed: int, model: str) -> None:
    """At every change the next request reads at least all of them, while they live and are above the floor."""
    random = Random(seed)
    said = Talk(["stable " + "all that was said is kept " * 900, "Memory 0", "Now: 0"], ["bash", "read"], [])
    said.turns.append(("user", 0, [words(random, "start")]))
    steps: list[Step] = []
    at = 0.0
    for number in range(12):
        reset = random.choice([None, "volatile_system_changed", "memory_block_changed"]) if number else "session_start"
        if reset == "memory_block_changed":
            said.system[1] = words(random, f"Memory {number}", 20)
        elif reset == "volatile_system_changed":
            said.system[2] = f"Now: {number}"
        said.turns += [("assistant", number, [words(random, number)]), ("user", number, [words(random, number)])]
        body = json.dumps(RENDER["anthropic"](said, model)).encode()
        step = Step(kind="prepare", at=at, call=number, lane="l", model=model, body=body, reset=reset, volatile=2)
        after = replace(step, body=b"", output=5)
        steps += [step, replace(after, kind="first_token", at=at + 1), replace(after, kind="settle", at=at + 2)]
        at += random.choice([3.0, 60.0, 280.0])
    with Runner(CacheSettings(strategy=name)) as run:
        for played in run.play(steps):
            prompt = played.prepared.core.prompt
            stable = next(
                end for end, block in zip(prompt.ends, prompt.blocks, strict=True) if block.section == "system"
            )
            assert stable >= 4_096
            if played.step.call:
                assert played.billed.read >= stable, played.step.reset


# Threads


@pytest.mark.slow
def test_parallel_calls_lose_nothing_and_cost_what_automatic_caching_costs(tmp_path: Path) -> None:
    """Eight threads at once on one engine; each request is new, so that whatever is written is paid in advance."""
    credit, threads, each = 0.02, 8, 12
    store = open_store(tmp_path / "h.db")
    engine = EngineCore(Settings(cache=CacheSettings(probe_credit_usd=credit)), store=store, strict=True)
    problems: list[BaseException] = []
    settled: list[tuple[float, float]] = []
    ready = Barrier(threads)

    def work(thread: int) -> None:
        ready.wait()
        for number in range(each):
            said = Talk([f"{thread}.{number} " + "all that was said is kept " * 900], ["bash"], [("user", 0, ["hi"])])
            raw = json.dumps(RENDER["anthropic"](said, "claude-opus-4-6")).encode()
            body = engine.parse(DIALECTS["anthropic"], raw)
            lane, now = Lane(tenant="t", session="s", id=f"{thread}.{number % 4}", client="c"), START + number
            prepared = engine.prepare(body, lane=lane, now=now)
            engine.first_token(prepared, now=now + 0.5)
            if number % 5 == 4:
                engine.abandon(prepared, now=now + 0.7)
            else:
                usage = prepared.core.outcome.usage()
                engine.settle(prepared, usage, now=now + 0.9)
                written = Usage(writes=(("5m", usage.prompt),))
                settled.append((dollars(prepared, usage), dollars(prepared, written)))

    def safely(thread: int) -> None:
        try:
            work(thread)
        except BaseException as problem:  # noqa: BLE001 - a thread has nobody to raise to
            problems.append(problem)

    workers = [Thread(target=safely, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    client = engine.state.tenant("t").experience.client("c")
    store.close()
    assert problems == []
    assert all(paid <= automatic + 1e-9 for paid, automatic in settled)
    assert any(paid == pytest.approx(automatic) for paid, automatic in settled)
    assert client.reserved == pytest.approx(0, abs=1e-9)
    with open_store(tmp_path / "h.db") as again:
        calls = again.calls("t", limit=10_000)
    assert sorted({call.status for call in calls}) == ["abandoned", "settled"]
    assert sum(call.status == "settled" for call in calls) == len(settled) == threads * 10
