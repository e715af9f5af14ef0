"""Splices that repair a body: replacing a block's text, adding texts after a block, splitting a system text.

The result parses again in the same dialect. Markers stay in their places, not on the texts that are moved through them.
Decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from holdfast.records import encode_string

from . import scan
from .body import BlockSpan, Body, Splice, apply, change_members
from .cache_control import MARKERS, as_text_block
from .codecs.openai_chat import MARKER_KEYS
from .dialects import DIALECTS
from .openai_chat import OpenAIChat
from .raw_json import canon, object_of, string_of

_SPACES = b" \t\n\r"
_ENDINGS = {b',"cache_control":' + marker + b"}": marker for marker in MARKERS.values()}
"""How nearly all markers stand on their block: as its last member, without spaces."""
_OWN_TOOLS = (None, "custom", "function")
_IDS = ("id", "status")
_SIGNED = ("signature", "thoughtSignature", "thought_signature", "encrypted_content")


class _Number(str):
    """A number by its text."""


def unordered(raw: bytes) -> bytes | None:
    """A text that is equal for values which differ in the order of object keys alone; None where there is none.

    The arguments of a call that are themselves JSON in a string count by what they say.
    """
    try:
        return _render(_loads(raw)).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return None


def _loads(raw: bytes | str) -> Any:
    text = raw.decode("utf-8") if isinstance(raw, bytes) else raw  # given bytes, it would let more than UTF-8 pass
    return json.loads(text, object_pairs_hook=_pairs, parse_int=_Number, parse_float=_Number, parse_constant=_Number)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key stands twice")
    return members


def _render(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{_member(key, value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_render(item) for item in value) + "]"
    return value if isinstance(value, _Number) else json.dumps(value)


def _member(key: str, value: Any) -> str:
    if key == "arguments" and type(value) is str and value.lstrip()[:1] == "{":
        try:
            return "=" + _render(_loads(value))
        except ValueError:
            pass
    return _render(value)


def signed(raw: bytes) -> bool:
    """Return whether a block has a signature: it is the provider's and must be sent back unchanged."""
    if not any(scan.may_name(raw, name, 0, len(raw)) for name in _SIGNED):
        return False
    try:
        waiting = [_loads(raw)]
    except (ValueError, RecursionError):
        return True
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if any(name in value for name in _SIGNED):
                return True
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return False


def own_tool(body: Body, index: int) -> bool:
    """Return whether a tool is the client's own, not one of the provider's, and may be anywhere in the list."""
    block = body.blocks[index]
    if block.section != "tools" or block.context:
        return False
    if body.dialect == "gemini":
        return ".functionDeclarations[" in block.where
    members = object_of(body.text(block))
    return members is not None and string_of(members.get("type")) in _OWN_TOOLS


def plain(body: Body, index: int) -> bytes:
    """A block's bytes without a marker of its own."""
    return _cut(body, body.blocks[index])[0]


def _cut(body: Body, block: BlockSpan) -> tuple[bytes, dict[str, bytes]]:
    """Return a block's bytes without its markers, and these. Invalid or ambiguous objects stay unchanged."""
    text = body.text(block)
    return (text, {}) if block.form == "string" else _cut_out(body.dialect, text)


def _cut_out(dialect: str, text: bytes) -> tuple[bytes, dict[str, bytes]]:
    if b"\\u00" not in text and not _named(text):
        return text, {}
    names = DIALECTS[dialect].marker_keys
    for ending, marker in _ENDINGS.items() if "cache_control" in names else ():
        if text.endswith(ending):
            own = text[: -len(ending)] + b"}"
            if b"\\u00" not in own and not _named(own):
                return own, {"cache_control": marker}
    try:
        members, end = scan.walk_object(text, 0)
    except scan.Misfit:
        return text, {}
    removed = {member.key: text[member.start : member.end] for member in members if member.key in names}
    return apply(text, change_members(members, end, {}, names)), removed


def _named(text: bytes) -> bool:
    """Whether a text names a marker, in plain spelling."""
    return b'"cache_control"' in text or b'"prompt_cache_breakpoint"' in text


def replaced(body: Body, index: int, text: bytes) -> list[Splice]:
    """The bytes of a block exchanged for those of another, which has no marker; a marker stays in its place."""
    block = body.blocks[index]
    _, markers = _cut(body, block)
    if markers:
        members, end = scan.walk_object(text, 0)
        text = apply(text, change_members(members, end, markers))
    return [Splice(block.start, block.end, text)]


