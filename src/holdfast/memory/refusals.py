"""Passages that memory does not keep: text that poses as another part of a prompt, orders to a model, credentials.

An entry is shown to models for months, and whoever wrote it may have been told what to write. In a prompt it stands
quoted and is announced as material; this is the second lock. The lists are short on purpose: each one names what has no
place in a fact, and what honest entries say about the same things passes. They cannot be complete.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from msgspec import Struct

from holdfast.facts import holds_key, is_mixed

from .prompt_texts import END, NOTES

_SIGN = r"[\W_]{1,12}"
"""What may stand between two words of a phrase: line breaks, quotes, emphasis."""

_TAGS = (
    "system|assistant|human|developer|instructions|functions|function_calls|function_results|tool_calls?|tool_results?"
    r"|tool_use|system[-_ ]?(?:prompt|reminder|message|instructions?)|(?:start|end)_of_turn|antml:\w{1,40}"
)
_MARKUP = re.compile(
    # `List<System>` and `<system.web>` are other people's; a tag that ends something is never one of a generic type.
    rf"(?:(?<!\w)<|</)\s{{0,4}}(?:{_TAGS})(?![\w.:-])[^<>]{{0,200}}>"
    r"|<\|[^\s<>|]{1,40}\|>"  # <|im_start|>; with spaces these are operators
    r"|\[/?INST\]|<<\s?/?SYS\s?>>",
    re.IGNORECASE,
)
_TURN = re.compile(
    r"^[\s#>*_-]{0,12}(?:(?:human|assistant)[*_]{0,3}\s?:|system\s(?:prompt|message|override|instructions?)[*_]{0,3}\s?:"
    r"|\#\#\#\s?(?:instruction|system)\s?:)",
    re.IGNORECASE | re.MULTILINE,
)
_RUNTIME = re.compile(
    r"^[\s>]{0,12}(?:\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d[^\]\n]{0,40}\]"
    rf"|{re.escape(NOTES)}, given by\b|{re.escape(END)}[ \t]*$)",
    re.IGNORECASE | re.MULTILINE,
)

_IGNORE = r"\b(?:ignore|disregard|forget)"
_UNDO = r"\b(?:ignore|disregard|forget|override|bypass)"
_FEW = rf"(?:(?:all|any|every|each|of|the|these|those|this|that|my|our|other|and){_SIGN}){{0,4}}"
_TOLD = r"(?:instructions?|prompts?|guidelines?|directives?)\b"
_BEFORE = r"(?:previous|prior|above|earlier|preceding|foregoing|original|initial|existing)"
_ORDERS = re.compile(
    "|".join(
        (
            rf"{_UNDO}{_SIGN}{_FEW}(?:your{_SIGN})?{_BEFORE}{_SIGN}(?:\w{{1,20}}{_SIGN}){{0,2}}{_TOLD}",
            rf"{_UNDO}{_SIGN}{_FEW}your{_SIGN}(?:\w{{1,20}}{_SIGN}){{0,2}}(?:{_TOLD}|rules\b|training\b|restrictions\b)",
            rf"{_IGNORE}{_SIGN}{_FEW}(?:system|developer){_SIGN}(?:{_TOLD}|messages?\b|rules\b)",
            rf"{_IGNORE}{_SIGN}(?:all|any){_SIGN}{_FEW}{_TOLD}",
            rf"{_IGNORE}{_SIGN}(?:all|anything|everything){_SIGN}(?:that{_SIGN})?you{_SIGN}(?:were|have{_SIGN}been)"
            rf"{_SIGN}told\b",
            rf"\byou(?:{_SIGN}are|['’]re){_SIGN}(?:now|no{_SIGN}longer)\b",
            rf"\bfrom{_SIGN}now{_SIGN}on{_SIGN}you\b",
            rf"\b(?:new|real|actual|secret|hidden){_SIGN}(?:system{_SIGN})?(?:instructions?|directives?)\s?:",
            rf"\b(?:do{_SIGN}not|don['’]?t|never|must{_SIGN}not|without){_SIGN}(?:tell|telling|inform|informing|notify|"
            rf"notifying|alert|alerting){_SIGN}(?:the|your|any){_SIGN}(?:user|human|operator)s?\b",
            rf"\b(?:reveal|print|output|repeat|leak|send){_SIGN}(?:me{_SIGN})?your{_SIGN}(?:\w{{1,20}}{_SIGN})?{_TOLD}",
        )
    ),
    re.IGNORECASE,
)

_NAMED = re.compile(
    r"(?i)(?:pass(?:word|wd|phrase)|secret|token|credential|api[_ -]?key|(?:access|private|secret)[_ -]?key)"
    r"[\"'`*]{0,3}[ \t]{0,4}(?::|=|\bis\b)[ \t]{0,4}[\"'`*]{0,3}([^\s\"'`,;]{6,512})"
)
_PRIVATE = "PRIVATE KEY-----"
_IN_URL = re.compile(r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,100}:([^\s/@]{1,200})@")
_NO_SECRET = re.compile(
    r"[$<{%/~.(\[].*|.*(?:\(|\*\*|\.\.\.|…).*|[A-Z][A-Z0-9]*_[A-Z0-9_]*"  # a variable, a path, a call, a gap
    r"|(?i:(?:sha|md|base|argon|pbkdf|[hre]s|ed|aes|rsa|utf|oauth|u?int|float|v)[-_]?\d{1,5}[a-z]{0,4})[.)]*"
    r"|(?i:x+|pass|password|passwd|pwd|pw|secret|token|key)[.)]*",
    re.DOTALL,
)
"""What stands in the place of a secret where somebody explains something."""

_UNSEEN = {"Cf", "Mn"}


class Passage(Struct, frozen=True):
    """What was found, and why it cannot be kept with what to do, as the end of a sentence. Of a credential nothing is
    quoted."""

    text: str
    why: str


_AS_FACT = "write what is the case and who said so, as a fact"


def refused(text: str) -> Passage | None:
    """The first passage of a text that memory does not keep."""
    folded = _folded(text)
    for pattern, why in (
        (_MARKUP, "is markup of prompts; name it without its brackets"),
        (_TURN, f"reads as another speaker's turn; {_AS_FACT}"),
        (_RUNTIME, "reads as a line of the runtime; write it without its beginning"),
        (_ORDERS, f"reads as an order about a model's instructions; {_AS_FACT}"),
    ):
        if found := pattern.search(folded):
            return Passage(" ".join(found[0].split()), why)
    if holds_key(text) or _PRIVATE in text or any(_secrets(text)):
        return Passage("", "looks like a password, key or token; memory holds no secrets, say where it is kept instead")
    return None


def _folded(text: str) -> str:
    """As a reader takes it: letters in their usual form, without what is not seen between them."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text)
    return "".join(char for char in plain if char.isascii() or unicodedata.category(char) not in _UNSEEN)


def _secrets(text: str) -> Iterator[str]:
    """What is said to be a password, key or token, whatever its form."""
    for named in (*_NAMED.finditer(text), *_IN_URL.finditer(text)):
        certain = named.re is _IN_URL  # whatever stands there is a password
        if not _NO_SECRET.fullmatch(named[1]) and (certain or is_mixed(named[1])):
            yield named[1]
