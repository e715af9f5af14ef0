"""Breaks and their causes from billed usage alone, by hand and of sessions that simulated providers billed."""

from __future__ import annotations

import copy

import pytest
from msgspec.structs import replace

from holdfast.lab import Trace, read
from holdfast.records import UNSPLIT, Usage
from holdfast.report.logs.records import LoggedRequest
from tests.lab.recordings import OWN, needs_recordings, recorded
from tests.report.explainer.logs import (
    DAY,
    OPUS,
    Said,
    billed,
    breaks,
    changed,
    explained,
    growing,
    lines,
    of_trace,
    sent,
    told,
)

HEAD = 17_000
START = billed(read=HEAD, short=8_000)


def lane(*usages: Usage | None, gaps: dict[int, float] | None = None, **more: object) -> list[LoggedRequest]:
    """Requests ten seconds apart, or so many where `gaps` says so."""
    records, at = [], DAY
    for number, used in enumerate(usages, 1):
        at += (gaps or {}).get(number, 10.0)
        record = LoggedRequest(session="s", source=f"log.jsonl:{number}", model=OPUS, at=at, usage=used)
        records.append(replace(record, **more))
    return records


def grown(before: Usage, by: int = 500, ttl: str = "5m") -> Usage:
    """The request after one that read all it could."""
    written = {"short": by} if ttl == "5m" else {"long": by} if ttl == "1h" else {ttl: by}
    return billed(read=before.read + before.written, **written)


@needs_recordings
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("coding-1", [(32, "messages_rewritten"), (103, "reset compaction"), (150, "messages_rewritten")]),
        (
            "coding-2",
            [(19, "ttl_expired_5m"), (62, "reset compaction"), (114, "ttl_expired_5m"), (138, "messages_rewritten")],
        ),
    ],
)
def test_recorded_sessions(name: str, expected: list[tuple[int, str]]) -> None:
    assert told(explained(of_trace(recorded(name))), name) == expected


@pytest.mark.parametrize("trace", read(OWN / "shapes.jsonl"), ids=lambda trace: trace.name)
def test_own_traces_are_read_by_the_definition(trace: Trace) -> None:
    """Whatever a trace holds: the requests that read less than the one before in their lane had covered."""
    expected, covered = [], dict[str, int]()
    for number, step in enumerate(trace.steps, 1):
        if step.usage is None or not step.usage.prompt:
            continue
        if step.usage.read < covered.get(step.lane, 0):
            expected.append(number)
        covered[step.lane] = step.usage.read + step.usage.written
    assert [found.request for found in breaks(explained(of_trace(trace)), trace.name)] == expected


def test_one_token_less_is_a_break_unless_more_is_asked_for() -> None:
    second = grown(START)
    short = billed(read=second.read + second.written - 1, short=700)
    records = lane(START, second, short)
    (found,) = breaks(explained(records))
    assert (found.request, found.tokens_lost, found.expected, found.read) == (3, 1, 25_500, 25_499)
    assert told(explained(records, min_tokens=1)) == []


def test_lanes_are_compared_with_themselves_only() -> None:
    main, side, other = START, billed(read=0, short=6_000), billed(input=900, read=4_000)
    records = [
        LoggedRequest(session="s", source="a:1", model=OPUS, at=DAY + 1, usage=main),
        LoggedRequest(session="s", source="a:2", model=OPUS, agent="task", at=DAY + 2, usage=side),
        LoggedRequest(session="s", source="a:3", model="claude-haiku-4-5", at=DAY + 3, usage=other),
        LoggedRequest(session="s", source="a:4", model=OPUS, at=DAY + 4, usage=grown(main)),
        LoggedRequest(session="s", source="a:5", model=OPUS, agent="task", at=DAY + 5, usage=grown(side)),
        LoggedRequest(session="t", source="a:6", model=OPUS, at=DAY + 6, usage=side),
        LoggedRequest(session="s", source="a:7", model="claude-haiku-4-5", at=DAY + 7, usage=billed(read=3_000)),
    ]
    report = explained(records)
    assert told(report) == [(6, "system_prompt_changed")]
    assert [(each.session, each.requests) for each in report.sessions] == [("s", 6), ("t", 1)]
    assert report.sessions[0].models == (OPUS, "claude-haiku-4-5")