def parts(body: Body, index: int) -> list[bytes] | None:
    """Return a block's bytes without its own marker, and the members of its message attached to it.

    A plain string counts as the block it represents: the same block may come in the other form. None if a marker is
    deeper inside: it would move with the bytes.
    """
    parts, block = as_it_stands(body, index), body.blocks[index]
    if block.form == "string" and not _named(parts[0]):
        parts[0] = text_block(body, block, parts[0])
    return movable(body.dialect, parts)


def as_it_stands(body: Body, index: int) -> list[bytes]:
    """A block's bytes and the members of its message that hang on it."""
    block = body.blocks[index]
    own = body.raw[block.start : block.end]
    return [own, *[body.raw[start:end] for start, end in block.context]] if block.context else [own]


def ends_with_marker(body: Body, index: int) -> bool:
    return body.raw.endswith(tuple(_ENDINGS), body.blocks[index].start, body.blocks[index].end)


def movable(dialect: str, parts: list[bytes]) -> list[bytes] | None:
    """The parts of a block without a marker of its own; None where one stands deeper inside."""
    own = _cut_out(dialect, parts[0])[0]
    return None if _named(own) else [own, *parts[1:]]


def reordered(before: Sequence[bytes], after: Sequence[bytes]) -> bool:
    """Whether the parts of two blocks differ in the order of keys alone, and may be exchanged."""
    if len(before) != len(after) or not _alike(b"".join(before), b"".join(after)):
        return False
    old, new = _values(before), _values(after)
    if list(map(canon, old)) == list(map(canon, new)) or any(map(signed, new)):
        return False
    return _form(new) is not None and _form(new) == _form(old)


def restored(body: Body, index: int, parts: Sequence[bytes]) -> list[Splice]:
    """A block with the parts of another; a marker stays in its place. A text alone becomes a list where it has to."""
    block, own = body.blocks[index], _with_ids(body, index, parts[0])
    context = [Splice(*span, part) for span, part in zip(block.context, parts[1:], strict=True)]
    if block.form == "object":
        return [*replaced(body, index, own), *context]
    text = text_alone(body, block, own)
    if text is not None:
        return [Splice(block.start, block.end, text), *context]
    opening, closing = list_around(body, block)
    ends = [Splice(block.start, block.start, opening), Splice(block.end, block.end, closing, outer=1)]
    return [*ends, Splice(block.start, block.end, own), *context]


def _with_ids(body: Body, index: int, own: bytes) -> bytes:
    """First bytes with the id that an item of Responses has now: it says nothing to the model, and may be another."""
    block = body.blocks[index]
    if body.dialect != "openai_responses" or block.form == "string" or ".content[" in block.where:
        return own
    now, (members, end) = object_of(body.text(block)) or {}, scan.walk_object(own, 0)
    values = {name: now[name] for name in _IDS if name in now}
    return apply(own, change_members(members, end, values, [name for name in _IDS if name not in now]))


def widens(body: Body, index: int, parts: Sequence[bytes]) -> bool:
    """Whether a text alone becomes a list when it is given these parts."""
    block = body.blocks[index]
    return block.form == "string" and text_alone(body, block, parts[0]) is None


def text_block(body: Body, block: BlockSpan, literal: bytes) -> bytes:
    """Return the block for a literal that is plain string content."""
    assistant = body.dialect == "openai_responses" and block.role == "assistant"
    return (b'{"type":"output_text","text":' if assistant else DIALECTS[body.dialect].text_part) + literal + b"}"


def text_alone(body: Body, block: BlockSpan, own: bytes) -> bytes | None:
    """Return the literal that can replace a block as plain string content; None if it loses anything."""
    text = (object_of(own) or {}).get("text", b"")
    return text if text[:1] == b'"' and canon(own) == canon(text_block(body, block, text)) else None


def list_around(body: Body, block: BlockSpan) -> tuple[bytes, bytes]:
    """What makes a list of the blocks that take the place of a text alone."""
    if body.dialect == "openai_responses" and body.members["input"].start == block.start:
        return b'[{"type":"message","role":"user","content":[', b"]}]"
    return b"[", b"]"


def _alike(one: bytes, other: bytes) -> bool:
    """A quick no for texts that say different things: without spaces they are equally long, unless they are escaped
    in different ways."""
    if len(one.translate(None, _SPACES)) == len(other.translate(None, _SPACES)):
        return True
    return any(sign in text for text in (one, other) for sign in (b"\\u", b"\\/"))


def _values(parts: Sequence[bytes]) -> list[bytes]:
    """The parts of a block as JSON values."""
    return [parts[0], *(b"{" + member + b"}" for member in parts[1:])]


def _form(values: Sequence[bytes]) -> tuple[bytes, ...] | None:
    """Return a block without the order of its keys and of the members attached to it."""
    forms = [unordered(value) for value in values]
    readable = [form for form in forms if form is not None]
    return (readable[0], *sorted(readable[1:])) if len(readable) == len(forms) else None


