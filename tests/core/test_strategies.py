"""The fixed strategies: where each of them puts its markers, on every kind of provider and on recorded requests."""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random

import pytest
from msgspec.structs import replace

from holdfast.caches.anthropic import AnthropicCache
from holdfast.caches.openai_breakpoints import OpenAIBreakpoints
from holdfast.caches.prompts import Mark, Prompt
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.plan import Plan
from holdfast.core.retention import Retention
from holdfast.core.strategies import STRATEGIES, combined, passthrough, rolling, three_block, two_point
from holdfast.core.strategies.places import checked, place_of, user_ends
from holdfast.facts import model
from holdfast.simulator import HttpRequest, Simulator
from holdfast.wire import DIALECTS, Body
from holdfast.wire.openai import facts_for
from holdfast.wire.prompts import PromptReader
from tests import shapes
from tests.caches.prompts import OPUS, SMALL
from tests.core.lanes import SOL, Lane, places, said, situation, system, tool
from tests.properties import sessions

TALK = [tool("bash"), tool("read"), system("host"), system("prefs"), said(0), said(1), said(2)]
FIXED = [name for name in STRATEGIES if name != "economic"]
MARKING = [name for name in FIXED if name != "passthrough"]


KEYS = {"x-api-key": "k", "authorization": "Bearer k"}  # the recorded ones are blanked out


def developer(name, tokens=2_000, **more):
    return system(name, tokens, role="developer", **more)


CHAT = [developer("host"), tool("bash", markable=False), said(0), said(1), said(2)]


class TestPassthrough:
    def test_it_is_exactly_what_the_client_sent(self):
        sent = [(0, "5m"), (3, "1h"), (-1, "5m")]  # not even legal
        assert passthrough(situation(TALK, *sent)).marks == (Mark(0, "5m"), Mark(3, "1h"), Mark(6, "5m"))

    def test_nothing_is_added(self):
        assert passthrough(situation(TALK, pinned=(Mark(3, "1h"),))).marks == ()


class TestTwoPoint:
    def test_A15_A16_the_last_tool_and_the_last_stable_system_block(self):
        assert places(two_point(situation(TALK))) == [(1, "5m"), (3, "5m")]

    def test_A18_two_of_four(self):
        assert len(two_point(situation(TALK)).marks) == 2

    def test_A17_A19_a_volatile_block_is_never_marked(self):
        assert places(two_point(situation(TALK, volatile=frozenset({3})))) == [(1, "5m"), (2, "5m")]

    def test_nothing_behind_a_volatile_system_block_is_stable(self):
        assert places(two_point(situation(TALK, volatile=frozenset({2})))) == [(1, "5m")]

    def test_A20_a_single_system_block_carries_the_marker(self):
        assert places(two_point(situation([tool("bash"), system("all"), said(0)]))) == [(0, "5m"), (1, "5m")]

    def test_A21_without_tools_only_the_system_marker(self):
        assert places(two_point(situation([system("all"), said(0)]))) == [(0, "5m")]

    def test_a_tool_that_cannot_be_marked_is_passed_over(self):
        late = tool("late", markable=False)
        assert places(two_point(situation([tool("bash"), late, system("all"), said(0)]))) == [(0, "5m"), (2, "5m")]

    def test_a_web_tool_is_no_system_text(self):
        web = tool("web", kind="web_search_20250305")
        asked = situation([web, tool("bash"), said(0)])
        assert asked.prompt.blocks[1].section == "system"  # where the cache sees it
        assert places(two_point(asked)) == [(0, "5m")]

    def test_the_lifetime_is_the_callers(self):
        assert places(two_point(situation(TALK), ttl="1h")) == [(1, "1h"), (3, "1h")]

    @pytest.mark.parametrize(("tokens", "marks"), [(4_095, []), (4_096, [(0, "5m")])])
    def test_below_the_floor_there_is_no_marker(self, tokens, marks):
        plan = two_point(situation([system("all", tokens), said(0)], facts=OPUS))
        assert places(plan) == marks
        assert [why for why in plan.dropped if "below the floor of 4096" in why] == list(plan.dropped)
        assert bool(plan.dropped) is not bool(marks)


