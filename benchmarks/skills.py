"""How fast skills load and are found, and what the ways of offering them cost in a session that uses them.

One agent, forty skills, the same scripted model and the same tasks in every arm: the index names all skills, a part of
them, or none; bodies are loaded on request, or all of them stand in the system text from the start. Every request goes
through the engine and is billed by the simulator. No arm may lose its prefix.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from random import Random
from statistics import median

from msgspec import Struct

from benchmarks import Result
from benchmarks.tools import START, exchanged, said
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import SkillsSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.engine import EngineCore, Lane
from holdfast.records import Message, Request, Text, ToolDefinition, ToolResult
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.script import Script
from holdfast.skills import SessionSkills, SkillStore, load_skills
from holdfast.tools import Toolbox, ToolSession, ToolSources

MODEL, SEED, PAUSE = "claude-haiku-4-5", 7, 25.0
TASKS, LIBRARY, MANY = 24, 40, 1_000
PERSONA = "You help the people of a small company. Load the skill that a task needs, then do the task. " * 20
VERBS = ["review", "draft", "merge", "convert", "translate", "summarise", "deploy", "measure", "archive", "plan"]
THINGS = ["invoices", "contracts", "photos", "tables", "letters", "recordings", "servers", "orders", "maps", "minutes"]

_task = re.compile(r"Task (\d+): (.+) \[([a-z0-9-]+)\]$").match


def run(*, quick: bool) -> Iterator[Result]:
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "many")
        write(root, MANY)
        yield from _loading(root, rounds=3 if quick else 12)
        yield from _searching(load_skills(global_dir=root, workspace_dir=None), rounds=200 if quick else 2_000)
    yield from _workload(workload_tasks(TASKS // 3 if quick else TASKS))


def write(root: Path, count: int) -> None:
    """A library of skills of about a thousand tokens each."""
    for number in range(count):
        verb, thing = VERBS[number % len(VERBS)], THINGS[number // len(VERBS) % len(THINGS)]
        name = f"{verb}-{thing}-{number}"
        place = root / name
        place.mkdir(parents=True)
        steps = "\n".join(f"{step}. {verb} the {thing}, then check step {step} of {number}." for step in range(1, 91))
        text = f"Use when somebody wants to {verb} {thing} of kind {number}."
        (place / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: {text}\nlicense: Apache-2.0\nmetadata:\n  version: 1.0\n---\n\n{steps}\n"
        )


def _loading(root: Path, *, rounds: int) -> Iterator[Result]:
    spent = []
    for _ in range(rounds):
        begun = time.perf_counter()
        found = load_skills(global_dir=root, workspace_dir=None)
        spent.append(time.perf_counter() - begun)
        if len(found) != MANY:
            raise RuntimeError(f"{len(found)} of {MANY} skills were loaded: {found.skipped[:1]}")
    size = sum(len(skill.body) for skill in found.list_skills()) / 1e6
    note = f"slowest of {rounds}: {max(spent):.3f} s; {size:.1f} MB of bodies"
    yield Result(f"load {MANY:,} skills, median", median(spent), "s", 1.0, "lower", note)


def _searching(store: SkillStore, *, rounds: int) -> Iterator[Result]:
    kinds = {
        "one word": [[verb, thing][number % 2] for number, (verb, thing) in enumerate(zip(VERBS, THINGS, strict=True))],
        "several words": [f"how do I {verb} the {thing}" for verb, thing in zip(VERBS, THINGS, strict=True)],
    }
    for name, queries in kinds.items():
        begun, spent = time.perf_counter(), []
        store.search(queries[0])
        first = 1_000 * (time.perf_counter() - begun)
        for number in range(rounds):
            begun = time.perf_counter()
            found = store.search(queries[number % len(queries)])
            spent.append(1_000 * (time.perf_counter() - begun))
            if not found:
                raise RuntimeError(f"nothing was found for {queries[number % len(queries)]!r}")
        note = f"p99 {sorted(spent)[int(0.99 * len(spent))]:.3f} ms, the first {first:.1f} ms"
        yield Result(f"search {len(store):,} skills, {name}, median", median(spent), "ms", 1.0, "lower", note)


class Arm(Struct, frozen=True):
    name: str
    settings: SkillsSettings = SkillsSettings()
    pasted: bool = False
    padding: bool = False


ARMS = (
    Arm("index in full", SkillsSettings(index="full")),
    Arm("index of 2,000 characters", SkillsSettings(index_chars=2_000)),
    Arm("no index, search only", SkillsSettings(index="off")),
    Arm("index in full, padded with bodies", SkillsSettings(index="full"), padding=True),
    Arm("index in full, at most 8 bodies", SkillsSettings(index="full", max_activations=8)),
)
PASTED = Arm("all bodies in the system text", pasted=True)


class Played(Struct):
    requests: int = 0
    prompt: int = 0
    dollars: Decimal = Decimal(0)
    breaks: int = 0
    loaded: int = 0
    pointed: int = 0
    refused: int = 0


def _workload(tasks: list[str]) -> Iterator[Result]:
    base = asyncio.run(play(PASTED, tasks))
    for arm in ARMS:
        played = asyncio.run(play(arm, tasks))
        note = (
            f"${base.dollars:.4f} -> ${played.dollars:.4f}, {base.prompt // base.requests:,} -> "
            f"{played.prompt // played.requests:,} tokens a request, {played.requests} requests for {base.requests}, "
            f"{played.loaded} loaded, {played.pointed} pointers, {played.refused} refused"
        )
        yield Result(f"{arm.name}: cost", float(played.dollars / base.dollars), "x", None, "lower", note)
        yield Result(f"{arm.name}: breaks", float(base.breaks + played.breaks), "", 0, "lower", "of both arms")


def workload_tasks(count: int) -> list[str]:
    """A few skills are needed often, others once."""
    chance, names = Random(SEED), [f"{VERBS[n % 10]}-{THINGS[n // 10]}-{n}" for n in range(LIBRARY)]
    wanted = chance.choices(names, weights=[1 / (1 + rank) ** 1.5 for rank in range(LIBRARY)], k=count)
    return [f"Task {number}: {' '.join(name.split('-')[:2])} [{name}]" for number, name in enumerate(wanted, start=1)]


def reply(request: Request) -> object:
    """The scripted model: load the skill that the task needs, searching for one that is not listed, then say it is
    done; it takes no for an answer."""
    start, number, words, skill = _asked(request.messages)
    if not any(isinstance(item, ToolDefinition) and item.name == "skill_load" for item in request.tools):
        return f"Done {number}."
    since = request.messages[start + 1 :]
    results = [block for message in since for block in message.content if isinstance(block, ToolResult)]
    texts = ["".join(inner.text for inner in block.content if isinstance(inner, Text)) for block in results]
    if any(text.startswith(f"# Skill: {skill} ") for text in texts):
        return f"Done {number}."
    if any(block.is_error for block in results):
        return f"Done {number}, without the skill."
    listed = f"- {skill}:" in (request.system_prompt or "") or f"- {skill} [" in (request.system_prompt or "")
    if listed or texts:
        return {"call": {"tool": "skill_load", "input": {"name": skill}}}
    return {"call": {"tool": "skill_search", "input": {"query": words}}}


def _asked(messages: tuple[Message, ...]) -> tuple[int, str, str, str]:
    for index in range(len(messages) - 1, -1, -1):
        for block in messages[index].content:
            if isinstance(block, Text) and messages[index].role == "user" and (found := _task(block.text)):
                return index, found[1], found[2], found[3]
    raise RuntimeError("the request asks for nothing")


async def play(arm: Arm, tasks: list[str]) -> Played:
    clock = VirtualClock(START)
    simulator = Simulator(script=Script(name="bench", function=reply), clock=clock)
    engine, played, messages = EngineCore(Settings(), strict=True), Played(), list[Message]()
    lane = Lane(tenant="t", session=arm.name, id=arm.name, client="bench")
    with tempfile.TemporaryDirectory() as scratch:
        room, root = Path(scratch, "workspace"), Path(scratch, "skills")
        room.mkdir()
        write(root, LIBRARY)
        store = load_skills(global_dir=root, workspace_dir=None)
        skills = None if arm.pasted else SessionSkills(store, settings=arm.settings)
        toolbox = Toolbox(
            model=f"anthropic:{MODEL}",
            session=ToolSession(id="s", workspace=room, home=Path(scratch, "home")),
            sources=ToolSources(skills=skills),
        )
        system = _system(arm, store, skills)
        async with toolbox:
            for task in tasks:
                messages.append(Message("user", (Text(task),)))
                while True:
                    spoken = _send(engine, simulator, toolbox, system, lane, messages, clock, played)
                    messages.append(spoken)
                    ran = await toolbox.run(spoken)
                    if not ran.answers:
                        break
                    for answer in ran.answers:
                        _count(answer.error, {} if answer.output is None else dict(answer.output.metadata), played)
                    messages += ran.messages
                    clock.advance(3)
                clock.advance(PAUSE)
    return played


def _count(error: str | None, metadata: dict[str, object], played: Played) -> None:
    played.refused += error is not None
    pointed = "already_loaded" in metadata or "already_preloaded" in metadata
    played.pointed += pointed
    played.loaded += "skill_id" in metadata and not pointed


def _system(arm: Arm, store: SkillStore, skills: SessionSkills | None) -> str:
    if skills is None:
        return "\n\n".join([PERSONA, *(skill.section for skill in store.list_skills())])
    return skills.compose(PERSONA, cache=CacheSettings(padding="always" if arm.padding else "off")).text


def _send(
    engine: EngineCore,
    simulator: Simulator,
    toolbox: Toolbox,
    system: str,
    lane: Lane,
    messages: list[Message],
    clock: VirtualClock,
    played: Played,
) -> Message:
    """One request through the engine to the simulator; the model's message."""
    request = Request(
        model=MODEL, tools=toolbox.definitions(), system_prompt=system, messages=tuple(messages), output_limit=500
    )
    _, verdict, answer = exchanged(engine, simulator, toolbox, request, "anthropic", lane, clock.now())
    played.requests += 1
    played.prompt += verdict.usage.prompt
    played.breaks += verdict.finding is not None
    played.dollars += verdict.usage.cost or Decimal(0)
    return said("anthropic", answer)
