"""The stored difference from which a first text is restored with the client's present one.

For lines that the client still sends it has digests; for lines that differ only in values, those values; for others,
the removed lines. Never more: whoever reads the store learns what was changed and not the rest of the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct

from ..redact import holds_secret, secret_in
from ..volatile import joined, masked, parted

_BREAK = b"\\n"
"""How a line ends in a JSON string. Where a text is cut does not matter, as long as it is always there."""
_SIZE = 8
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_SPACES = {"n": "\n", "r": "\r", "t": "\t", "b": " ", "f": " "}
_PRIVATE = b" PRIVATE KEY"


class Values(Struct, frozen=True, array_like=True):
    """The values of a first line that differ from the present one's, by their number. `line` and `mask` are digests of
    the first line and of what it has in common with the present one."""

    line: bytes
    mask: bytes
    values: dict[int, str]


class Patch(Struct, frozen=True, array_like=True):
    """`lines` are the digests of the first text's lines, one after the other; `gone` are lines as they were."""

    lines: bytes
    gone: tuple[bytes, ...] = ()
    values: tuple[Values, ...] = ()


_decoder = msgspec.msgpack.Decoder(Patch)


def encode(patch: Patch) -> bytes:
    return msgspec.msgpack.encode(patch)


def decode(data: bytes) -> Patch | None:
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError):
        return None


def difference(first: bytes, now: bytes, earlier: Patch | None = None) -> Patch | None:
    """What is needed to restore a first text from the present one, and from those that `known` was made for.

    None where that would be the whole text, or holds what looks like a credential: then nothing may be stored.
    """
    before, after = _lines(first), _lines(now)
    earlier = earlier or Patch(b"".join(map(_digest, before)))
    present, lines = set(after), set(before)
    missing = [line for line in dict.fromkeys(before) if line not in present]
    others = _by_mask(line for line in after if line not in lines) if missing else {}
    gone, values = dict.fromkeys(earlier.gone), {each.line: each for each in earlier.values}
    if not _of_private_keys(before).isdisjoint(missing):
        return None
    for line in missing:
        if line in gone:
            continue
        try:
            changed = _values(line, others, values.get(_digest(line)))
        except UnicodeError:
            return None
        if changed is not None:
            values[changed.line] = changed
        elif len(before) == 1 or holds_secret(_plain(line.decode("utf-8", "replace"))):
            return None
        else:
            gone[line] = None
        if changed is not None and _is_secret(line, changed):
            return None
    return Patch(earlier.lines, tuple(gone), tuple(values.values()))


def restored(patch: Patch, now: bytes, name: bytes) -> bytes | None:
    """The first text, known by its SHA-256, from the present one; None where it cannot be put together."""
    present = _lines(now)
    lines = {_digest(line): line for line in (*present, *patch.gone)}
    try:
        masks = _by_mask(present) if patch.values else {}
    except UnicodeError:
        return None
    for each in patch.values:
        for line in masks.get(each.mask, ()):
            parts, values = parted(line.decode())
            line = joined(parts, [each.values.get(n, value) for n, value in enumerate(values)]).encode()
            lines.setdefault(_digest(line), line)
    digests = [patch.lines[at : at + _SIZE] for at in range(0, len(patch.lines), _SIZE)]
    if not all(digest in lines for digest in digests):
        return None
    text = now[:1] + _BREAK.join(lines[digest] for digest in digests) + now[-1:]
    return text if sha256(text).digest() == name else None


def _lines(text: bytes) -> list[bytes]:
    """The lines between a text's quotes, or between a tool's braces."""
    return text[1:-1].split(_BREAK)


def _values(line: bytes, others: dict[bytes, list[bytes]], earlier: Values | None) -> Values | None:
    """The values of a first line that one of the present text's lines has others of."""
    mask = _mask(line)
    candidates = others.get(mask)
    if not candidates:
        return None
    _, mine = parted(line.decode())
    _, theirs = parted(candidates[0].decode())
    if not mine or len(mine) != len(theirs):
        return None
    news = {n: one for n, (one, other) in enumerate(zip(mine, theirs, strict=True)) if one != other}
    return Values(_digest(line), mask, ({} if earlier is None else earlier.values) | news)


def _is_secret(line: bytes, changed: Values) -> bool:
    """Return whether a value is a credential or a part of one, by itself or with the text around it."""
    parts, values = parted(line.decode())
    text, places = "", {}
    for number, part in enumerate(parts):
        text += _plain(part)
        if number < len(values):
            places[number] = len(text), len(text) + len(values[number])
            text += values[number]
    return any(secret_in(text, *places[number]) for number in changed.values)


def _of_private_keys(lines: Sequence[bytes]) -> set[bytes]:
    """Return the lines of private keys, of which only the first and the last are marked."""
    key_lines: set[bytes] = set()
    inside = False
    for line in lines:
        inside |= b"-----BEGIN " in line and _PRIVATE in line
        if inside:
            key_lines.add(line)
        inside &= b"-----END " not in line
    return key_lines


def _plain(text: str) -> str:
    """Return a piece of JSON without its escapes."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)) if match[1] else _SPACES.get(match[2], match[2]), text)


def _by_mask(lines: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    by_mask: dict[bytes, list[bytes]] = {}
    for line in lines:
        by_mask.setdefault(_mask(line), []).append(line)
    return by_mask


def _mask(line: bytes) -> bytes:
    return _digest(masked(line.decode()).encode())


def _digest(data: bytes) -> bytes:
    return sha256(data).digest()[:_SIZE]
