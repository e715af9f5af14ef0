"""JSON as text: the form in which two values are compared without being interpreted.

Spacing and escapes do not matter; key order does; a number counts by its text (`1E5` is not `100000`); a key
given twice is refused, because no two readers agree on what it means. The scanner keeps its own stack, so depth is
bounded by memory and not by the interpreter.
"""

from __future__ import annotations

import json
import re

import msgspec

# Possessive quantifiers: without them a long run of escapes costs sixty times its size in backtracking state.
_SPACE = rb"[ \t\n\r]*+"
_PLAIN = rb'[^"\\\x00-\x1f]*+'
_ESCAPE = rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})'
_STRING = rb'"' + _PLAIN + rb"(?:" + _ESCAPE + _PLAIN + rb')*+"'
_value = re.compile(
    _SPACE + rb"(?:(" + _STRING + rb")|(-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)|([\[{]))"
).match
_key = re.compile(_SPACE + rb"(" + _STRING + rb")" + _SPACE + rb":").match
_after = re.compile(_SPACE + rb"([,\]}])").match
_closing = re.compile(_SPACE + rb"([\]}])").match
_rest = re.compile(_SPACE).match


class NotJson(ValueError):
    """The text is not one JSON value, or an object in it names a key twice."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(f"{reason} at byte {offset}")
        self.reason = reason
        self.offset = offset


def decode_string(literal: bytes) -> str:
    """The text of a JSON string literal; lone surrogate escapes stay lone surrogates. What is not UTF-8 has none."""
    if b"\\" not in literal:
        return literal[1:-1].decode("utf-8")
    return str(json.loads(literal.decode("utf-8")))  # given bytes, it would let surrogates pass that are not escaped


def encode_string(text: str) -> bytes:
    """The one literal of a text: raw UTF-8, only what JSON demands is escaped."""
    if text.isidentifier() and text.isascii():  # most keys
        return b'"%b"' % text.encode("ascii")
    if text.isascii():
        return json.dumps(text, ensure_ascii=False).encode("ascii")
    try:
        return json.dumps(text, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        # A lone surrogate has no UTF-8 form; as an escape it has exactly one.
        parts = (
            c if not 0xD800 <= ord(c) <= 0xDFFF else f"\\u{ord(c):04x}" for c in json.dumps(text, ensure_ascii=False)
        )
        return "".join(parts).encode("utf-8")


def _canonical_string(literal: bytes) -> bytes:
    # Short escapes are the canonical ones; only a unicode escape and an escaped slash have another spelling.
    if b"\\u" not in literal and b"\\/" not in literal:
        return literal
    return encode_string(decode_string(literal))


def _is_canonical(raw: bytes) -> bool:
    """A quick yes for what most clients send: compact text that msgspec writes exactly as it read it.

    Such a text has no spacing, no key twice, and no number or string with another spelling. Unicode escapes are left to
    the scanner: how their digits are spelled is not msgspec's to say.
    """
    if b"\\u" in raw:
        return False
    try:
        return msgspec.json.encode(msgspec.json.decode(raw)) == raw
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return False


def canonical_json(raw: bytes) -> bytes:
    """The canonical text of one JSON value. Raises NotJson for anything else, and for duplicate keys."""
    if _is_canonical(raw):
        return raw
    if not raw.isascii():
        try:
            raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotJson("text is not UTF-8", error.start) from None
    out: list[bytes] = []
    open_keys: list[set[bytes] | None] = []  # per open container: the keys seen, None for an array
    pos = 0
    while True:
        match = _value(raw, pos)
        if match is None:
            raise NotJson("expected a value", pos)
        pos = match.end()
        string, scalar, opening = match.groups()
        if opening is not None:
            out.append(opening)
            open_keys.append(set() if opening == b"{" else None)
            closing = _closing(raw, pos)
            if closing is None:
                if opening == b"{":
                    pos = _read_key(raw, pos, open_keys[-1], out)
                continue
        else:
            out.append(_canonical_string(string) if string is not None else scalar)
        # A value is complete: close containers until a comma asks for the next value.
        while open_keys:
            after = _after(raw, pos)
            if after is None:
                raise NotJson("expected a comma or a closing bracket", pos)
            sign = after.group(1)
            if sign == b",":
                pos = after.end()
                out.append(b",")
                if open_keys[-1] is not None:
                    pos = _read_key(raw, pos, open_keys[-1], out)
                break
            if sign != (b"]" if open_keys[-1] is None else b"}"):
                raise NotJson("mismatched bracket", after.start(1))
            open_keys.pop()
            out.append(sign)
            pos = after.end()
        else:
            rest = _rest(raw, pos)
            if rest is None or rest.end() != len(raw):
                raise NotJson("text after the value", pos)
            return b"".join(out)


def _read_key(raw: bytes, pos: int, seen: set[bytes] | None, out: list[bytes]) -> int:
    match = _key(raw, pos)
    if match is None:
        raise NotJson("expected a key", pos)
    key = _canonical_string(match.group(1))
    assert seen is not None
    if key in seen:
        raise NotJson(f"duplicate key {key.decode('utf-8', 'replace')}", match.start(1))
    seen.add(key)
    out.append(key + b":")
    return match.end()