def test_failed_requests_are_numbered_and_not_compared() -> None:
    second = grown(START)
    records = lane(START, None, billed(input=0, output=0), second, billed(read=HEAD, short=9_000))
    assert told(explained(records)) == [(5, "messages_rewritten")]
    assert breaks(explained(records))[0].gap_s == 10.0
    assert explained(records).sessions[0].requests == 5


def test_a_reset_of_a_request_that_failed_holds_for_the_next() -> None:
    records = lane(START, grown(START), None, billed(read=HEAD, short=3_000))
    records[2] = replace(records[2], reset="compaction")
    assert told(explained(records)) == [(4, "reset compaction")]


def test_a_reset_without_a_loss_is_no_break() -> None:
    records = lane(START, replace(grown(START)))
    records[1] = replace(records[1], reset="compaction")
    assert told(explained(records)) == []


@pytest.mark.parametrize(
    ("ttl", "gap", "cause"),
    [
        ("5m", 299.0, "messages_rewritten"),
        ("5m", 300.0, "messages_rewritten"),
        ("5m", 300.5, "ttl_expired_5m"),
        ("1h", 300.5, "messages_rewritten"),
        ("1h", 3_600.5, "ttl_expired_1h"),
        (UNSPLIT, 300.5, "ttl_expired_5m"),
    ],
)
def test_a_lifetime_counts_from_start_to_start(ttl: str, gap: float, cause: str) -> None:
    second = grown(billed(read=HEAD, **({"short": 8_000} if ttl == "5m" else {"long": 8_000})), ttl=ttl)
    after = billed(read=HEAD, short=9_000)
    first = billed(read=HEAD, **{"short" if ttl == "5m" else "long": 8_000})
    first = first if ttl != UNSPLIT else billed(read=HEAD, unsplit=8_000)
    assert told(explained(lane(first, second, after, gaps={3: gap}))) == [(3, cause)]


def test_reads_refresh_a_lifetime() -> None:
    first, second = START, billed(read=25_000)
    records = lane(first, second, second, billed(read=HEAD, short=8_000), gaps={2: 250.0, 3: 250.0, 4: 250.0})
    assert told(explained(records)) == [(4, "messages_rewritten")]


def test_a_read_after_five_minutes_proves_the_longer_lifetime_of_unsplit_writes() -> None:
    first = billed(read=HEAD, unsplit=8_000)
    second = grown(first, ttl="unsplit")
    records = lane(first, second, grown(second, ttl="unsplit"), billed(read=HEAD, unsplit=9_000), gaps={3: 900, 4: 900})
    assert told(explained(records)) == [(4, "messages_rewritten")]


def test_where_both_lifetimes_were_written_the_tail_counts() -> None:
    mixed = billed(read=0, long=20_000, short=6_000)
    after = billed(read=20_000, short=6_600)
    assert told(explained(lane(mixed, grown(mixed), after, gaps={3: 400.0}))) == [(3, "ttl_expired_5m")]


def test_an_hour_on_top_of_five_minutes_lives_five_minutes() -> None:
    short = billed(read=0, short=20_000)
    long = billed(read=20_000, long=3_000)
    records = lane(short, long, billed(read=0, long=23_500), gaps={3: 400.0})
    assert told(explained(records)) == [(3, "ttl_expired_5m")]
    kept = lane(short, long, billed(read=20_500, long=3_000), gaps={3: 400.0})
    assert told(explained(kept)) == [(3, "messages_rewritten")]  # the five-minute part was read, so it lived


def test_below_the_shared_head_tools_or_system_text_changed() -> None:
    records = lane(START, grown(START), billed(read=HEAD - 1, short=9_000))
    assert told(explained(records)) == [(3, "system_prompt_changed")]


def test_what_is_read_after_a_reset_is_the_head_too() -> None:
    first = billed(read=0, short=30_000)
    records = lane(
        first, billed(read=21_000, short=2_000), billed(read=0, short=60_000), billed(read=9_000, short=60_000)
    )
    records[1] = replace(records[1], reset="compaction")
    assert told(explained(records)) == [(2, "reset compaction"), (3, "unknown"), (4, "system_prompt_changed")]


