"""The head of a request as it leaves."""

from __future__ import annotations

from collections.abc import Sequence

_BODILESS = frozenset(("GET", "HEAD", "OPTIONS", "TRACE"))
_END = b"\r\n"
_IN_A_LINE = bytes({0x09, *range(0x20, 0x100)} - {0x7F})


def head_of(method: str, target: bytes, headers: Sequence[tuple[bytes, bytes]], length: int) -> bytes:
    """`headers` and the length of the body, as lines. ValueError where one of them would be more than a line."""
    lines = [b"%b %b HTTP/1.1" % (method.encode("ascii"), target)]
    lines += [b"%b: %b" % each for each in headers]
    if length or method not in _BODILESS:
        lines.append(b"Content-Length: %d" % length)
    head = _END.join(lines)
    if head.translate(None, _IN_A_LINE) != _END * (len(lines) - 1):
        raise ValueError("a control character in a head")
    return head + b"\r\n\r\n"
