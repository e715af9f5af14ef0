"""Whether a long marker raises a live prefix: what a request can prove, and what its read proves."""

from __future__ import annotations

import pytest

from holdfast.caches.anthropic import AnthropicCache
from holdfast.caches.prompts import Mark, Prompt
from holdfast.core.experience import RouteExperience
from holdfast.core.pool import Pool
from holdfast.core.ttl_raise import Test as RaiseTest
from holdfast.core.ttl_raise import proof
from holdfast.core.ttl_raise import test as question
from holdfast.facts import ModelFacts
from tests.caches.prompts import SMALL, prompt
from tests.core.lanes import SOL, said, system, tool
from tests.core.turns import RAISES


def talk(count: int, ttl: str = "5m", **more: object) -> Prompt:
    blocks = [tool("bash"), system("host"), *(said(number) for number in range(count))]
    return prompt(blocks, (-1, ttl), model=SMALL, **more)


class Watched:
    """Our pool beside the real route."""

    def __init__(self, truth: ModelFacts = SMALL) -> None:
        self.pool, self.real = Pool(SMALL), AnthropicCache(truth)

    def send(self, prompt: Prompt, at: float) -> tuple[RaiseTest | None, int]:
        asked = question(prompt, self.pool, at)
        for each in (self.pool, self.real):
            billed = each.begin(prompt, at)
            each.first_token(billed, at)
        return asked, billed.read


def chained(truth: ModelFacts) -> Watched:
    """A short prefix at 0 and a long marker behind it at 100."""
    route = Watched(truth)
    assert route.send(talk(1), 0) == (None, 0)
    assert route.send(talk(3, "1h"), 100) == (None, 7_000)  # both ways give the same
    return route


@pytest.mark.parametrize("at", [400.0, 400.1, 3_700.0, 3_700.1])
def test_a_request_is_a_test_between_the_short_lifetime_and_the_long_one(at: float) -> None:
    asked, _ = chained(SMALL).send(talk(5, "5m"), at)
    assert asked == (RaiseTest(raised=9_000, plain=0) if 400 < at <= 3_700 else None)


@pytest.mark.parametrize(("truth", "says"), [(SMALL, "no"), (RAISES, "yes")], ids=["no", "yes"])
def test_the_read_proves_it(truth: ModelFacts, says: str) -> None:
    asked, read = chained(truth).send(talk(5), 1_000)
    assert proof(asked, read, RouteExperience()) == says


def test_what_is_alive_either_way_is_read_either_way() -> None:
    route = Watched()
    head = prompt(talk(1).blocks, (1, "1h"), (-1, "5m"), model=SMALL)
    route.send(head, 0)
    route.send(prompt(talk(3).blocks, (1, "1h"), (-1, "1h"), model=SMALL), 100)
    asked, read = route.send(prompt(talk(5).blocks, (1, "1h"), (-1, "5m"), model=SMALL), 1_000)
    assert asked == RaiseTest(raised=9_000, plain=6_000)
    assert (read, proof(asked, read, RouteExperience())) == (6_000, "no")


@pytest.mark.parametrize(("new", "asks"), [(19, True), (20, False)])
def test_what_no_marker_reaches_proves_nothing(new: int, asks: bool) -> None:
    """Past the lookback it is not read whether it lives or not."""
    route = chained(RAISES)
    asked, read = route.send(talk(3 + new), 1_000)
    assert (read == 9_000) is asks
    assert proof(asked, read, RouteExperience()) == ("yes" if asks else None)


def test_a_marker_in_front_of_it_asks_nothing() -> None:
    route = chained(SMALL)
    asked, _ = route.send(prompt(talk(5).blocks, (1, "5m"), model=SMALL), 1_000)
    assert asked is None


@pytest.mark.parametrize(
    ("read", "says"),
    [(10_000, "yes"), (9_800, "yes"), (9_799, None), (6_201, None), (6_200, "no"), (6_000, "no"), (0, None)],
)
def test_a_read_that_is_neither_proves_nothing(read: int, says: str | None) -> None:
    assert proof(RaiseTest(raised=10_000, plain=6_000), read, RouteExperience()) == says


def test_what_is_proved_is_not_asked_again() -> None:
    assert proof(RaiseTest(9_000, 0), 9_000, RouteExperience(raises="no")) is None
    route = chained(SMALL)
    route.pool.believe("yes")
    assert question(talk(5), route.pool, 1_000) is None


def test_a_request_without_markers_and_a_model_without_the_question_ask_nothing() -> None:
    route = chained(SMALL)
    assert question(prompt(talk(5).blocks, model=SMALL), route.pool, 1_000) is None
    assert question(talk(5), Pool(SOL), 1_000) is None


def test_a_long_marker_on_a_pending_answer_asks_nothing() -> None:
    pool = Pool(SMALL)
    pool.first_token(pool.begin(talk(1), 0), 0)
    pool.begin(talk(3, "1h"), 100)
    assert question(talk(5), pool, 1_000) is None


def test_the_marker_s_name_says_what_it_was_asked_to_live() -> None:
    pool = Pool(SMALL)
    pool.first_token(pool.begin(talk(1), 0), 0)
    outcome = pool.begin(talk(3, "1h"), 100)
    assert [(entry.ttl, entry.seconds) for entry in outcome.new] == [("1h", 300.0)]
    assert outcome.prompt.marks == (Mark(4, "1h"),)
