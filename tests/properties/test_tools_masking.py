"""Laws 1, 4, 5 and 7 with a masker in front of the engine: in every dialect, over restarts, on real clients' shapes."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from holdfast.config.sections.agent import MaskSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.records import Text, validate
from holdfast.tools.guides import wrapped
from holdfast.tools.masking import PLACEHOLDER
from holdfast.tools.observations import observe, replaced, sites
from holdfast.tools.offload import PREFIX
from holdfast.wire import DIALECTS, Body
from tests import shapes
from tests.engine.driver import MODELS
from tests.properties.runner import begins_with
from tests.tools.masked_session import Session
from tests.tools.results import Did, did, parsed, prompt_of, texts

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32)
few = settings(max_examples=4, derandomize=True, deadline=None)
MASKS = st.builds(
    MaskSettings,
    keep_window=st.sampled_from([0, 1, 3, 6]),
    trigger_chars=st.sampled_from([0, 4_000, 9_000]),
    release_chars=st.sampled_from([0, 3_000]),
    protected=st.sampled_from([(), ("run_command",)]),
)
EVERYTHING = MaskSettings(keep_window=0, trigger_chars=0, release_chars=0)
KINDS = ("read_file", "read_file", "write_file", "run_command", "fetch", "offloaded", "guided")
PAUSES = (2.0, 20.0, 90.0, 280.0, 301.0, 3_700.0)


class Step(Struct, frozen=True):
    """A request: everything that was done so far, after a pause, in a new process or not."""

    turns: list[Did | list[Did]]
    pause: float
    restarts: bool = False


def steps(
    random: Random, requests: int, pauses: tuple[float, ...] = PAUSES, kinds: tuple[str, ...] = KINDS
) -> Iterator[Step]:
    turns: list[Did | list[Did]] = []
    for number in range(requests):
        for place in range(random.choice([1, 1, 2])):
            turns.append([_done(random, kinds, number * 10 + place) for _ in range(random.choice([1, 1, 1, 3]))])
        yield Step(list(turns), random.choice(pauses), random.random() < 0.15)


def _done(random: Random, kinds: tuple[str, ...], number: int) -> Did:
    """A call like an agent's: files are read again and changed, commands fail and succeed."""
    size, path, kind = random.choice([40, 400, 900, 2_500]), f"src/{random.randrange(3)}.py", random.choice(kinds)
    if kind == "read_file":
        return did(kind, size, path=path, offset=random.choice([0, 0, 50]))
    if kind == "write_file":
        return did(kind, 30, path=path, content=f"version {number}")
    if kind == "run_command":
        return did(kind, size, command=random.choice(["make", "ls"]), is_error=random.random() < 0.5)
    if kind == "offloaded":
        return Did("fetch", {"page": number}, PREFIX + f"fetch, 90000 characters, {number}.txt]\n" + "head " * 300)
    if kind == "guided":
        return Did("fetch", {"page": number}, (Text("said " * 200), Text(wrapped(f"guide {number}"))))
    return did(kind, size, page=number)


def check(session: Session) -> int:
    """See that each request extends what was sent or says why not, and that nothing cleared comes back; gives how many
    results were cleared."""
    cleared: dict[int, str] = {}
    before = None
    for prepared in session.sent:
        body = parsed(prepared.raw, session.dialect)
        assert validate(DIALECTS[session.dialect].decode(body)) == ()
        prompt, said, full = prompt_of(body), texts(body), texts(prepared.client)
        assert before is None or begins_with(prompt, before) or prepared.reset == "priced_edit"
        made = prepared.edits is not None and prepared.edits.made
        for number, (now, was) in enumerate(zip(said, full, strict=True)):
            if number in cleared:
                assert now == cleared[number]
            elif now != was:
                assert made
                assert now.startswith(PLACEHOLDER)
                cleared[number] = now
        before = prompt
    assert len(cleared) == sum(len(masked) for masked in session.masked)
    return len(cleared)


def play(session: Session, played: Iterator[Step], *, restarts: bool = False) -> int:
    try:
        for step in played:
            if restarts and step.restarts:
                session.restart()
            session.send(step.turns, step.pause)
    finally:
        session.close()
    return check(session)


@pytest.mark.parametrize("dialect", MODELS)
@few
@given(SEEDS, MASKS, st.booleans())
def test_sent_bytes_are_final_but_for_edits_that_last(
    dialect: str, seed: int, mask: MaskSettings, stored: bool
) -> None:
    """Also in another process that knows no more than the store."""
    with TemporaryDirectory() as home:
        session = Session(mask, dialect=dialect, path=Path(home) / "h.db" if stored else None)
        play(session, steps(Random(seed), 12), restarts=stored)


