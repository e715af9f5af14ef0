"""Knowledge entries, and the blocks and deltas that bring them into a prompt."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

from holdfast.store import KnowledgeEntry as KnowledgeEntry
from holdfast.store import KnowledgeFilter as KnowledgeFilter

KnowledgeCategory = Literal["decision", "pattern", "preference", "architecture", "gotcha"]
"""The categories with a meaning here."""

Category = KnowledgeCategory | str
"""Any other string is a category too."""

CATEGORIES: tuple[KnowledgeCategory, ...] = get_args(KnowledgeCategory)
PREFERENCE: KnowledgeCategory = "preference"
"""The category of the stable block; no search puts it anywhere else."""

Audience = Literal["agent", "client"]
"""Our own agent, which has tools to read and write memory, or a client of the gateway, which has none."""

AMNESIA = "this session reads memory and writes none (memory.amnesia); nothing was changed."

Known = tuple[tuple[str, str], ...]
"""Entries by id, each with the hash of its text; an empty hash is a withdrawn entry."""


class Hit(Struct, frozen=True):
    """An entry that a search found. `score` is its fit, 1 for the best."""

    entry: KnowledgeEntry
    score: float


class StableBlock(Struct, frozen=True, kw_only=True):
    """The text of the stable block (empty: there is none), and its entries."""

    text: str = ""
    entries: Known = ()


class ContextBlock(Struct, frozen=True, kw_only=True):
    """The context block of the placement `blocks`."""

    text: str = ""
    entries: Known = ()


class Delta(Struct, frozen=True, kw_only=True):
    """Memory that is appended to a conversation once and sent unchanged from then on. `why` is session_start,
    every_turn, changed or reset."""

    text: str
    entries: Known
    why: str
