"""What strategies cost on recorded sessions: the economic one beside the best fixed one and the clairvoyant optimum.

Sets are the sessions of one kind under one pattern of gaps, replayed in order with what was learned from one to the
next; each session begins with an empty cache. `ttl_raise` is what no source settles: both ways are run, with a route on
which it is known, and again with one on which it has to be found out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from statistics import quantiles
from typing import Literal

from msgspec.structs import replace

from benchmarks import Result, first_sessions
from benchmarks.recordings import JUDGED, SOURCE, dialogue_calls, dialogues, many, seeds, shaped_calls
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.planner import Tenant
from holdfast.core.situation import Strategy
from holdfast.core.strategies import STRATEGIES, rolling, two_point
from holdfast.facts import ModelFacts, model
from holdfast.lab import ReplayOptions, TimedCall, optimal
from holdfast.lab import run as run_lab
from holdfast.lab.playback import billed, replay

ANTHROPIC = ("claude-opus-4-6", "claude-sonnet-5-5", "claude-haiku-4-5")
OPENAI = "openai:gpt-6.1-sol"
SETS = (
    *(("coding", pattern) for pattern in ("real", "none", "minutes", "office")),
    *(("dialogues", pattern) for pattern in ("none", "minutes", "office")),
)
FIXED: dict[str, Strategy] = {
    "rolling 5m": lambda situation: rolling(situation),
    "rolling 1h": lambda situation: rolling(situation, "1h"),
    "head 1h, tail 5m": lambda situation: rolling(situation, "5m", "1h"),
    "two-point 5m": lambda situation: two_point(situation),
    "two-point 1h": lambda situation: two_point(situation, "1h"),
    "no markers": STRATEGIES["passthrough"],
}
SESSIONS = {"claude-opus-4-6": (1.07, 1.25), "claude-sonnet-5-5": (1.11, 1.35)}
"""What the recorded sessions may cost over the optimum, and a tenth of them each."""
BEST_OF = ("rolling", "rolling-1h", "automatic")
ECONOMIC = CacheSettings(strategy="economic")
Raise = Literal["yes", "no"]


def run(*, quick: bool) -> Iterator[Result]:
    for result in _results(quick=quick):
        yield result if JUDGED else dataclasses.replace(result, limit=None)


def _results(*, quick: bool) -> Iterator[Result]:
    yield Result("sessions", len(dialogues()), "", None, "higher", SOURCE)
    for name, limits in SESSIONS.items():
        for cold in (True, False):
            yield from _sessions(name, *limits, cold=cold)
    yield from first_sessions.run(quick=quick)
    for name in ANTHROPIC:
        yield from _anthropic(name, "yes", quick=quick)
        yield from _anthropic(name, "no", quick=quick)
    yield from _openai(quick=quick)


def _sessions(name: str, over_optimum: float, p90: float, *, cold: bool) -> Iterator[Result]:
    """Many recorded sessions in their order, at the times they were recorded at, each with an empty cache or with what
    its first requests were billed as read."""
    found = run_lab(many(), ["economic", *BEST_OF, "optimal"], [name], ReplayOptions(ttl_raise="no", cold=cold))
    cost = {result.strategy: result.cost_tokens for result in found.results}
    best = min(BEST_OF, key=lambda each: cost[each])
    title = f"{name}, {len(found.traces)} sessions{'' if cold else ' begun warm'}"
    note = f"best fixed: {best}, {float(cost[best] / cost['optimal']):.3f} of the optimum"
    yield Result(f"{title}, over the best fixed", float(cost["economic"] / cost[best]), "x", 1.0, "lower", note)
    share = float(cost["economic"] / cost["optimal"])
    yield Result(f"{title}, over the optimum", share, "x", over_optimum, "lower", "without pings")
    each = {
        strategy: [float(one.over_optimal) for one in found.sessions if one.strategy == strategy and one.over_optimal]
        for strategy in ("economic", "rolling-1h")
    }
    if len(each["economic"]) > 1:
        ours, long = (quantiles(shares, n=10)[-1] for shares in each.values())
        yield Result(f"{title}, p90 over the optimum", ours, "x", p90, "lower", f"rolling-1h {long:.3f}")


def _anthropic(name: str, raises: Raise, *, quick: bool) -> Iterator[Result]:
    world = _world(name, raises)
    paid, least, unknown = Decimal(0), Decimal(0), Decimal(0)
    shares: list[float] = []
    sums, least_fixed = dict.fromkeys(FIXED, Decimal(0)), Decimal(0)
    for kind, pattern in SETS:
        sets = _calls(kind, pattern, f"anthropic:{name}", quick)
        each = _fixed(sets, world)
        best_name = min(each, key=lambda fixed: each[fixed])
        best = each[best_name]
        sums, least_fixed = {fixed: sums[fixed] + cost for fixed, cost in each.items()}, least_fixed + best
        ours = _economic(sets, world, known=raises)
        optimum = [optimal(calls, world).cost for lanes in sets for calls in lanes]
        paid, least = paid + sum(ours), least + sum(optimum)
        unknown += sum(_economic(sets, world, known=None))
        shares += [float(mine / best_one) for mine, best_one in zip(ours, optimum, strict=True) if best_one]
        bound = (1.005 if pattern == "none" else 1.0) if raises == "yes" else 1.03
        note = f"best fixed: {best_name}, {float(best / sum(optimum)):.3f} of the optimum"
        yield Result(f"{name}, raise {raises}, {kind} {pattern}", float(sum(ours) / best), "x", bound, "lower", note)
    best_name = min(sums, key=lambda fixed: sums[fixed])
    note = f"best fixed: {best_name}; over each set's own best in hindsight {float(paid / least_fixed):.3f}"
    yield Result(f"{name}, raise {raises}, all sets", float(paid / sums[best_name]), "x", 1.0, "lower", note)
    note = f"where it has to be found out first {float(unknown / least):.3f}"
    most = 1.05 if raises == "yes" else None
    yield Result(f"{name}, raise {raises}, over the optimum", float(paid / least), "x", most, "lower", note)
    p90 = quantiles(shares, n=10)[-1] if len(shares) > 1 else shares[0]
    note = f"{len(shares)} sessions, worst {max(shares):.3f}"
    yield Result(f"{name}, raise {raises}, p90 of the sessions", p90, "x", 1.15 if most else None, "lower", note)


def _openai(*, quick: bool) -> Iterator[Result]:
    """One lifetime and breakpoints of the provider's own: what can be won is placement."""
    world = model(OPENAI)
    for kind, pattern in SETS:
        sets = _calls(kind, pattern, OPENAI, quick)
        each = _fixed(sets, world)
        best_name = min(each, key=lambda fixed: each[fixed])
        ours = sum(_economic(sets, world, known=None))
        note = f"best fixed: {best_name}"
        yield Result(f"{world.name}, {kind} {pattern}", float(ours / each[best_name]), "x", 1.005, "lower", note)


