"""Whether a body that was sent on differs from the client's by its plan alone.

Two judges: one takes the dialect's markers out of both and compares bytes; the other knows nothing of ours but the
names of markers, and compares what the bodies say. Where order was repaired, the second one judges alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from holdfast.wire import DIALECTS, Body, Dialect, cache_parameters
from holdfast.wire.body import Marker

ORDER = frozenset(("tool-order", "key-order"))
_MARKERS = ("cache_control", "prompt_cache_breakpoint")
_HEADS = tuple(b'[{"type":"%b","text":' % kind for kind in (b"text", b"input_text", b"output_text"))
_WHOLE = b'[{"type":"message","role":"user","content":'
_marker = re.compile(rb'\s*,?\s*"(?:cache_control|prompt_cache_breakpoint)"\s*:\s*').match
_comma = re.compile(rb"\s*,\s*").match
_PROMPT = (
    "system",
    "instructions",
    "systemInstruction",
    "system_instruction",
    "tools",
    "messages",
    "input",
    "contents",
)


def difference(name: str, model: str, before: bytes, after: bytes, repairs: frozenset[str]) -> str | None:
    """What is wrong with `after`, which was made of `before`; None where nothing is."""
    dialect = DIALECTS[name]
    old, new = dialect.parse(before, model=model), dialect.parse(after, model=model)
    if not isinstance(old, Body):
        return f"a body that cannot be read was changed ({old.reason})"
    if not isinstance(new, Body):
        return f"a body that cannot be read was made ({new.reason})"
    if (fault := _markers_fault(dialect, old, new)) is not None:
        return fault
    if not repairs:
        return _bytes_differ(unmarked(dialect, old), unmarked(dialect, new)) or _values_differ(before, after, repairs)
    return _values_differ(before, after, repairs)


def _markers_fault(dialect: Dialect, old: Body, new: Body) -> str | None:
    theirs, ours = dialect.markers(old), dialect.markers(new)
    if len(ours) > max(4, len(theirs)):
        return f"{len(ours)} markers"
    if _in_order(theirs) and not _in_order(ours):
        return f"lifetimes in a wrong order: {[marker.ttl for marker in ours]}"
    wrong = _misplaced(dialect, new, ours)
    if len(wrong) > len(_misplaced(dialect, old, theirs)):
        return f"markers where none may stand: {wrong}"
    return None


def _misplaced(dialect: Dialect, body: Body, markers: tuple[Marker, ...]) -> list[str]:
    """Blocks that carry a marker and may not: a client's own stay."""
    placed = [marker.block for marker in markers if marker.block is not None and not marker.nested]
    return [body.blocks[place].path for place in placed if not dialect.markable(body, place)]


def _in_order(markers: tuple[Marker, ...]) -> bool:
    lives = [marker.ttl == "1h" for marker in markers if marker.block is not None]
    return lives == sorted(lives, reverse=True) and len(markers) <= 4


def unmarked(dialect: Dialect, body: Body) -> bytes:
    """The bytes without markers and without the mode of caching."""
    for _ in range(4):
        markers = dialect.markers(body)
        if not markers and "prompt_cache_options" not in body.members:
            break
        splices = [splice for marker in markers for splice in dialect.remove(body, marker)]
        raw = body.apply(dict.fromkeys(splices))
        found = dialect.parse(raw, model=body.model)
        assert isinstance(found, Body), raw[:200]
        if cache_parameters.read(found).mode is not None:
            raw = found.apply(found.change_members({}, ("prompt_cache_options",)))
            found = dialect.parse(raw, model=body.model)
            assert isinstance(found, Body), raw[:200]
        if found.raw == body.raw:
            break
        body = found
    return body.raw


def _bytes_differ(before: bytes, after: bytes) -> str | None:
    """Byte for byte; a string may have become the one part of a list, which is where its marker stood."""
    i = j = 0
    while True:
        same = _same(before, i, after, j)
        i, j = i + same, j + same
        if i == len(before) and j == len(after):
            return None
        found = _wrapped(before, i, after, j) or _replaced(before, i, j)
        if found is None:
            return f"byte {i} on: {before[max(0, i - 60) : i + 60]!r} became {after[max(0, j - 60) : j + 60]!r}"
        i, j = found