class TestRolling:
    def test_it_adds_the_last_block(self):
        assert places(rolling(situation(TALK))) == [(1, "5m"), (3, "5m"), (6, "5m")]

    def test_the_last_block_that_can_carry_one(self):
        thinking = said(3, kind="thinking", markable=False)
        assert places(rolling(situation([*TALK, thinking])))[-1] == (6, "5m")
        assert places(rolling(situation(TALK, volatile=frozenset({6}))))[-1] == (5, "5m")

    @pytest.mark.parametrize(
        ("lifetimes", "ttls"),
        [
            ({}, ["5m", "5m", "5m"]),
            ({"ttl": "1h"}, ["1h", "1h", "1h"]),
            ({"head_ttl": "1h"}, ["1h", "1h", "5m"]),
            ({"ttl": "1h", "head_ttl": "5m"}, ["1h", "1h", "1h"]),  # the other way round would be refused
        ],
    )
    def test_fixed_variants(self, lifetimes, ttls):
        assert [ttl for _, ttl in places(rolling(situation(TALK), **lifetimes))] == ttls

    def test_it_reads_what_the_turn_before_covered(self):
        turns = Lane(CacheSettings(strategy="rolling")).turns(4)
        for before, after in pairwise(turns):
            assert after.outcome.read == before.prompt.tokens


class TestPinned:
    @pytest.mark.parametrize("name", MARKING)
    def test_a_pinned_marker_is_in_every_plan_and_what_comes_before_lives_as_long(self, name):
        plan = STRATEGIES[name](situation(TALK, pinned=(Mark(3, "1h"),)))
        assert (3, "1h") in places(plan)
        assert all(ttl == "1h" for block, ttl in places(plan) if block < 3)

    def test_but_not_on_a_volatile_block(self):
        asked = situation(TALK, pinned=(Mark(3, "1h"),), volatile=frozenset({3}))
        plan = two_point(asked)
        assert places(plan) == [(1, "5m"), (2, "5m")]
        assert len(plan.dropped) == 1


class TestThreeBlock:
    def test_E2_E3_tools_and_preferences_long_tail_short_host_unmarked(self):
        plan = three_block(situation(TALK, pinned=(Mark(3, "1h"),)))
        assert places(plan) == [(1, "1h"), (3, "1h"), (6, "5m")]

    def test_E4_context_memory_has_no_marker(self):
        context = [*TALK[:4], system("context"), *TALK[4:]]
        plan = three_block(situation(context, pinned=(Mark(3, "1h"),), volatile=frozenset({4})))
        assert places(plan) == [(1, "1h"), (3, "1h"), (7, "5m")]

    def test_E10_without_preferences_the_host_carries_the_marker(self):
        host = [tool("bash"), system("host"), system("context"), said(0)]
        assert places(three_block(situation(host, volatile=frozenset({2})))) == [(0, "1h"), (1, "1h"), (3, "5m")]

    @pytest.mark.parametrize(("slow", "ttl"), [(2, "5m"), (3, "1h")])
    def test_the_tail_learns_from_a_slow_lane(self, slow, ttl):
        assert places(three_block(situation(TALK, retention=Retention(slow=slow))))[-1] == (6, ttl)

    def test_E5_E7_E17_blocks_are_written_once_for_an_hour_and_read_ever_after(self):
        turns = Lane(CacheSettings(strategy="three-block")).turns(4)
        assert turns[0].written == {"1h": 6_000, "5m": 1_000}
        assert all("1h" not in turn.written for turn in turns[1:])

    @pytest.mark.parametrize(("pause", "read"), [(3_600, 6_000), (3_601, 0)])
    def test_E6_E19_another_session_within_the_hour_reads_them(self, pause, read):
        first, second = Lane(CacheSettings(strategy="three-block")), Lane(CacheSettings(strategy="three-block"))
        first.turn()
        second.cache, second.now = first.cache, float(pause)
        assert second.turn(talk="another session").outcome.read == read

    def test_E8_a_change_of_context_memory_keeps_what_stands_before_it(self):
        cache, reads = AnthropicCache(OPUS), []
        for turn, context in enumerate(["one", "one", "two"]):
            blocks = [tool("bash"), system("host"), system("prefs"), system(context), said(0)]
            asked = situation(blocks, facts=OPUS, pinned=(Mark(2, "1h"),), volatile=frozenset({3}))
            outcome = cache.begin(replace(asked.prompt, marks=three_block(asked).marks), turn * 60.0)
            cache.first_token(outcome, turn * 60.0 + 1)
            reads.append(outcome.read)
        assert reads == [0, 17_000, 11_000]