def _world(name: str, raises: Raise) -> ModelFacts:
    facts = model(f"anthropic:{name}")
    return replace(facts, knobs=replace(facts.knobs, ttl_raise=raises))


@cache
def _calls(kind: str, pattern: str, ref: str, quick: bool) -> list[list[list[TimedCall]]]:
    """The lanes of a set, once for each seed."""
    load = shaped_calls if kind == "coding" else dialogue_calls
    return [load(pattern, seed, model(ref)) for seed in seeds(pattern, quick=quick)]


def _economic(sets: Sequence[Sequence[Sequence[TimedCall]]], world: ModelFacts, known: Raise | None) -> list[Decimal]:
    """What each lane costs. What the core believes of the route at the start is `known`."""
    believed, paid = model(world.ref), []
    for lanes in sets:
        tenant = Tenant()
        tenant.experience.route(world.ref).raises = known
        paid += [
            billed(replay(calls, world, ECONOMIC, tenant=tenant, client="bench", believed=believed), world)
            for calls in lanes
        ]
    return paid


def _fixed(sets: Sequence[Sequence[Sequence[TimedCall]]], world: ModelFacts) -> dict[str, Decimal]:
    """What each fixed strategy costs over the whole set."""
    lanes, settings = [calls for each in sets for calls in each], CacheSettings(strategy="rolling")
    sums: dict[str, Decimal] = {}
    for name, strategy in FIXED.items():
        STRATEGIES["rolling"], kept = strategy, STRATEGIES["rolling"]
        try:
            sums[name] = sum((billed(replay(calls, world, settings), world) for calls in lanes), Decimal(0))
        finally:
            STRATEGIES["rolling"] = kept
    return sums
