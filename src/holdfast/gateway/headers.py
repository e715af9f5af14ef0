"""Which headers pass: all but those of one hop, and those that are ours.

Names come in lower case, as servers give them; order and repetition stay, and so do the bytes, whatever they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from holdfast.engine.passage import OURS, RawHeaders

_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"http2-settings",
    )
)
_NOT_SENT = _HOP | {b"host", b"content-length", b"expect"}
_controls = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]").sub


def to_send(headers: RawHeaders, first: Mapping[str, str], *, verbatim: bool) -> list[tuple[bytes, bytes]]:
    """A client's headers for the provider; the length comes with the body. `first` are the same by name."""
    drop = _dropped(first.get("connection"), _NOT_SENT)
    if not verbatim and "content-encoding" in first:
        drop = drop | {b"content-encoding"}
    return [each for each in headers if each[0] not in drop and not each[0].startswith(OURS)]


def to_pass_on(headers: RawHeaders, status: int = 200) -> list[tuple[bytes, bytes]]:
    """A provider's headers for the client. The length stays, and with it how the body ends; where there is never a body
    it goes, since our server would wait for one. Control characters, which no header may have, become spaces (RFC 9110,
    5.5)."""
    lower = [(name.lower(), value) for name, value in headers]
    listed = [value for name, value in lower if name == b"connection"]
    drop = _dropped(b",".join(listed).decode("latin-1"), _HOP) if listed else _HOP
    if status in (204, 304):
        drop = drop | {b"content-length"}
    passed = [each for each in lower if each[0] not in drop and not each[0].startswith(OURS)]
    return [(name, _controls(b" ", value)) for name, value in passed]


def _dropped(connection: str | None, usual: frozenset[bytes]) -> frozenset[bytes]:
    """What does not pass: the usual, and what the header `connection` names."""
    if not connection or connection.lower() in ("keep-alive", "close"):
        return usual
    return usual | {part.strip().lower().encode("latin-1") for part in connection.split(",")}
