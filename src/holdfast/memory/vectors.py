"""Entries by meaning: vectors of one model, compared by their cosine among those that a filter leaves.

Once read, a tenant's vectors stay in memory until something changes: 4 bytes × 384 for each entry, 15 MB for ten
thousand, 154 MB for a hundred thousand. A search compares every one that may count, which needs no index and misses
nothing: under a millisecond for ten thousand, 15 to 25 for a hundred thousand, beside 12 for embedding the query. The
first search after a change reads them again, in a tenth of a second for ten thousand.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from holdfast.lru import LRU
from holdfast.notices import warn_once
from holdfast.store import KnowledgeEntry, KnowledgeFilter, KnowledgeVector, Store
from holdfast.store import operations as op

from .embedders import Embedder
from .knowledge import stored

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BATCH = 64
_FILTERS = 16
_DIGITS = 6
"""Of a cosine: what lies beyond differs between machines and batches, and must not decide an order."""

_logger = logging.getLogger(__name__)


class Vectors:
    """Search by meaning in what `tenant` knows. Safe for threads."""

    def __init__(self, store: Store, tenant: str, embedder: Embedder) -> None:
        self._store = store
        self._tenant = tenant
        self._embedder = embedder
        self._matrix: _Matrix | None = None
        self._complete = -1
        self._reading = threading.Lock()

    def learn(self, *, at_most: int | None = None) -> int:
        """Embed entries that have no vector of their revision; gives their number. What is edited meanwhile is left for
        the next time. A failure is logged and raises nothing."""
        learned = 0
        try:
            version = self._store.knowledge_version(self._tenant)
            if version == self._complete:
                return 0
            entries = self._store.unlearned_knowledge(self._tenant, self._embedder.name, limit=at_most)
            if not entries:
                self._complete = version
            for start in range(0, len(entries), BATCH):
                learned += self._learned(entries[start : start + BATCH])
        except Exception as problem:  # noqa: BLE001  the store, or the files of the model, which are not ours
            warn_once(_logger, "the meanings of new entries were not learned: %s", problem)
        return learned

    def _learned(self, entries: Sequence[KnowledgeEntry]) -> int:
        rows = self._embedder.embed([embedded_text(entry) for entry in entries])
        vectors = [
            KnowledgeVector(id=entry.id, revision=entry.revision, data=row.astype("<f4").tobytes())
            for entry, row in zip(entries, rows, strict=True)
        ]
        return stored(self._store.write(op.PutVectors(self._tenant, self._embedder.name, vectors)))

    def search(self, query: str, among: KnowledgeFilter, limit: int) -> list[tuple[str, float]]:
        """Return the ids of the `limit` nearest entries that match the filter, with their cosines, nearest first, ties
        by the id. Entries without a vector, or too far from the query, are left out. A failure is logged and returns
        nothing: the search by words continues."""
        if limit < 1 or not query.strip():
            return []
        try:
            return self._search(query, among, limit)
        except Exception as problem:  # noqa: BLE001  the store, or the files of the model, which are not ours
            warn_once(_logger, "memory was searched by words alone: %s", problem)
            return []

    def _search(self, query: str, among: KnowledgeFilter, limit: int) -> list[tuple[str, float]]:
        import numpy as np

        vector = self._embedder.embed([query])[0]
        matrix = self._read(len(vector))
        rows = self._rows(matrix, among)
        # To compare all and take some of them is faster than to take them first, unless they are few.
        few = 3 * len(rows) < len(matrix.ids)
        cosines = np.round(matrix.matrix[rows] @ vector if few else (matrix.matrix @ vector)[rows], _DIGITS)
        near = cosines >= self._embedder.floor
        rows, cosines = rows[near], cosines[near]
        if len(rows) > limit:
            least = np.partition(cosines, len(rows) - limit)[len(rows) - limit]
            rows, cosines = rows[cosines >= least], cosines[cosines >= least]
        order = np.lexsort((rows, -cosines))[:limit]  # rows are in the order of their ids
        return [(matrix.ids[row], float(cosine)) for row, cosine in zip(rows[order], cosines[order], strict=True)]

    def _read(self, width: int) -> _Matrix:
        version = self._store.knowledge_version(self._tenant)  # first: what is read after it is at least as new
        with self._reading:
            matrix = self._matrix
            if matrix is None or matrix.version != version:
                vectors = self._store.knowledge_vectors(self._tenant, self._embedder.name)
                matrix = self._matrix = _Matrix(version, vectors, width)
            return matrix

    def _rows(self, matrix: _Matrix, among: KnowledgeFilter) -> NDArray[np.intp]:
        """The rows of the entries that the filter leaves. The store decides, as for every other search."""
        rows = matrix.rows_by_filter.peek(among)
        if rows is None:
            rows = matrix.rows_of(self._store.knowledge_revisions(self._tenant, among))
            with self._reading:
                matrix.rows_by_filter[among] = rows
        return rows


class _Matrix:
    """The vectors of one version of the knowledge, as wide as the model's, one per row, in the order of ids."""

    def __init__(self, version: int, vectors: Sequence[KnowledgeVector], width: int) -> None:
        import numpy as np

        fitting = sorted((each for each in vectors if len(each.data) == 4 * width), key=lambda each: each.id)
        self.version = version
        self.ids = [each.id for each in fitting]
        self.revisions = [each.revision for each in fitting]
        joined = b"".join(each.data for each in fitting)
        self.matrix = np.frombuffer(joined, dtype="<f4").reshape(len(fitting), width)
        self.rows_by_filter: LRU[KnowledgeFilter, NDArray[np.intp]] = LRU(_FILTERS)

    def rows_of(self, entries: Sequence[tuple[str, int]]) -> NDArray[np.intp]:
        import numpy as np

        places = {id_: row for row, id_ in enumerate(self.ids)}
        rows = [
            row for id_, revision in entries if (row := places.get(id_)) is not None and self.revisions[row] == revision
        ]
        return np.array(sorted(rows), dtype=np.intp)


def embedded_text(entry: KnowledgeEntry) -> str:
    """The text of an entry that is embedded."""
    return f"{entry.title}\n{entry.content}"
