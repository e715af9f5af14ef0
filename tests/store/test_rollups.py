"""Rollups are kept with the data, windows are exact, and retention leaves the sums."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal, localcontext
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.store import CacheEffectiveness, Call, CallHour, SqliteStore, open_store
from holdfast.store import operations as op

from .samples import HOUR, NOON, call, event, found, usage

DAY = 24 * HOUR


def test_hit_rate_and_write_share_are_over_all_prompt_tokens(store: SqliteStore) -> None:
    store.write(op.PutCall(call(usage=usage(10, 60, 20, 10, "0.1"))))
    store.write(op.PutCall(call(usage=usage(0, 100, 0, 0, "0.2"))))
    store.write(op.PutCall(call(model="openai:gpt", usage=usage(50, 50, 0, 0, None)))).result()
    got = store.cache_effectiveness(NOON, NOON + HOUR)
    opus, gpt = got.models
    assert (opus.model, gpt.model, got.total.model) == ("anthropic:opus", "openai:gpt", None)
    assert (opus.uncached_tokens, opus.cached_tokens, opus.creation_tokens) == (10, 160, 30)
    assert (opus.hit_rate, opus.cache_write_share) == (0.8, 0.15)
    assert (gpt.hit_rate, gpt.cache_write_share, gpt.cost) == (0.5, 0.0, 0)
    assert (got.total.call_count, got.total.output_tokens) == (3, 15)
    assert got.total.cost == Decimal("0.3")
    assert got.total.hit_rate == 210 / 300


def test_nothing_asked_or_nothing_there_is_null_not_zero(store: SqliteStore) -> None:
    store.write(op.PutCall(call(usage=usage(0, 0, 0, 0)))).result()
    for window in ((NOON, NOON), (NOON + DAY, NOON + 2 * DAY), (NOON, NOON - DAY), (NOON, NOON + HOUR)):
        got = store.cache_effectiveness(*window)
        assert got.total.hit_rate is None
        assert got.total.cache_write_share is None
    assert store.event_counts(NOON, NOON + DAY) == {}


@pytest.mark.parametrize("apart", [False, True])
def test_an_estimate_counts_until_the_call_has_ended(store: SqliteStore, apart: bool) -> None:
    """In one transaction or in several."""
    began = call(status="pending", usage=usage(10, 60, 20, 1, "0.1"))
    ended = msgspec.structs.replace(began, status="settled", usage=usage(10, 60, 20, 50, "0.4"))
    for number in range(3):
        for each in (began, ended):
            future = store.write(op.PutCall(msgspec.structs.replace(each, id=f"c{number}")))
            if apart:
                future.result()
    store.write(op.PutCall(began)).result()
    (hour,) = store.call_hours(NOON, NOON + HOUR)
    assert (hour.calls, hour.input, hour.read, hour.cost) == (4, 40, 240, Decimal("1.3"))
    assert hour.writes == (("1h", 151), ("5m", 80))
    assert [each.id for each in store.calls_by_status("pending")] == [began.id]


def test_only_what_is_pending_is_ended(store: SqliteStore) -> None:
    """As it stands when that is written: another process may have ended it meanwhile."""
    for each in ("p1", "p2", "p3"):
        store.write(op.PutCall(call(id=each, status="pending", usage=None))).result()
    pending = store.calls_by_status("pending")
    with open_store(store.path) as other:
        other.write(op.PutCall(call(id="p2"))).result()
        other.write(op.PutCall(call(id="p3", status="pending", first_token_at=NOON + 1))).result()
        ended = [msgspec.structs.replace(each, status="unknown", usage=usage()) for each in pending]
        assert store.write(op.EndCalls(ended)).result() == 1
    assert {each.id: each.status for each in store.calls()} == {"p1": "unknown", "p2": "settled", "p3": "pending"}
    assert store.call_hours(NOON, NOON + HOUR)[0].calls == 3


def test_a_call_counts_once_when_its_usage_is_known(store: SqliteStore) -> None:
    pending = call(status="pending", usage=None)
    store.write(op.PutCall(pending)).result()
    assert store.call_hours(NOON, NOON + HOUR) == []
    assert store.cache_effectiveness(NOON + 0, NOON + 1).total.call_count == 0
    settled = msgspec.structs.replace(pending, status="settled", usage=usage())
    store.write(op.PutCall(settled))
    store.write(op.PutCall(settled)).result()
    assert store.call_hours(NOON, NOON + HOUR)[0].calls == 1
    corrected = msgspec.structs.replace(
        settled, usage=usage(1, 2, 0, 4, "0.25"), model="anthropic:haiku", started_at=NOON + HOUR
    )
    store.write(op.PutCall(corrected)).result()
    assert store.call_hours(NOON, NOON + DAY) == [
        CallHour(
            hour=NOON + HOUR,
            tenant="t1",
            model="anthropic:haiku",
            calls=1,
            input=1,
            read=2,
            writes=(("1h", 4),),
            output=5,
            cost=Decimal("0.25"),
        )
    ]


def test_many_small_costs_add_up_exactly(store: SqliteStore) -> None:
    with store.batch() as batch:
        answers = [batch.write(op.PutCall(call(usage=usage(cost="0.0000001")))) for _ in range(1000)]
    answers[-1].result()
    assert store.cache_effectiveness(NOON, NOON + HOUR).total.cost == Decimal("0.0001")


def test_tenants_are_counted_apart(store: SqliteStore) -> None:
    for tenant in ("t1", "t2", "t2"):
        store.write(op.PutCall(call(tenant=tenant, started_at=NOON + 5)))
        store.write(op.AppendEvents.of(tenant, [event(at=NOON + 5)])).result()
    for window in ((NOON, NOON + HOUR), (NOON + 1, NOON + 10)):
        counts = {t: store.cache_effectiveness(*window, t).total.call_count for t in ("t1", "t2", "t3", None)}
        assert counts == {"t1": 1, "t2": 2, "t3": 0, None: 3}
        events = {t: store.event_counts(*window, t).get("turn.cancelled", 0) for t in ("t1", "t2", "t3", None)}
        assert events == counts
    assert [hour.tenant for hour in store.call_hours(NOON, NOON + 1)] == ["t1", "t2"]


moments = st.integers(NOON - 3 * HOUR, NOON + 3 * HOUR) | st.sampled_from(
    [NOON + hours * HOUR + more for hours in range(-3, 4) for more in (-1, 0, 1)]
)


@settings(max_examples=30, deadline=None)
@given(st.lists(moments, max_size=15), st.lists(st.tuples(moments, moments), min_size=1, max_size=8), moments)
def test_a_window_equals_a_recount_of_its_rows(times: list[int], windows: list[tuple[int, int]], pruned: int) -> None:
    calls = [call(started_at=at, usage=usage(n, n * 2, n * 3, n, f"0.{n}1")) for n, at in enumerate(times)]
    with TemporaryDirectory() as directory, open_store(Path(directory) / "s.db") as store:
        with store.batch() as batch:
            for one in calls:
                batch.write(op.PutCall(one))
            written = batch.write(op.AppendEvents.of("t1", [event(at=at, private=at % 2 == 0) for at in times]))
        written.result()
        for start, end in windows:
            inside = [one for one in calls if start <= one.started_at < end]
            got = store.cache_effectiveness(start, end)
            assert_equals_recount(got, inside)
            names = Counter("turn.cancelled" if at % 2 else "turn.started" for at in times if start <= at < end)
            assert store.event_counts(start, end) == names
        store.prune(pruned)
        for start, end in windows:
            got = store.cache_effectiveness(start, end)
            if got.start < got.end:
                inside = [one for one in calls if got.start <= one.started_at < got.end]
                assert_equals_recount(got, inside)


def assert_equals_recount(got: CacheEffectiveness, calls: list[Call]) -> None:
    assert got.total.call_count == len(calls)
    assert got.total.uncached_tokens == sum(one.usage.input for one in calls)
    assert got.total.cached_tokens == sum(one.usage.read for one in calls)
    assert got.total.creation_tokens == sum(one.usage.written for one in calls)
    assert got.total.cost == sum(one.usage.cost for one in calls)


def test_pruning_says_what_went_and_keeps_sums_and_pending_calls(store: SqliteStore) -> None:
    old, new = NOON - DAY, NOON
    pending = call(started_at=old, status="pending", usage=None)
    kept = call(started_at=new)
    for one in (pending, kept, *(call(started_at=old + n) for n in range(5))):
        store.write(op.PutCall(one))
    store.write(op.PutBreak(found(at=old)))
    store.write(op.AppendEvents.of("t1", [event(n, at=old + n) for n in range(4500)] + [event(at=new)])).result()
    before = (store.cache_effectiveness(old, new + HOUR), store.event_counts(old, new + HOUR))
    gone = store.prune(new + HOUR // 2)
    assert (gone.before, gone.calls, gone.breaks, gone.events) == (new, 5, 1, 4500)
    assert store.calls() == [pending, kept]
    assert store.breaks() == []
    assert len(store.events("t1", "s1")) == 1
    assert (store.cache_effectiveness(old, new + HOUR), store.event_counts(old, new + HOUR)) == before
    again = store.prune(new)
    assert (again.calls, again.breaks, again.events) == (0, 0, 0)


def test_an_edge_inside_pruned_hours_is_widened_and_says_so(store: SqliteStore) -> None:
    store.write(op.PutCall(call(started_at=NOON + 5))).result()
    store.prune(NOON + DAY)
    got = store.cache_effectiveness(NOON + 10, NOON + 20)
    assert (got.start, got.end) == (NOON, NOON + HOUR)
    assert got.total.call_count == 1


def test_a_call_that_settles_after_its_hour_was_pruned_is_still_counted(store: SqliteStore) -> None:
    pending = call(status="pending", usage=None)
    store.write(op.PutCall(pending)).result()
    store.prune(NOON + DAY)
    store.write(op.PutCall(msgspec.structs.replace(pending, status="settled", usage=usage()))).result()
    assert store.cache_effectiveness(NOON, NOON + HOUR).total.call_count == 1


@pytest.mark.parametrize("at", [-1, -HOUR, 0])
def test_times_before_1970_fall_into_their_own_hour(store: SqliteStore, at: int) -> None:
    store.write(op.PutCall(call(started_at=at)))
    store.write(op.AppendEvents.of("t1", [event(at=at)])).result()
    assert store.cache_effectiveness(at, at + 1).total.call_count == 1
    assert store.cache_effectiveness(-2 * HOUR, HOUR).total.call_count == 1
    assert store.event_counts(-2 * HOUR, HOUR) == {"turn.cancelled": 1}


def test_a_window_that_ends_where_it_starts_or_before_is_empty_also_in_pruned_hours(store: SqliteStore) -> None:
    store.write(op.PutCall(call(started_at=NOON))).result()
    store.write(op.AppendEvents.of("t1", [event(at=NOON)])).result()
    store.prune(NOON + HOUR)
    for start, end in ((NOON + 5, NOON + 5), (NOON + 9, NOON + 5), (NOON, NOON), (NOON + 2 * HOUR, NOON)):
        assert store.cache_effectiveness(start, end).total.call_count == 0
        assert store.event_counts(start, end) == {}
    assert store.cache_effectiveness(NOON + 5, NOON + 6).total.call_count == 1


def test_sums_of_dollars_do_not_depend_on_the_callers_precision(store: SqliteStore) -> None:
    fine = "1234567.000000000000000000000000000001"
    for cost in (fine, "1"):
        store.write(op.PutCall(call(usage=usage(cost=cost)))).result()
    with localcontext(prec=3):
        assert str(store.cache_effectiveness(NOON, NOON + HOUR).total.cost) == fine.replace("567", "568")
        assert str(store.cache_effectiveness(NOON, NOON + 1).total.cost) == fine.replace("567", "568")


@pytest.mark.parametrize("cost", ["NaN", "Infinity", "sNaN"])
def test_a_cost_that_is_no_number_is_refused_and_does_not_spoil_its_hour(store: SqliteStore, cost: str) -> None:
    with pytest.raises(HoldfastError, match="give a number or leave the cost out"):
        store.write(op.PutCall(call(usage=usage(cost=cost)))).result()
    store.write(op.PutCall(call(usage=usage(cost="0.5")))).result()
    assert [hour.cost for hour in store.call_hours(NOON, NOON + 1)] == [Decimal("0.5")]
