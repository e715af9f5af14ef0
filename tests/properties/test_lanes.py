"""The generator of many-lane activity keeps its own promises."""

from __future__ import annotations

from random import Random

import pytest

from holdfast import facts
from holdfast.simulator import Simulator, VirtualClock
from holdfast.wire import DIALECTS
from holdfast.wire.prompts import PromptReader
from tests.properties.lanes import RESETS, TAGS, Step, timeline

SEEDS = range(200)


def keys_of(reader: PromptReader, step: Step) -> tuple[bytes, ...]:
    dialect = DIALECTS[step.dialect]
    body = dialect.parse(step.body, model=step.model)
    provider = "anthropic" if step.dialect == "anthropic" else "openai"
    return reader.read(body, facts.model(f"{provider}:{step.model}")).prompt.keys


@pytest.mark.slow
def test_everything_happens() -> None:
    steps = [step for seed in SEEDS for step in timeline(Random(seed))]
    assert {step.kind for step in steps} == {"prepare", "first_token", "settle", "abandon", "restart"}
    assert {tag for step in steps for tag in step.tags} == TAGS
    assert {step.reset for step in steps} == {None, "session_start", *RESETS.values()}
    assert {step.markers for step in steps} == {"none", "own", "long", "automatic"}
    assert {step.client for step in steps if step.kind == "prepare"} == {"coder", "bot"}
    lanes = [{step.lane for step in timeline(Random(seed)) if step.kind == "prepare"} for seed in SEEDS]
    assert min(map(len, lanes)) == 1
    assert any({"lane-0", "lane-1", "lane-2"} <= names for names in lanes)
    assert any("fault" in step.tags for seed in SEEDS for step in timeline(Random(seed), faulty=True))


def test_the_same_seed_gives_the_same_timeline() -> None:
    assert timeline(Random(7)) == timeline(Random(7)) != timeline(Random(8))


@pytest.mark.parametrize("seed", range(0, 200, 20))
def test_time_goes_on_and_every_call_ends_once(seed: int) -> None:
    steps = timeline(Random(seed), faulty=True)
    assert [step.at for step in steps] == sorted(step.at for step in steps)
    flying: set[int] = set()
    kinds: dict[int, list[str]] = {}
    for step in steps:
        if step.kind == "restart":
            assert not flying
            continue
        kinds.setdefault(step.call, []).append(step.kind)
        flying = flying - {step.call} if step.kind in ("settle", "abandon") else flying | {step.call}
    assert {tuple(each) for each in kinds.values()} <= {
        ("prepare", "first_token", "settle"),
        ("prepare", "first_token", "abandon"),
        ("prepare", "abandon"),
    }


@pytest.mark.parametrize(
    ("dialect", "model"),
    [("anthropic", "claude-opus-4-6"), ("openai_chat", "gpt-6.1-sol"), ("openai_responses", "gpt-6.1-sol")],
)
def test_a_request_begins_with_an_earlier_one_or_says_why_not(dialect: str, model: str) -> None:
    departed = 0
    for seed in range(40):
        reader = PromptReader()
        sent: dict[str, list[tuple[bytes, ...]]] = {}
        for step in timeline(Random(seed), dialect, model):
            if step.kind != "prepare":
                continue
            keys, before = keys_of(reader, step), sent.setdefault(step.lane, [])
            if "resend" in step.tags:
                assert keys in before
            elif "fork" in step.tags:
                assert any(keys[: len(each)] == each for each in (*before, *sent.get(step.parent or "", [])))
            elif step.reset is None:
                assert keys[: len(before[-1])] == before[-1]
            else:
                departed += bool(before) and keys[: len(before[-1])] != before[-1]
            before.append(keys)
    assert departed > 20


def test_bodies_are_what_a_provider_accepts_and_pass_the_floor_in_part() -> None:
    cached = []
    for seed in range(20):
        clock = VirtualClock()
        simulator, start = Simulator(clock=clock), clock.now()
        for step in timeline(Random(seed)):
            if step.kind == "prepare":
                clock.set(start + step.at)
                exchange = simulator.begin(step.request)
                assert exchange.answer.status == 200, (seed, exchange.answer)
                cached.append(exchange.record.usage.written > 0)
                exchange.abandon()
    assert 0.2 < sum(cached) / len(cached) < 0.8
