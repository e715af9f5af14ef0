"""Sessions: their sums, and one of them with lanes and calls, predictions beside what was billed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from holdfast import report
from holdfast.report import UnknownIdError
from holdfast.store import SqliteStore, open_store
from holdfast.store import operations as op
from tests.report.workday import CHAT, CODING, HAIKU, NEW, SONNET, START, UNPRICED, Workday
from tests.store.samples import call, lane, session

HOUR = 3_600_000_000


def test_the_session_used_last_comes_first(store: SqliteStore) -> None:
    found = report.sessions(store)
    assert [(each.tenant, each.id) for each in found.sessions] == [
        ("t-two", CODING),
        ("t-one", NEW),
        ("t-one", CHAT),
        ("t-one", CODING),
    ]
    assert not found.more
    some = report.sessions(store, limit=2)
    assert (some.sessions, some.more) == (found.sessions[:2], True)


def test_a_session_has_the_sums_of_its_calls(store: SqliteStore, workday: Workday) -> None:
    one = next(each for each in report.sessions(store, tenant="t-one").sessions if each.id == CODING)
    names = ["main 0", "main 1", "main 2", "scout", "clock", "after", "compacted"]
    used = [workday.usages[name] for name in names]
    assert (one.client, one.models, one.lanes) == ("claude-code", (HAIKU, SONNET), 3)
    assert (one.calls, one.unanswered, one.kinds) == (11, 2, {"bypassed": 1, "side": 1})
    assert one.cached_tokens == sum(each.read for each in used)
    assert one.creation_tokens == sum(each.written for each in used)
    assert one.uncached_tokens == sum(each.input for each in used) + 9_000 + 900
    assert one.prompt_tokens == one.uncached_tokens + one.cached_tokens + one.creation_tokens
    assert one.hit_rate == one.cached_tokens / one.prompt_tokens
    beside = [store.call("t-one", workday.calls[name]) for name in ("title", "past")]
    extra = [row.usage.cost or Decimal(0) for row in beside if row is not None and row.usage is not None]
    assert one.cost == sum([each.cost or Decimal(0) for each in used] + extra, Decimal(0))
    assert one.started.timestamp() == START + 5
    finding, reset = workday.verdicts["clock"].finding, workday.verdicts["compacted"].finding
    assert (one.breaks, one.break_tokens, one.break_cost) == (1, finding.tokens, finding.dollars)
    past = next(each for each in report.breaks(store).breaks if each.reason == "bypassed")
    assert past.tokens > 0
    assert (one.resets, one.reset_tokens, one.reset_cost) == (1, reset.tokens, reset.dollars)
    assert (one.missed, one.missed_cost) == (1, past.dollars)


def test_pings_count_in_the_money_and_are_free_without_a_cache(store: SqliteStore, workday: Workday) -> None:
    ping = report.call(store, workday.calls["ping"])
    assert (ping.kind, ping.without_cache) == ("ping", 0)
    assert ping.usage.cost
    one = report.sessions(store, tenant="t-two").sessions[0]
    assert (one.kinds, one.unanswered) == ({"ping": 1}, 1)
    mine = sum(
        (used.cost or Decimal(0) for name, used in workday.usages.items() if name.startswith("other")), Decimal(0)
    )
    assert one.cost == mine + ping.usage.cost


def test_a_session_without_a_known_price_has_no_cost(store: SqliteStore) -> None:
    one = next(each for each in report.sessions(store).sessions if each.id == NEW)
    assert (one.cost, one.without_cache, one.unpriced, one.models) == (None, None, 1, (UNPRICED,))
    assert b'"cost":null' in msgspec.json.encode(one)


def test_the_window_selects_calls_but_not_when_a_session_began(store: SqliteStore) -> None:
    begin = round(START * 1_000_000)
    late = report.sessions(store, start=begin + HOUR).sessions
    assert [each.tenant for each in late] == ["t-two"]
    part = report.sessions(store, start=begin, end=begin + 60_000_000).sessions
    assert [each.id for each in part] == [CODING]
    whole = report.sessions(store, tenant="t-one").sessions[-1]
    assert 0 < part[0].calls < whole.calls
    assert (part[0].started, part[0].last_call) == (whole.started, whole.last_call)


def test_one_session_lists_its_lanes_in_their_order(store: SqliteStore) -> None:
    lanes = report.session(store, CODING, tenant="t-one").lanes
    assert [(lane.id, lane.model, lane.agent, lane.parent) for lane in lanes] == [
        (f"{CODING}/side", HAIKU, None, None),
        (f"{CODING}/main", SONNET, None, None),
        (f"{CODING}/scout", SONNET, "scout", f"{CODING}/main"),
    ]
    whole = report.session(store, CODING, tenant="t-one").session
    assert sum(lane.calls for lane in lanes) == whole.calls
    assert sum((lane.cost or Decimal(0) for lane in lanes), Decimal(0)) == whole.cost
    assert [lane.breaks for lane in lanes] == [0, 1, 0]


def test_calls_have_their_prediction_beside_what_was_billed(store: SqliteStore, workday: Workday) -> None:
    calls = {each.id: each for each in report.session(store, CODING, tenant="t-one").calls}
    assert list(calls) == [workday.calls[name] for name in (
        "title", "main 0", "main 1", "main 2", "scout", "clock", "after", "compacted", "failed", "left", "past"
    )]  # fmt: skip
    for name in ("main 0", "main 1", "clock", "compacted"):
        one, verdict = calls[workday.calls[name]], workday.verdicts[name]
        assert (one.predicted.read, one.predicted.written) == (verdict.predicted.read, verdict.predicted.written)
        assert one.usage == verdict.usage
        assert one.explained is verdict.explained
        assert tuple((marker.path, marker.ttl) for marker in one.plan.markers) == workday.prepared[name].markers
    assert [each.cause for each in calls[workday.calls["clock"]].breaks] == ["system_prompt_changed"]
    assert calls[workday.calls["compacted"]].reset == "compaction"


def test_only_the_newest_calls_are_listed_and_the_others_counted(store: SqliteStore) -> None:
    whole = report.session(store, CODING, tenant="t-two")
    some = report.session(store, CODING, tenant="t-two", limit=3)
    assert some.calls == whole.calls[-3:]
    assert some.left_out == len(whole.calls) - 3
    assert (some.session, some.lanes) == (whole.session, whole.lanes)
    assert report.session(store, CODING, tenant="t-two", limit=0).calls == ()


def test_a_session_whose_rows_are_gone_is_known_by_its_calls(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        store.write(op.PutCall(call(id="c1", session="alone", client="llm"))).result()
        one = report.session(store, "alone")
        assert (one.session.client, one.session.lanes, one.lanes[0].agent) == ("llm", 1, None)
        store.write(op.PutSession(session(id="empty"))).result()
        assert [each.id for each in report.sessions(store).sessions] == ["alone"]
        with pytest.raises(UnknownIdError):
            report.session(store, "empty")


def test_an_ended_lane_says_when(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        store.write(op.PutLane(lane(ended_at=1_000_000)))
        store.write(op.PutCall(call(id="c1"))).result()
        ended = report.session(store, "s1").lanes[0].ended
        assert ended.timestamp() == 1
