"""Splices that put texts of ours into a client's body: behind its system text, and in front of what its user says.

Nothing else of the body is touched, and what is written parses again in the same dialect. Where a dialect has system
blocks, the texts become blocks of their own; where it has one system text, they are appended to it. Decides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from holdfast.records import encode_string

from . import scan
from .body import Body, Splice, change_members
from .cache_control import as_text_block
from .dialects import DIALECTS
from .openai_chat import OpenAIChat
from .raw_json import arr, obj, object_of, string_of
from .rewrite import list_around, newest, text_block

BETWEEN = "\n\n"
_CALLS = (
    *("tool_use", "mcp_tool_use", "function_call", "custom_tool_call"),
    *("computer_call", "local_shell_call", "shell_call", "apply_patch_call"),
)
_RESULTS = ("tool_result", "_call_output")
_TEXTS = ("text", "input_text")
_ABSENT = (None, b"null")
_wrapped = re.compile(r"\s*<([a-zA-Z][\w-]*)>.*</\1>\s*\Z", re.DOTALL).match


class Injected(Struct, frozen=True):
    """A body with texts of ours."""

    raw: bytes
    ours: tuple[int, ...]  # its blocks that are ours or hold a text of ours
    blocks: int  # how many it has
    stable: int | None = None  # the block of the stable system text, where that is a block of its own
    context: int | None = None  # the block of the context, likewise


class UserText(Struct, frozen=True):
    """The user's newest text: the block before which a text can be injected, and its words."""

    block: int
    words: str


class _Place(Struct, frozen=True):
    """Where the system texts go: into new blocks in front of the client's block `at`, or into one of its blocks."""

    splices: tuple[Splice, ...]
    at: int
    new: int = 0  # how many blocks are added
    removed: int | None = None  # the client's block whose place they take
    altered: int | None = None  # the client's block that gets the texts instead


def inject(
    body: Body, stable: str = "", context: str = "", before: Mapping[int, Sequence[str]] = {}, *, joined: bool = False
) -> Injected | None:
    """The body with these texts; None where it has no place for a system text.

    The texts of `before` go in front of the blocks with those numbers. With `joined` a system text that is one string
    stays one, also where there could be blocks.
    """
    texts = [text for text in (stable, context) if text]
    place = _system(body, texts, joined) if texts else _Place((), 0)
    if place is None:
        return None
    splices = list(place.splices)
    for index, lines in before.items():
        splices += _in_front(body, index, lines)
    ours: list[int] = []
    own: list[int | None] = [None, None]
    out = 0
    for index in range(len(body.blocks) + 1):
        if index == place.at and place.new:
            places = iter(range(out, out + place.new))
            ours += range(out, out + place.new)
            if place.new == len(texts) and not (joined and place.new == 1):
                own = [next(places) if text else None for text in (stable, context)]
            out += place.new
        lines = before.get(index, ())
        ours += range(out, out + len(lines))
        out += len(lines)
        if index < len(body.blocks) and index != place.removed:
            if index == place.altered:
                ours.append(out)
            out += 1
    if body.dialect not in _WITH_BLOCKS:
        own = [None, None]
    return Injected(body.apply(splices), tuple(ours), out, *own)


_WITH_BLOCKS = ("anthropic", "openrouter", "gemini")


def newest_user_text(body: Body) -> UserText | None:
    """The newest text of the user, if the request ends with it; None otherwise.

    It does if the last message, apart from the client's own notes with the role of the system, is the user's and has a
    text behind all results in it, and if no tool call waits for its result.
    """
    last = newest(body, lambda body, index: body.blocks[index].role == "user")
    if last is None:
        return None
    first = last
    place = body.blocks[last].section, body.blocks[last].message
    while first > 0 and (body.blocks[first - 1].section, body.blocks[first - 1].message) == place:
        first -= 1
    behind = next((index + 1 for index in range(last, first - 1, -1) if _is_result(body, index)), first)
    texts = [index for index in range(behind, last + 1) if _is_text(body, index) and text_of(body, index).strip()]
    if not texts or _waits(body, last):
        return None
    spoken = [index for index in texts if _wrapped(text_of(body, index)) is None] or texts
    return UserText(spoken[-1], BETWEEN.join(text_of(body, index) for index in spoken))


