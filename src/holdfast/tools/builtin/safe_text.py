"""Bytes of files and programs as text that is safe to show: to a model, in JSON, on somebody's terminal."""

from __future__ import annotations

import re

PIECE = 1 << 18
"""Characters cleaned at once: a pattern does not let other threads run before it is through."""

_ESCAPES = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]"  # colours, cursor moves
    r"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links
    r"|[ -/]*[0-~])"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_OVERSTRUCK = re.compile(r"[^\n\x08]\x08")
_SUSPECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def clean(text: str) -> str:
    """Without escape sequences and control characters; every line ends in a line feed. The words stay as they are."""
    if len(text) <= PIECE:
        return _clean(text)
    pieces: list[str] = []
    at = 0
    while at < len(text):
        end = min(at + PIECE, len(text))
        if end < len(text):
            end = (text.rfind("\n", at, end) + 1) or end
        pieces.append(_clean(text[at:end]))
        at = end
    return "".join(pieces)


def _clean(text: str) -> str:
    if not _SUSPECT.search(text):
        return text
    text = _ESCAPES.sub("", text)
    text = _OVERSTRUCK.sub("", text)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROLS.sub("", text)


def output_text(data: bytes) -> str:
    """Decode a program's output into safe text."""
    return clean(data.decode("utf-8", "replace"))


def whole_characters(data: bytes) -> int:
    """How many of these bytes end with a whole UTF-8 character: what is cut off may be completed by what follows."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80:
            break
        if 0xC0 <= byte < 0xF8:
            need = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if need > back else len(data)
    return len(data)
