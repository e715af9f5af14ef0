"""What knowledge is, and what of it reaches a prompt."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from holdfast.store import KnowledgeEntry as KnowledgeEntry
from holdfast.store import KnowledgeFilter as KnowledgeFilter

KnowledgeCategory = Literal["decision", "pattern", "preference", "architecture", "gotcha"]
"""The categories that have a meaning here."""

Category = KnowledgeCategory | str
"""Any other string is a category too."""

CATEGORIES: tuple[KnowledgeCategory, ...] = get_args(KnowledgeCategory)
PREFERENCE: KnowledgeCategory = "preference"
"""What stands in the stable block; no search puts it anywhere else."""

Audience = Literal["agent", "client"]
"""Our own agent, which has tools to ask and to write with, or a client of the gateway that knows nothing of memory."""

AMNESIA = "this session reads memory and writes none (memory.amnesia); nothing was changed."

Known = tuple[tuple[str, str], ...]
"""Entries by id, and what each says by its hash; an empty hash is one that was withdrawn."""


class Hit(Struct, frozen=True):
    """An entry that a search found. `score` is how well it fits, 1 for the best."""

    entry: KnowledgeEntry
    score: float


class Stable(Struct, frozen=True, kw_only=True):
    """The stable block: its text (empty: there is none), and the entries in it."""

    text: str = ""
    entries: Known = ()


class Context(Struct, frozen=True, kw_only=True):
    """The context block of the placement `blocks`."""

    text: str = ""
    entries: Known = ()


class Delta(Struct, frozen=True, kw_only=True):
    """Memory that is appended to a conversation once, as it stands here, and sent again ever after. `why` is
    session_start, every_turn, changed or reset."""

    text: str
    entries: Known
    why: str
