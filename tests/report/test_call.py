"""One call: plan, repairs, prediction, bill, verdict, breaks; and what is left where rows or events are gone."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from holdfast import report
from holdfast.errors import HoldfastError
from holdfast.facts import rates
from holdfast.report import PredictedUsage, SentMarker
from holdfast.store import SqliteStore, open_store
from holdfast.store import operations as op
from tests.report.workday import SONNET, Workday
from tests.store.samples import call, usage


def test_everything_known_of_a_call(store: SqliteStore, workday: Workday) -> None:
    one, prepared, verdict = (
        report.call(store, workday.calls["clock"]),
        workday.prepared["clock"],
        workday.verdicts["clock"],
    )
    assert (one.kind, one.status, one.model, one.client) == ("request", "settled", SONNET, "claude-code")
    assert one.plan.strategy == "rolling"
    assert tuple((marker.path, marker.ttl) for marker in one.plan.markers) == prepared.markers
    assert [marker.block for marker in one.plan.markers] == [mark.block for mark in prepared.core.plan.marks]
    assert (one.plan.reasons, one.plan.dropped) == (prepared.core.plan.reasons, prepared.core.plan.dropped)
    assert [(each.name, each.path, each.why, each.saved_tokens, each.applied) for each in one.plan.repairs] == [
        (each.name, each.path, each.why, each.saved_tokens, each.applied) for each in prepared.repairs
    ]
    assert any(not each.applied for each in one.plan.repairs)
    assert one.usage == verdict.usage
    assert one.first_token is not None
    assert one.ended is not None
    assert one.started < one.first_token < one.ended
    assert [each.cure for each in one.breaks] == ["clock"]
    price = rates(SONNET, one.started, verdict.usage.prompt)
    assert one.without_cache == verdict.usage.prompt * price.input + verdict.usage.output * price.output


def test_side_and_bypassed_calls_say_why_they_were_not_planned(store: SqliteStore, workday: Workday) -> None:
    title, past = report.call(store, workday.calls["title"]), report.call(store, workday.calls["past"])
    assert (title.kind, title.why, title.plan, title.predicted) == ("side", "a title", None, None)
    assert (past.kind, past.why, past.explained) == ("bypassed", "slow", None)


def test_calls_that_did_not_end_well(store: SqliteStore, workday: Workday) -> None:
    failed, left, pending = (report.call(store, workday.calls[name]) for name in ("failed", "left", "pending"))
    assert (failed.status, failed.error, failed.usage) == ("failed", "overloaded_error", None)
    assert (left.status, left.error) == ("abandoned", None)
    assert (pending.status, pending.ended, pending.explained) == ("pending", None, None)
    assert pending.predicted is not None
    assert pending.without_cache is None


def test_a_warning_before_the_call_is_told_with_it(store: SqliteStore, workday: Workday) -> None:
    (event,) = report.call(store, workday.calls["compacted"]).events
    assert event.type == "gateway.preflight"
    assert event.data == {"action": "warned", "dollars": "0.2", "limit": "0.1"}
    assert report.call(store, workday.calls["after"]).events == ()


def test_json_has_iso_times_and_exact_dollars(store: SqliteStore, workday: Workday) -> None:
    one = report.call(store, workday.calls["main 1"])
    found = json.loads(msgspec.json.encode(one))
    assert found["started"].endswith("Z")
    assert found["usage"]["cost"] == str(workday.usages["main 1"].cost)


def test_a_beginning_is_enough_and_an_unknown_one_an_error(store: SqliteStore, workday: Workday) -> None:
    id_ = workday.calls["clock"]
    assert report.call(store, id_[:24], tenant="t-one").id == id_
    with pytest.raises(HoldfastError, match="there is no call 'nothing'; `holdfast sessions` lists what there is"):
        report.call(store, "nothing")
    with pytest.raises(HoldfastError, match="there is no call"):
        report.call(store, id_, tenant="t-two")


def test_without_events_the_row_is_what_is_left(tmp_path: Path) -> None:
    plan = {"plan": {"strategy": "rolling", "marks": [{"block": 3, "ttl": "5m"}]}, "repairs": []}
    predicted = msgspec.json.encode(usage(input=1, read=2, w5=3, w1=4))
    with open_store(tmp_path / "h.db") as store:
        store.write(op.PutCall(call(id="c1", plan=msgspec.json.encode(plan), prediction=predicted))).result()
        one = report.call(store, "c1")
        assert one.predicted == PredictedUsage(read=2, written=7, input=1)
        assert one.plan.markers == (SentMarker(None, "5m", 3),)
        assert one.without_cache is None  # nobody knows that model's price


def test_rows_of_another_version_are_shown_as_far_as_they_can_be_read(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        store.write(op.PutCall(call(id="c1", plan=b"\xff", prediction=b'{"read": "many"}', verdict=b"[1]"))).result()
        one = report.call(store, "c1")
        assert (one.plan, one.predicted, one.explained, one.saved, one.why) == (None, None, None, None, None)
        assert one.usage == usage()


@pytest.mark.parametrize("saved", ["0.25", '"0.25"'])
def test_what_was_saved_is_read_where_it_is_stored(saved: str, tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        store.write(op.PutCall(call(id="c1", verdict=f'{{"explained": false, "saved": {saved}}}'.encode()))).result()
        one = report.call(store, "c1")
        assert (one.explained, one.saved) == (False, Decimal("0.25"))


def test_times_beyond_what_a_calendar_knows_do_no_harm(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        store.write(op.PutCall(call(id="c1", started_at=2**62, ended_at=-(2**62), first_token_at=0))).result()
        one = report.call(store, "c1")
        assert (one.started.year, one.ended and one.ended.year) == (9999, 1)
