"""What may be stored as an entry: bounded, visible, in one form, and nothing that poses as more than knowledge.

What says the same without it is put right: characters that nobody sees, line breaks in a title, capitals of a category.
Everything else is refused with its reason, so that nobody finds a part of what he wrote.
"""

from __future__ import annotations

import re

from msgspec import Struct

from holdfast.config.origin import printable
from holdfast.errors import HoldfastError
from holdfast.tools.wording import mend, shown

from .passages import refused
from .texts import one_line, plain, whole

TITLE_MOST = 200
CONTENT_MOST = 8_000
CATEGORY_MOST = 64
SOURCE_MOST = 200
PROJECT_MOST = 4_096
"""Characters. A project is mostly a path, and no path is longer."""

_HIDDEN = re.compile("[\u00ad\u061c\u180e\u200b\u206a-\u206f\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0080-\U000e0fff]")
"""Characters without a shape that no script needs, beside those that any text is rid of: much can be said with them
that no reader of an entry sees."""
_RUN = re.compile("([\u200c\u200d\ufe00-\ufe0f]{2})[\u200c\u200d\ufe00-\ufe0f]+")
"""Joiners and forms of the sign before them. Emoji need two in a row; more of them are a message that hides there."""

_NOTHING = "; nothing was stored."


class Checked(Struct, frozen=True, kw_only=True):
    """The parts of an entry as they are stored."""

    title: str
    content: str
    category: str
    confidence: float
    source: str
    project: str | None


def checked(
    title: str, content: str, category: str, confidence: float, source: str, project: str | None = None
) -> Checked:
    """The parts of an entry in their stored form, which they keep if they are checked again; HoldfastError where one
    cannot be stored."""
    line = _part("title", one_line(visible(title)), TITLE_MOST)
    _keepable("title", visible(title))  # as it was before its lines became one
    return Checked(
        title=line,
        content=_part("content", whole(visible(content)), CONTENT_MOST),
        category=_part("category", _name("category", category).lower(), CATEGORY_MOST),
        confidence=_confidence(confidence),
        source=checked_source(source),
        project=None if project is None else _part("project", project_name(project), PROJECT_MOST),
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
    return printable(mend(project).strip())


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