def last_words(body: Body) -> str:
    """The user's last text, wherever it stands; empty if there is none."""
    for index in range(len(body.blocks) - 1, -1, -1):
        if body.blocks[index].section != "messages":
            break
        if _is_text(body, index) and _wrapped(text := text_of(body, index)) is None and text.strip():
            return text
    return ""


def text_of(body: Body, index: int) -> str:
    """The words of a block that is a text; those of any other are empty."""
    block = body.blocks[index]
    raw = body.text(block)
    return string_of(raw if block.form == "string" else (object_of(raw) or {}).get("text")) or ""


def continued_id(body: Body) -> str:
    """The id of the response or conversation at the provider that the request continues; empty if it continues none."""
    if body.dialect != "openai_responses":
        return ""
    within = body.member("conversation") or b""
    held = string_of((object_of(within) or {}).get("id")) if within[:1] == b"{" else string_of(within)
    return string_of(body.member("previous_response_id")) or held or ""


def _waits(body: Body, last: int) -> bool:
    """Whether the model's last tool calls outnumber their results, up to this block."""
    calls, answered, spoke = 0, set[tuple[int, int]](), False
    for index in range(last, -1, -1):
        block = body.blocks[index]
        if block.section != "messages":
            break
        if DIALECTS[body.dialect].kind(body, index) in _CALLS:
            calls, spoke = calls + 1, True
        elif block.role == "tool" or _is_result(body, index):
            if calls:
                break
            answered.add((block.message, 0 if block.role == "tool" else index))  # such a message is one result
        elif block.role == "user":
            if spoke:
                break
        else:
            spoke = True
    return calls > len(answered)


def _is_result(body: Body, index: int) -> bool:
    return DIALECTS[body.dialect].kind(body, index).endswith(_RESULTS)


def _is_text(body: Body, index: int) -> bool:
    """Return whether a block is a user's text in a message that can have several blocks."""
    block = body.blocks[index]
    if block.role != "user" or not (".content[" in block.where or ".parts[" in block.where):
        return False
    return DIALECTS[body.dialect].kind(body, index) in _TEXTS


def _in_front(body: Body, index: int, texts: Sequence[str]) -> list[Splice]:
    """Texts as blocks of the same message, in front of one of its blocks."""
    block = body.blocks[index]
    parts = b"".join(text_block(body, block, encode_string(text)) + b"," for text in texts)
    if block.form == "object":
        return [Splice(block.start, block.start, parts)]
    opening, closing = list_around(body, block)
    whole = text_block(body, block, body.text(block))
    return [Splice(block.start, block.end, opening + parts + whole + closing)]


def _system(body: Body, texts: Sequence[str], joined: bool) -> _Place | None:
    if body.dialect == "anthropic":
        return _anthropic(body, texts, joined)
    if isinstance(DIALECTS[body.dialect], OpenAIChat):
        return _chat(body, texts, joined)
    if body.dialect == "gemini":
        return _gemini(body, texts)
    if body.dialect == "openai_responses":
        return _responses(body, texts)
    return None


def _anthropic(body: Body, texts: Sequence[str], joined: bool) -> _Place | None:
    value, at = body.member("system"), body.messages_from
    blocks = [as_text_block(encode_string(text)) for text in texts]
    whole = encode_string(BETWEEN.join(texts)) if joined else arr(blocks)
    new = 1 if joined else len(blocks)
    if value in _ABSENT:
        return _Place(tuple(body.set_member("system", whole)), at, new)
    assert value is not None
    if value[:1] == b"[":
        return _listed(body, body.members["system"].start, at, blocks)
    if value[:1] != b'"':
        return None
    if not string_of(value):
        return _Place(tuple(body.set_member("system", whole)), at, new, removed=at - 1)
    if joined:
        return _Place((_appended(body.members["system"].end, texts),), at, altered=at - 1)
    return _Place(
        tuple(body.set_member("system", arr([text_block(body, body.blocks[at - 1], value), *blocks]))), at, new
    )