def _same(before: bytes, i: int, after: bytes, j: int) -> int:
    """How many bytes are equal from here on."""
    size, low = min(len(before) - i, len(after) - j), 0
    if before[i : i + size] == after[j : j + size]:
        return size
    high = size
    while low < high:
        middle = (low + high + 1) // 2
        if before[i + low : i + middle] == after[j + low : j + middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _wrapped(before: bytes, i: int, after: bytes, j: int) -> tuple[int, int] | None:
    if before[i : i + 1] != b'"':
        return None
    end = i + 1
    while before[end : end + 1] != b'"':
        if end >= len(before):
            return None
        end += 2 if before[end : end + 1] == b"\\" else 1
    text = before[i : end + 1]
    for head in (*_HEADS, *(_WHOLE + head for head in _HEADS)):
        whole = head + text + (b"}]}]" if head.startswith(_WHOLE) else b"}]")
        if after.startswith(whole, j):
            return end + 1, j + len(whole)
    return None


def _replaced(before: bytes, i: int, j: int) -> tuple[int, int] | None:
    """What stood in a marker's place and was none, which ours took."""
    first = (found := _marker(before, i)) is None
    found = found or _marker(before, i - 1)
    if found is None:
        return None
    end = _end(before, found.end())
    if not first:
        return end, j
    comma = _comma(before, end)
    return (comma.end() if comma else end), j - 1


def _end(raw: bytes, at: int) -> int:
    """Where a value ends."""
    depth = 0
    while at < len(raw):
        sign = raw[at : at + 1]
        if sign == b'"':
            at += 1
            while at < len(raw) and raw[at : at + 1] != b'"':
                at += 2 if raw[at : at + 1] == b"\\" else 1
        elif sign in b"[{":
            depth += 1
        elif sign in b",]}" and not depth:
            return at
        elif sign in b"]}":
            depth -= 1
        at += 1
    return at


class _Number(str):
    """A number by its text."""


def _value(raw: bytes) -> Any:
    """JSON with every pair of an object, in order, and numbers as they are written."""
    text = raw.decode("utf-8", "surrogateescape")  # what stands in strings need not be UTF-8
    decoder = json.JSONDecoder(
        object_pairs_hook=_Pairs, parse_int=_Number, parse_float=_Number, parse_constant=_Number, strict=False
    )
    return decoder.decode(text)


class _Pairs(list[tuple[str, Any]]):
    def get(self, name: str, default: Any = None) -> Any:
        return next((value for key, value in reversed(self) if key == name), default)


def _values_differ(before: bytes, after: bytes, repairs: frozenset[str]) -> str | None:
    try:
        old, new = _value(before), _value(after)
        if not repairs <= ORDER:
            return _outside_differs(old, new)
        return None if _plain(old, repairs) == _plain(new, repairs) else "the bodies say different things"
    except (RecursionError, ValueError):
        return None  # nested too deeply, or JSON by its frame alone: then the bytes are judged


def _plain(value: Any, repairs: frozenset[str], key: str = "") -> Any:
    """What a body says: without markers, a text as the one part of a list or not, and without the order that is told
    to be repaired."""
    if isinstance(value, _Pairs):
        pairs = [(name, _plain(each, repairs, name)) for name, each in value if not _is_marking(name, each)]
        return ("object", sorted(pairs, key=repr) if "key-order" in repairs else pairs)
    if isinstance(value, list):
        items = [_plain(each, repairs) for each in value]
        if key in ("tools", "functionDeclarations") and "tool-order" in repairs:
            items.sort(key=repr)
        return _text_of(items, key)
    if key == "arguments" and isinstance(value, str) and "key-order" in repairs:
        try:
            return ("arguments", _plain(_value(value.encode("utf-8", "surrogateescape")), repairs))
        except ValueError:
            pass
    return value


def _is_marking(name: str, value: Any) -> bool:
    return name in _MARKERS or name == "prompt_cache_options"


def _text_of(items: list[Any], key: str) -> Any:
    """A list of one text is that text, where a text may stand alone."""
    alone = len(items) == 1 and isinstance(items[0], tuple) and items[0][0] == "object"
    if key not in ("content", "output", "input", "system") or not alone:
        return ("list", items)
    pairs, named = items[0][1], dict(items[0][1])
    if key == "input" and len(pairs) == 3 and named.keys() == {"type", "role", "content"}:
        return named["content"]
    if len(pairs) == 2 and named.keys() == {"type", "text"} and isinstance(named["text"], str):
        return named["text"]
    return ("list", items)


def _outside_differs(old: Any, new: Any) -> str | None:
    """Texts of the system and of tools may be kept, and users told: everything else has to be the same."""
    rest = [[(key, value) for key, value in each if key not in _PROMPT] for each in (old, new)]
    if _plain(_Pairs(rest[0]), ORDER) != _plain(_Pairs(rest[1]), ORDER):
        return "something outside the prompt was changed"
    said = list(_said(new))
    at = 0
    for each in _said(old):
        while at < len(said) and said[at] != each:
            if not _is_told(said[at]):
                return f"in place of {each!r:.300} stands {said[at]!r:.300}"
            at += 1
        if at == len(said):
            return f"lost: {each!r:.300}"
        at += 1
    if not all(map(_is_told, said[at:])):
        return f"added: {said[at:]!r:.300}"
    return None


def _said(top: Any) -> Iterator[tuple[str, Any]]:
    """Every part of every message but the system's, with its role."""
    for name in ("messages", "input", "contents"):
        value = top.get(name)
        for message in value if isinstance(value, list) and not isinstance(value, _Pairs) else [value]:
            if not isinstance(message, _Pairs):
                if isinstance(message, str):
                    yield "user", ("text", message)
                continue
            role = message.get("role") or ("user" if name == "contents" else "")
            if role in ("system", "developer"):
                continue
            content = message.get("content", message.get("parts"))
            parts = content if isinstance(content, list) and not isinstance(content, _Pairs) else [content]
            other = [(key, each) for key, each in message if key not in ("content", "parts", "role", "type")]
            if other:
                yield role, _plain(_Pairs(other), ORDER)
            for part in parts:
                yield role, _part(part)


def _part(part: Any) -> Any:
    if isinstance(part, str):
        return ("text", part)
    if isinstance(part, _Pairs):
        kept = [(key, each) for key, each in part if not _is_marking(key, each)]
        if dict(kept).keys() <= {"type", "text"} and isinstance(part.get("text"), str):
            return ("text", part.get("text"))
    return _plain(part, ORDER)


def _is_told(item: tuple[str, Any]) -> bool:
    return item[0] in ("user", "function") and isinstance(item[1], tuple) and item[1][:1] == ("text",)
