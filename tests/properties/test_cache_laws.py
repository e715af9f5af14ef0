"""What holds of every cache, whatever is sent: through `Simulator.bill`, on generated sessions and recorded clients.

The measure of what two requests have in common is taken from their contents, not from the keys the rules compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby, takewhile
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import facts
from holdfast.caches.noise import Noise
from holdfast.caches.prompts import Prompt
from holdfast.caches.providers import rules
from holdfast.facts import ModelFacts
from holdfast.records import Usage
from holdfast.simulator import Simulator, VirtualClock
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader
from tests.properties.sessions import PATHS, Sent, session
from tests.shapes import conversations

pytestmark = pytest.mark.slow

LAX = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
HOUR = 3_600.0
MODELS = [
    ("anthropic", "claude-opus-5-5"),
    ("anthropic", "claude-haiku-4-5"),
    ("openai_chat", "gpt-5.5"),
    ("openai_chat", "gpt-6.1-sol"),
    ("openai_chat", "deepseek-chat"),
    ("openai_chat", "vllm:any"),
    ("openai_responses", "gpt-5.5"),
    ("openai_responses", "gpt-6.1-sol"),
    ("gemini", "gemini-2.5-pro"),
]
LIFETIME = {"gpt-5.5": 300.0, "gpt-6.1-sol": 1_800.0, "gemini-2.5-pro": 300.0}
FIRST_TOKEN = 2.0
each_model = pytest.mark.parametrize(("dialect", "name"), MODELS, ids=["-".join(pair) for pair in MODELS])
randoms = st.randoms(use_true_random=False)


def facts_of(sent: Sent) -> ModelFacts:
    if sent.dialect in ("anthropic", "gemini"):
        return facts.model(f"{sent.dialect}:{sent.model}")
    return facts.model(sent.model)


def parsed(sent: Sent) -> Body:
    body = DIALECTS[sent.dialect].parse(sent.body, model=sent.model)
    assert isinstance(body, Body)
    return body


@lru_cache(maxsize=256)
def prompt_of(sent: Sent) -> Prompt:
    return PromptReader().read(parsed(sent), facts_of(sent), scope=sent.workspace).prompt


def billed(sents: Sequence[Sent], noise: Noise | None = None) -> list[Usage]:
    """What each request is billed; answers begin two seconds after their request, or with the next one after that."""
    clock = VirtualClock()
    start, simulator = clock.now(), Simulator(clock=clock, noise=noise)
    usages, waiting = [], []
    for sent in sents:
        for begins, exchange in [pair for pair in waiting if pair[0] <= sent.at]:
            exchange.first_token(start + begins)
            exchange.finish()
        waiting = [pair for pair in waiting if pair[0] > sent.at]
        clock.set(start + sent.at)
        exchange = simulator.bill(sent.call)
        waiting.append((sent.at + FIRST_TOKEN, exchange))
        usages.append(exchange.record.usage)
    return usages


@lru_cache(maxsize=256)
def said(sent: Sent) -> list[tuple[object, ...]]:
    """A request's blocks by what they say, in the order in which the cache sees them."""
    body, dialect = parsed(sent), DIALECTS[sent.dialect]
    prompt = prompt_of(sent)
    origin = prompt.origin or tuple(range(len(prompt.blocks)))
    spans = [body.blocks[index] for index in origin]
    return [(s.section, s.role, s.message, dialect.content(body, i)) for s, i in zip(spans, origin, strict=True)]


def in_common(one: Sent, other: Sent) -> int:
    """Tokens of the longest common prefix of two requests: in whole blocks, or in tokens if the cache goes by them."""
    first = prompt_of(one)
    if rules(facts_of(one)).by_token:
        pairs = zip(first.ids(), prompt_of(other).ids(), strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    count = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(said(one), said(other), strict=False)))
    return first.ends[count - 1] if count else 0


def obeys(sents: Sequence[Sent], usages: Sequence[Usage]) -> None:
    """The counts are disjoint and add up; nothing is read that no earlier request could have left behind."""
    for number, (sent, usage) in enumerate(zip(sents, usages, strict=True)):
        assert min(usage.input, usage.read, *(tokens for _, tokens in usage.writes), 0) == 0
        assert usage.input + usage.read + usage.written == prompt_of(sent).tokens
        if usage.read:
            alive = LIFETIME.get(sent.model, HOUR if sent.dialect == "anthropic" else float("inf"))
            left = [
                in_common(sent, before)
                for before in sents[:number]
                if (before.workspace, before.model) == (sent.workspace, sent.model)
                and before.at + FIRST_TOKEN <= sent.at <= before.at + alive
            ]
            assert usage.read <= max(left, default=0)


@each_model
@LAX
@given(randoms, st.integers(2, 7))
def test_nothing_is_read_that_no_earlier_request_left_behind(dialect, name, random: Random, length):
    sents = session(random, dialect, name, length)
    obeys(sents, billed(sents))


@each_model
def test_there_is_something_to_read(dialect, name):
    """The laws would hold of a cache that never hits; these sessions do hit, miss and expire."""
    usages = [usage for seed in range(15) for usage in billed(session(Random(seed), dialect, name, 6))]
    hits = sum(1 for usage in usages if usage.read)
    assert len(usages) * 0.05 < hits < len(usages) * 0.8