def _listed(body: Body, start: int, at: int, blocks: Sequence[bytes]) -> _Place:
    """Blocks at the end of a list that begins at `start`, behind the client's block before `at` if it has any."""
    spans, _ = scan.walk_values(body.raw, start)
    place = spans[-1][1] if spans else start + 1
    new = b"".join(b"," + block for block in blocks) if spans else b",".join(blocks)
    return _Place((Splice(place, place, new),), at, len(blocks))


def _chat(body: Body, texts: Sequence[str], joined: bool) -> _Place | None:
    literal = encode_string(BETWEEN.join(texts))
    blocks = [as_text_block(encode_string(text)) for text in texts]
    apart = body.dialect == "openrouter" and not joined and body.model.removeprefix("~").startswith("anthropic/")
    ends = [index for index, block in enumerate(body.blocks) if block.section == "system"]
    if not ends:
        member = body.members.get("messages")
        if member is None or body.raw[member.start : member.start + 1] != b"[" or not body.blocks:
            return None
        place = scan.first_item(body.raw, member.start)
        if body.raw[place : place + 1] == b"]":
            return None
        content = arr(blocks) if apart else literal
        message = obj((("role", b'"system"'), ("content", content))) + b","
        return _Place((Splice(place, place, message),), 0, len(blocks) if apart else 1)
    last = ends[-1]
    block = body.blocks[last]
    if ".content[" not in block.where:
        return None
    if block.form == "object":
        new = b"".join(b"," + each for each in blocks)
        return _Place((Splice(block.end, block.end, new),), last + 1, len(blocks))
    empty = not string_of(body.text(block))
    if not apart:
        splice = Splice(block.start, block.end, literal) if empty else _appended(block.end, texts)
        return _Place((splice,), last + 1, altered=last)
    if empty:
        return _Place((Splice(block.start, block.end, arr(blocks)),), last + 1, len(blocks), removed=last)
    whole = arr([text_block(body, block, body.text(block)), *blocks])
    return _Place((Splice(block.start, block.end, whole),), last + 1, len(blocks))


def _responses(body: Body, texts: Sequence[str]) -> _Place | None:
    value, literal = body.member("instructions"), encode_string(BETWEEN.join(texts))
    if value in _ABSENT:
        if body.member("prompt") not in _ABSENT:  # a template has instructions, which ours would take the place of
            return None
        return _Place(tuple(body.set_member("instructions", literal)), 0, 1)
    own = next((i for i, block in enumerate(body.blocks) if block.where == "instructions"), None)
    if own is None:
        return None
    if not string_of(value):
        return _Place(tuple(body.set_member("instructions", literal)), 0, altered=own)
    return _Place((_appended(body.members["instructions"].end, texts),), 0, altered=own)


def _gemini(body: Body, texts: Sequence[str]) -> _Place | None:
    if any(body.member(name) not in _ABSENT for name in ("cachedContent", "cached_content")):
        return None  # a request that names one may have no system text
    parts = [obj((("text", encode_string(text)),)) for text in texts]
    names = [n for n in ("systemInstruction", "system_instruction") if body.member(n) not in _ABSENT]
    if not names:
        return _Place(tuple(body.set_member("systemInstruction", obj((("parts", arr(parts)),)))), 0, len(parts))
    ends = [index for index, block in enumerate(body.blocks) if block.section == "system"]
    if len(names) > 1 or not ends:
        return None
    block = body.blocks[ends[-1]]
    if ".parts[" in block.where:
        new = b"".join(b"," + part for part in parts)
        return _Place((Splice(block.end, block.end, new),), ends[-1] + 1, len(parts))
    members, end = scan.walk_object(body.raw, body.members[names[0]].start)
    splices = change_members(members, end, {"parts": arr(parts)})
    return _Place(tuple(splices), ends[-1] + 1, len(parts), removed=ends[-1])


def _appended(end: int, texts: Sequence[str]) -> Splice:
    """Return the splice that appends texts to the string literal that ends there, each after an empty line."""
    return Splice(end - 1, end - 1, encode_string(BETWEEN + BETWEEN.join(texts))[1:-1])
