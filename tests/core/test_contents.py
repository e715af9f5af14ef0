"""The objects of one agent: when they are made, used, refreshed and given up, and what their storage costs."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast import facts
from holdfast.config.sections.cache import CacheSettings, GeminiSettings
from holdfast.core.gemini_contents import (
    MAKING_S,
    SLACK,
    AgentContents,
    ContentsDecision,
    ContentsRequest,
    Create,
    Delete,
    Offer,
    Refresh,
    Use,
    creation_cost,
    decide,
    due,
    identity,
)
from holdfast.facts import ModelFacts, Rates

MODEL = facts.model("gemini:gemini-2.5-flash")
ON = GeminiSettings(enabled=True)
START = 1_000_000.0


def rates() -> Rates:
    found = facts.rates(MODEL.ref)
    assert found is not None
    return found


def offer(name: str = "a", tokens: int = 10_000, contents: int = 2) -> Offer:
    return Offer(name, contents, tokens)


def wanted(
    *offers: Offer, lane: str = "lane", per_hour: float = 20, implicit: float | None = 0, **more: Any
) -> ContentsRequest:
    return ContentsRequest(lane=lane, offers=offers or (offer(),), per_hour=per_hour, implicit=implicit, **more)


def ask(
    objects: AgentContents,
    want: ContentsRequest | None = None,
    at: float = 0,
    settings: GeminiSettings = ON,
    model: ModelFacts = MODEL,
) -> ContentsDecision:
    return decide(objects, want or wanted(), model, rates(), settings, START + at)


def made(
    objects: AgentContents | None = None,
    want: ContentsRequest | None = None,
    at: float = 0,
    name: str = "",
    settings: GeminiSettings = ON,
) -> AgentContents:
    """What there is after a decision to create has been carried out and the object was used at once."""
    objects = objects or AgentContents()
    want = want or wanted()
    create = next(c for c in ask(objects, want, at, settings).commands if isinstance(c, Create))
    name = name or f"cachedContents/{create.offer.identity}"
    now = START + at
    objects = objects.creating(create, now)
    objects = objects.created(create, name, now + settings.ttl_s, create.offer.tokens, now)
    return objects.used(name, want.lane, now)


class TestIdentity:
    PARTS = ("gemini-2.5-flash", b"system", b"tools", b"config", (b"one", b"two"))

    def test_it_is_a_sha_256_and_the_same_for_the_same(self) -> None:
        assert identity(*self.PARTS) == identity(*self.PARTS)
        assert len(bytes.fromhex(identity(*self.PARTS))) == 32

    @pytest.mark.parametrize("place", range(5))
    def test_every_part_of_it_counts(self, place: int) -> None:
        changes: list[Any] = ["gemini-2.5-pro", b"other", b"other", None, (b"one", b"other")]
        parts: list[Any] = [*self.PARTS]
        parts[place] = changes[place]
        assert identity(*parts) != identity(*self.PARTS)

    def test_borders_between_the_parts_count(self) -> None:
        assert identity("m", b"ab", b"c", None, ()) != identity("m", b"a", b"bc", None, ())
        assert identity("m", b"a", None, None, ()) != identity("m", None, b"a", None, ())
        assert identity("m", b"", None, None, ()) != identity("m", None, None, None, ())
        assert identity("m", None, None, None, (b"ab",)) != identity("m", None, None, None, (b"a", b"b"))


class TestWhetherToCreate:
    def test_switched_off_is_the_default(self) -> None:
        assert ask(AgentContents(), settings=GeminiSettings()) == ContentsDecision(
            why="cached contents are switched off"
        )

    def test_only_where_objects_exist(self) -> None:
        assert ask(AgentContents(), model=facts.model("anthropic:claude-opus-5")).commands == ()

    def test_rule_5_8_on_both_sides(self) -> None:
        """(0.30 + 1.00) / (0.30 - 0.03) = 4.8 uses in the hour."""
        assert ask(AgentContents(), wanted(per_hour=4.8)).commands == ()
        commands = ask(AgentContents(), wanted(per_hour=4.9)).commands
        assert [(c.offer, c.ttl_s, c.lane) for c in commands if isinstance(c, Create)] == [(offer(), 3600, "lane")]

    def test_the_uses_are_those_within_its_life(self) -> None:
        half = replace(ON, ttl_s=1800)  # (0.30 + 0.50) / 0.27 = 2.96 uses in half an hour
        assert ask(AgentContents(), wanted(per_hour=5.9), settings=half).commands == ()
        assert ask(AgentContents(), wanted(per_hour=6.0), settings=half).commands

    def test_a_lane_that_is_nearly_over_needs_none(self) -> None:
        assert ask(AgentContents(), wanted(remaining=4)).commands == ()
        assert ask(AgentContents(), wanted(remaining=5)).commands

    def test_what_implicit_caching_would_read_anyway_is_no_gain(self) -> None:
        """Known of the model: 60% come by themselves, so 4.8 / 0.4 = 12.04 uses are needed."""
        assert ask(AgentContents(), wanted(per_hour=12, implicit=None)).commands == ()
        assert ask(AgentContents(), wanted(per_hour=12.1, implicit=None)).commands

    def test_a_model_without_implicit_caching_gains_by_every_use(self) -> None:
        assert ask(
            AgentContents(), wanted(per_hour=5, implicit=None), model=replace(MODEL, caching="explicit")
        ).commands

    def test_the_floor_on_both_sides(self) -> None:
        assert ask(AgentContents(), wanted(offer(tokens=2_047))).commands == ()
        assert ask(AgentContents(), wanted(offer(tokens=2_048))).commands

    def test_without_a_price_nothing_is_bought(self) -> None:
        assert decide(AgentContents(), wanted(), MODEL, None, ON, START).commands == ()

    def test_not_twice_while_it_is_under_way(self) -> None:
        create = ask(AgentContents()).commands[0]
        assert isinstance(create, Create)
        objects = AgentContents().creating(create, START)
        assert ask(objects) == ContentsDecision(why="it is being created")

    def test_after_a_failure_the_lane_waits_for_the_length_of_a_life(self) -> None:
        create = ask(AgentContents()).commands[0]
        assert isinstance(create, Create)
        objects = AgentContents().creating(create, START).failed(create, START)
        assert objects.held == {}
        assert ask(objects, wanted(offer("other")), at=3_599).commands == ()
        assert ask(objects, wanted(lane="other")).commands
        assert ask(objects, at=3_600).commands

    def test_settings_of_other_providers_have_no_effect(self) -> None:
        for retention in ("none", "short", "long"):
            settings = CacheSettings(retention=retention, gemini=ON).gemini  # type: ignore[arg-type]
            assert ask(AgentContents(), settings=settings) == ask(AgentContents())


class TestUse:
    def test_it_is_named_while_it_lives(self) -> None:
        objects = made()
        use = Use("cachedContents/a", 2, 10_000)
        assert ask(objects, at=10).use == use
        assert ask(objects, at=3_600 - SLACK - 0.001).use == use
        assert ask(objects, at=3_600 - SLACK).use is None

    def test_other_content_has_no_object(self) -> None:
        assert ask(made(), wanted(offer("b"), per_hour=0), at=1).use is None

    def test_the_largest_of_those_that_fit(self) -> None:
        small = made()
        both = made(small, wanted(offer("b", 50_000, 8), lane="other"))
        found = ask(both, wanted(offer(), offer("b", 50_000, 8)), at=1)
        assert found.use == Use("cachedContents/b", 8, 50_000)

    def test_tokens_and_end_are_the_providers(self) -> None:
        create = ask(AgentContents()).commands[0]
        assert isinstance(create, Create)
        objects = AgentContents().creating(create, START).created(create, "cachedContents/x", START + 60, 9_000, START)
        assert ask(objects).use == Use("cachedContents/x", 2, 9_000)
        assert ask(objects, at=60).use is None

    def test_a_lost_one_is_not_named_again(self) -> None:
        objects, charge = made().lost("cachedContents/a", START + 1_800)
        assert ask(objects, wanted(per_hour=0), at=1_800).use is None
        assert charge.token_hours == 5_000


class TestLarger:
    """A conversation outgrows its object: a new one is paid for whole and gains by what is new."""

    def grown(self, tokens: int, per_hour: float, found: AgentContents | None = None) -> ContentsDecision:
        want = wanted(offer(), offer("b", tokens, 9), per_hour=per_hour)
        return ask(found or made(), want, at=60)

    def test_it_must_pay_beside_the_one_there_is(self) -> None:
        """(0.30 x 20,000 + 1.00 x 10,000) / (0.27 x 10,000) = 5.9 uses."""
        assert self.grown(20_000, 5.9).commands == ()
        found = self.grown(20_000, 6.0)
        assert [type(command) for command in found.commands] == [Create]
        assert found.use == Use("cachedContents/a", 2, 10_000)

    def test_a_little_more_does_not_pay(self) -> None:
        assert self.grown(10_500, 20).commands == ()

    def test_the_lane_leaves_the_old_one_when_it_uses_the_new(self) -> None:
        objects = made(made(), wanted(offer(), offer("b", 30_000, 9)), at=60)
        assert due(objects, ON, START + 60) == (Delete("cachedContents/a"),)
        objects, _ = objects.deleted("cachedContents/a", START + 60)
        assert set(objects.held) == {"b"}

    def test_an_old_one_that_another_lane_uses_stays(self) -> None:
        objects = made().used("cachedContents/a", "other", START + 5)
        objects = made(objects, wanted(offer(), offer("b", 30_000, 9)), at=60)
        assert due(objects, ON, START + 60) == ()


class TestRefresh:
    def test_at_half_life_by_the_request_that_uses_it(self) -> None:
        objects = made()
        for at in (300, 600, 900, 1_200, 1_500):
            objects = objects.used("cachedContents/a", "lane", START + at)
        assert ask(objects, at=1_799).commands == ()
        assert ask(objects, at=1_800).commands == (Refresh("cachedContents/a", 3_600),)

    def test_between_requests_if_it_was_used_since(self) -> None:
        objects = made()
        for at in (300, 600):
            objects = objects.used("cachedContents/a", "lane", START + at)
        assert due(objects, ON, START + 1_799) == ()
        assert due(objects, ON, START + 1_800) == (Refresh("cachedContents/a", 3_600),)

    def test_not_if_only_its_creator_used_it(self) -> None:
        assert due(made(), ON, START + 1_800) == ()

    def test_not_if_its_storage_costs_more_than_its_uses_save(self) -> None:
        """1.00 / 0.27 = 3.7 uses in an hour pay for the storage: one in 30 minutes does not, two do."""
        once = made().used("cachedContents/a", "lane", START + 60)
        assert due(once, ON, START + 1_800) == ()
        twice = once.used("cachedContents/a", "lane", START + 120)
        assert due(twice, ON, START + 1_800) != ()

    def test_a_new_life_is_counted_anew(self) -> None:
        objects = made()
        for at in (300, 600, 900):
            objects = objects.used("cachedContents/a", "lane", START + at)
        objects = objects.refreshed("cachedContents/a", START + 5_400, START + 1_800)
        assert due(objects, ON, START + 3_600) == ()
        assert ask(objects, at=5_300).use is not None

    def test_the_share_is_a_setting(self) -> None:
        early = replace(ON, refresh_at=0.25)
        objects = made().used("cachedContents/a", "lane", START + 300)
        assert due(objects, early, START + 899) == ()
        assert due(objects, early, START + 900) != ()


class TestLimit:
    FEW = replace(ON, max_active=3)

    def full(self, reused: bool) -> AgentContents:
        objects = AgentContents()
        for number, name in enumerate("abc"):
            objects = made(objects, wanted(offer(name), lane=name), at=number, settings=self.FEW)
        for name in "abc" if reused else "":
            objects = objects.used(f"cachedContents/{name}", name, START + 10)
        return objects

    def new(self, objects: AgentContents, at: float, settings: GeminiSettings | None = None) -> ContentsDecision:
        return ask(objects, wanted(offer("new"), lane="new"), at, settings or self.FEW)

    def test_twenty_is_the_default(self) -> None:
        objects = AgentContents()
        for number in range(20):
            decision = ask(objects, wanted(offer(str(number)), lane=str(number)), at=number)
            assert [type(command) for command in decision.commands] == [Create], number
            objects = made(objects, wanted(offer(str(number)), lane=str(number)), at=number)
        commands = ask(objects, wanted(offer("last"), lane="last"), at=30).commands
        assert commands[0] == Delete("cachedContents/0")
        assert isinstance(commands[1], Create)
        assert len(commands) == 2

    def test_the_least_recently_used_gives_way(self) -> None:
        objects = self.full(reused=False).used("cachedContents/a", "a", START + 2)
        commands = self.new(objects, 5).commands
        assert commands[0] == Delete("cachedContents/b")

    def test_not_those_in_active_use(self) -> None:
        objects = self.full(reused=True)
        found = self.new(objects, 11)
        assert (found.commands, found.why) == ((), "all 3 objects of this agent are in use")
        assert self.new(objects, 10 + 1_799).commands == ()
        assert self.new(objects, 10 + 1_800).commands[0] == Delete("cachedContents/a")

    def test_creations_under_way_count_and_stay(self) -> None:
        objects = AgentContents()
        for name in "abc":
            create = ask(objects, wanted(offer(name), lane=name), settings=self.FEW).commands[0]
            assert isinstance(create, Create)
            objects = objects.creating(create, START)
        assert self.new(objects, 1).commands == ()

    def test_those_that_ran_out_do_not_count(self) -> None:
        assert [type(command) for command in self.new(self.full(reused=True), 3_700).commands] == [Create]


class TestEnd:
    def test_an_object_goes_with_its_last_lane(self) -> None:
        objects = made().used("cachedContents/a", "other", START + 1)
        objects = objects.ended("lane", START + 2)
        assert due(objects, ON, START + 2) == ()
        objects = objects.ended("other", START + 2)
        assert due(objects, ON, START + 2) == (Delete("cachedContents/a"),)
        objects, charge = objects.deleted("cachedContents/a", START + 360)
        assert objects == AgentContents()
        assert charge.token_hours == 1_000

    def test_the_fence_is_what_the_lane_has_in_an_object(self) -> None:
        objects = made()
        assert objects.fence("lane", START + 1) == 2
        assert objects.fence("other", START + 1) == 0
        assert objects.fence("lane", START + 3_600) == 0

    def test_what_ran_out_is_swept_with_the_last_of_its_cost(self) -> None:
        objects, charges = made().swept(START + 3_600)
        assert (len(objects.held), charges) == (1, ())
        objects, charges = objects.swept(START + 3_601)
        assert objects.held == {}
        assert [charge.token_hours for charge in charges] == [10_000]


class TestCost:
    def test_the_charges_add_up_to_the_time_it_was_held(self) -> None:
        objects, total = made(), Decimal(0)
        for at in (100, 1_000, 1_001, 3_000):
            objects, charge = objects.charged("cachedContents/a", START + at)
            total += charge.cost(rates())
        objects, charge = objects.deleted("cachedContents/a", START + 3_240)
        total += charge.cost(rates())
        assert total == pytest.approx(Decimal("0.009"))  # nine tenths of an hour at $1 a million
        assert charge.model == MODEL.ref

    def test_nothing_is_charged_beyond_its_end(self) -> None:
        _, charge = made().charged("cachedContents/a", START + 10_000)
        assert charge.token_hours == 10_000

    def test_creating_is_paid_as_input(self) -> None:
        assert creation_cost(10_000, rates()) == Decimal("0.003")

    def test_an_unknown_name_costs_nothing(self) -> None:
        objects = made()
        assert objects.charged("cachedContents/unknown", START) == (objects, None)
        assert objects.deleted("", START) == (objects, None)
        assert objects.used("cachedContents/unknown", "lane", START) is objects


def test_it_can_be_kept_and_read_back() -> None:
    objects = made().ended("lane", START)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(objects), type=AgentContents) == objects


def test_while_one_is_being_made_its_lane_begins_no_other() -> None:
    """The conversation grows meanwhile, and with it what it offers; after a while the answer is not waited for."""
    (create,) = ask(AgentContents()).commands
    assert isinstance(create, Create)
    objects = AgentContents().creating(create, START)
    larger = wanted(offer("b", 20_000, 4))
    assert ask(objects, larger, at=1).commands == ()
    assert "being created" in ask(objects, larger, at=1).why
    assert ask(objects, larger, at=MAKING_S).commands
    assert ask(objects, wanted(offer("b", 20_000, 4), lane="another"), at=1).commands
