"""What deferral saves on a session with sixty tools, and what discovery and offloading cost.

The same scripted model does the same tasks in both arms: where a tool is deferred it searches first, in the words of
the user, who does not know how tools are described; if that was in vain, in better ones. Every request goes through the
engine and is billed by the simulator; both arms must end with the same answers, and neither may lose its prefix.
"""

from __future__ import annotations

import asyncio
import json
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from benchmarks import Result
from benchmarks.tools_catalogue import ASKED, Definition, catalogue
from holdfast.config.keys import Settings
from holdfast.config.sections.agent import DeferralSettings, OffloadSettings, ToolsSettings
from holdfast.core.call import Verdict
from holdfast.engine import EngineCore, Lane, PreparedCall, PrepareOptions
from holdfast.records import Message, Request, Text, ToolDefinition, ToolResult, ToolUse, canonical_json
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.simulator.script import Script
from holdfast.tools import Tool, Toolbox, ToolContext, ToolOutput, ToolSession
from holdfast.tools.offload import Offloader
from holdfast.tools.search import ToolIndex
from holdfast.wire import DIALECTS, Body

Mode = Literal["auto", "always", "never"]
Setting = Literal["auto", "call_tool"]
HEADERS = {
    "x-api-key": "k",
    "authorization": "Bearer k",
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
}
START = 1_700_000_000.0
TASKS, SEED, PAUSE = 40, 11, 25.0
PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
}
ROUTES: tuple[tuple[str, str, Setting, tuple[Mode, ...]], ...] = (
    ("anthropic:claude-opus-4-6", "anthropic", "auto", ("always",)),
    ("anthropic:claude-opus-4-6", "anthropic", "call_tool", ("always",)),
    ("anthropic:claude-haiku-4-5", "anthropic", "auto", ("auto", "always")),
    ("openai:gpt-6.1-sol", "openai_responses", "auto", ("always",)),
    ("openai:gpt-5.5", "openai_chat", "auto", ("always",)),
)
"""`auto` is shown where sixty definitions are more than a tenth of the window: with a window of a million tokens it
leaves them all in."""

SYSTEM = (
    "You help the people of a small company. Do what the user asks with the tools you have, then say so briefly. " * 12
)

_task = re.compile(r"Task (\d+): (.+) \[(\w+)\]$").match


