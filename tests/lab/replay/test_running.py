"""Traces under strategies: what is added up, what is carried over, and what is said of it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.caches.noise import Noise
from holdfast.errors import HoldfastError
from holdfast.facts import model, price
from holdfast.lab import (
    BILLED,
    STRATEGY_NAMES,
    Lab,
    ReplayOptions,
    ReplayReport,
    Result,
    Trace,
    bounds,
    own_model,
    run,
    summary,
    with_gaps,
)
from holdfast.lab.contenders import Repair
from holdfast.lab.marker_plans import cost, rolling
from holdfast.lab.sessions import calls_of
from holdfast.report.logs.traces import SIDECHAIN
from tests.lab.recordings import own
from tests.lab.replay.coding_sessions import HEAD, OWN, coding_session

OPUS = "claude-opus-4-6"
REF = "anthropic:claude-opus-4-6"


def by_name(report: ReplayReport) -> dict[str, Result]:
    return {result.strategy: result for result in report.results}


def told(report: ReplayReport) -> bytes:
    """The report but for what depends on the machine's speed."""
    return msgspec.json.encode(replace(report, seconds=0.0, optimum_seconds=0.0))


def test_everything_is_compared_with_the_optimum() -> None:
    report = run([coding_session()], ["all"], [OPUS, "claude-sonnet-5-5"])
    played = [result for result in report.results if result.kind != "billed"]
    assert {result.model for result in report.results} == {REF, "anthropic:claude-sonnet-5-5"}
    assert {result.strategy for result in report.results} >= {"economic", "claude-code", "none", "optimal"}
    for name in (REF, "anthropic:claude-sonnet-5-5"):
        results = [result for result in played if result.model == name]
        assert [result.cost_tokens for result in results] == sorted(result.cost_tokens for result in results)
        assert results[0].strategy == "optimal"
        assert results[0].over_optimal == 1.0
        for result in results:
            assert result.over_optimal is not None
            assert result.over_optimal >= 1.0
            assert result.requests == 40
            assert result.input + result.read + sum(result.writes.values()) == results[0].input + results[0].read + sum(
                results[0].writes.values()
            )
    assert by_name(report)["none"].hit_rate == 0.0
    assert report.optimum == "markers and lifetimes with hindsight, ttl_raise no, without pings"
    assert report.requests == 40 * len(played)
    assert dict(report.versions)["claude-code"] == "2.1.325"


def test_rolling_costs_what_its_plan_costs() -> None:
    trace, facts = coding_session(), model(REF)
    found = by_name(run([trace], ["rolling", "none"], [OPUS], ReplayOptions(cold=True)))
    calls = calls_of(trace, facts)
    assert found["rolling"].cost_tokens == cost(calls, rolling(calls, "5m"), facts)
    assert found["none"].cost_tokens == sum(call.prompt.tokens for call in calls)


def test_dollars_are_those_of_the_prices() -> None:
    for name, result in by_name(run([coding_session()], ["rolling", "rolling-1h", "none"], [OPUS])).items():
        paid = msgspec.convert(
            {"input": result.input, "read": result.read, "writes": list(result.writes.items())},
            type=type(coding_session().steps[0].usage),
        )
        assert paid is not None
        assert result.cost_usd == price(paid, REF).cost, name
        assert result.output_usd == 40 * 200 * Decimal("0.000025")


def test_breaks_have_their_cause_and_a_compaction_is_a_reset() -> None:
    found = by_name(run([coding_session()], ["rolling", "rolling-1h"], [OPUS], ReplayOptions(cold=True)))
    assert [(each.cause, each.breaks) for each in found["rolling"].causes] == [("ttl_expired_5m", 4)]
    assert [(each.cause, each.breaks) for each in found["rolling-1h"].causes] == [("ttl_expired_1h", 1)]
    assert found["rolling"].resets == found["rolling-1h"].resets == 1
    assert found["rolling"].surprises == 0


@pytest.mark.slow
def test_the_same_seed_gives_the_same_report() -> None:
    noise = Noise(eviction=0.05, replicas=2, bounce=0.1)

    def once(seed: int) -> bytes:
        traces = [coding_session(12), with_gaps(own("session"), "none")]
        return told(
            run(
                traces,
                ["all"],
                [OPUS],
                ReplayOptions(gaps="office", seeds=(seed,), noise=noise, fault="tools-shuffled"),
            )
        )

    assert once(11) == once(11) != once(23)


