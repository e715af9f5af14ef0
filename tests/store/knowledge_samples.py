"""Entries of knowledge, and how they are stored, shown and pinned."""

from __future__ import annotations

from typing import Any

from holdfast.store import KnowledgeEntry, KnowledgeFilter, Pin, ShownEntry, SqliteStore
from holdfast.store import operations as op

from .samples import HOUR, NOON

EVERYTHING = KnowledgeFilter(projects="all", forgotten=True)


def entry(id: str = "k1", **more: Any) -> KnowledgeEntry:
    values: dict[str, Any] = {
        "tenant": "t1",
        "category": "decision",
        "title": f"title of {id}",
        "content": "Two workers run the tests.",
        "created_at": NOON,
        "updated_at": NOON,
    }
    return KnowledgeEntry(**{**values, "id": id, **more})


def put(store: SqliteStore, new: KnowledgeEntry, expected: int = 0, operation: str = "add") -> KnowledgeEntry:
    return store.write(op.PutKnowledge(new, expected=expected, operation=operation, by="user")).result()


def show(
    store: SqliteStore, entry: str = "k1", *, said: str = "", at: int = NOON, session: str = "s1", tenant: str = "t1"
) -> ShownEntry:
    """Note that an entry was shown; what is read back, if it is of revision 1."""
    more = {"at": at, "session": session, "lane": "l1", "place": "delta", "why": "session_start"}
    store.write(op.PutShown(tenant, [(entry, said)], **more)).result()  # type: ignore[arg-type]
    return ShownEntry(entry=entry, revision=1, **more)  # type: ignore[arg-type]


def pin(text: str, *, made_at: int, tenant: str = "t1", key: str = "agent") -> Pin:
    return Pin(tenant=tenant, key=key, text=text, entries=(("k1", "ab"),), made_at=made_at, until=made_at + HOUR)
