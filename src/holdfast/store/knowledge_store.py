"""What a store knows for longer than a session: the writes and the questions of `base.Store` about knowledge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

from . import knowledge, text_search, writes
from .rows import Injection, KnowledgeEntry, KnowledgeFilter, KnowledgeRevision, KnowledgeVector, Pin, ShownEntry
from .writer import Write

T = TypeVar("T")

_ANY = KnowledgeFilter()


class KnowledgeWrites:
    """For a store whose writes are functions of a transaction."""

    def _add(self, write: Write[T], *, rows: int = 1) -> Future[T]:
        raise NotImplementedError

    def put_knowledge(self, entry: KnowledgeEntry, *, expected: int, operation: str, by: str) -> Future[KnowledgeEntry]:
        return self._add(partial(knowledge.put_knowledge, entry, expected, operation, by))

    def erase_knowledge(self, tenant: str, id: str) -> Future[bool]:
        return self._add(partial(knowledge.erase_knowledge, tenant, id))

    def put_vectors(self, tenant: str, model: str, vectors: Iterable[KnowledgeVector]) -> Future[int]:
        given = tuple(vectors)
        return self._add(partial(knowledge.put_vectors, tenant, model, given), rows=len(given))

    def put_pin(self, pin: Pin) -> Future[Pin]:
        return self._add(partial(knowledge.put_pin, pin))

    def put_shown(
        self, tenant: str, entries: Iterable[tuple[str, str]], *, at: int, session: str, lane: str, place: str, why: str
    ) -> Future[int]:
        given = tuple(entries)
        shown = ShownEntry(entry="", revision=0, at=at, session=session, lane=lane, place=place, why=why)
        return self._add(partial(knowledge.put_shown, tenant, given, shown), rows=len(given))

    def put_injection(self, tenant: str, lane: str, data: bytes, *, expected: int) -> Future[int]:
        return self._add(partial(writes.put_versioned, "injections", "lane", tenant, lane, data, expected, None))


class KnowledgeReads:
    """For a store whose reads are functions of a connection."""

    def __init__(self) -> None:
        self._counts = text_search.Counts()

    def _read(self, question: Callable[..., T], *values: Any) -> T:
        raise NotImplementedError

    def knowledge(self, tenant: str, id: str) -> KnowledgeEntry | None:
        return self._read(knowledge.entry, tenant, id)

    def knowledge_entries(
        self, tenant: str, among: KnowledgeFilter = _ANY, *, limit: int | None = None, surest: bool = False
    ) -> list[KnowledgeEntry]:
        return self._read(knowledge.entries, tenant, among, limit, surest)

    def find_knowledge(
        self, tenant: str, words: Sequence[str], among: KnowledgeFilter = _ANY, *, limit: int = 50
    ) -> list[tuple[KnowledgeEntry, float]]:
        return self._read(text_search.find, tenant, words, among, limit, self._counts)

    def knowledge_history(self, tenant: str, id: str) -> list[KnowledgeRevision]:
        return self._read(knowledge.history, tenant, id)

    def knowledge_version(self, tenant: str) -> int:
        return self._read(knowledge.version, tenant)

    def knowledge_vectors(self, tenant: str, model: str) -> list[KnowledgeVector]:
        return self._read(knowledge.vectors, tenant, model)

    def unlearned_knowledge(self, tenant: str, model: str, *, limit: int | None = None) -> list[KnowledgeEntry]:
        return self._read(knowledge.unlearned, tenant, model, limit)

    def knowledge_revisions(self, tenant: str, among: KnowledgeFilter = _ANY) -> list[tuple[str, int]]:
        return self._read(knowledge.revisions, tenant, among)

    def pin(self, tenant: str, key: str, *, now: int) -> Pin | None:
        return self._read(knowledge.find_pin, tenant, key, now)

    def shown(self, tenant: str, entry: str, *, limit: int = 100) -> list[ShownEntry]:
        return self._read(knowledge.shown, tenant, entry, limit)

    def shown_to(self, tenant: str, session: str, lane: str, *, until: int) -> list[ShownEntry]:
        return self._read(knowledge.shown_to, tenant, session, lane, until)

    def injection(self, tenant: str, lane: str) -> Injection | None:
        return self._read(knowledge.injection, tenant, lane)

    def injected(self, tenant: str) -> bool:
        return self._read(knowledge.injected, tenant)

    def tenants(self) -> list[str]:
        return self._read(knowledge.tenants)