def test_seeds_are_added_up_and_one_is_enough_where_nothing_is_left_to_chance() -> None:
    trace = coding_session(12)
    single = [
        run([trace], ["rolling"], [OPUS], ReplayOptions(gaps="minutes", seeds=(seed,))).results[0] for seed in (11, 23)
    ]
    both = run([trace], ["rolling"], [OPUS], ReplayOptions(gaps="minutes", seeds=(11, 23)))
    assert both.results[0].cost_tokens == sum(each.cost_tokens for each in single)
    assert [each.seed for each in both.sessions] == [11, 23]
    assert run([trace], ["rolling"], [OPUS], ReplayOptions(seeds=(11, 23))).seeds == (11,)


@pytest.mark.parametrize("repair", ["suggest", "on"])
def test_each_session_begins_with_an_empty_cache(repair: Repair) -> None:
    """Both ways: the whole engine, which repairs need, is told so too and foresees no read."""
    trace = coding_session(12)
    alone = by_name(run([trace], ["rolling"], [OPUS], ReplayOptions(repair=repair, cold=True)))["rolling"]
    twice = by_name(run([trace, trace], ["rolling"], [OPUS], ReplayOptions(repair=repair, cold=True)))["rolling"]
    assert twice.cost_tokens == 2 * alone.cost_tokens
    assert twice.surprises == 0


def test_what_was_learned_is_kept_for_the_next_session_unless_it_is_to_be_forgotten() -> None:
    traces = [coding_session(40, name=f"own-{number}") for number in range(4)]
    kept, fresh = (
        [
            each.cost_tokens
            for each in run(traces, ["economic"], [OPUS], ReplayOptions(fresh=fresh)).sessions
            if each.strategy != BILLED
        ]
        for fresh in (False, True)
    )
    assert kept[0] == fresh[0]
    assert len(set(fresh)) == 1
    assert kept[-1] != fresh[-1]


def test_lanes_of_a_session_share_the_cache() -> None:
    """A sub-agent with the same tools and system text reads what the main conversation has written."""
    main = coding_session(3).steps
    other = replace(main[0], number=2, at=5.0, first_token_at=8.0, lane=f"{main[0].lane}{SIDECHAIN}")
    both = by_name(run([Trace("both", "both", (main[0], other))], ["rolling"], [OPUS], ReplayOptions(cold=True)))[
        "rolling"
    ]
    assert both.read == HEAD + OWN


def test_where_long_markers_raise_the_engine_finds_it_out() -> None:
    traces = [coding_session(40, name=f"own-{number}") for number in range(3)]
    no, yes = (
        run(traces, ["economic", "optimal"], [OPUS], ReplayOptions(ttl_raise=raises)) for raises in ("no", "yes")
    )
    assert by_name(yes)["optimal"].cost_tokens < by_name(no)["optimal"].cost_tokens
    assert by_name(yes)["economic"].cost_tokens <= by_name(no)["economic"].cost_tokens
    assert "ttl_raise yes" in yes.optimum
    assert (no.ttl_raise, yes.ttl_raise) == ("no", "yes")


def test_noise_is_paid_for_and_the_optimum_knows_none() -> None:
    calm = by_name(run([coding_session()], ["rolling", "optimal"], [OPUS]))
    report = run([coding_session()], ["rolling", "optimal"], [OPUS], ReplayOptions(noise=Noise(eviction=0.1)))
    noisy = by_name(report)
    assert noisy["rolling"].cost_tokens > calm["rolling"].cost_tokens
    assert noisy["rolling"].surprises > 0
    assert noisy["optimal"] == calm["optimal"]
    assert report.noise == "eviction=0.1"
    assert any("knows no noise" in note for note in report.notes)


def test_all_contenders_meet_the_same_noise() -> None:
    found = by_name(run([coding_session()], ["rolling", "langchain"], [OPUS], ReplayOptions(noise=Noise(eviction=0.1))))
    assert found["rolling"].cost_tokens == found["langchain"].cost_tokens


