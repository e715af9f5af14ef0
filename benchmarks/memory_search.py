"""How fast knowledge is found: questions of 5 to 12 words to stores of 10,000 and 100,000 entries.

Words are made of syllables and are as unequally common as those of a language; the most common ones stand in nine of
ten entries. A question takes its words from one entry and adds common ones. The store is asked with every word,
`Knowledge.search` leaves out those that mean nothing. What is found is compared with what weighing every entry finds.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice
from pathlib import Path
from random import Random

from benchmarks import Result
from holdfast.memory.knowledge import Knowledge
from holdfast.store import KnowledgeEntry, KnowledgeFilter, SqliteStore, open_store
from holdfast.store import operations as op
from holdfast.store.sqlite import text_search

SIZES = ((10_000, 5.0), (100_000, 60.0))
"""Entries, and how many milliseconds half of the questions may take."""
TENANT, PROJECT, SMALL = "local", "/home/me/large", "/home/me/small"
CATEGORIES = ("decision", "pattern", "preference", "architecture", "gotcha")
BATCH, SEED, WORDS = 1_000, 5, 20_000

Question = tuple[str, ...]
"""Words of one entry, and common ones."""

_OFTEN = """the a of to in is for and we use it on with that this as not when by from are be or at all must should only
every one after before because if into an which each new but than no more has its can where so was they there do does
how what why our out over then them also"""
_STARTS, _MIDDLES, _ENDS = (
    "b c d f g h j k l m n p r s t v w st tr pl gr cl sh th",
    "a e i o u ai ea ou",
    "n r s t l m nd rk",
)
COMMON, STARTS, MIDDLES, ENDS = _OFTEN.split(), _STARTS.split(), _MIDDLES.split(), ["", *_ENDS.split()]


def run(*, quick: bool) -> Iterator[Result]:
    for size, limit in SIZES[:1] if quick else SIZES:
        with (
            tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory,
            open_store(Path(directory) / "store.db") as store,
        ):
            seconds = _filled(store, size)
            note = "one transaction for each thousand"
            yield Result(f"memory: {size:,} entries: written", size / seconds, "/s", None, "higher", note)
            questions = _questions(size, 60 if quick else 200)
            yield from _asked(store, size, limit, questions)
            yield _agreement(store, size, questions)


def _asked(store: SqliteStore, size: int, limit: float, questions: Sequence[Question]) -> Iterator[Result]:
    both, small = KnowledgeFilter(project=PROJECT), KnowledgeFilter(project=SMALL, projects="project")
    knowledge = Knowledge(store, TENANT, project=PROJECT)
    ways: tuple[tuple[str, Callable[[Question], object]], ...] = (
        ("Store.find_knowledge", lambda asked: store.find_knowledge(TENANT, asked, both)),
        ("Knowledge.search", lambda asked: knowledge.search(" ".join(asked))),
        ("in a project of 1 in 1,000", lambda asked: store.find_knowledge(TENANT, asked, small)),
        ("another tenant, 100 entries", lambda asked: store.find_knowledge("other", asked, both)),
    )
    for name, way in ways:
        for asked in questions[:10]:
            way(asked)
        times = sorted(_milliseconds(way, asked) for asked in questions)
        note = f"{len(questions)} questions, p95 {times[len(times) * 95 // 100]:.2f} ms"
        yield _figure(f"{size:,} entries: {name}, p50", statistics.median(times), limit, note)


def _agreement(store: SqliteStore, size: int, questions: Sequence[Question]) -> Result:
    """How many of the first ten are those that are found where every entry is weighed."""
    among, kept = KnowledgeFilter(project=PROJECT), text_search.WEIGHED
    same = total = 0
    for asked in questions[:60]:
        found = _first(store, asked, among)
        try:
            text_search.WEIGHED = size * len(asked)
            whole = _first(store, asked, among)
        finally:
            text_search.WEIGHED = kept
        same, total = same + len(found & whole), total + len(whole)
    return Result(
        name=f"memory: {size:,} entries: first ten as with every entry weighed",
        value=same / total,
        unit="",
        limit=0.95,
        better="higher",
        note=f"{min(60, len(questions))} questions",
    )


def _first(store: SqliteStore, asked: Question, among: KnowledgeFilter) -> set[str]:
    return {entry.id for entry, _ in store.find_knowledge(TENANT, asked, among, limit=10)}


def _figure(name: str, value: float, limit: float, note: str) -> Result:
    return Result(name=f"memory: {name}", value=value, unit="ms", limit=limit, better="lower", note=note)


def _milliseconds(way: Callable[[Question], object], asked: Question) -> float:
    began = time.perf_counter()
    way(asked)
    return (time.perf_counter() - began) * 1000


def _filled(store: SqliteStore, size: int) -> float:
    began = time.perf_counter()
    for tenant, count in (("other", 100), (TENANT, size)):
        entries = _entries(tenant, count)
        while chunk := list(islice(entries, BATCH)):
            with store.batch() as batch:
                for entry in chunk:
                    last = batch.write(op.PutKnowledge(entry, expected=0, operation="add", by="user"))
            last.result()
    return time.perf_counter() - began


def _vocabulary(chance: Random) -> list[str]:
    found = dict.fromkeys(COMMON)
    while len(found) < WORDS:
        syllables = range(chance.choice((1, 2, 2, 3)))
        found["".join(chance.choice(STARTS) + chance.choice(MIDDLES) + chance.choice(ENDS) for _ in syllables)] = None
    return list(found)


def _entries(tenant: str, size: int) -> Iterator[KnowledgeEntry]:
    chance = Random(SEED)
    words = _vocabulary(chance)
    weights = list(accumulate(1 / (place + 2.7) for place in range(len(words))))
    for number in range(size):
        title = chance.choices(words, cum_weights=weights, k=chance.randrange(4, 10))
        content = chance.choices(words, cum_weights=weights, k=chance.randrange(20, 120))
        project = chance.choice((None, PROJECT, "/home/me/other"))
        yield KnowledgeEntry(
            tenant=tenant,
            id=f"k{number:07d}",
            category=chance.choice(CATEGORIES),
            title=" ".join(title),
            content=" ".join(content),
            project=SMALL if number % 1_000 == 0 else project,
            created_at=number,
            updated_at=number,
        )


def _questions(size: int, count: int) -> list[Question]:
    chance = Random(SEED + 1)
    found = []
    for entry in islice(_entries(TENANT, size), 0, None, size // count):
        said = list(dict.fromkeys(f"{entry.title} {entry.content}".split()))
        length = chance.randrange(5, 13)
        own = chance.sample(said, min(len(said), max(3, length * 2 // 3)))
        found.append((*own, *chance.sample(COMMON, length - len(own))))
    return found[:count]