def run(*, quick: bool) -> Iterator[Result]:
    tasks = workload_tasks(TASKS // 4 if quick else TASKS)
    for route in ROUTES:
        yield from _compared(*route, tasks)
    yield from _search(rounds=200 if quick else 2_000)
    yield from _offload(rounds=5 if quick else 40)


class Played(Struct):
    """One session: what was sent and paid, what was searched, and how it ended."""

    carrier: str = ""
    requests: int = 0
    prompt: int = 0
    definitions: int = 0
    declared: int = 0
    dollars: Decimal = Decimal(0)
    breaks: int = 0
    searches: int = 0
    missed: int = 0
    brought: int = 0
    last: int = 0
    grew: int = 0
    answers: tuple[str, ...] = ()


def _compared(
    model: str, dialect: str, setting: Setting, modes: tuple[Mode, ...], tasks: list[str]
) -> Iterator[Result]:
    plain, turns = asyncio.run(play(model, dialect, "never", setting, tasks)), len(tasks)
    for mode in modes:
        arm = asyncio.run(play(model, dialect, mode, setting, tasks))
        if arm.answers != plain.answers:
            raise RuntimeError(f"{model}: the session with deferral {mode!r} did not end like the one without")
        name = f"{model.partition(':')[2]} {arm.carrier}, {mode}"
        note = (
            f"{plain.prompt // turns:,} -> {arm.prompt // turns:,} tokens a turn, {arm.requests} requests for "
            f"{plain.requests}, {arm.searches} searches ({arm.missed} in vain), "
            f"{arm.brought // max(arm.searches, 1):,} tokens each"
        )
        yield Result(f"{name}: prompt tokens", arm.prompt / plain.prompt, "x", None, "lower", note)
        share = 1 - arm.definitions / plain.definitions
        yield Result(
            f"{name}: definition tokens saved",
            100 * share,
            "%",
            None,
            "higher",
            f"of {plain.definitions:,}; found ones count, of the array alone "
            f"{100 * (1 - arm.declared / plain.declared):.0f}%",
        )
        paid = float(arm.dollars / plain.dollars)
        yield Result(f"{name}: cost", paid, "x", None, "lower", f"${plain.dollars:.4f} -> ${arm.dollars:.4f}")
        yield Result(f"{name}: breaks", float(arm.breaks + plain.breaks), "", 0, "lower", "of both arms")


def workload_tasks(count: int) -> list[str]:
    """What the user asks for: a few tools often, others once, in other words than those of their descriptions."""
    definitions, chance = catalogue(), Random(SEED)
    wanted = chance.choices(definitions, weights=[1 / (1 + rank) for rank in range(len(definitions))], k=count)
    return [f"Task {number}: {ASKED[one.name]} [{_name(one)}]" for number, one in enumerate(wanted, start=1)]


def _name(definition: Definition) -> str:
    return f"mcp__{definition.server}__{definition.name}"


def _tool(definition: Definition) -> Tool:
    name = _name(definition)

    async def answer(given: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        lines = [f"{name} line {line}: {json.dumps(dict(given))}" for line in range(12)]
        return ToolOutput(content="\n".join(lines))

    return Tool(
        name=name,
        description=definition.description,
        run=answer,
        effect="read",
        input_schema=canonical_json(json.dumps(definition.schema).encode()),
        source="mcp",
        server=definition.server,
    )


def reply(request: Request) -> object:
    """The scripted model: search unless the tool is known, call it, say that it is done."""
    start, (number, words, tool) = _asked(request.messages)
    since = request.messages[start + 1 :]
    declared = {item.name for item in request.tools if isinstance(item, ToolDefinition) and _is_loaded(item)}
    through = "call_tool" in declared
    called = [_meant(block) for message in since for block in message.content if isinstance(block, ToolUse)]
    if tool in called:
        result = next(block for block in reversed(since[-1].content) if isinstance(block, ToolResult))
        first = result.content[0]
        assert isinstance(first, Text)
        return f"Done {number}: {first.text.splitlines()[0]}"
    arguments = {_required(tool): f"item {number}"}
    if tool in declared:
        return {"call": {"tool": tool, "input": arguments}}
    if _was_found(request.messages, tool):
        if through:
            return {"call": {"tool": "call_tool", "input": {"name": tool, "arguments": arguments}}}
        return {"call": {"tool": tool, "input": arguments}}
    queries = (words, _definition(tool).description.partition(".")[0], f"select:{tool}")
    return {"call": {"tool": "discover_tools", "input": {"query": queries[called.count("discover_tools")]}}}


def _asked(messages: tuple[Message, ...]) -> tuple[int, tuple[str, str, str]]:
    for index in range(len(messages) - 1, -1, -1):
        for block in messages[index].content:
            if isinstance(block, Text) and messages[index].role == "user" and (found := _task(block.text)):
                return index, (found[1], found[2], found[3])
    raise RuntimeError("the request asks for nothing")


def _is_loaded(definition: ToolDefinition) -> bool:
    return dict(definition.extra).get("defer_loading") != b"true"


def _meant(call: ToolUse) -> str:
    return str(json.loads(call.input).get("name")) if call.name == "call_tool" else call.name


def _was_found(messages: tuple[Message, ...], tool: str) -> bool:
    found = f'"{tool}"'
    for message in messages:
        for block in message.content:
            if isinstance(block, ToolResult) and any(found in _text(inner) for inner in block.content):
                return True
            if message.role != "assistant" and found in _text(block):
                return True
    return False


def _text(block: object) -> str:
    raw = getattr(block, "raw", None)
    return raw.decode() if isinstance(raw, bytes) else str(getattr(block, "text", ""))


def _required(tool: str) -> str:
    return str(_definition(tool).schema["required"][0])


def _definition(tool: str) -> Definition:
    return next(definition for definition in catalogue() if _name(definition) == tool)


async def play(model: str, dialect: str, mode: Mode, setting: Setting, tasks: list[str]) -> Played:
    clock = VirtualClock(START)
    simulator = Simulator(script=Script(name="bench", function=reply), clock=clock)
    engine = EngineCore(Settings(), strict=True)
    lane = Lane(tenant="t", session=mode, id=f"{model}/{mode}", client="bench")
    played, messages, answers = Played(), list[Message](), list[str]()
    with tempfile.TemporaryDirectory() as scratch:
        room = Path(scratch, "workspace")
        room.mkdir()
        settings = ToolsSettings(deferral=DeferralSettings(mode=mode, carrier=setting))
        tools = [_tool(definition) for definition in catalogue()]
        toolbox = Toolbox(
            tools,
            model=model,
            dialect=dialect,
            settings=settings,
            session=ToolSession(id="s", workspace=room, home=Path(scratch, "home")),
        )
        played.carrier = toolbox.toolset.carrier
        async with toolbox:
            for task in tasks:
                messages.append(Message("user", (Text(task),)))
                searched, before = False, played.searches
                while True:
                    said = _send(engine, simulator, toolbox, dialect, model, lane, messages, clock, played)
                    played.brought += played.grew if searched else 0
                    played.definitions += played.brought  # in the history they are sent again and again, too
                    messages.append(said)
                    ran = await toolbox.run(said)
                    if not ran.answers:
                        break
                    searched = any(answer.tool == "discover_tools" for answer in ran.answers)
                    played.searches += searched
                    messages += ran.messages
                    clock.advance(3)
                played.missed += max(0, played.searches - before - 1)
                answers.append("".join(_text(block) for block in said.content))
                toolbox.turn_over()
                clock.advance(PAUSE)
    played.answers = tuple(answers)
    return played


def _send(
    engine: EngineCore,
    simulator: Simulator,
    toolbox: Toolbox,
    dialect: str,
    model: str,
    lane: Lane,
    messages: list[Message],
    clock: VirtualClock,
    played: Played,
) -> Message:
    """One request through the engine to the simulator; the model's message."""
    request = Request(
        model=model,
        tools=toolbox.definitions(),
        system_prompt=SYSTEM,
        messages=tuple(messages),
        output_limit=1_000,
    )
    prepared, verdict, answer = exchanged(engine, simulator, toolbox, request, dialect, lane, clock.now())
    used = verdict.usage
    played.requests += 1
    played.prompt += used.prompt
    array = sum(block.tokens for block in prepared.core.outcome.prompt.blocks if block.section == "tools")
    played.declared += array
    played.definitions += array
    played.breaks += verdict.finding is not None
    played.dollars += verdict.usage.cost or Decimal(0)
    played.grew = used.prompt - played.last
    played.last = used.prompt
    return said(dialect, answer)


def exchanged(
    engine: EngineCore, simulator: Simulator, toolbox: Toolbox, request: Request, dialect: str, lane: Lane, now: float
) -> tuple[PreparedCall, Verdict, bytes]:
    """A request through the engine to the simulator, and what came back."""
    spoken = DIALECTS[dialect]
    body = engine.parse(spoken, spoken.encode(request))
    assert isinstance(body, Body)
    prepared = toolbox.prepare(engine, body, lane=lane, now=now, options=PrepareOptions())
    exchange = simulator.begin(HttpRequest("POST", PATHS[dialect], HEADERS, {}, prepared.raw))
    if exchange.answer.status != 200:
        raise RuntimeError(f"{request.model}: {exchange.answer.body.decode()[:500]}")
    exchange.finish()
    used = exchange.record.usage
    assert used is not None
    engine.first_token(prepared, now=now)
    return prepared, engine.settle(prepared, used, now=now), exchange.answer.body


def said(dialect: str, raw: bytes) -> Message:
    """The model's message, read as a client's next request would carry it."""
    answer, spoken = json.loads(raw), DIALECTS[dialect]
    if dialect == "anthropic":
        body: dict[str, Any] = {"messages": [{"role": "assistant", "content": answer["content"]}]}
    elif dialect == "openai_chat":
        body = {"messages": [answer["choices"][0]["message"]]}
    else:
        body = {"input": answer["output"]}
    parsed = spoken.parse(json.dumps({"model": "m", **body}).encode())
    assert isinstance(parsed, Body)
    messages = spoken.decode(parsed).messages
    return Message("assistant", tuple(block for message in messages for block in message.content))


def _search(*, rounds: int) -> Iterator[Result]:
    """A search among five hundred tools: the catalogue many times over, under other names."""
    known = [_tool(definition) for definition in catalogue()]
    many = [replace(tool, name=f"{tool.name}_{copy}") for copy in range(9) for tool in known][:500]
    begun = time.perf_counter()
    index = ToolIndex(many)
    index.find("warm")
    built = 1_000 * (time.perf_counter() - begun)
    queries = [*ASKED.values()]
    spent = []
    for number in range(rounds):
        query = queries[number % len(queries)]
        begun = time.perf_counter()
        index.find(query)
        spent.append(1_000 * (time.perf_counter() - begun))
    note = f"p99 {sorted(spent)[int(0.99 * len(spent))]:.3f} ms, index made in {built:.0f} ms"
    yield Result("discovery at 500 tools, median", median(spent), "ms", 1.0, "lower", note)


def _offload(*, rounds: int) -> Iterator[Result]:
    """A result of one megabyte on its way to the disk, beside a bare write of the same bytes."""
    chance = Random(SEED)
    text = "".join(chance.choice("abcdefghij klmnop\n") for _ in range(1_000_000))
    tool = _tool(catalogue()[0])
    stored, bare = [], []
    with tempfile.TemporaryDirectory() as scratch:
        offloader = Offloader(OffloadSettings(), Path(scratch, "offload"))
        for number in range(rounds):
            begun = time.perf_counter()
            _, gone = offloader.store(tool, f"call-{number}", (Text(text),))
            stored.append(1_000 * (time.perf_counter() - begun))
            assert gone is not None
            begun = time.perf_counter()
            Path(scratch, f"bare-{number}").write_bytes(text.encode())
            bare.append(1_000 * (time.perf_counter() - begun))
    note = f"{median(stored) / median(bare):.1f} times a bare write of the same text"
    yield Result("offload of 1 MB, median", median(stored), "ms", 5.0, "lower", note)