class TestUserMessages:
    def test_results_come_from_the_users_side(self):
        results = [said(2, kind="tool_result", name="one"), said(2, kind="tool_result", name="two")]
        assert user_ends(situation([said(0), said(1), *results, said(3), said(4)])) == [0, 3, 5]

    def test_results_in_messages_of_their_own_are_one(self):
        outputs = [said(2, role="tool"), said(3, role="tool")]
        assert user_ends(situation([said(0), said(1), *outputs, said(5), said(6)])) == [0, 3, 5]

    def test_two_user_messages_in_a_row_are_two(self):
        assert user_ends(situation([said(0), said(1, role="user"), said(3)])) == [0, 1]

    def test_a_block_that_cannot_be_marked_is_not_the_end(self):
        assert user_ends(situation([said(0), said(0, name="empty", markable=False), said(1)])) == [0]


def test_places_mean_the_same_in_the_next_request():
    prompt = situation(TALK).prompt
    assert [place_of(prompt, block) for block in range(7)] == [
        *("tools:0", "tools:1", "system:0", "system:1"),
        *("messages:-3", "messages:-2", "messages:-1"),
    ]


class TestOverrides:
    """`retention_overrides` act under every strategy of ours."""

    @pytest.mark.parametrize("name", [name for name in MARKING if name != "zones"])  # zones has lifetimes by zone
    @pytest.mark.parametrize(("value", "ttls"), [("none", set()), ("short", {"5m"}), ("long", {"1h"})])
    def test_they_decide_the_lifetime(self, name, value, ttls):
        settings = CacheSettings(retention_overrides={"claude-sonnet": value})
        assert {ttl for _, ttl in places(STRATEGIES[name](situation(TALK, settings=settings)))} == ttls


class TestBreakpoints:
    """OpenAI from GPT-5.6 on: one lifetime, the tail is marked by the provider."""

    @pytest.mark.parametrize("name", ["two-point", "rolling", "three-block"])
    def test_only_the_end_of_the_developer_block(self, name):
        assert places(STRATEGIES[name](situation(CHAT, facts=SOL))) == [(0, "30m")]

    def test_the_last_developer_block_that_can_be_marked(self):
        blocks = [developer("one"), developer("two"), developer("now"), *CHAT[1:]]
        assert places(rolling(situation(blocks, facts=SOL, volatile=frozenset({2})))) == [(1, "30m")]

    def test_instructions_cannot_be_marked(self):
        assert rolling(situation([developer("host", markable=False), *CHAT[1:]], facts=SOL)).marks == ()

    def test_in_explicit_mode_the_tail_is_ours_too(self):
        asked = situation(CHAT, (2, "30m"), facts=SOL, mode="explicit")
        assert places(rolling(asked)) == [(0, "30m"), (4, "30m")]

    @pytest.mark.parametrize("name", MARKING)
    def test_explicit_mode_without_a_breakpoint_is_the_clients_wish(self, name):
        assert STRATEGIES[name](situation(CHAT, facts=SOL, mode="explicit")).marks == ()

    def test_zones_mark_the_recent_message(self):
        assert places(STRATEGIES["zones"](situation(CHAT, facts=SOL))) == [(0, "30m"), (2, "30m")]

    def test_other_sessions_share_the_developer_block(self):
        def second_read(plan):
            cache = OpenAIBreakpoints(SOL)
            first = situation(CHAT, facts=SOL)
            cache.first_token(cache.begin(replace(first.prompt, marks=plan(first).marks), 0), 1)
            other = situation([*CHAT[:2], said(0, name="other")], facts=SOL)
            return cache.begin(replace(other.prompt, marks=plan(other).marks), 60).read

        assert second_read(rolling) == 2_000
        assert second_read(passthrough) == 0


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize(
    "facts",
    ["openai:gpt-5.5", "gemini:gemini-2.5-pro", "deepseek:deepseek-chat", "anthropic:claude-opus-4-6"],
)
def test_models_without_markers_get_none(name, facts):
    known = model(facts)
    known = replace(known, caching="none") if known.provider == "anthropic" else known
    assert STRATEGIES[name](situation(TALK, facts=known)).marks == ()