@LAX
@given(randoms, st.integers(3, 8))
def test_five_minutes_without_a_request_leave_nothing_of_five_minutes(random: Random, length):
    """A10, with every marker at 5m: only requests of the last 300 seconds can have left or refreshed what is read."""
    pauses = (10.0, 200.0, 299.0, 301.0)
    sents = [
        Sent(s.at, s.workspace, s.dialect, s.model, s.body.replace(b'"ttl":"1h"', b'"ttl":"5m"'))
        for s in session(random, "anthropic", "claude-opus-5-5", length, pauses=pauses)
        if b'"ttl": "1h"' not in s.body
    ]
    for number, usage in enumerate(billed(sents)):
        recent = [before for before in sents[:number] if sents[number].at - before.at <= 300]
        assert usage.read <= max((in_common(sents[number], before) for before in recent), default=0)


@each_model
@LAX
@given(randoms, st.integers(2, 6))
def test_another_workspace_changes_nothing_and_sees_nothing(dialect, name, random: Random, length):
    """The same session twice, side by side, under two keys: each is billed as if it were alone."""
    alone = session(random, dialect, name, length)
    other = [Sent(s.at, "other", s.dialect, s.model, s.body) for s in alone]
    if dialect == "gemini":  # a hit is drawn by the number of the request, which the other one shifts
        assert {usage.read for usage in billed([*alone[:1], *other[:1]])} == {0}
        return
    both = [sent for pair in zip(alone, other, strict=True) for sent in pair]
    usages = billed(both)
    assert usages[::2] == usages[1::2] == billed(alone)


@LAX
@given(randoms, st.integers(2, 5))
def test_the_order_of_independent_requests_does_not_matter(random: Random, length):
    """Sessions of several workspaces and models, merged by time; those of one moment in any order."""
    chosen = [pair for pair in MODELS if pair[0] != "gemini"]
    many = [
        session(random, *random.choice(chosen), length, workspace=f"w{i}", pauses=(0.0, 1.0, 200.0)) for i in range(3)
    ]
    expected = {id(sent): usage for each in many for sent, usage in zip(each, billed(each), strict=True)}
    moments = groupby(sorted((s for each in many for s in each), key=lambda s: s.at), key=lambda s: s.at)
    merged = []
    for _, group in moments:
        together = sorted(group, key=lambda s: s.workspace, reverse=random.random() < 0.5)
        merged += together  # stable: the requests of one workspace stay in their order
    assert [expected[id(sent)] for sent in merged] == billed(merged)


@each_model
@LAX
@given(randoms, st.integers(2, 6))
def test_no_noise_is_the_bare_cache(dialect, name, random: Random, length):
    sents = session(random, dialect, name, length)
    assert billed(sents, Noise(seed=random.randrange(9))) == billed(sents)


@LAX
@given(randoms, st.integers(1, 6))
def test_markers_are_no_part_of_the_keys(random: Random, length):
    """A5: without any of its markers a body has the same keys, and with them elsewhere too."""
    dialect = DIALECTS["anthropic"]
    for sent in session(random, "anthropic", "claude-opus-5-5", length):
        keys, body = prompt_of(sent).keys, parsed(sent)
        bare = body.apply([splice for marker in dialect.markers(body) for splice in dialect.remove(body, marker)])
        stripped = dialect.parse(bare)
        places = [index for index in range(len(stripped.blocks)) if dialect.markable(stripped, index)]
        moved = stripped.apply(dialect.place(stripped, random.choice(places), random.choice(["5m", "1h"])))
        for raw in (bare, moved):
            assert prompt_of(Sent(0.0, sent.workspace, sent.dialect, sent.model, raw)).keys == keys


@each_model
@LAX
@given(randoms, st.integers(2, 6))
def test_a_reader_with_a_past_reads_what_a_fresh_one_reads(dialect, name, random: Random, length):
    """Also when the past is another conversation, model or workspace, and when little of it is kept."""
    reader = PromptReader(kept_blocks=random.choice([1, 5, 1_000]), kept_bodies=random.choice([1, 100_000_000]))
    for pair in ((dialect, name), random.choice(MODELS), (dialect, name)):
        for sent in session(random, *pair, length, workspace=random.choice(["w", "v"])):
            body = reader.parse(DIALECTS[sent.dialect], sent.body, model=sent.model)
            assert body == parsed(sent)
            read = reader.read(body, facts_of(sent), scope=sent.workspace)
            assert read == PromptReader().read(body, facts_of(sent), scope=sent.workspace)


def recorded(shapes) -> list[Sent]:
    """A recorded run as it was sent: the client's own model and times."""
    sents = []
    for shape in shapes:
        if shape.dialect is None or shape.body is None:
            continue
        path = shape.path.partition("?")[0]
        model = path.rpartition("/models/")[2].partition(":")[0] if shape.dialect == "gemini" else ""
        body = DIALECTS[shape.dialect].parse(shape.body, model=model)
        if isinstance(body, Body) and path.endswith(tuple(PATHS.values())[:3]) | bool(model):
            known = body.model if ":" in body.model or facts.model(body.model).known else f"openai:{body.model}"
            name = body.model if shape.dialect in ("anthropic", "gemini") else known
            sents.append(Sent(shape.at, "w", shape.dialect, name, shape.body))
    return sorted(sents, key=lambda sent: sent.at)


RUNS = {name: sents for name, shapes in conversations().items() if (sents := recorded(shapes))}


@pytest.mark.parametrize("name", RUNS, ids=["-".join(name) for name in RUNS])
def test_recorded_clients_obey_the_same_laws(name):
    sents = RUNS[name]
    usages = billed(sents)
    obeys(sents, usages)
    assert billed([Sent(s.at, "other", s.dialect, s.model, s.body) for s in sents]) == usages
    assert billed(sents, Noise()) == usages
