"""The economic strategy: markers where they pay, lifetimes by what was learned, probes that end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.caches.prompts import Block
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.experience import Client, Experience, RouteExperience
from holdfast.core.ledger import Ledger, Position
from holdfast.core.situation import Situation
from holdfast.core.strategies.economic import PROBES, economic
from holdfast.facts import ModelFacts, model
from tests.caches.prompts import SMALL
from tests.core.lanes import FAST, SLOW, SOL, knowing, places, said, situation, system, tool, warm
from tests.core.turns import HEAD, RAISES, Lane, Played


def talk(count: int = 5) -> list[Block]:
    return [*HEAD, *(said(number) for number in range(count))]


def asked(blocks: list[Block], *marks: tuple[int, str], ledger: Ledger | None = None, **more: object) -> Situation:
    found = situation(blocks, *marks, **more)  # type: ignore[arg-type]
    return replace(found, ledger=ledger or Ledger(client="c"))


def one_shot() -> Experience:
    """A client whose lanes are one request each, with heads of their own."""
    client = Client(lanes=1_000, asked=[1_000.0, 0.0, 0.0, 0.0, 0.0], heads=[0.0, 1_000.0])
    return Experience(clients={"c": client})


# Where


def test_tools_system_and_the_end_are_marked() -> None:
    assert places(economic(asked(talk(), experience=knowing()))) == [(1, "5m"), (2, "5m"), (7, "5m")]


def test_a_model_without_markers_gets_none() -> None:
    for ref in ("openai:gpt-5.5", "gemini:gemini-2.5-pro", "deepseek:deepseek-chat"):
        plan = economic(asked(talk(), facts=model(ref)))
        assert (plan.marks, plan.mode) == ((), "")
        assert plan.reasons == (f"{ref} takes no markers",)


def test_an_empty_prompt_gets_none() -> None:
    assert economic(asked([])).marks == ()


def test_nothing_is_marked_behind_a_place_that_keeps_changing() -> None:
    unstable = Ledger(client="c", compared=3, positions={"system:0": Position(seen=3, changed=3)})
    blocks = [tool("bash"), system("a clock"), system("rules"), *talk()[3:]]
    assert places(economic(asked(blocks, ledger=unstable, experience=knowing()))) == [(0, "5m")]
    doubted = Ledger(client="c", compared=1, positions={"system:0": Position(seen=1, changed=1)})
    assert [block for block, _ in places(economic(asked(blocks, ledger=doubted, experience=knowing())))] == [0, 2, 7]


def test_the_tail_stands_before_a_newest_message_that_is_rewritten() -> None:
    ledger = Ledger(client="c", compared=3, positions={"end:1": Position(seen=3, changed=3)})
    assert places(economic(asked(talk(), ledger=ledger, experience=knowing())))[-1] == (6, "5m")


def test_a_clock_in_the_system_text_is_found_out_within_three_requests() -> None:
    lane = Lane()
    for number in range(8):
        lane.blocks[2] = system(f"it is {number}")
        played = lane.turn()
        behind = [block for block, _ in played.marks if block >= 2]
        assert bool(behind) is (number < 3)
    assert played.marks[0][0] == 1
    assert played.billed.read == 2_000


def test_a_volatile_block_carries_no_marker() -> None:
    found = asked(talk(), experience=knowing(), volatile=frozenset({2, 7}))
    assert [block for block, _ in places(economic(found))] == [1, 6]


# The client's own markers


def test_a_client_s_marker_that_has_proved_a_loss_is_dropped_only_to_improve() -> None:
    unstable = Ledger(client="c", compared=3, positions={"system:0": Position(seen=3, changed=3)})
    blocks = [tool("bash"), system("a clock"), *talk()[3:]]

    def planned(how: str) -> list[int]:
        settings = CacheSettings(client_markers=how)  # type: ignore[arg-type]
        found = asked(blocks, (1, "5m"), (-1, "5m"), ledger=unstable, experience=knowing(), settings=settings)
        return [block for block, _ in places(economic(found))]

    assert planned("improve") == [0]
    assert planned("respect") == [0, 1, 6]
    assert planned("manage") == [0]


def test_what_was_dropped_is_told() -> None:
    unstable = Ledger(client="c", compared=3, positions={"tools:0": Position(seen=3, changed=3)})
    plan = economic(asked(talk(), (-1, "5m"), ledger=unstable, experience=knowing()))
    assert plan.marks == ()
    assert "block 7: a marker there has proved a loss" in plan.dropped


def test_a_client_that_never_comes_back_is_not_marked() -> None:
    plan = economic(asked(talk(), (-1, "5m"), experience=one_shot()))
    assert plan.marks == ()


@pytest.mark.parametrize("place", [-1, 5], ids=["resent", "grown"])
def test_what_is_alive_is_read_even_where_nothing_more_is_worth_writing(place: int) -> None:
    """A client of one-shot lanes that comes back for once: its marker writes nothing more, but it reads."""
    blocks = talk()
    found = warm(asked(blocks, (-1, "5m"), experience=one_shot()), place % len(blocks))
    marks = [block for block, _ in places(economic(found))]
    assert place % len(blocks) in marks
    assert max(marks) == place % len(blocks)


# Bridges


@pytest.mark.parametrize(("count", "bridged"), [(19, False), (20, True), (60, True)])
def test_a_bridge_stands_where_a_turn_was_longer_than_the_provider_walks_back(count: int, bridged: bool) -> None:
    lane = Lane()
    lane.blocks[3:] = [said(0, 500)]
    lane.send()
    covered = lane.prompt().tokens
    lane.blocks += [said(1, 500, name=f"part {each}", role="user") for each in range(count)]
    played = lane.send()
    assert played.billed.read == covered
    assert len(played.marks) == (4 if bridged else 3)
    assert any("out of reach" in reason for reason in played.prepared.plan.reasons) is bridged


def test_a_run_of_tool_calls_is_one_step_of_the_walk() -> None:
    lane = Lane()
    lane.send()
    lane.blocks += [said(1, 50, name=f"call {each}", kind="tool_use") for each in range(30)]
    lane.blocks += [said(2, 50, name=f"result {each}", kind="tool_result") for each in range(30)]
    played = lane.send()
    assert len(played.marks) == 3
    assert played.billed.read == 8_000


# Lifetimes


def ttls(found: Situation) -> list[str]:
    return [ttl for _, ttl in places(economic(found))]


def test_where_long_markers_raise_a_pause_is_prepared_for_at_any_turn() -> None:
    blocks = talk(60)
    slow = warm(asked(blocks, facts=RAISES, experience=knowing(SLOW)), 60)
    assert ttls(slow) == ["1h", "1h", "1h"]
    fast = warm(asked(blocks, facts=RAISES, experience=knowing(FAST)), 60)
    assert ttls(fast) == ["5m", "5m", "5m"]


def test_where_they_do_not_raise_a_warm_short_chain_stays_short() -> None:
    """The premium on the new tokens would buy nothing (A10)."""
    known = knowing(SLOW, route=RouteExperience(raises="no"))
    warmed = warm(asked(talk(60), experience=known), 60)
    assert ttls(warmed) == ["5m", "5m", "5m"]  # tools and system text too, as long as they are alive


def test_a_cold_chain_is_begun_long_where_pauses_are_to_come() -> None:
    assert ttls(asked(talk(60), experience=knowing(SLOW))) == ["1h"] * 3
    assert ttls(asked(talk(60), experience=knowing(FAST))) == ["5m"] * 3


def test_a_long_chain_goes_on_long() -> None:
    long = warm(asked(talk(60), experience=knowing(SLOW)), 60, seconds=3_600, ttl="1h")
    assert ttls(long) == ["1h"] * 3


def test_a_client_that_pauses_is_served_long_after_a_few_pauses_and_reads_through_them() -> None:
    lane = Lane(truth=SMALL)
    lane.tenant.experience.route(SMALL.ref).raises = "no"
    played = [lane.turn(1_200) for _ in range(12)]
    assert played[-1].billed.read == played[-2].billed.prompt.tokens
    assert "1h" in played[-1].written


# Probes


def probing(truth: ModelFacts, sessions: int = 40) -> tuple[Lane, list[Played]]:
    """Sessions of forty turns with a pause in every sixtieth, on a route of which nothing is known."""
    lane = Lane(truth=truth)
    played: list[Played] = []
    for session in range(sessions):
        lane = lane.beside(now=lane.now + 20_000)
        lane.blocks = [*HEAD, *(said(number, name=f"session {session}") for number in range(31))]
        played += [lane.turn(1_000 if (len(played) + n) % 60 == 59 else 20, tokens=300) for n in range(40)]
    return lane, played


@pytest.mark.parametrize(("truth", "says"), [(SMALL, "no"), (RAISES, "yes")], ids=["no", "yes"])
def test_probes_find_out_how_the_route_is_and_stop(truth: ModelFacts, says: str) -> None:
    lane, played = probing(truth)
    route = lane.tenant.experience.route(SMALL.ref)
    proved = next(n for n, each in enumerate(played) if each.verdict is not None and each.verdict.raises is not None)
    assert played[proved].verdict.raises == route.raises == says  # type: ignore[union-attr]
    spent = [each.prepared.plan.probe for each in played]
    assert 0 < sum(spent) == pytest.approx(route.probed)
    assert route.probed <= PROBES + max(spent)
    assert not any(spent[proved + 1 :])
    after = played[proved + 1 :]
    assert all(each.verdict is not None and each.verdict.explained for each in after)
    assert lane.tenant.pool(SMALL).model.knobs.ttl_raise == says


@pytest.mark.parametrize(
    ("route", "new", "probes"),
    [
        (RouteExperience(), 1, True),
        (RouteExperience(probed=PROBES - 1), 1, True),
        (RouteExperience(probed=PROBES), 1, False),
        (RouteExperience(raises="no"), 1, False),
        (RouteExperience(), 8, False),  # more than a small share of the prompt
    ],
    ids=["unknown", "below", "spent", "proved", "large"],
)
def test_a_probe_is_small_and_bounded(route: RouteExperience, new: int, probes: bool) -> None:
    blocks = talk(60)
    found = warm(asked(blocks, experience=knowing(SLOW, route=route)), len(blocks) - 1 - new)
    plan = economic(found)
    assert (plan.probe > 0) is probes
    assert (places(plan)[-1][1] == "1h") is probes
    if probes:
        assert plan.probe == pytest.approx(0.75 * 1_000)


def test_without_experience_nothing_is_probed() -> None:
    blocks = talk(60)
    ledger = Ledger(client="c", gaps=SLOW)
    assert economic(warm(asked(blocks, ledger=ledger), len(blocks) - 2)).probe == 0


# OpenAI's breakpoints


def test_one_lifetime_marks_what_sessions_share_and_leaves_the_end_to_the_provider() -> None:
    plan = economic(asked(talk(), facts=SOL, experience=knowing()))
    assert (places(plan), plan.mode) == ([(2, "30m")], "")


def test_a_conversation_that_will_not_go_on_is_kept_from_writing_its_end() -> None:
    plan = economic(asked(talk(), facts=SOL, experience=one_shot()))
    assert (places(plan), plan.mode) == ([(2, "30m")], "explicit")
    respected = economic(
        asked(talk(), facts=SOL, experience=one_shot(), settings=CacheSettings(client_markers="respect"))
    )
    assert respected.mode == ""


def test_a_client_that_switched_caching_off_is_left_alone() -> None:
    plan = economic(asked(talk(), facts=SOL, experience=knowing(), mode="explicit"))
    assert (plan.marks, plan.mode) == ((), "")


def test_one_shot_clients_of_openai_read_the_head_and_write_no_ends() -> None:
    lane = Lane(model=SOL)
    played = []
    for number in range(200):
        each = lane.beside(now=lane.now + 10.0 * number)
        each.blocks = [*HEAD, said(0, 3_000, name=f"question {number}")]
        played.append(each.send(0))
    assert played[0].prepared.plan.mode == ""
    assert played[-1].prepared.plan.mode == "explicit"
    assert (played[-1].billed.read, played[-1].written) == (7_000, {})
