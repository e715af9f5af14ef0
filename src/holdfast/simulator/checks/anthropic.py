"""Anthropic Messages: the requests that are refused, in the order of the provider's checks."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Collection, Iterator, Sequence

import msgspec
from msgspec import Struct

from holdfast.facts import ModelFacts
from holdfast.wire import (
    DIALECTS,
    ENDINGS,
    Body,
    Dialect,
    Marker,
    Unreadable,
    WireError,
    int_of,
    object_of,
    references,
    scan,
    string_of,
)

from ..messages import HttpRequest
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
    yield from _refused_markers(body, _DIALECT)
    yield from late_tools(body)
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
        value[:1] == b"{" for value in (_inner(body, "output_config", "format"), body.member("output_format") or b"")
    ):
        yield f"output_config.format: structured output {_WITHOUT_TOKENS}"
    if string_of(_inner(body, "tool_choice", "type")) in ("any", "tool"):
        yield f"tool_choice: forced tool use {_WITHOUT_TOKENS}"


def late_tools(body: Body) -> Iterator[str]:
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
    """Group messages into turns, leaving out system messages."""
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
    expected = _KINDS.get(shape.expected.split(" | ")[0], shape.expected)
    return f"{place + ': ' if place else ''}Input should be a valid {expected}"


def _invalid(message: str) -> WireError:
    return WireError(400, "invalid_request_error", message)


LIMIT = 4
_WORD = b'"cache_control"'
_ORDER = (
    "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are "
    "processed in the following order: `tools`, `system`, `messages`."
)
_TEXT, _QUOTE = b'{"type":"text","text":"', ord('"')
_spelled = re.compile(rb"\\u00[567]").search
"""An escape of one of the word's own letters. Others, of control characters and accents, are in many tool results."""

_UNMARKABLE = ("thinking", "redacted_thinking")


def _refused_markers(body: Body, dialect: Dialect) -> Iterator[str]:
    """What is wrong with the cache markers, in the provider's order."""
    if not scan.may_name(body.raw, "cache_control", 0, len(body.raw)):
        return
    markers = _markers(body, dialect)
    explicit = [marker for marker in markers if marker.block is not None]
    automatic = next((marker.ttl for marker in markers if marker.block is None), None)
    if len(markers) > LIMIT:
        yield f"A maximum of {LIMIT} blocks with cache_control may be provided. Found {len(markers)}."
    yield from _order(body, explicit)
    if automatic is not None:
        yield from _automatic(body, dialect, explicit, automatic)
    yield from _empty(body, explicit)
    yield from _thinking(body, dialect, explicit)
    yield from _lifetimes(body, dialect, explicit, automatic)
    yield from _nested(body, explicit)
    yield from _deferred(body, dialect, explicit)


def _markers(body: Body, dialect: Dialect) -> list[Marker]:
    """The body's markers as the dialect finds them. The usual one, last in its block and plainly spelled, is seen by
    the block's ending; only other blocks are walked through."""
    named = _named(body)
    if named is None:
        return list(dialect.markers(body))
    ttls = {index: _ending(body.text(body.blocks[index])) for index in named}
    markers = [Marker(index, ttl, at=body.blocks[index].start) for index, ttl in ttls.items() if ttl is not None]
    others = dialect.markers(body, [index for index, ttl in ttls.items() if ttl is None])
    return sorted([*markers, *others], key=lambda marker: len(body.blocks) if marker.block is None else marker.block)


def _ending(text: bytes) -> str | None:
    """The TTL of the marker that a block ends with; None where it has none there, or others too."""
    ttl = next((ttl for ending, ttl in ENDINGS if text.endswith(ending)), None)
    return ttl if ttl is not None and text.count(_WORD) == 1 else None


def _named(body: Body) -> list[int] | None:
    """Return the blocks in which the word occurs, searching for the word: a long body has hundreds of blocks and four
    markers. None if it may be written with escapes."""
    if _spelled(body.raw):
        return None
    starts = [block.start for block in body.blocks]
    by_place: Sequence[int] = range(len(starts))
    if starts != sorted(starts):
        by_place = sorted(by_place, key=starts.__getitem__)
        starts.sort()
    places = set()
    at = body.raw.find(_WORD)
    while at >= 0:
        place = bisect(starts, at) - 1
        if place >= 0 and at < body.blocks[by_place[place]].end:
            places.add(by_place[place])
        at = body.raw.find(_WORD, at + len(_WORD))
    return sorted(places)


