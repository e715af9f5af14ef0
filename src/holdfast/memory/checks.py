"""What may be stored as an entry: bounded, visible, in one form, and nothing that poses as more than knowledge.

What says the same without it is put right: characters that nobody sees, line breaks in a title, capitals of a category.
Everything else is refused with its reason, so that nobody finds a part of what he wrote.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from holdfast.config import printable
from holdfast.errors import HoldfastError
from holdfast.store import KnowledgeEntry
from holdfast.tools import mend, shown

from .hashes import entry_hash
from .refusals import refused
from .texts import one_line, plain, whole

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
"""Characters without a shape that no script needs, beside those that any text is rid of: much can be said with them
that no reader of an entry sees."""
_RUN = re.compile("([\u180b-\u180f\u200c\u200d\ufe00-\ufe0f]{2})[\u180b-\u180f\u200c\u200d\ufe00-\ufe0f]+")
"""Joiners and forms of the sign before them. Emoji need two in a row; more of them are a message that hides there."""

_NOTHING = "; nothing was stored."


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
    """Who says something or did something to an entry."""
    return _part("source", _name("source", source), SOURCE_MOST)


def visible(text: str) -> str:
    """A text without characters that nobody sees."""
    return _RUN.sub(r"\1", _HIDDEN.sub("", plain(text)))


def category_name(category: str) -> str:
    """A category as it is stored, for whoever looks for it: one that cannot be stored is found nowhere."""
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
    found = refused(text)
    if found is None:
        return text
    says = f"says '{shown(found.text)}', which" if found.text else "says something that"
    raise HoldfastError(f"the {name} {says} {found.why}{_NOTHING}")


def _name(part: str, text: str) -> str:
    """A name is compared with others: it is not changed unseen."""
    stripped = text.strip()
    if stripped != one_line(visible(stripped)):
        raise HoldfastError(
            f"the {part} '{shown(stripped)}' has line breaks, several spaces together or characters that nobody sees; "
            f"write it on one line without them{_NOTHING}"
        )
    return stripped


def _confidence(given: float) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:  # NaN too
        raise HoldfastError(f"the confidence is {shown(given)}; give a number from 0 to 1{_NOTHING}")
    return abs(float(given))  # minus zero is zero
