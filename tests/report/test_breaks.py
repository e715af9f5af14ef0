"""Breaks and resets as people see them: newest first, with place, owner, price, cure and client."""

from __future__ import annotations

from datetime import UTC
from decimal import Decimal
from pathlib import Path

from holdfast import report
from holdfast.store import SqliteStore, open_store
from holdfast.store import operations as op
from tests.report.workday import CODING, SONNET, START, UNPRICED, Workday
from tests.store.samples import call, found


def test_a_break_says_where_whose_what_it_cost_and_what_to_do(store: SqliteStore, workday: Workday) -> None:
    finding = workday.verdicts["clock"].finding
    past, one = report.breaks(store, tenant="t-one", resets=False).breaks
    assert past.reason == "bypassed"
    assert (one.cause, one.reason, one.owner, one.path) == ("system_prompt_changed", None, "host", "system[1]")
    assert (one.tokens, one.dollars) == (finding.tokens, finding.dollars)
    sent = workday.prepared["clock"].sent.raw
    assert one.offset is not None
    assert sent[one.offset - len("2026-11-15 13:0") : one.offset] == b"2026-11-15 13:0"
    assert (one.cure, one.setting) == ("clock", 'cache.repair = "values"')
    assert one.advice is not None
    assert "system[1]" in one.advice
    assert (one.call, one.session, one.tenant) == (workday.calls["clock"], CODING, "t-one")
    assert (one.client, one.model) == ("claude-code", SONNET)
    assert one.at.tzinfo is UTC


def test_newest_first_and_no_more_than_the_limit(store: SqliteStore) -> None:
    every = report.breaks(store)
    assert [each.at for each in every.breaks] == sorted((each.at for each in every.breaks), reverse=True)
    assert not every.more
    some = report.breaks(store, limit=3)
    assert (some.breaks, some.more) == (every.breaks[:3], True)
    assert not report.breaks(store, limit=len(every.breaks)).more


def test_resets_are_breaks_with_a_reason_and_those_that_are_wanted_can_be_left_out(
    store: SqliteStore, workday: Workday
) -> None:
    every = report.breaks(store).breaks
    resets = [each for each in every if each.reason is not None]
    expected = [("bypassed", workday.calls["past"]), ("compaction", workday.calls["compacted"])]
    assert [(each.reason, each.call) for each in resets] == expected
    assert report.breaks(store, resets=False).breaks == tuple(each for each in every if each.reason != "compaction")


def test_older_breaks_are_found_behind_any_number_of_resets(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        for number in range(2):
            store.write(op.PutBreak(found(id=f"b{number}", cause="unknown", at=number)))
        for number in range(40):
            store.write(op.PutBreak(found(id=f"r{number}", reason="compaction", at=100 + number))).result()
        assert [each.id for each in report.breaks(store, resets=False, limit=1).breaks] == ["b1"]
        assert report.breaks(store, resets=False, limit=1).more


def test_session_and_window_select(store: SqliteStore) -> None:
    begin = round(START * 1_000_000)
    assert {each.tenant for each in report.breaks(store, start=begin + 3_600_000_000).breaks} == {"t-two"}
    assert {each.tenant for each in report.breaks(store, end=begin + 3_600_000_000).breaks} == {"t-one"}
    assert report.breaks(store, session="nobody").breaks == ()


def test_what_cannot_be_read_any_more_is_left_open(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        store.write(op.PutBreak(found(id="b1", call="gone", model=UNPRICED, tokens=5_000, data=b"\xff{")))
        store.write(op.PutCall(call(id="c1", client="pi")))
        store.write(op.PutBreak(found(id="b2", call="c1", model=SONNET, tokens=5_000, dollars=Decimal("0.1")))).result()
        two, one = report.breaks(store).breaks
        assert (one.client, one.dollars, one.advice, one.setting) == (None, None, None, None)
        assert (two.client, two.dollars) == ("pi", Decimal("0.1"))
