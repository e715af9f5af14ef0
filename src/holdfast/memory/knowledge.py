"""Long-term memory as its users see it: entries of one tenant that are added, edited, forgotten, searched and listed.

Every change is stored when a method returns, or nothing is changed. No method reads another tenant's entries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Literal, TypeVar

from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.store import (
    KnowledgeEntry,
    KnowledgeFilter,
    KnowledgeRevision,
    Projects,
    ShownEntry,
    Store,
    VersionConflictError,
)
from holdfast.store import operations as op
from holdfast.tools import meant, mend, shown, words

from .checks import category_name, checked, checked_source, project_name
from .entries import Category, Hit, Known
from .ids import FORM, is_id, near, new_id, tidy
from .texts import entry_hash

if TYPE_CHECKING:
    from .vectors import Vectors


T = TypeVar("T")
WRITE_TIMEOUT_S = 6.0
"""Seconds to wait for a write: a little longer than the store itself waits for another process."""
EACH_S = 0.01
"""Further seconds for each of many writes."""
CANDIDATES = 50
"""Entries that a search ranks."""
LEARNED = 64
"""Entries embedded at once."""
_TRIES = 8
_NEAR_AMONG = 2_000
"""Entries searched for one similar to a mistyped id."""
MEANING = 2 / 3
"""The weight of the search by meaning. Anything from 0.6 to 0.9 is within a point of recall."""

Ranked = Sequence[tuple[str, float]]


class UnchangedError(HoldfastError):
    """An edit would not change the entry."""


class Knowledge:
    """What `tenant` knows, seen from `project` (None: from no project). `vectors` add search by meaning."""

    def __init__(
        self,
        store: Store,
        tenant: str,
        *,
        project: str | None = None,
        clock: Callable[[], float] = time.time,
        vectors: Vectors | None = None,
        ids: Callable[[], str] = new_id,
    ) -> None:
        self.store = store
        self.tenant = tenant
        self.project = project_name(project) or None if project is not None else None
        self._clock = clock
        self._vectors = vectors
        self._ids = ids

    def add(
        self,
        title: str,
        content: str,
        *,
        category: Category = "decision",
        everywhere: bool = False,
        project: str | None = None,
        confidence: float = 1.0,
        source: str = "user",
        id: str | None = None,
    ) -> KnowledgeEntry:
        """Store a new entry, for this project unless another one is named or it holds `everywhere`."""
        if id is not None and not is_id(tidy(id)):
            raise HoldfastError(f"the id '{shown(id)}' is none: ids are {FORM}; leave it out and one is made.")
        now = self.now()
        entry = checked(
            KnowledgeEntry(
                tenant=self.tenant,
                id=self.new_id() if id is None else tidy(id),
                category=category,
                title=title,
                content=content,
                project=self._where(everywhere, project),
                confidence=confidence,
                source=source,
                created_at=now,
                updated_at=now,
            )
        )
        for _ in range(_TRIES):
            try:
                return self._put(entry, 0, "add", entry.source)
            except VersionConflictError:
                if id is not None:
                    raise
                entry = replace(entry, id=self.new_id())
        raise HoldfastError("no free id was found for a new entry; nothing was stored, try again.")

    def edit(
        self,
        id: str,
        *,
        title: str | None = None,
        content: str | None = None,
        category: Category | None = None,
        confidence: float | None = None,
        everywhere: bool | None = None,
        project: str | None = None,
        source: str = "user",
        expected: int | None = None,
    ) -> KnowledgeEntry:
        """Change the named fields of an entry. Whoever changes it is the source of the new text. With `expected` only
        if the entry is still at that revision."""
        for _ in range(_TRIES):
            before = self._current(id)
            if expected is not None and before.revision != expected:
                raise VersionConflictError(
                    f"{before.id} is at revision {before.revision} and not at {expected}; somebody changed it, look at "
                    "it again. Nothing was changed."
                )
            new_project = before.project
            if everywhere is not None or project is not None:
                new_project = self._where(bool(everywhere), project)
                if new_project is None and not everywhere:
                    raise HoldfastError("no project is known here; name the one that the entry is to belong to.")
            fields = {"title": title, "content": content, "category": category, "confidence": confidence}
            fields = {name: value for name, value in fields.items() if value is not None}
            now = max(self.now(), before.updated_at)  # times never go back, whatever the clock does
            after = checked(replace(before, **fields, source=source, project=new_project, updated_at=now))
            if same(before, after):
                raise UnchangedError(f"{before.id} says exactly this already; nothing was changed.")
            try:
                return self._put(after, before.revision, "edit", after.source)
            except VersionConflictError:
                if expected is not None:
                    raise
        raise HoldfastError(f"{shown(id)} is changed by others again and again; nothing was changed, try again.")

    def forget(self, id: str, *, source: str = "user") -> KnowledgeEntry:
        """Forget an entry: no prompt gets it any more, though a pinned stable block keeps it until the pin ends. Its
        history stays, and it can be restored."""
        return self._set_forgotten(id, "forget", source)

    def restore(self, id: str, *, source: str = "user") -> KnowledgeEntry:
        """Restore a forgotten entry as it was."""
        return self._set_forgotten(id, "restore", source)

    def erase(self, *ids: str) -> None:
        """Delete entries, their history and the record of when they were shown: all of them or none."""
        ids_ = [self.get(each).id for each in ids]
        with self.store.batch() as batch:
            futures = [batch.write(op.EraseKnowledge(self.tenant, each)) for each in ids_]
        for each, future in zip(ids_, futures, strict=True):
            if not stored(future, WRITE_TIMEOUT_S + EACH_S * len(ids_)):
                raise self._unknown(each)

    def get(self, id: str) -> KnowledgeEntry:
        """An entry by its id, of any project, forgotten or not."""
        entry = self._entry(id)
        if entry is None:
            raise self._unknown(id)
        return entry

    def here(self, id: str) -> KnowledgeEntry | None:
        """An entry by its id, if it counts in this project, forgotten or not."""
        entry = self._entry(id)
        return entry if entry is not None and entry.project in (None, self.project) else None

    def own(self, id: str) -> KnowledgeEntry:
        """The same, as an error where there is none. An id of another project is unknown here, and is never
        suggested."""
        entry = self.here(id)
        if entry is None:
            raise self._unknown(id, "both")
        return entry

    def entries(
        self,
        *,
        projects: Projects = "both",
        categories: Sequence[Category] = (),
        exclude_categories: Sequence[Category] = (),
        forgotten: bool = False,
    ) -> list[KnowledgeEntry]:
        """Entries by category, title and id. Categories to include win over those to exclude; none are no filter."""
        among = self._among(projects, categories, exclude_categories, forgotten)
        return self.store.knowledge_entries(self.tenant, among)

    def search(
        self,
        query: str,
        *,
        limit: int = 5,
        projects: Projects = "both",
        categories: Sequence[Category] = (),
        exclude_categories: Sequence[Category] = (),
    ) -> list[Hit]:
        """The best hits, by fit times confidence; ties go by the id. An empty query gives the surest entries."""
        among = self._among(projects, categories, exclude_categories)
        if query.strip():
            hits = self._search(mend(query), among, max(limit, CANDIDATES))
        else:
            surest = self.store.knowledge_entries(self.tenant, among, limit=max(limit, 0), surest=True)
            hits = [Hit(entry, 1.0) for entry in surest]
        hits.sort(key=lambda hit: (-hit.score * hit.entry.confidence, hit.entry.id))
        return hits[: max(0, limit)]

    def saying(self, title: str, content: str) -> KnowledgeEntry | None:
        """An entry of this project, or of every one, with the same text."""
        among, hash_ = self._among("both", (), ()), entry_hash(title, content)
        hits = self.store.find_knowledge(self.tenant, meant(words(mend(title))), among, limit=CANDIDATES)
        return next((each for each, _ in hits if each.hash == hash_), None)

    def learn(self, *, at_most: int = LEARNED) -> int:
        """Embed some of the entries that have no vector yet, if there are vectors; gives their number. Slow: not for a
        request that waits."""
        return 0 if self._vectors is None else self._vectors.learn(at_most=at_most)

    def history(self, id: str) -> list[KnowledgeRevision]:
        """All revisions of an entry, oldest first."""
        return self.store.knowledge_history(self.tenant, self.get(id).id)

    def shown(self, id: str, limit: int = 100) -> list[ShownEntry]:
        """When and why an entry was put into prompts, the latest first."""
        return self.store.shown(self.tenant, self.get(id).id, limit=limit)

    def note_shown(self, entries: Known, *, session: str, lane: str, place: str, why: str) -> None:
        """Record that entries were put into a prompt. Nobody waits for this write."""
        if entries:
            self.store.write(
                op.PutShown(
                    self.tenant, tuple(entries), at=self.now(), session=session, lane=lane, place=place, why=why
                )
            )

    def now(self) -> int:
        return round(self._clock() * 1_000_000)

    def new_id(self) -> str:
        return self._ids()

    def _put(self, entry: KnowledgeEntry, expected: int, operation: str, by: str) -> KnowledgeEntry:
        return stored(self.store.write(op.PutKnowledge(entry, expected=expected, operation=operation, by=by)))

    def _set_forgotten(self, id: str, operation: Literal["forget", "restore"], source: str) -> KnowledgeEntry:
        by = checked_source(source)
        for _ in range(_TRIES):
            before = self._current(id) if operation == "forget" else self.get(id)
            if operation == "restore" and before.forgotten_at is None:
                raise HoldfastError(f"{before.id} is not forgotten; nothing was changed.")
            now = max(self.now(), before.updated_at)
            after = replace(before, updated_at=now, forgotten_at=now if operation == "forget" else None)
            try:
                return self._put(after, before.revision, operation, by)
            except VersionConflictError:
                continue
        raise HoldfastError(f"{shown(id)} is changed by others again and again; nothing was changed, try again.")

    def _current(self, id: str) -> KnowledgeEntry:
        entry = self.get(id)
        if entry.forgotten_at is not None:
            raise HoldfastError(f"{entry.id} is forgotten; restore it first. Nothing was changed.")
        return entry

    def _where(self, everywhere: bool, project: str | None) -> str | None:
        if everywhere and project is not None:
            raise HoldfastError("an entry holds everywhere or in one project; give one of the two.")
        return None if everywhere else self.project if project is None else project

    def _among(
        self, projects: Projects, include: Sequence[Category], exclude: Sequence[Category], forgotten: bool = False
    ) -> KnowledgeFilter:
        """The filter of every search and list."""
        return KnowledgeFilter(
            project=self.project,
            projects=projects,
            categories=tuple(map(category_name, include)),
            exclude_categories=tuple(map(category_name, exclude)),
            forgotten=forgotten,
        )

    def _search(self, query: str, among: KnowledgeFilter, limit: int) -> list[Hit]:
        terms = meant(words(query))
        hits_by_words = self.store.find_knowledge(self.tenant, terms, among, limit=limit) if terms else []
        if self._vectors is None:
            best = max((score for _, score in hits_by_words), default=0.0)
            return [Hit(entry, score / best if best > 0 else 1.0) for entry, score in hits_by_words]
        by_meaning = self._vectors.search(query, among, limit)
        entries = {entry.id: entry for entry, _ in hits_by_words}
        hits = []
        for each, score in fused([(entry.id, score) for entry, score in hits_by_words], by_meaning):
            entry = entries.get(each) or self.store.knowledge(self.tenant, each)
            if entry is not None and entry.forgotten_at is None:  # it may have gone since
                hits.append(Hit(entry, score))
        return hits

    def _entry(self, id: str) -> KnowledgeEntry | None:
        return self.store.knowledge(self.tenant, tidy(id)) if is_id(tidy(id)) else None

    def _unknown(self, id: str, projects: Projects = "all") -> HoldfastError:
        ids = self.store.knowledge_entries(
            self.tenant, self._among(projects, (), (), forgotten=True), limit=_NEAR_AMONG
        )
        meant_id = near(id, [entry.id for entry in ids])
        return HoldfastError(
            f"there is no entry {shown(id)!r}; " + (f"did you mean {meant_id}?" if meant_id else "list or search them.")
        )


def same(entry: KnowledgeEntry, other: KnowledgeEntry) -> bool:
    """Whether two entries have the same text, fields and confidence."""
    return all(
        getattr(entry, part) == getattr(other, part)
        for part in ("title", "content", "category", "confidence", "project")
    )


def stored(future: Future[T], seconds: float = WRITE_TIMEOUT_S) -> T:
    """The result of a write; HoldfastError if it fails or takes too long."""
    try:
        return future.result(seconds)
    except TimeoutError as error:
        raise HoldfastError(
            f"memory could not be stored within {seconds:g} seconds; another process may hold the store. Look whether "
            "it is there before you try again."
        ) from error


def fused(text: Ranked, vector: Ranked) -> list[tuple[str, float]]:
    """Merge the rankings of a search by words and a search by meaning.

    Ids of either list with their scores, best first: the best has 1, ties go by the id. With one list empty the other
    keeps its order. An entry missing from a list scores nothing there.

    The scores of each list are scaled to its best one and added, meaning twice as heavy as words. Reciprocal ranks (k =
    60) were tried: in `benchmarks/memory_retrieval.py` with all-MiniLM-L6-v2 they give a recall@5 of 0.891 where this
    gives 0.917, and 0.816 for 0.865 across projects. A rank does not show that the only word in common was "data", and
    it puts the first and the tenth within an eighth of each other, so that confidence would decide instead of fit.
    """
    scores: dict[str, float] = {}
    for ranked, weight in ((text, 1 - MEANING), (vector, MEANING)):
        for id_, score in _scaled(ranked).items():
            scores[id_] = scores.get(id_, 0.0) + weight * score
    return sorted(_scaled(list(scores.items())).items(), key=lambda pair: (-pair[1], pair[0]))


def _scaled(ranked: Ranked) -> dict[str, float]:
    """Each id once, with its best score as a share of the highest; negative scores count as zero, and where all are
    zero all are equal."""
    best: dict[str, float] = {}
    for id_, score in ranked:
        best[id_] = max(score, best.get(id_, 0.0))
    top = max(best.values(), default=0.0)
    return {id_: score / top if top > 0 else 1.0 for id_, score in best.items()}