def test_nothing_read_inside_the_lifetime_is_unknown() -> None:
    (found,) = breaks(explained(lane(START, grown(START), billed(read=0, short=26_000))))
    assert found.cause == "unknown"
    assert "setting" in (found.advice or "")
    assert "provider" in (found.advice or "")


def test_what_the_next_request_reads_may_prove_that_the_provider_lost_it() -> None:
    second = grown(START)
    third = billed(read=0, short=9_000)
    back = billed(read=25_500, short=900)
    assert told(explained(lane(START, second, third, back))) == [(3, "likely_server_side")]
    assert told(explained(lane(START, second, billed(read=0, short=26_000), billed(read=26_000)))) == [(3, "unknown")]


def test_a_request_without_markers_or_below_the_floor() -> None:
    plain = billed(input=30_000)
    (found,) = breaks(explained(lane(START, plain, billed(read=25_000, short=900))))
    assert (found.request, found.cause, found.cure) == (2, "lookback_exceeded", "no_marker")
    assert told(explained(lane(START, billed(input=300)))) == [(2, "below_minimum")]


def test_a_request_that_starts_before_the_answer_begins_is_a_race() -> None:
    first = billed(read=0, short=20_000)
    records = [
        LoggedRequest(session="s", source="a:1", model=OPUS, at=DAY, first_token_at=DAY + 6, usage=first),
        LoggedRequest(session="s", source="a:2", model=OPUS, at=DAY + 2, first_token_at=DAY + 7, usage=first),
        LoggedRequest(session="s", source="a:3", model=OPUS, at=DAY + 20, first_token_at=DAY + 30, usage=grown(first)),
        LoggedRequest(session="s", source="a:4", model=OPUS, at=DAY + 25, usage=billed(read=20_000, short=900)),
        LoggedRequest(session="s", source="a:5", model=OPUS, at=DAY + 90, usage=billed(read=9_000, short=900)),
    ]
    assert told(explained(records)) == [(2, "parallel_race"), (4, "parallel_race"), (5, "messages_rewritten")]


def test_a_race_does_not_explain_what_had_begun_long_ago() -> None:
    first = billed(read=4_000, short=20_000)
    records = [
        LoggedRequest(session="s", source="a:1", model=OPUS, at=DAY, first_token_at=DAY + 6, usage=first),
        LoggedRequest(session="s", source="a:2", model=OPUS, at=DAY + 20, first_token_at=DAY + 30, usage=grown(first)),
        LoggedRequest(session="s", source="a:3", model=OPUS, at=DAY + 25, usage=billed(read=4_000, short=21_000)),
    ]
    assert told(explained(records)) == [(3, "messages_rewritten")]


def test_without_times_nothing_expires() -> None:
    records = [replace(each, at=None) for each in lane(START, grown(START), billed(read=HEAD, short=9_000))]
    (found,) = breaks(explained(records))
    assert (found.cause, found.gap_s, found.at) == ("messages_rewritten", None, None)


def test_implicit_reads_come_in_steps_and_may_waver_by_one() -> None:
    steady = [billed(input=2_000, read=0), *(billed(input=900, read=read) for read in (9_984, 9_856, 9_856, 12_032))]
    assert told(explained(lines(steady, model="gpt-5.5"))) == []
    fell = [*steady, billed(input=9_000, read=4_096), billed(input=100, read=13_056)]
    report = explained(lines(fell, model="gpt-5.5"))
    assert told(report) == [(6, "messages_rewritten")]
    assert breaks(report)[0].tokens_lost == 12_032 - 4_096


def test_implicit_entries_last_longer_than_promised_if_reads_show_it() -> None:
    start, more, lost = billed(input=9_000), billed(input=900, read=8_960), billed(input=10_900)
    records = lane(start, more, lost, gaps={3: 700.0}, model="gpt-5.5")
    assert told(explained(records)) == [(3, "ttl_expired_5m")]
    records = lane(start, more, more, lost, gaps={3: 4_000.0, 4: 700.0}, model="gpt-5.5")
    assert told(explained(records)) == [(4, "unknown")]