def _order(body: Body, explicit: Sequence[Marker]) -> Iterator[str]:
    short = False
    for marker in explicit:
        if marker.ttl == "1h" and short:
            yield f"{_marker_path(body, marker)}.cache_control.ttl: {_ORDER}"
        short |= marker.ttl == "5m"


def _automatic(body: Body, dialect: Dialect, explicit: Sequence[Marker], ttl: str) -> Iterator[str]:
    target = next((i for i in range(len(body.blocks) - 1, -1, -1) if dialect.markable(body, i)), None)
    there = next((marker.ttl for marker in explicit if marker.block == target), ttl)
    if there != ttl:
        other = f"the target block already has cache_control with ttl='{there}'"
        yield f"Top-level cache_control has ttl='{ttl}' but {other}"
    if ttl == "1h" and any(marker.ttl == "5m" for marker in explicit):
        yield f"cache_control.ttl: {_ORDER}"


def _empty(body: Body, explicit: Sequence[Marker]) -> Iterator[str]:
    for marker in explicit:
        if body.raw.startswith(_TEXT, marker.at) and body.raw[marker.at + len(_TEXT)] != _QUOTE:
            continue  # the usual spelling of a text that says something
        members = object_of(body.raw[marker.at : scan.skip_value(body.raw, marker.at)]) or {}
        if string_of(members.get("type")) == "text" and not string_of(members.get("text")):
            yield f"{_marker_path(body, marker)}.text: cache_control cannot be set for empty text blocks"


def _thinking(body: Body, dialect: Dialect, explicit: Sequence[Marker]) -> Iterator[str]:
    for marker in explicit:
        kind = dialect.kind(body, _block(marker))
        if kind in _UNMARKABLE and not marker.nested:
            yield f"{_marker_path(body, marker)}.{kind}.cache_control: Extra inputs are not permitted"


def _lifetimes(body: Body, dialect: Dialect, explicit: Sequence[Marker], automatic: str | None) -> Iterator[str]:
    for marker in explicit:
        if marker.ttl not in ("5m", "1h"):
            place = _marker_path(body, marker) + _tag(body, dialect, marker)
            yield f"{place}.cache_control.ephemeral.ttl: Input should be '5m' or '1h'"
    if automatic not in (None, "5m", "1h"):
        yield "cache_control.ephemeral.ttl: Input should be '5m' or '1h'"


def _nested(body: Body, explicit: Sequence[Marker]) -> Iterator[str]:
    """The last block of a tool result counts for its parent; any other block inside one is no place for a marker."""
    for marker in explicit:
        if marker.nested and not _is_last(body, marker):
            yield f"cache_control is not supported at {_marker_path(body, marker)}.cache_control"


def _deferred(body: Body, dialect: Dialect, explicit: Sequence[Marker]) -> Iterator[str]:
    for marker in explicit:
        if dialect.deferred(body, _block(marker)):
            name = string_of((object_of(body.text(body.blocks[_block(marker)])) or {}).get("name"))
            yield (
                f"Tool '{name}' cannot have both defer_loading=true and cache_control set. Tools with defer_loading "
                "cannot use prompt caching."
            )


def _block(marker: Marker) -> int:
    assert marker.block is not None, "the automatic marker stands on no block"
    return marker.block


def _marker_path(body: Body, marker: Marker) -> str:
    """Return a marker's path in the provider's form, `messages.3.content.0`, extended into the block's content."""
    block = body.blocks[_block(marker)]
    path = block.path.replace("[", ".").replace("]", "")
    if not marker.nested:
        return path
    index = next((i for i, at in enumerate(_inner_offsets(body, marker)) if at == marker.at), None)
    return f"{path}.content" if index is None else f"{path}.content.{index}"


def _tag(body: Body, dialect: Dialect, marker: Marker) -> str:
    """The name of the variant that the provider puts into the place of a wrong value; system text has only one."""
    block = body.blocks[_block(marker)]
    if block.section == "system" or marker.nested:
        return ""
    kind = dialect.kind(body, _block(marker))
    return ".custom" if kind == "tool" else f".{kind}"


def _inner_offsets(body: Body, marker: Marker) -> list[int]:
    """Where the blocks inside the marker's block begin."""
    content = scan.member_at(body.raw, body.blocks[_block(marker)].start, "content")
    if content is None or body.raw[content.start : content.start + 1] != b"[":
        return []
    return [start for start, _ in scan.walk_values(body.raw, content.start)[0]]


def _is_last(body: Body, marker: Marker) -> bool:
    held = _inner_offsets(body, marker)
    return bool(held) and held[-1] == marker.at
