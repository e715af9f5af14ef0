"""What clients do wrong, as transformations of a recorded session with texts.

Each takes a trace and a seed and returns a new trace; the original is untouched. They work on canonical requests, so
they hold in every dialect. None of them leaves a reset: a client that breaks its prefix does not say so.

A turn begins with a user message that holds more than tool results.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.records import Block, Message, Request, Text, ToolResult, ToolUse, encode_string
from holdfast.report.logs import Trace, TraceStep

T = TypeVar("T")
Fault = Callable[[Trace, int], Trace]

DAY = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
"""The time of a trace's second 0."""
MEMORY_TURNS = 3
WINDOW_TURNS = 3
PRUNE_AFTER = 5
PLACEHOLDER = "[old tool result removed]"


def clock_at_head(trace: Trace, seed: int = 0) -> Trace:
    """The system text begins with the time of the request."""
    return _each(
        trace, "clock-at-head", lambda request, step: _system(request, lambda text: f"{_time(trace, step)}\n\n{text}")
    )


def clock_in_middle(trace: Trace, seed: int = 0) -> Trace:
    """The time of the request stands on a line of its own in the middle of the system text."""

    def insert(text: str, time: str) -> str:
        lines = text.split("\n")
        half = (len(lines) + 1) // 2
        return "\n".join((*lines[:half], time, *lines[half:]))

    return _each(
        trace,
        "clock-in-middle",
        lambda request, step: _system(request, lambda text: insert(text, _time(trace, step))),
    )


def tools_shuffled(trace: Trace, seed: int = 0) -> Trace:
    """The tools come in another order on every request."""

    def shuffle(request: Request, step: TraceStep) -> Request:
        rng = Random(f"{seed} tools {trace.name} {step.number}")
        return replace(request, tools=tuple(_shuffled(request.tools, rng)))

    return _each(trace, "tools-shuffled", shuffle)


def memory_in_system(trace: Trace, seed: int = 0, *, calls: int = 0) -> Trace:
    """The system text ends with a memory that gains a line on every third turn, or on every so many calls."""
    first = trace.steps[0].number if trace.steps else 0

    def remember(request: Request, step: TraceStep) -> Request:
        facts = max(len(_turns(request.messages)) - 1, 0) // MEMORY_TURNS + 1
        if calls:
            facts = (step.number - first) // calls + 1
        lines = "\n".join(f"- fact {number} of {trace.name}" for number in range(1, facts + 1))
        return _system(request, lambda text: f"{text}\n\n# Memory\n{lines}")

    return _each(trace, "memory-in-system", remember)


def sliding_window(trace: Trace, seed: int = 0, *, turns: int = WINDOW_TURNS) -> Trace:
    """Only the last turns are sent."""

    def cut(request: Request, step: TraceStep) -> Request:
        begins = _turns(request.messages)
        start = begins[-turns] if len(begins) > turns else 0
        return replace(request, messages=request.messages[start:])

    return _each(trace, "sliding-window", cut)


def keys_reordered(trace: Trace, seed: int = 0) -> Trace:
    """The keys of earlier tool inputs come in another order on every request."""

    def reorder(request: Request, step: TraceStep) -> Request:
        rng = Random(f"{seed} keys {trace.name} {step.number}")
        return replace(request, messages=tuple(_map(m, lambda block: _reordered(block, rng)) for m in request.messages))

    return _each(trace, "keys-reordered", reorder)


def results_pruned(trace: Trace, seed: int = 0, *, after: int = PRUNE_AFTER) -> Trace:
    """Tool results that the model has answered more than so many times are replaced by a placeholder."""

    def prune(request: Request, step: TraceStep) -> Request:
        answers = [i for i, message in enumerate(request.messages) if message.role == "assistant"]
        border = answers[-after - 1] if len(answers) > after else 0
        return replace(
            request,
            messages=tuple(_map(m, _pruned) if i < border else m for i, m in enumerate(request.messages)),
        )

    return _each(trace, "results-pruned", prune)


FAULTS: dict[str, Fault] = {
    "clock-at-head": clock_at_head,
    "clock-in-middle": clock_in_middle,
    "tools-shuffled": tools_shuffled,
    "memory-in-system": memory_in_system,
    "sliding-window": sliding_window,
    "keys-reordered": keys_reordered,
    "results-pruned": results_pruned,
}


def _each(trace: Trace, fault: str, change: Callable[[Request, TraceStep], Request]) -> Trace:
    steps = []
    for step in trace.steps:
        if not isinstance(step.content, Request):
            raise HoldfastError(f"{trace.name} has sizes without texts; the fault {fault} needs a session with texts.")
        steps.append(replace(step, content=change(step.content, step)))
    return replace(trace, steps=tuple(steps))


def _time(trace: Trace, step: TraceStep) -> str:
    if step.at is None:
        raise HoldfastError(f"{trace.name} has no times; give it a gap pattern before a clock.")
    return f"Current time: {(DAY + timedelta(seconds=step.at)).isoformat(timespec='milliseconds')}"


def _system(request: Request, change: Callable[[str], str]) -> Request:
    """The request with its system text changed; of several blocks the first text is."""
    system = request.system_prompt
    if system is None or isinstance(system, str):
        return replace(request, system_prompt=change(system or ""))
    place = next((i for i, block in enumerate(system) if isinstance(block, Text)), None)
    if place is None:
        return replace(request, system_prompt=(Text(change("")), *system))
    block = system[place]
    assert isinstance(block, Text)
    return replace(
        request, system_prompt=(*system[:place], replace(block, text=change(block.text)), *system[place + 1 :])
    )


def _turns(messages: tuple[Message, ...]) -> list[int]:
    """Where the turns begin."""
    return [
        i
        for i, message in enumerate(messages)
        if message.role == "user" and any(not isinstance(block, ToolResult) for block in message.content)
    ]


def _shuffled(items: tuple[T, ...], rng: Random) -> list[T]:
    # By keys drawn with random(): the sequence of shuffle() is not promised to stay.
    return [item for _, _, item in sorted((rng.random(), i, item) for i, item in enumerate(items))]


def _map(message: Message, change: Callable[[Block], Block]) -> Message:
    content = tuple(change(block) for block in message.content)
    return message if content == message.content else replace(message, content=content)


def _reordered(block: Block, rng: Random) -> Block:
    if not isinstance(block, ToolUse) or block.input[:1] != b"{":
        return block
    members = tuple(msgspec.json.decode(block.input, type=dict[str, Raw]).items())
    parts = (encode_string(name) + b":" + bytes(value) for name, value in _shuffled(members, rng))
    return replace(block, input=b"{" + b",".join(parts) + b"}")


def _pruned(block: Block) -> Block:
    return replace(block, content=(Text(PLACEHOLDER),)) if isinstance(block, ToolResult) else block