def rendered(body: Body, prompt: Prompt, plan: Plan) -> bytes:
    """The body with the plan's markers in it, instead of those it has."""
    dialect = DIALECTS[body.dialect]
    wanted = {prompt.origin[mark.block] if prompt.origin else mark.block: mark.ttl for mark in plan.marks}
    splices = []
    for marker in dialect.markers(body):
        if marker.block is not None and wanted.get(marker.block) == marker.ttl:
            del wanted[marker.block]
        elif marker.block not in wanted:
            splices += dialect.remove(body, marker)
    for block, ttl in wanted.items():
        splices += dialect.place(body, block, ttl)
    return body.apply(splices)


def prepared(
    raw: bytes, dialect: str, name: str, how: str, reader: PromptReader, floor: int = 50
) -> tuple[bytes, Plan]:
    """A body with the markers of a strategy in it; the same prefix, whatever was marked."""
    body = DIALECTS[dialect].parse(raw)
    facts = model(f"anthropic:{body.model}") if dialect == "anthropic" else facts_for(body.model)
    facts = replace(facts, floor=floor)
    prompt = reader.read(body, facts).prompt
    settings = CacheSettings(strategy=name, client_markers=how, placement="multi-zone")
    asked = replace(situation(TALK, retention=Retention(reads=3)), prompt=prompt, model=facts, settings=settings)
    plan = checked(combined(STRATEGIES[name](asked), asked), asked, strict=True)
    sent = rendered(body, prompt, plan)
    again = DIALECTS[dialect].parse(sent)
    seen = PromptReader().read(again, facts).prompt
    assert sorted(seen.marks, key=lambda mark: mark.block) == sorted(plan.marks, key=lambda mark: mark.block)
    assert seen.keys == prompt.keys
    return sent, plan


@pytest.mark.slow
@pytest.mark.unmeasured
@pytest.mark.parametrize("how", [pytest.param("respect", marks=pytest.mark.slow), "improve", "manage"])
@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("dialect", ["anthropic", "openai_chat", "openai_responses"])
def test_recorded_requests_stay_acceptable(name, how, dialect):
    """What goes out has the planned markers and is answered as the client's own request is. Requests for OpenAI are
    put to a model that has breakpoints."""
    simulator, reader = Simulator(), PromptReader()
    accepted = planned = 0
    for shape in shapes.load():
        if shape.dialect != dialect or not shape.body or "count_tokens" in shape.path:
            continue
        raw = shape.body
        if dialect != "anthropic":
            raw = json.dumps(json.loads(raw) | {"model": "gpt-6.1-sol"}).encode()
        sent, plan = prepared(raw, dialect, name, how, reader)
        headers = {name: value for name, value in shape.headers if name.lower() not in KEYS} | KEYS
        before, after = (simulator.answer(HttpRequest("POST", shape.path, headers, {}, each)) for each in (raw, sent))
        assert before.status == after.status, shape.id
        accepted += after.status == 200
        planned += after.status == 200 and bool(plan.marks)
    assert accepted > 20
    assert planned > 5 or (name == "passthrough" and dialect != "anthropic")


@pytest.mark.slow
@pytest.mark.parametrize("how", ["respect", "improve", "manage"])
@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize(("dialect", "asked"), [("anthropic", "claude-sonnet-4-5"), ("openai_chat", "gpt-6.1-sol")])
def test_generated_sessions_get_plans_that_the_provider_accepts(name, how, dialect, asked):
    accepted = 0
    for seed in range(8):
        simulator, reader = Simulator(), PromptReader()
        for request in sessions.session(Random(seed), dialect, asked, 4):
            sent, _ = prepared(request.body, dialect, name, how, reader, floor=1_024)
            headers = KEYS | {"anthropic-version": "2023-06-01"}
            call = replace(request.call, headers=headers)
            before, after = simulator.answer(call), simulator.answer(replace(call, body=sent))
            assert after.status == before.status, after
            accepted += after.status == 200
    assert accepted > 16  # of 32; trimmed sessions leave results without their calls


def test_small_models_clear_their_floor_earlier():
    talk = [system("host", 600), said(0, 100)]
    assert places(rolling(situation(talk, facts=SMALL))) == [(0, "5m"), (1, "5m")]
    assert places(rolling(situation(talk, facts=OPUS))) == []
