"""Law 7: through the engine a client pays at most what it would have paid alone, plus one probing credit, at any time;
one that never marks at most a tenth more, for a prefix that has come twice.

The client alone is simulated apart: its own bytes against a provider that never saw ours.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from holdfast.config.sections.cache import Cache
from holdfast.engine.state import facts_of
from holdfast.prefix.account import SHARE
from holdfast.prefix.costs import costs
from tests.properties.adversaries import ADVERSARIES, MARKED, Attack
from tests.properties.running import Raises, Runner, dollars

MODELS = ("claude-opus-4-6", "claude-sonnet-5-5", "claude-haiku-5-5")


SIZES = (1_000, 6_000, 12_000)
CREDITS = (0.0, 0.002, 0.02, 0.25)


class Bill(Struct, frozen=True):
    """What was ever paid at most beyond the client alone, and beyond that and its tenth; the first less what came back
    after its marker was dropped."""

    most: float
    over_a_tenth: float
    unforced: float
    saved: float


def bill(attack: Attack, cache: Cache, raises: Raises | None = None) -> Bill:
    paid = alone = most = tenth = unforced = returned = 0.0
    with Runner(cache, raises=raises) as run:
        for played in run.play(attack.steps()):
            paid += dollars(played.prepared, played.billed)
            alone += dollars(played.prepared, played.alone)
            price = costs(facts_of(played.prepared.client), played.billed.prompt)
            dearest = max(cost for _, cost in price.writes) - price.read
            returned += max(0, played.alone.read - played.billed.read) * dearest
            tenth = max(tenth, paid - (1 + SHARE) * alone)
            most, unforced = max(most, paid - alone), max(unforced, paid - alone - returned)
    return Bill(most, tenth, unforced, alone - paid)


@pytest.mark.slow
@pytest.mark.parametrize("who", ADVERSARIES)
@settings(max_examples=5, derandomize=True, deadline=None)
@given(
    st.sampled_from(MARKED),
    st.integers(0, 99),
    st.sampled_from(MODELS),
    st.sampled_from(SIZES),
    st.sampled_from(CREDITS),
    st.sampled_from(["off", "suggest", "on"]),
    st.sampled_from([None, "yes", "no"]),
)
def test_never_worse(
    who: str, marked: str, seed: int, model: str, size: int, credit: float, repair: Any, raises: Raises | None
) -> None:
    """Where the client's markers stay (`respect`), and where it has none, whatever it does."""
    markers: Any = "improve" if marked == "none" else "respect"
    cache = Cache(client_markers=markers, repair=repair, probe_credit_usd=credit)
    attack = Attack(who, marked, seed, model, size, requests=12)
    found = bill(attack, cache, raises)
    assert (found.over_a_tenth if marked == "none" else found.most) <= credit + 1e-9, attack


@pytest.mark.slow
@pytest.mark.parametrize("who", ["alternates", "returns_once", "turns_good", "cancels", "chance"])
@settings(max_examples=5, derandomize=True, deadline=None)
@given(st.sampled_from(MARKED[1:]), st.integers(0, 99), st.sampled_from(SIZES), st.sampled_from(CREDITS))
def test_improving_costs_at_most_the_credit_and_what_came_back(
    who: str, marked: str, seed: int, size: int, credit: float
) -> None:
    """A marker that was dropped because it had proved a loss may be missed when its prefix comes again after all: any
    number of requests may ask for it at once, before it is written again. Nothing else is paid beyond the credit."""
    attack = Attack(who, marked, seed, size=size, requests=12)
    assert bill(attack, Cache(client_markers="improve", probe_credit_usd=credit)).unforced <= credit + 1e-9, attack


@pytest.mark.parametrize("who", ["clock_at_head", "tools_shuffled"])
def test_a_bad_client_that_marks_everything_saves(who: str) -> None:
    """The law above would hold for an engine that does nothing."""
    assert bill(Attack(who, "both", requests=16), Cache(client_markers="improve")).saved > 0


def test_the_credit_is_used() -> None:
    """And the first one for an engine that never dares to write."""
    assert 0.01 < bill(Attack("one_shots", "none", requests=16), Cache(probe_credit_usd=0.02)).most <= 0.02
    assert bill(Attack("tools_shuffled", "none", requests=16), Cache()).saved > 0.1
