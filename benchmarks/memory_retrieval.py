"""What search in long-term memory finds, by words, by meaning and by both: questions whose answers are known.

Entries and questions under data/memory_retrieval were written for this, by hand: knowledge of four made-up software
projects, asked for with the same words, with other words, and as a user would put it. Recall is the share of a
question's answers among the first ones: within the question's project, as an agent searches, and across all projects.
Meaning needs a model: set HOLDFAST_MEMORY_MODEL_DIR to a directory with that of all-MiniLM-L6-v2.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import file_digest
from pathlib import Path
from statistics import fmean, median
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from benchmarks import Result
from benchmarks.make_data import DATA
from holdfast.config import load_config
from holdfast.memory.embedders import embedder
from holdfast.memory.knowledge import Knowledge
from holdfast.memory.vectors import Vectors
from holdfast.store import Store, open_store
from holdfast.store import operations as op
from holdfast.store.rows import KnowledgeEntry, KnowledgeFilter, Projects

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

TENANT, FIRST, DEPTH = "bench", 5, 20
MANY, FEW, WIDTH = 10_000, 1_000, 384
LEAST_BY_WORDS, LEAST_BY_BOTH = 0.68, 0.88
PUBLISHED = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of the weights of sentence-transformers/all-MiniLM-L6-v2."""

Search = Callable[["Question", Projects], list[str]]


class Known(Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    project: str | None
    category: str
    title: str
    content: str


class Question(Struct, frozen=True, forbid_unknown_fields=True):
    """`answers` are the entries that answer it, all of them its project's or everybody's."""

    kind: str
    project: str
    query: str
    answers: tuple[str, ...]


class Found(Struct, frozen=True):
    """Means over questions."""

    recall: float
    first: float
    reciprocal: float

    def __str__(self) -> str:
        return f"recall@1 {self.first:.3f}, MRR {self.reciprocal:.3f}"


def entries() -> list[Known]:
    return msgspec.json.decode((DATA / "memory_retrieval" / "entries.json").read_bytes(), type=list[Known])


def questions() -> list[Question]:
    return msgspec.json.decode((DATA / "memory_retrieval" / "queries.json").read_bytes(), type=list[Question])


def run(*, quick: bool) -> Iterator[Result]:
    settings = load_config().settings.memory
    with tempfile.TemporaryDirectory() as scratch, open_store(Path(scratch, "memory.db")) as store:
        fill(store)
        yield from _reported("words alone", by_words(store), LEAST_BY_WORDS)
        if isinstance(model := embedder(settings), str):
            print(f"  by meaning: not measured, {model}")
        else:
            vectors = Vectors(store, TENANT, model)
            begun = time.perf_counter()
            learned = vectors.learn()
            note = f"{learned} entries of some 35 words; {_weights(Path(settings.model_dir))}"
            yield Result("embed an entry", 1_000 * (time.perf_counter() - begun) / learned, "ms", None, "lower", note)
            yield from _reported("meaning alone", by_meaning(vectors), None)
            yield from _reported("words and meaning", by_words(store, vectors), LEAST_BY_BOTH)
    yield from _speed(FEW if quick else MANY)


def _weights(directory: Path) -> str:
    """Which model the figures belong to."""
    with (directory / "model.safetensors").open("rb") as file:
        digest = file_digest(file, "sha256").hexdigest()
    return f"{'all-MiniLM-L6-v2' if digest == PUBLISHED else 'another model'}, weights {digest[:12]}"


def fill(store: Store) -> None:
    for entry in entries():
        Knowledge(store, TENANT, project=entry.project).add(
            entry.title, entry.content, category=entry.category, everywhere=entry.project is None, id=entry.id
        )


def by_words(store: Store, vectors: Vectors | None = None) -> Search:
    """With `vectors` by meaning too, as the product joins the two."""

    def search(question: Question, projects: Projects) -> list[str]:
        knowledge = Knowledge(store, TENANT, project=question.project, vectors=vectors)
        return [hit.entry.id for hit in knowledge.search(question.query, limit=DEPTH, projects=projects)]

    return search


def by_meaning(vectors: Vectors) -> Search:
    def search(question: Question, projects: Projects) -> list[str]:
        among = KnowledgeFilter(project=question.project, projects=projects)
        return [id_ for id_, _ in vectors.search(question.query, among, DEPTH)]

    return search


def found(search: Search, asked: Sequence[Question], projects: Projects) -> Found:
    recall, first, reciprocal = [], [], []
    for question in asked:
        ids, answers = search(question, projects), set(question.answers)
        recall.append(len(answers & set(ids[:FIRST])) / len(answers))
        first.append(len(answers & set(ids[:1])) / len(answers))
        reciprocal.append(next((1 / rank for rank, id_ in enumerate(ids, start=1) if id_ in answers), 0.0))
    return Found(fmean(recall), fmean(first), fmean(reciprocal))


def _reported(name: str, search: Search, least: float | None) -> Iterator[Result]:
    asked = questions()
    for kind in dict.fromkeys(question.kind for question in asked):
        chosen = [question for question in asked if question.kind == kind]
        kept = found(search, chosen, "both")
        note = f"{kept}; {len(chosen)} questions"
        yield Result(f"{name}: recall@5, {kind}", kept.recall, "", None, "higher", note)
    kept = found(search, asked, "both")
    yield Result(f"{name}: recall@5", kept.recall, "", least, "higher", f"{kept}; {len(asked)} questions")
    kept = found(search, asked, "all")
    yield Result(f"{name}: recall@5 across projects", kept.recall, "", None, "higher", str(kept))


class Scattered:
    """Vectors that mean nothing, for measuring how long it takes to compare them."""

    name, floor = "scattered", -1.0

    def __init__(self) -> None:
        import numpy as np

        self._chance = np.random.default_rng(7)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        made = self._chance.standard_normal((len(texts), WIDTH), dtype=np.float32)
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        return made


def _speed(count: int) -> Iterator[Result]:
    try:
        model = Scattered()
    except ModuleNotFoundError as problem:
        print(f"  comparing vectors: not measured, {problem.name} is not installed; install holdfast[embeddings]")
        return
    with tempfile.TemporaryDirectory() as scratch, open_store(Path(scratch, "memory.db")) as store:
        written = [
            store.write(op.PutKnowledge(_entry(number), expected=0, operation="add", by="")) for number in range(count)
        ]
        for future in written:
            future.result()
        vectors = Vectors(store, TENANT, model)
        vectors.learn()
        for name, among in (
            ("all", KnowledgeFilter(projects="all")),
            ("a tenth", KnowledgeFilter(project="0", projects="project", exclude_categories=("preference",))),
        ):
            spent = []
            for _ in range(30):
                begun = time.perf_counter()
                nearest = vectors.search("a query", among, FIRST)
                spent.append(1_000 * (time.perf_counter() - begun))
                if len(nearest) != FIRST:
                    raise RuntimeError(f"{len(nearest)} of {FIRST} vectors were found")
            note = f"the first, which reads them, {spent[0]:.0f} ms; without embedding the query"
            yield Result(f"nearest of {count:,} vectors, {name}", median(spent), "ms", 10, "lower", note)


def _entry(number: int) -> KnowledgeEntry:
    return KnowledgeEntry(
        tenant=TENANT,
        id=f"k{number:07}",
        category="decision",
        title=str(number),
        content="",
        project=str(number % 10),
        created_at=0,
        updated_at=0,
    )