def test_a_provider_that_promises_no_hit_does_not_break_by_missing_one() -> None:
    reads = [0, 20_000, 0, 0, 24_000, 0, 26_000]
    steady = lines([billed(input=30_000 - read, read=read) for read in reads], model="gemini-2.5-pro")
    assert told(explained(steady)) == []
    fell = lines([billed(input=30_000 - read, read=read) for read in (20_000, 0, 8_000)], model="gemini-2.5-pro")
    assert told(explained(fell)) == [(3, "system_prompt_changed")]


PROVIDERS = [
    pytest.param("anthropic", "claude-sonnet-5-5", id="anthropic"),
    pytest.param("openai_chat", "gpt-6.1-sol", id="openai with breakpoints"),
    pytest.param("openai_responses", "gpt-5.5", id="openai implicit"),
    pytest.param("openai_chat", "deepseek:deepseek-chat", id="deepseek"),
    pytest.param("openai_chat", "vllm:any", id="vllm"),
    pytest.param("openai_chat", "llama:any", id="llama"),
    pytest.param("gemini", "gemini-2.5-pro", id="gemini"),
]
TURNS = 12


def rewritten(said: list[Said], at: int) -> list[Said]:
    """The same session with its third message changed from a request on, for good."""
    return [changed(each, 2) if number >= at else each for number, each in enumerate(said, 1)]


@pytest.mark.parametrize("bodies", [True, False], ids=["bytes", "usage"])
@pytest.mark.parametrize(("dialect", "model"), PROVIDERS)
def test_a_prefix_that_holds_has_no_breaks(dialect: str, model: str, bodies: bool) -> None:
    report = explained(sent(growing(TURNS), dialect, model, bodies=bodies))
    assert report.sessions[0].usage.read > 0
    assert told(report) == []


@pytest.mark.parametrize("bodies", [True, False], ids=["bytes", "usage"])
@pytest.mark.parametrize(("dialect", "model"), PROVIDERS)
def test_a_prefix_that_is_rewritten_once_has_one(dialect: str, model: str, bodies: bool) -> None:
    report = explained(sent(rewritten(growing(TURNS), 8), dialect, model, bodies=bodies, seed=3))
    assert told(report) == [(8, "messages_rewritten")]
    found = breaks(report)[0]
    assert found.tokens_lost == found.expected - found.read > 0
    if bodies:
        assert found.evidence == "bytes"
        assert found.path is not None
        assert found.offset is not None
        assert found.before != found.after
    else:
        assert (found.evidence, found.path) == ("usage", None)


@pytest.mark.parametrize(("dialect", "model"), PROVIDERS)
def test_usage_is_worked_out_where_a_log_has_none(dialect: str, model: str) -> None:
    report = explained(sent(rewritten(growing(TURNS), 8), dialect, model, usages=False))
    session = report.sessions[0]
    assert session.estimated
    assert report.totals.estimated_sessions == 1
    assert told(report) == [(8, "messages_rewritten")]
    if model != "gemini-2.5-pro":  # where hits are left to chance what is worked out is what could be read
        true = explained(sent(rewritten(growing(TURNS), 8), dialect, model)).sessions[0].usage.read
        # engines that keep their answers read a few tokens of them, which a log of bodies does not have
        assert session.usage.read == (pytest.approx(true, rel=0.001) if ":" in model else true)


@pytest.mark.parametrize("bodies", [True, False], ids=["bytes", "usage"])
@pytest.mark.parametrize(("dialect", "model"), PROVIDERS[:3])
def test_a_pause_is_an_expiry(dialect: str, model: str, bodies: bool) -> None:
    said = growing(6)
    said[4] = replace(said[4], gap=4_000.0)
    cause = "ttl_expired_1h" if model == "gpt-6.1-sol" else "ttl_expired_5m"
    assert told(explained(sent(said, dialect, model, bodies=bodies))) == [(5, cause)]


def test_what_changes_at_the_head_is_named_by_its_bytes() -> None:
    said = growing(4)
    for number in (2, 3):
        after = copy.deepcopy(said[number].talk)
        after.system[0] = "Current time: 2026-11-15 13:05:00\n" + after.system[0]
        said[number] = replace(said[number], talk=after)
    (found,) = breaks(explained(sent(said, "anthropic", "claude-sonnet-5-5")))
    assert (found.request, found.cause, found.path) == (3, "system_prompt_changed", "system[0]")