def test_a_fault_is_dear_for_who_does_not_mend_it() -> None:
    strategies = ["economic", "claude-code", "none", "optimal"]
    report = run([coding_session(16)], strategies, [OPUS], ReplayOptions(fault="clock-at-head", repair="on"))
    found = by_name(report)
    assert found["claude-code"].cost_tokens > found["none"].cost_tokens
    assert found["economic"].cost_tokens < found["optimal"].cost_tokens / 2
    assert any("who repairs them may pay less" in note for note in report.notes)


def test_on_top_of_another_tool() -> None:
    found = by_name(
        run([coding_session()], ["economic", "passthrough", "claude-code"], [OPUS], ReplayOptions(client="claude-code"))
    )
    assert found["passthrough"].cost_tokens == found["claude-code"].cost_tokens
    alone = by_name(run([coding_session()], ["economic", "passthrough", "none"], [OPUS]))
    assert alone["passthrough"].cost_tokens == alone["none"].cost_tokens
    assert found["economic"].cost_tokens != alone["economic"].cost_tokens


def test_texts_and_other_providers() -> None:
    traces = [own("session"), own("made-2")]
    report = run(traces, ["economic", "none", "optimal"], ["gpt-6.1-sol", "gemini-3.1-pro"])
    assert {(result.model, result.strategy) for result in report.results} == {
        (ref, name) for ref in ("openai:gpt-6.1-sol", "gemini:gemini-3.1-pro") for name in ("economic", "none")
    }
    assert all(result.over_optimal is None for result in report.results)
    assert report.optimum == "none: it is defined for Anthropic's rules only"
    assert any("gpt-6.1-sol has no optimum" in note for note in report.notes)


def test_gaps_are_those_recorded_or_a_steady_pace() -> None:
    report = run([coding_session(4), own("session")], ["none"], [OPUS])
    assert report.gaps == "real where recorded, else none"
    assert any(note.startswith("session is without recorded times") for note in report.notes)
    with pytest.raises(HoldfastError, match="session has no recorded times"):
        run([coding_session(4), own("session")], ["none"], [OPUS], ReplayOptions(gaps="real"))


def test_a_run_that_is_broken_off_compares_like_with_like() -> None:
    lab = Lab([coding_session(6, name=f"own-{n}") for n in range(3)], ["rolling", "none"], [OPUS], ReplayOptions())
    played = 0

    def interrupt(count: int) -> None:
        nonlocal played
        played += count
        if played == 6 * 3:  # in the middle of the second session
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lab.play(interrupt)
    report = lab.report()
    assert {result.requests for result in report.results} == {6}
    assert {each.trace for each in report.sessions} == {"own-0"}
    assert (lab.finished, lab.sessions) == (1, 3)
    assert lab.total == 6 * 3 * 2


def test_without_the_search_there_is_no_ratio() -> None:
    report = run([coding_session(6)], ["rolling", "optimal"], [OPUS], ReplayOptions(optimum=False))
    assert {name: result.over_optimal for name, result in by_name(report).items()} == {"rolling": None, BILLED: None}
    assert report.optimum == "not searched for"


def test_an_optimum_that_takes_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_STEPS", 600)
    traces = [coding_session(2, name="short"), coding_session(40)]
    report = run(traces, ["rolling", "optimal"], [OPUS])
    assert {name: result.over_optimal for name, result in by_name(report).items()} == {"rolling": None, BILLED: None}
    assert {each.over_optimal for each in report.sessions if each.trace == "own"} == {None}
    assert any(note.startswith(f"own has no optimum on {REF}") for note in report.notes)


