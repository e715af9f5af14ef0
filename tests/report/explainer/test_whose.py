"""One session name in several files: copies are counted once, what is not proved to go on is not compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from msgspec.structs import replace

from holdfast.report.explainer import Explainer
from holdfast.report.explainer.results import ExplainReport
from holdfast.report.explainer.sessions import MOST_LANES
from holdfast.report.logs.records import LoggedRequest
from tests.report.explainer.logs import DAY, OPUS, billed, explained, lines

GROWING = [billed(read=read, short=1_000) for read in (17_000, 18_000, 17_000, 18_000, 19_000)]  # 3 breaks


def over(files: Sequence[Iterable[LoggedRequest]], origin: str = "shapes") -> tuple[ExplainReport, Explainer]:
    explainer = Explainer()
    for number, records in enumerate(files):
        for record in records:
            explainer.add(record, origin, f"{number}.jsonl")
    return explainer.result(), explainer


def found(report: ExplainReport) -> list[tuple[str, int, list[int]]]:
    return [(each.session, each.requests, [one.request for one in each.breaks]) for each in report.sessions]


@pytest.mark.parametrize(("first", "second"), [(5, 5), (5, 2), (2, 5), (3, 5)])
@pytest.mark.parametrize("origin", ["shapes", "bodies", "chat"])
def test_a_copy_is_counted_once(first: int, second: int, origin: str) -> None:
    """Whichever is longer, and whichever is read first."""
    records = lines(GROWING)
    report, explainer = over([records[:first], records[:second]], origin)
    assert found(report) == [("s", 5, [3])]
    assert explainer.sessions.copied == min(first, second)


def test_a_copy_without_times_is_known_by_its_bytes() -> None:
    records = [
        replace(record, at=None, usage=None, body=b'{"model":"m","messages":[%d]}' % n, dialect="openai_chat")
        for n, record in enumerate(lines(GROWING))
    ]
    report, _ = over([records, records, [*records, replace(records[0], body=b'{"messages":[9]}')]])
    assert [each.requests for each in report.sessions] == [6]


def test_the_same_request_twice_in_one_file_is_two() -> None:
    records = lines(GROWING)
    report, _ = over([[*records, records[-1]]])
    assert report.totals.requests == 6


def test_another_session_of_that_name() -> None:
    """At the same times as the first, with other usage: the seam is no break."""
    other = lines([billed(read=9_000, short=500), billed(read=9_500, short=10), billed(read=9_000, short=520)])
    report, explainer = over([lines(GROWING), other])
    assert found(report) == [("s", 5, [3]), ("s", 3, [3])]
    assert explainer.sessions.copied == 0
    assert report.totals.sessions == 2


def test_sessions_of_one_name_without_times() -> None:
    once = [replace(record, at=None) for record in lines(GROWING)]
    again = [replace(record, at=None) for record in lines([billed(read=5, short=5), billed(read=10, short=5)])]
    assert found(over([once, again])[0]) == [("s", 5, [3]), ("s", 2, [])]


def test_a_log_that_was_cut_goes_on() -> None:
    records = lines(GROWING)
    assert found(over([records[:1], records[1:]])[0]) == [("s", 5, [3])]


def test_a_fall_where_a_log_was_cut_proves_nothing() -> None:
    """It may be another conversation that the next file calls so; what comes after is compared again."""
    records = lines([*GROWING, billed(read=17_000, short=5)])
    assert found(over([records[:2], records[2:]])[0]) == [("s", 6, [6])]


def test_a_failed_request_at_the_seam_proves_nothing() -> None:
    records = lines([GROWING[0], GROWING[1], None, GROWING[2]])
    assert found(over([records[:2], records[2:]])[0]) == [("s", 4, [])]


@pytest.mark.parametrize("origin", ["claude-code", "codex", "pi", "opencode", "store"])
def test_sessions_with_ids_of_their_own_go_on_whatever_they_read(origin: str) -> None:
    records = lines(GROWING)
    assert found(over([records[:2], records[2:]], origin)[0]) == [("s", 5, [3])]


def test_one_session_may_have_any_number_of_lanes() -> None:
    """Those used last are remembered; what they found, and what markers would have saved, is not lost."""
    plain = billed(input=5_000)
    explainer = Explainer()
    for number in range(MOST_LANES + 50):
        for n in (1, 2):
            at = DAY + number * 20 + n
            agent = f"#{number}"
            explainer.add(LoggedRequest(session="s", source="l:1", model=OPUS, agent=agent, at=at, usage=plain))
    (session,) = explainer.sessions.all()
    assert len(session.lanes) == MOST_LANES
    report = explainer.result()
    assert report.totals.requests == 2 * (MOST_LANES + 50)
    (cure,) = report.totals.cures
    assert (cure.cure, cure.requests) == ("no_marker", 2 * (MOST_LANES + 50))


def test_a_break_that_waits_is_told_though_its_lane_is_forgotten() -> None:
    waiting = lines([billed(read=17_000, short=1_000), billed(read=0, short=18_000)])
    others = [record for n in range(MOST_LANES) for record in lines([billed(read=1)], agent=f"#{n}")]
    report = explained([*waiting, *others])
    assert [(one.request, one.cause) for one in report.sessions[0].breaks] == [(2, "unknown")]


@pytest.mark.parametrize("lifetime", [300, 3_600])
@pytest.mark.parametrize(("more", "expired"), [(-0.001, False), (0.0, False), (0.001, True), (1.0, True)])
def test_a_lifetime_ends_at_its_second(lifetime: int, more: float, expired: bool) -> None:
    """Whatever the fractions: differences of floating times are off by a ten-millionth."""
    used = {"short" if lifetime == 300 else "long": 1_000}
    for n in range(200):
        start = DAY + n * 0.123
        records = lines([billed(read=17_000, **used), billed(read=17_000, **used)])
        ends = round(start + lifetime + more, 3)
        report = explained([replace(records[0], at=round(start, 3)), replace(records[1], at=ends)])
        (one,) = report.sessions[0].breaks
        assert (one.cause or "").startswith("ttl_expired") == expired, (start, one)
        assert one.gap_s == pytest.approx(lifetime + more, abs=0.0011)
