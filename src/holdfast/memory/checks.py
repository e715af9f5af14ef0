"""What may be stored as an entry: bounded, visible text in one form that poses as nothing but knowledge.

Invisible characters, line breaks in a title and capitals in a category are corrected, since the meaning stays. Any
other fault refuses the whole entry with a reason, so that no entry is stored in part.

Texts that pose as another part of a prompt, orders to a model, and credentials are refused. An entry is shown to models
for months, and its author may have been manipulated. In a prompt it is quoted and announced as material; this check is
the second barrier. The lists are short on purpose: each has what never belongs in a fact, and what honest entries
contain about the same subjects passes. They cannot be complete.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config import printable
from holdfast.errors import HoldfastError
from holdfast.facts import holds_key, is_mixed
from holdfast.store import KnowledgeEntry
from holdfast.tools import mend, shown

from .prompt_texts import END, NOTES
from .texts import entry_hash, one_line, plain, whole

TITLE_MOST = 200
CONTENT_MOST = 8_000
CATEGORY_MOST = 64
SOURCE_MOST = 200
PROJECT_MOST = 4_096
"""Characters. A project is mostly a path, and no path is longer."""

_HIDDEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u206a-\u206f\u3164\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0080-\U000e0fff]"
)
"""Invisible characters that no script needs, besides those removed from any text: they could hide text from the reader
of an entry."""
_RUN = re.compile("([\u180b-\u180f\u200c\u200d\ufe00-\ufe0f]{2})[\u180b-\u180f\u200c\u200d\ufe00-\ufe0f]+")
"""Joiners and forms of the sign before them. Emoji need two in a row; more of them are a message that hides there."""

_NOTHING = "; nothing was stored."
_SIGN = r"[\W_]{1,12}"
"""Separators between two words of a phrase: line breaks, quotes, emphasis."""

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
"""Placeholders for a secret in explanations."""

_UNSEEN = {"Cf", "Mn"}


def checked(entry: KnowledgeEntry) -> KnowledgeEntry:
    """An entry as it is stored, which it stays if it is checked again; HoldfastError where it cannot be."""
    title = _part("title", one_line(visible(entry.title)), TITLE_MOST)
    _keepable("title", visible(entry.title))  # as it was before its lines became one
    content = _part("content", whole(visible(entry.content)), CONTENT_MOST)
    return replace(
        entry,
        title=title,
        content=content,
        category=_part("category", _name("category", entry.category).lower(), CATEGORY_MOST),
        confidence=_confidence(entry.confidence),
        source=checked_source(entry.source),
        project=None if entry.project is None else _part("project", project_name(entry.project), PROJECT_MOST),
        hash=entry_hash(title, content),
    )


def checked_source(source: str) -> str:
    """The author of an entry or of a change, as it is stored."""
    return _part("source", _name("source", source), SOURCE_MOST)


def visible(text: str) -> str:
    """A text without invisible characters."""
    return _RUN.sub(r"\1", _HIDDEN.sub("", plain(text)))


def category_name(category: str) -> str:
    """Return a category as it is stored, for a search."""
    return mend(category).strip().lower()


def project_name(project: str) -> str:
    """A project as it is stored. A directory may have any name: what cannot be shown is escaped, not left out, so that
    two projects do not become one."""
    return printable(project.strip())


def _part(name: str, text: str, most: int) -> str:
    if not text.strip():
        raise HoldfastError(f"the {name} is empty; say something in it{_NOTHING}")
    if len(text) > most:
        raise HoldfastError(
            f"the {name} has {len(text)} characters, more than the {most} it may have; make it shorter, or several "
            f"entries of it{_NOTHING}"
        )
    return _keepable(name, text)


def _keepable(name: str, text: str) -> str:
    passage = refused(text)
    if passage is None:
        return text
    quote = f"says '{shown(passage.text)}', which" if passage.text else "says something that"
    raise HoldfastError(f"the {name} {quote} {passage.why}{_NOTHING}")


def _name(part: str, text: str) -> str:
    """A name is compared with others: it is not changed unseen."""
    stripped = text.strip()
    if stripped != one_line(visible(stripped)):
        raise HoldfastError(
            f"the {part} '{shown(stripped)}' has line breaks, several spaces together or characters that nobody sees; "
            f"write it on one line without them{_NOTHING}"
        )
    return stripped


def _confidence(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:  # NaN too
        raise HoldfastError(f"the confidence is {shown(value)}; give a number from 0 to 1{_NOTHING}")
    return abs(float(value))  # minus zero is zero


class RefusedPassage(Struct, frozen=True):
    """A passage that memory refuses."""

    text: str
    """The quoted passage; empty for a credential."""
    why: str
    """The reason and the remedy, as the end of a sentence."""


_AS_FACT = "write what is the case and who said so, as a fact"


def refused(text: str) -> RefusedPassage | None:
    """The first passage of a text that memory refuses."""
    folded = _folded(text)
    for pattern, why in (
        (_MARKUP, "is markup of prompts; name it without its brackets"),
        (_TURN, f"reads as another speaker's turn; {_AS_FACT}"),
        (_RUNTIME, "reads as a line of the runtime; write it without its beginning"),
        (_ORDERS, f"reads as an order about a model's instructions; {_AS_FACT}"),
    ):
        if match := pattern.search(folded):
            return RefusedPassage(" ".join(match[0].split()), why)
    if holds_key(text) or _PRIVATE in text or any(_secrets(text)):
        return RefusedPassage(
            "", "looks like a password, key or token; memory holds no secrets, say where it is kept instead"
        )
    return None


def _folded(text: str) -> str:
    """The text as a reader sees it: letters in their usual form, without invisible characters between them."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text)
    return "".join(char for char in plain if char.isascii() or unicodedata.category(char) not in _UNSEEN)


def _secrets(text: str) -> Iterator[str]:
    """Values named as a password, key or token, whatever their form."""
    for match in (*_NAMED.finditer(text), *_IN_URL.finditer(text)):
        certain = match.re is _IN_URL  # this position always holds a password
        if not _NO_SECRET.fullmatch(match[1]) and (certain or is_mixed(match[1])):
            yield match[1]