def test_the_ratio_does_not_depend_on_whether_the_optimum_is_shown() -> None:
    shown = by_name(run([coding_session()], ["rolling", "optimal"], [OPUS]))["rolling"]
    assert by_name(run([coding_session()], ["rolling"], [OPUS]))["rolling"] == shown


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategies": ["economical"]}, "there is no strategy 'economical'; did you mean economic?"),
        ({"models": ["claude-opus-46"]}, "nothing is known of the model 'claude-opus-46'; did you mean claude-opus-4"),
        ({"models": ["zzz"]}, "nothing is known of the model 'zzz'; `holdfast models` lists those that are known."),
        ({"gaps": "offices"}, "there is no gap pattern 'offices'; did you mean office?"),
        ({"fault": "clock-head"}, "there is no fault 'clock-head'; did you mean clock-at-head?"),
        ({"client": "claude"}, "there is no client 'claude'; did you mean claude-code?"),
        ({"ttl_raise": "maybe"}, "ttl_raise is yes or no, not 'maybe'."),
        ({"seeds": ()}, "there is no seed; give at least one."),
    ],
)
def test_wrong_names_are_told_with_the_nearest(changes: dict[str, object], message: str) -> None:
    options = {name: value for name, value in changes.items() if name not in ("strategies", "models")}
    names, models = changes.get("strategies", ["none"]), changes.get("models", [OPUS])
    with pytest.raises(HoldfastError) as problem:
        run([coding_session(2)], names, models, ReplayOptions(**options))  # type: ignore[arg-type]
    assert str(problem.value).startswith(message)
    assert "\n" not in str(problem.value)


def test_a_model_that_nobody_spells_is_refused_where_bodies_are_needed() -> None:
    assert run([coding_session(2)], ["none"], ["bedrock:anthropic.claude-opus-4-6"]).results
    with pytest.raises(HoldfastError, match=r"requests to bedrock:anthropic.claude-opus-4-6 cannot be spelled"):
        run([coding_session(2)], ["none"], ["bedrock:anthropic.claude-opus-4-6"], ReplayOptions(fault="tools-shuffled"))


def test_the_traces_own_model_is_that_of_most_requests() -> None:
    assert own_model([coding_session(3), own("session")]) == OPUS
    haiku = coding_session(9)
    haiku = replace(haiku, steps=tuple(replace(step, model="claude-haiku-4-5") for step in haiku.steps))
    assert own_model([coding_session(3), haiku]) == "claude-haiku-4-5"
    with pytest.raises(HoldfastError, match="name no model; name one with --model"):
        own_model([own("session")])


def test_every_strategy_has_a_sentence() -> None:
    assert all(summary(name).endswith(".") for name in STRATEGY_NAMES)
    assert STRATEGY_NAMES[0] == "economic"
    assert STRATEGY_NAMES[-1] == "optimal"


def test_routes_with_one_lifetime_have_no_optimum() -> None:
    """Others that take Anthropic's markers do not follow its rules in all: one lifetime, no lookback."""
    report = run([coding_session(6)], ["all"], ["openrouter:google/gemini-3-pro"])
    assert not any(result.over_optimal for result in report.results)
    assert any("google/gemini-3-pro has no optimum to compare with" in note for note in report.notes)


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("gpt-5.5", "openai:gpt-5.5 takes no markers, its provider caches by itself: no strategy makes a difference."),
        ("gpt-5.5-pro", "openai:gpt-5.5-pro has no prompt cache: no strategy makes a difference."),
        ("gemini-3-pro", "gemini:gemini-3-pro takes no markers in a request;"),
    ],
)
def test_where_all_cost_the_same_it_says_why(name: str, note: str) -> None:
    report = run([coding_session(6)], ["economic", "rolling", "none"], [name])
    assert len({result.cost_tokens for result in report.results}) == 1
    assert any(each.startswith(note) for each in report.notes)


def test_models_of_which_no_body_can_be_spelled_are_refused_before_anything_is_played(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("vllm:any", "bedrock:anthropic.claude-opus-4-6"):
        with pytest.raises(HoldfastError, match=f"requests to {name} cannot be spelled; choose one of anthropic"):
            run([coding_session(6)], ["rolling"], [OPUS, name], ReplayOptions(dump=tmp_path / "bodies.jsonl"))
    assert not list(tmp_path.iterdir())
    assert not caplog.records


def test_who_keeps_order_may_pay_less_than_the_optimum_of_what_the_client_sends() -> None:
    note = "The optimum is that of the requests as the client makes them; who repairs them may pay less."
    report = run([coding_session()], ["economic", "automatic"], [OPUS], ReplayOptions(fault="tools-shuffled"))
    ratios = {result.strategy: result.over_optimal or 0.0 for result in report.results}
    assert ratios["economic"] < 1 <= ratios["automatic"]
    assert note in report.notes
    assert note not in run([coding_session()], ["economic"], [OPUS]).notes
