"""A provider call in canonical form, and the rules a conversation must keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from .blocks import Block, Extra, Message, Opaque, ToolDefinition, ToolResult, ToolUse, kind_of

Rule = Literal[
    "role",
    "place",
    "empty",
    "duplicate_tool_use",
    "unanswered_tool_use",
    "answered_twice",
    "orphan_tool_result",
]


class Request(Struct, frozen=True, kw_only=True):
    """Model, tools, a system text in two segments, messages, the output limit, and the rest raw.

    `system_prompt` is stable for the session; `system_prompt_volatile` may change between turns and always comes
    after it. Both are optional, and a caller that does not care puts everything into the first. A text is the
    common form; a tuple of blocks keeps a client's own segmentation. `rest` holds further top-level members of
    `dialect` in order; another dialect's rendering leaves them out.
    """

    model: str
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolDefinition | Opaque, ...] = ()
    system_prompt: str | tuple[Block, ...] | None = None
    system_prompt_volatile: str | tuple[Block, ...] | None = None
    output_limit: int | None = None
    rest: Extra = ()
    dialect: str | None = None


class Violation(Struct, frozen=True):
    """A broken rule, where it is broken, in one sentence."""

    path: str
    rule: Rule
    message: str


_PLACES: dict[str, frozenset[str]] = {
    "user": frozenset({"text", "image", "document", "tool_result"}),
    "assistant": frozenset({"text", "image", "tool_use", "thinking", "redacted_thinking"}),
    "system": frozenset({"text"}),
    "tool": frozenset({"tool_result"}),
}
_INSIDE_RESULT = frozenset({"text", "image", "document"})


def validate(request: Request) -> tuple[Violation, ...]:
    """Every rule a request's messages break, in order."""
    return (*_places(request.messages), *_pairing(request.messages))


def _places(messages: tuple[Message, ...]) -> Iterator[Violation]:
    for i, message in enumerate(messages):
        path = f"messages[{i}]"
        allowed = _PLACES.get(message.role)
        if allowed is None:
            yield Violation(path, "role", f"{path} has the role {message.role!r}; use one of {', '.join(_PLACES)}")
            continue
        if not message.content and not message.extra:
            yield Violation(path, "empty", f"{path} has no content")
        for j, block in enumerate(message.content):
            where = f"{path}.content[{j}]"
            yield from _place(block, where, allowed, f"a {message.role} message")
            if isinstance(block, ToolResult):
                for k, inner in enumerate(block.content):
                    yield from _place(inner, f"{where}.content[{k}]", _INSIDE_RESULT, "a tool_result")


def _place(block: Block, path: str, allowed: frozenset[str], holder: str) -> Iterator[Violation]:
    if not isinstance(block, Opaque) and (kind := kind_of(block)) not in allowed:
        yield Violation(path, "place", f"{path} is a {kind} block, which cannot stand in {holder}")


def _pairing(messages: tuple[Message, ...]) -> Iterator[Violation]:
    """Every tool_use is answered by exactly one tool_result before the next assistant turn."""
    open_calls: dict[str, str] = {}
    answered: set[str] = set()
    for i, message in enumerate(messages):
        if message.role == "assistant":
            yield from _unanswered(open_calls)
            open_calls, answered = {}, set()
        for j, block in enumerate(message.content):
            path = f"messages[{i}].content[{j}]"
            call, result = _ids(block, message.role)
            if call is not None:
                if call in open_calls:
                    yield Violation(path, "duplicate_tool_use", f"{path} uses the id {call!r} twice in one turn")
                open_calls[call] = path
            elif result in answered:
                yield Violation(path, "answered_twice", f"{path} answers {result!r} a second time")
            elif result in open_calls:
                del open_calls[result]
                answered.add(result)
            elif result is not None:
                yield Violation(path, "orphan_tool_result", f"{path} answers {result!r}, which was not called")
    yield from _unanswered(open_calls)


def _ids(block: Block, role: str) -> tuple[str | None, str | None]:
    """The id a block calls with, and the id it answers."""
    if isinstance(block, ToolUse):
        return (block.id, None) if role == "assistant" else (None, None)
    if isinstance(block, ToolResult):
        return None, block.tool_use_id
    call = block.call_id if isinstance(block, Opaque) else None
    return (call, None) if role == "assistant" else (None, call)


def _unanswered(open_calls: dict[str, str]) -> Iterator[Violation]:
    for call, path in open_calls.items():
        yield Violation(
            path,
            "unanswered_tool_use",
            f"{path} calls {call!r} and gets no tool_result",
        )


class Capabilities(Struct, frozen=True, kw_only=True):
    thinking: bool = False
    images: bool = False
    tools: bool = True
    system: bool = True
    structured_output: bool = False
    streaming: bool = True
    parallel_tools: bool = True
    supports_prompt_caching: bool = False
    context_limit: int
    output_limit: int
