"""Anthropic Messages: what is refused, in the order of the provider's checks."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
from msgspec import Struct

from holdfast.facts import ModelFacts
from holdfast.wire import DIALECTS, Body, Unreadable, WireError, int_of, object_of, references, scan, string_of

from ..messages import HttpRequest
from . import anthropic_cache
from .refusals import NOT_JSON, bearer, shape_of, wrong

_DIALECT = DIALECTS["anthropic"]
_KINDS = {"array": "list", "str": "string", "object": "dictionary", "int": "integer", "bool": "boolean"}
_WITHOUT_TOKENS = "is not supported with `max_tokens: 0`; a request that only fills the cache returns no output"


def unauthorised(call: HttpRequest, keys: Collection[str] | None) -> WireError | None:
    key = call.headers.get("x-api-key") or bearer(call)
    if not key:
        return WireError(401, "authentication_error", "x-api-key header is required")
    return WireError(401, "authentication_error", "invalid x-api-key") if wrong(key, keys) else None


def check(body: Body | Unreadable, facts: ModelFacts | None, call: HttpRequest) -> WireError | None:
    if not call.headers.get("anthropic-version"):
        return _invalid("anthropic-version: header is required")
    if isinstance(body, Unreadable):
        return _unreadable(body)
    if not body.model:
        return _invalid("model: Field required")
    if not body.model.startswith("claude-"):
        return WireError(404, "not_found_error", f"model: {body.model}")
    counting = call.path.rstrip("/").endswith("/count_tokens")
    problem = next((text for text in _wrong(body, facts, counting)), None)
    return None if problem is None else _invalid(problem)


def _wrong(body: Body, facts: ModelFacts | None, counting: bool) -> Iterator[str]:
    """Everything that is wrong with a readable body, first things first."""
    if not counting:
        yield from _limit(body)
    if "messages" not in body.members:
        yield "messages: Field required"
        return
    try:
        messages = scan.decode(body.raw, _Conversation).messages
    except msgspec.ValidationError as error:
        yield _shape(str(error))
        return
    if not messages:
        yield "messages: at least one message is required"
    yield from _roles(messages, facts)
    yield from anthropic_cache.wrong(body, _DIALECT)
    yield from _late_tools(body)
    if not counting and int_of(body.member("max_tokens")) == 0:
        yield from _prewarm(body, facts)
    yield from _pairs(messages)


def _limit(body: Body) -> Iterator[str]:
    raw = body.member("max_tokens")
    if raw is None:
        yield "max_tokens: Field required"
    elif (limit := int_of(raw)) is None:
        yield "max_tokens: Input should be a valid integer"
    elif limit < 0:
        yield "max_tokens: Input should be greater than or equal to 0"


def _prewarm(body: Body, facts: ModelFacts | None) -> Iterator[str]:
    """A request that only fills the cache: what it cannot be combined with."""
    if facts is not None and not facts.prewarm:
        yield "max_tokens: Input should be greater than or equal to 1"
    if body.member("stream") == b"true":
        yield f"stream: streaming {_WITHOUT_TOKENS}"
    if string_of(_inner(body, "thinking", "type")) in ("enabled", "adaptive"):
        yield f"thinking: thinking {_WITHOUT_TOKENS}"
    if any(
        found[:1] == b"{" for found in (_inner(body, "output_config", "format"), body.member("output_format") or b"")
    ):
        yield f"output_config.format: structured output {_WITHOUT_TOKENS}"
    if string_of(_inner(body, "tool_choice", "type")) in ("any", "tool"):
        yield f"tool_choice: forced tool use {_WITHOUT_TOKENS}"


def _late_tools(body: Body) -> Iterator[str]:
    """Deferred tools beside which there is no other, and results that name a tool which is not declared."""
    raw, tools = body.raw, [index for index, block in enumerate(body.blocks) if block.section == "tools"]
    if tools and all(_DIALECT.deferred(body, index) for index in tools):
        yield "At least one tool must have defer_loading=false. All tools cannot be deferred."
    if b'"tool_reference"' not in raw:
        return
    names = {string_of((object_of(body.text(body.blocks[index])) or {}).get("name")) for index in tools}
    for index, block in enumerate(body.blocks):
        if block.section == "messages" and raw.find(b'"tool_reference"', block.start, block.end) >= 0:
            if not _DIALECT.kind(body, index).endswith("tool_result"):
                continue
            for name in references(body.text(block)):
                if name not in names:
                    yield f"Tool reference '{name}' not found in available tools"


def _inner(body: Body, name: str, member: str) -> bytes:
    return (object_of(body.member(name) or b"") or {}).get(member, b"")


class _Item(Struct, gc=False):
    """A content block as far as calls and results are concerned."""

    type: str = ""
    id: object = None
    tool_use_id: object = None


class _Message(Struct, gc=False):
    role: str
    content: list[_Item] | str | None = None

    def ids(self, kind: str) -> list[tuple[int, str]]:
        items = self.content if isinstance(self.content, list) else []
        return [(i, str(x.id if kind == "tool_use" else x.tool_use_id)) for i, x in enumerate(items) if x.type == kind]


class _Conversation(Struct):
    messages: list[_Message]


def _roles(messages: list[_Message], facts: ModelFacts | None) -> Iterator[str]:
    for index, message in enumerate(messages):
        if message.role == "system" and facts is not None and not facts.mid_system:
            yield "role 'system' is not supported on this model"
        elif message.role not in ("user", "assistant", "system"):
            yield f"messages.{index}.role: Input should be 'user' or 'assistant'"
        if message.content is None:
            yield f"messages.{index}.content: Field required"
    first = next((message.role for message in messages if message.role != "system"), "user")
    if first != "user":
        yield 'messages: first message must use the "user" role'


def _plainly_paired(messages: list[_Message]) -> bool:
    """Whether every message of calls is followed by one with exactly their results: nearly all conversations are of
    that shape, and it is seen without joining turns."""
    pending: list[object] = []
    for message in messages:
        calls: list[object] = []
        results: list[object] = []
        for item in message.content if type(message.content) is list else ():
            if item.type == "tool_result":
                results.append(item.tool_use_id)
            elif item.type == "tool_use":
                calls.append(item.id)
        if results != pending or (calls and message.role != "assistant"):
            return False
        pending = calls
    return not pending


class _Turn(Struct):
    """Neighbours of one role, joined as the provider joins them. Calls and results by (message, block, id)."""

    role: str
    calls: list[tuple[int, int, str]] = []
    results: list[tuple[int, int, str]] = []


def _turns(messages: list[_Message]) -> list[_Turn]:
    """System messages stand outside the turns."""
    turns: list[_Turn] = []
    for index, message in enumerate(messages):
        if message.role == "system":
            continue
        if not turns or turns[-1].role != message.role:
            turns.append(_Turn(message.role))
        turns[-1].calls += [(index, i, call) for i, call in message.ids("tool_use")]
        turns[-1].results += [(index, i, call) for i, call in message.ids("tool_result")]
    return turns


def _pairs(messages: list[_Message]) -> Iterator[str]:
    """Results without a call in the turn before, and calls without a result in the turn after."""
    if _plainly_paired(messages):
        return
    turns = _turns(messages)
    for place, turn in enumerate(turns):
        called = {call for _, _, call in turns[place - 1].calls} if place else set()
        for index, i, call in turn.results:
            if call not in called:
                yield (
                    f"messages.{index}.content.{i}: unexpected `tool_use_id` found in `tool_result` blocks: {call}. "
                    "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
        answered = {call for _, _, call in turns[place + 1].results} if place + 1 < len(turns) else set()
        open_calls = [(index, call) for index, _, call in turn.calls if call not in answered]
        if open_calls:
            yield _unanswered(open_calls[0][0], [call for _, call in open_calls])


def _unanswered(index: int, calls: list[str]) -> str:
    return (
        f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: "
        f"{', '.join(calls)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _unreadable(body: Unreadable) -> WireError:
    if body.reason.startswith(NOT_JSON):
        return _invalid(f"The request body is not valid JSON{body.reason.removeprefix(NOT_JSON)}")
    return _invalid(_shape(body.reason))


def _shape(reason: str) -> str:
    shape = shape_of(reason)
    if shape is None:
        return f"The request body is not valid JSON: {reason}"
    place = ".".join(str(step) for step in shape.path)
    if shape.missing:
        return f"{place}: Field required"
    wanted = _KINDS.get(shape.wanted.split(" | ")[0], shape.wanted)
    return f"{place + ': ' if place else ''}Input should be a valid {wanted}"


def _invalid(message: str) -> WireError:
    return WireError(400, "invalid_request_error", message)