def unmarked(body: Body, index: int, carriers: Iterable[int]) -> tuple[bytes, list[Splice]]:
    """A block's bytes without any marker, and what was cut out of the body. `carriers` are where the objects begin that
    carry one."""
    block, cuts = body.blocks[index], []
    for at in carriers:
        members, end = scan.walk_object(body.raw, at)
        cuts += change_members(members, end, {}, MARKER_KEYS)
    inside = [Splice(cut.start - block.start, cut.end - block.start, b"") for cut in cuts]
    return apply(body.text(block), inside), sorted(cuts)


def text_span(body: Body, index: int) -> scan.Span | None:
    """Where the literal of a block stands that is a text and nothing else to the model."""
    block = body.blocks[index]
    if block.form == "string":
        return block.start, block.end
    member = scan.member_at(body.raw, block.start, "text")
    if member is None or body.raw[member.start : member.start + 1] != b'"':
        return None
    return member.start, member.end


def with_text(body: Body, index: int, literal: bytes) -> list[Splice]:
    """A text block with another text."""
    span = text_span(body, index)
    return [] if span is None else [Splice(*span, literal)]


def split(body: Body, index: int, text: str, at: int) -> list[Splice]:
    """A system text, given as `text`, as two blocks cut at a character. A marker goes to the first of them."""
    block = body.blocks[index]
    whole, markers = _cut(body, block)
    members, end = scan.walk_object(whole, 0)
    rest = apply(whole, change_members(members, end, {"text": encode_string(text[at:])}))
    head = as_text_block(encode_string(text[:at]))
    if markers:
        own, end = scan.walk_object(head, 0)
        head = apply(head, change_members(own, end, markers))
    return [Splice(block.start, block.end, head + b"," + rest)]


def takes_text(body: Body, index: int) -> bool:
    """Return whether a text can be inserted after a block."""
    return _place(body, index) is not None


def newest(body: Body, fits: Callable[[Body, int], bool] = takes_text) -> int | None:
    """The last block of what the model is asked, apart from notes of the client's own with the role of the system; None
    where it does not fit, as where the answer has begun. By default one behind which a text can be put."""
    for index in range(len(body.blocks) - 1, -1, -1):
        block = body.blocks[index]
        if block.section != "messages":
            return None
        if block.role in ("system", "developer"):
            continue
        return index if fits(body, index) else None
    return None


def appended(body: Body, texts: Mapping[int, Sequence[bytes]], widened: Collection[int] = ()) -> list[Splice]:
    """Literals put behind blocks of users' messages: as parts of them, or as messages where they can have none.

    `widened` are blocks that other splices make a list of.
    """
    splices: list[Splice] = []
    messages: list[scan.Span] = []
    for index, literals in texts.items():
        block, place = body.blocks[index], _place(body, index)
        if place is None:
            raise ValueError(f"no text can follow {block.path}")
        if place == "part":
            splices += _parts(body, block, literals, index in widened)
            continue
        if not messages and body.dialect != "openai_responses":
            messages, _ = scan.walk_values(body.raw, body.members["messages"].start)
        end = messages[block.message][1] if messages else block.end
        splices.append(Splice(end, end, b"".join(_message(body.dialect, literal) for literal in literals), outer=1))
    return splices


def _parts(body: Body, block: BlockSpan, literals: Sequence[bytes], widened: bool) -> list[Splice]:
    head = DIALECTS[body.dialect].text_part
    parts = b"".join(b"," + head + literal + b"}" for literal in literals)
    if block.form == "object" or widened:
        return [Splice(block.end, block.end, parts)]
    opening, closing = list_around(body, block)
    return [Splice(block.start, block.start, opening + head), Splice(block.end, block.end, b"}" + parts + closing)]


def _place(body: Body, index: int) -> str | None:
    block = body.blocks[index]
    if block.role == "user" and (".content[" in block.where or ".parts[" in block.where):
        return "part"
    if body.dialect == "gemini" and block.role == "function" and ".parts[" in block.where:
        return "part"
    if block.role in ("tool", "function") and isinstance(DIALECTS[body.dialect], OpenAIChat):
        return "message"
    if body.dialect == "openai_responses" and ".content[" not in block.where:
        kind = string_of((object_of(body.text(block)) or {}).get("type")) or ""
        return "message" if kind.endswith("_output") else None
    return None


def _message(dialect: str, literal: bytes) -> bytes:
    if dialect == "openai_responses":
        return b',{"type":"message","role":"user","content":[' + DIALECTS[dialect].text_part + literal + b"}]}"
    return b',{"role":"user","content":' + literal + b"}"
