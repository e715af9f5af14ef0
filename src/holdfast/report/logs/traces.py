"""Recorded sessions as values: a trace is a list of provider requests with their times, lanes and content.

A step holds either the shape of what the conversation gained (`Shape`: sizes without text) or the whole request
(`Request`). Knows no file format, no cache rule and no price.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from msgspec import Meta, Struct

from holdfast.records import Message, Request, ToolResult, Usage

Kind = Literal["user", "tools"]
"""Whether a request follows a user turn or is inside a tool loop."""

Role = Literal["user", "assistant", "system", "tool"]

SIDECHAIN = "#sidechain"


class ShapeBlock(Struct, frozen=True, gc=False):
    """A block with only its size known."""

    role: Role
    type: str
    chars: Annotated[int, Meta(ge=0)]
    tool: str | None = None
    error: bool | None = None


class Shape(Struct, frozen=True):
    """What the conversation gained since the lane's request before, or since its reset."""

    added: tuple[ShapeBlock, ...]


Content = Shape | Request


class TraceStep(Struct, frozen=True, kw_only=True):
    """One provider request. `number` is its number in the file; times are seconds on the trace's own clock.

    `lane` is one linear conversation: the model, with a suffix where it is a side chain. `reset` is the reason for
    which the request does not extend the one before it. `usage` is what the provider billed, and what sizes are taken
    from; `bill` is the bill as it was recorded where `usage` has been adapted for that.
    """

    number: int
    at: float | None
    first_token_at: float | None
    lane: str
    model: str
    kind: Kind
    content: Content
    reset: str | None = None
    usage: Usage | None = None
    bill: Usage | None = None

    @property
    def billed(self) -> Usage | None:
        """The bill as it was recorded."""
        return self.bill or self.usage


class Trace(Struct, frozen=True):
    """A session: its name, where it was read (file and line), its requests in order.

    `author` is whose it is, as far as is known: a tenant, a project, a directory. `started` is when its first request
    was sent, in seconds since 1970, where that was recorded.
    """

    name: str
    source: str
    steps: tuple[TraceStep, ...]
    author: str = ""
    started: float | None = None

    @property
    def timed(self) -> bool:
        return all(step.at is not None for step in self.steps)


def lanes(trace: Trace) -> dict[str, tuple[TraceStep, ...]]:
    """The steps of each lane, lanes in the order of their first request."""
    by_lane: dict[str, list[TraceStep]] = {}
    for step in trace.steps:
        by_lane.setdefault(step.lane, []).append(step)
    return {lane: tuple(steps) for lane, steps in by_lane.items()}


def by_author(traces: Sequence[Trace]) -> dict[str, tuple[Trace, ...]]:
    """The sessions of each author in the order in which they began; authors, and sessions of which it is not known when
    they began, in the order given, the latter behind the others."""
    by_name: dict[str, list[Trace]] = {}
    for trace in traces:
        by_name.setdefault(trace.author, []).append(trace)
    return {author: tuple(sorted(each, key=_began)) for author, each in by_name.items()}


def _began(trace: Trace) -> tuple[bool, float]:
    return trace.started is None, trace.started or 0.0


def lane_name(model: str, sidechain: bool = False) -> str:
    return model + SIDECHAIN if sidechain else model


def kind_of_shape(added: tuple[ShapeBlock, ...]) -> Kind:
    """A user turn if the user said something after the last answer; results alone are a tool loop."""
    last = max((i for i, block in enumerate(added) if block.role == "assistant"), default=-1)
    new = added[last + 1 :]
    return "user" if not new or any(block.type != "tool_result" and block.role == "user" for block in new) else "tools"


def kind_of_messages(new: Sequence[Message]) -> Kind:
    """A user turn if anything but tool results came since the last answer, or nothing at all."""
    blocks = [(message.role, block) for message in new for block in message.content]
    answers = [role == "tool" or isinstance(block, ToolResult) for role, block in blocks]
    return "tools" if answers and all(answers) else "user"
