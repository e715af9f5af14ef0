"""What may be shown of a prompt: its shape, a few characters at a time.

Letters and digits are masked unless the user keeps bodies, and what looks like a credential is masked even then. Every
result is bounded, whatever comes in. Knows nothing of blocks or files.
"""

from __future__ import annotations

import re
from difflib import unified_diff

from holdfast.facts import BEGINNINGS, holds_key, is_mixed, key_spans

AROUND = 24
"""Characters shown on each side of a divergence."""

DIFF_LINES = 120
DIFF_WIDTH = 200
DIFF_WINDOW = 16_384
"""Bytes of each text that a diff looks at, from shortly before the divergence."""

_MARGIN = 512  # bytes looked at beyond what is shown, so that a credential cut by the edge is still recognised

# Every pattern is a bounded or a single unnested repetition: linear on any input.
_NAMED = re.compile(
    r"(?i)(?:pass(?:word|wd)?|secret|token|credential|api[_-]?key|authorization)[\"']{0,2}[ \t]{0,4}[:=][ \t]{0,4}"
    r"[\"']{0,2}(?:bearer[ \t]{1,4}|basic[ \t]{1,4})?([^\s\"',;]{3,512})"
)
_KNOWN = re.compile(
    rf"(?:{'|'.join(map(re.escape, (*BEGINNINGS, 'sk_', 'pk_', 'rk_')))})[-_A-Za-z0-9]{{6,512}}"
    r"|(?i:bearer)[ \t]{1,4}[^\s\"']{4,512}"
)
_SHAPED = re.compile(
    r"(?<![A-Za-z0-9])(?:(?:sk|pk|rk|hf|npm|pypi|glpat|gh[oprsu]|github_pat|xox[abeprs])[-_][-_A-Za-z0-9]{8,512}"
    r"|(?:AKIA|ASIA)[A-Z0-9]{12,512}|AIza[-_A-Za-z0-9]{8,512}|eyJ[-_A-Za-z0-9]{8,4096}\.[-_A-Za-z0-9]{8,4096}"
    r"|(?i:bearer)[ \t]{1,4}(?=[^\s\"']{0,512}\d)[^\s\"']{8,512})|-----BEGIN [A-Z ]{0,30}PRIVATE KEY"
    r"|[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@]{0,100}:[^\s/@]{1,200}@"
)
"""Texts with the shape of a key in other text. Words such as `task-oriented` do not match."""
_DENSE = re.compile(r"[-_A-Za-z0-9+/=.~]{20,}")
"""A long run of such characters with letters and digits in it: a key, a token, a hash; or the rest of one."""

_ESCAPED = re.compile(r"\\r\\n|\\n|\r\n|\n")


def mask(text: str) -> str:
    """The shape of a text: capitals as X, other letters as x, digits as 9, ASCII signs and spaces as they are."""
    return "".join(map(_masked, text))


def shown(text: str, *, keep_bodies: bool = False) -> str:
    """What may be shown of a text: its shape, or all but its credentials where bodies are kept."""
    return without_secrets(text) if keep_bodies else mask(text)


def without_secrets(text: str, *, dense: bool = True) -> str:
    """The text with everything masked that looks like a credential; long runs of letters and digits with it (`dense`),
    which may be paths and ids as well."""
    text = _NAMED.sub(lambda match: match[0][: match.start(1) - match.start()] + mask(match[1]), text)
    text = _KNOWN.sub(lambda match: mask(match[0]), text)
    if not dense:
        return text
    return _DENSE.sub(lambda match: mask(match[0]) if is_mixed(match[0]) else match[0], text)


def holds_secret(text: str) -> bool:
    """Return whether a text has the shape of a credential, or a value where one is named."""
    return _NAMED.search(text) is not None or _SHAPED.search(text) is not None or holds_key(text)


def secret_in(text: str, start: int, end: int) -> bool:
    """Return whether a part of a text belongs to a credential, or to a value where one is named."""
    spans = [match.span(1) for match in _NAMED.finditer(text)] + [match.span() for match in _SHAPED.finditer(text)]
    return any(first < end and start < last for first, last in (*spans, *key_spans(text)))


def excerpt(text: str | bytes | None, offset: int, *, around: int = AROUND, keep_bodies: bool = False) -> str:
    """A few characters on each side of a byte, on one line; an ellipsis where there is more."""
    if text is None:
        return ""
    raw = _bytes(text)
    offset = max(0, min(offset, len(raw)))
    start, end = max(0, offset - _MARGIN), min(len(raw), offset + _MARGIN)
    whole = _text(raw[start:end])
    at = len(_text(raw[start:offset]))
    visible = shown(whole, keep_bodies=keep_bodies)
    first, last = max(0, at - around), min(len(visible), at + around)
    before = "…" if start or first else ""
    after = "…" if end < len(raw) or last < len(visible) else ""
    line = visible[first:last].replace("\n", "⏎").replace("\t", " ")
    return before + "".join(char if char.isprintable() else "?" for char in line) + after


def diff(before: str | bytes | None, after: str | bytes | None, offset: int, *, keep_bodies: bool = False) -> str:
    """A unified diff of two texts around the byte where they part: bounded in lines, width and what it looks at.

    Compared as they are and masked afterwards, so that a changed digit is a changed line.
    """
    start = max(0, offset - DIFF_WINDOW // 4)
    old, new = _lines(before, start), _lines(after, start)
    out: list[str] = []
    for line in unified_diff(old, new, "before", "after", lineterm="", n=2):
        if len(out) == DIFF_LINES:
            out.append("…")
            break
        text = line if len(out) < 2 or line.startswith("@@") else line[:1] + shown(line[1:], keep_bodies=keep_bodies)
        out.append(text if len(text) <= DIFF_WIDTH else text[:DIFF_WIDTH] + "…")
    return "\n".join(out) + "\n" if out else ""


def _lines(text: str | bytes | None, start: int) -> list[str]:
    """Return the lines of a window; a JSON text's escaped line ends count. A word cut by the window's edge is left out,
    because a piece of a credential is not recognised."""
    if text is None:
        return []
    window = _text(_bytes(text)[start : start + DIFF_WINDOW])
    if start:
        window = window[re.match(r"\S*", window).end() :]  # type: ignore[union-attr]
    return [line for line in _ESCAPED.split(window, DIFF_WINDOW // 32) if line]


def _masked(char: str) -> str:
    if char.isalpha():
        return "X" if char.isupper() else "x"
    if char.isdigit() or char.isnumeric():
        return "9"
    if char.isascii():
        return char if char.isprintable() or char in "\n\t" else "?"
    return "·"


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")