@pytest.mark.parametrize("dialect", MODELS)
def test_results_are_cleared_in_every_dialect(dialect: str) -> None:
    """The law before would hold if none ever were."""
    session = Session(MaskSettings(keep_window=3, trigger_chars=4_000, release_chars=0), dialect=dialect)
    assert play(session, steps(Random(7), 14)) > 5


@pytest.mark.parametrize("dialect", MODELS)
def test_with_edits_never_nothing_is_edited(dialect: str) -> None:
    session = Session(
        MaskSettings(keep_window=0, trigger_chars=0, release_chars=0),
        dialect=dialect,
        cache=CacheSettings(edits="never"),
    )
    assert play(session, steps(Random(7), 14)) == 0
    assert any(session.asked)
    assert all(PLACEHOLDER.encode() not in prepared.raw for prepared in session.sent)


# Recorded clients


@cache
def runs() -> dict[str, list[tuple[str, bytes]]]:
    """The runs that end with results which the model has read, by client: the dialect and the body of each request."""
    found = {}
    for (client, run), requests in shapes.conversations().items():
        bodies = [(shape.dialect, shape.body) for shape in requests if shape.dialect and shape.body]
        last = _results(parsed(bodies[-1][1], bodies[-1][0])) if bodies else []
        if any(each.call.at >= 0 and not each.site.unread for each in last):
            found[f"{client}/{run or 'run'}"] = bodies
    return found


def _results(body: Body) -> list[Any]:
    prompt = prompt_of(body)
    return observe(body, prompt, sites(body, prompt))


def _longer(dialect: str, raw: bytes) -> bytes:
    """The same request with results as long as they are in life: recordings have two hundred characters at most."""
    body = parsed(raw, dialect)
    spans = []
    for each in _results(body):
        for place, new in zip(each.site.places, replaced(body, each.site, "".join(each.texts) * 40), strict=True):
            spans.append((body.blocks[place].start, body.blocks[place].end, new))
    for start, end, new in sorted(spans, reverse=True):
        raw = raw[:start] + new + raw[end:]
    return raw


@pytest.mark.parametrize("run", runs())
def test_real_clients_extend_what_they_sent(run: str) -> None:
    """One pause that lets the cache go cold comes in the middle. Side requests of a run are no part of the lane: only a
    request whose own bytes go on is compared."""
    requests = runs()[run]
    session = Session(EVERYTHING, dialect=requests[0][0])
    before: tuple[Any, Any] | None = None
    for number, (dialect, raw) in enumerate(requests):
        session.dialect = dialect
        pause = 90_000.0 if number == len(requests) - 1 else 5.0
        prepared = session.send_raw(_longer(dialect, raw), pause, check=False)
        client, sent = prompt_of(prepared.client), prompt_of(parsed(prepared.raw, dialect))
        if before is not None and begins_with(client, before[0]):
            assert begins_with(sent, before[1]) or prepared.reset is not None
        before = client, sent
    assert sum(len(masked) for masked in session.masked) > 0


# Law 7 in spirit

SMALL = MaskSettings(keep_window=4, trigger_chars=9_000, release_chars=3_000)


class Bill(Struct, frozen=True):
    """What masking made a session cost more: in the end, at worst, and with the one request where it was the most."""

    end: Decimal
    worst: Decimal
    once: Decimal
    cleared: int


def bill(seed: int, dialect: str, requests: int, pauses: tuple[float, ...]) -> Bill:
    masked, plain = Session(SMALL, dialect=dialect), Session(MaskSettings(enabled=False), dialect=dialect)
    more = [Decimal(0)]
    for step in steps(Random(seed), requests, pauses, KINDS[:5]):
        masked.send(step.turns, step.pause)
        plain.send(step.turns, step.pause)
        more.append(masked.dollars - plain.dollars)
    once = max(after - before for before, after in pairwise(more))
    return Bill(more[-1], max(more), once, sum(len(each) for each in masked.masked))


@pytest.mark.parametrize("dialect", MODELS)
def test_masking_a_warm_lane_costs_less_over_sessions_and_never_more_than_one_rewrite(dialect: str) -> None:
    """Lanes that never go cold, of any length."""
    found = [bill(seed, dialect, requests, (2.0, 20.0, 90.0)) for seed, requests in enumerate((10, 25, 70))]
    assert sum(each.end for each in found) < 0, found
    assert all(each.worst <= each.once for each in found), found
    assert found[-1].cleared


def test_masking_a_cold_lane_costs_less_at_any_time() -> None:
    found = [bill(seed, "anthropic", 10, (4_000.0,)) for seed in range(3)]
    assert all(each.worst <= 0 for each in found), found
    assert sum(each.end for each in found) < 0, found
