"""The bill: every way of adding up gives the same total; what is gone from the rows is still paid."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast import report
from holdfast.facts import rates
from holdfast.records import Usage
from holdfast.report import Bill, Sums
from holdfast.store import SqliteStore, open_store
from holdfast.store import operations as op
from tests.report.workday import CODING, GPT, HAIKU, SONNET, START, UNPRICED, Workday
from tests.store.samples import HOUR, NOON, call, found

DAY = 24 * HOUR
USED = Usage(input=100, read=600, writes=(("5m", 300),), output=50, cost=Decimal("0.5"), price_version="v")


def everything(bill: Bill) -> dict[str, tuple[Sums, ...]]:
    groups = {"models": bill.models, "clients": bill.clients, "days": bill.days, "kinds": bill.kinds}
    return {**groups, "sessions": bill.sessions}


def known(groups: tuple[Sums, ...], name: str) -> Decimal:
    return sum((getattr(each, name) or Decimal(0) for each in groups), Decimal(0))


def test_every_way_of_adding_up_gives_the_total(store: SqliteStore) -> None:
    bill = report.bill(store)
    for groups in everything(bill).values():
        for name in ("cost", "without_cache", "break_cost", "reset_cost"):
            assert known(groups, name) == (getattr(bill.total, name) or 0)
        for name in ("calls", "unanswered", "unpriced", "prompt_tokens", "output_tokens", "breaks", "resets"):
            assert sum(getattr(each, name) for each in groups) == getattr(bill.total, name)


def test_the_total_is_what_the_provider_billed(store: SqliteStore, workday: Workday) -> None:
    bill = report.bill(store)
    beside = [store.call(None, workday.calls[name]) for name in ("title", "past", "ping")]
    others = [row.usage.cost or Decimal(0) for row in beside if row is not None and row.usage is not None]
    assert len(others) == 3
    assert bill.total.cost == workday.cost + sum(others, Decimal(0))
    assert bill.total.cost == report.cache_effectiveness(store).total.cost
    assert (bill.total.unpriced, bill.total.kinds) == (1, {"bypassed": 1, "ping": 1, "side": 1})


def test_the_dearest_comes_first_and_who_has_no_price_last(store: SqliteStore) -> None:
    bill = report.bill(store)
    assert [each.id for each in bill.models] == [SONNET, GPT, HAIKU, UNPRICED]
    assert bill.models[-1].cost is None
    assert [(each.tenant, each.id) for each in bill.sessions][:2] == [("t-two", CODING), ("t-one", CODING)]
    assert [each.id for each in bill.clients][:2] == ["pi", "claude-code"]
    assert [each.id for each in bill.kinds] == ["request", "bypassed", "ping", "side"]
    assert bill.kinds[0].breaks == bill.total.breaks


def test_without_a_cache_every_token_is_plain_input(store: SqliteStore, workday: Workday) -> None:
    chat = next(each for each in report.bill(store).models if each.id == GPT)
    price = rates(GPT)
    assert chat.without_cache == chat.prompt_tokens * price.input + chat.output_tokens * price.output


def test_days_begin_where_the_reader_is(store: SqliteStore) -> None:
    assert [each.id for each in report.bill(store).days] == ["2027-01-15"]
    far = timezone(timedelta(hours=-9))
    assert [each.id for each in report.bill(store, zone=far).days] == ["2027-01-14", "2027-01-15"]
    assert report.bill(store, zone=None).total == report.bill(store).total
    assert [report.bill(store, zone=zone).zone for zone in (UTC, None, far)] == ["UTC", "local", "UTC-09:00"]


def test_session_tenant_window_and_single_calls_select(store: SqliteStore, workday: Workday) -> None:
    assert report.bill(store, tenant="t-two").total.cost == report.session(store, CODING, tenant="t-two").session.cost
    one = report.bill(store, tenant="t-one", session=CODING)
    assert one.total.cost == report.session(store, CODING, tenant="t-one").session.cost
    begin = round(START * 1_000_000)
    late, early = report.bill(store, start=begin + HOUR), report.bill(store, end=begin + HOUR)
    assert late.total.calls + early.total.calls == report.bill(store).total.calls
    chosen = report.bill(store, calls=[workday.calls["clock"], workday.calls["clock"], "nobody"])
    assert (chosen.total.calls, chosen.total.cost) == (1, workday.usages["clock"].cost)
    assert chosen.total.breaks == 1


def test_what_was_saved_is_what_the_verdicts_say(store: SqliteStore, workday: Workday) -> None:
    total = report.bill(store).total
    assert total.saved is not None
    assert float(total.saved) == pytest.approx(sum(verdict.saved for verdict in workday.verdicts.values()))


def test_what_was_saved_is_summed_where_calls_say_so(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as opened:
        for number, saved in enumerate(("0.2", "-0.05")):
            opened.write(op.PutCall(call(id=f"c{number}", verdict=f'{{"explained":true,"saved":{saved}}}'.encode())))
        opened.write(op.PutCall(call(id="c3", verdict=b'{"explained":true}'))).result()
        assert report.bill(opened).total.saved == Decimal("0.15")


def test_calls_that_were_pruned_are_still_paid(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        for number in range(4):
            at = NOON + number * DAY
            store.write(
                op.PutCall(call(id=f"c{number}", model=SONNET, client="pi", started_at=at, usage=USED))
            ).result()
        store.write(op.PutCall(call(id="free", model=UNPRICED, started_at=NOON, usage=Usage(input=7)))).result()
        before = report.bill(store)
        store.prune(NOON + 2 * DAY)
        after = report.bill(store)
        assert len(store.calls()) == 2
        assert (after.total.cost, after.total.calls, after.total.unpriced) == (Decimal(2), 5, 1)
        assert after.total.prompt_tokens == before.total.prompt_tokens
        assert after.total.without_cache == before.total.without_cache
        assert after.models == before.models
        assert [(each.id, each.cost) for each in after.days] == [(each.id, each.cost) for each in before.days]
        assert {each.id: each.calls for each in after.sessions} == {"s1": 2, None: 3}
        assert {each.id: each.calls for each in after.clients} == {"pi": 2, None: 3}
        assert {each.id: each.calls for each in after.kinds} == {"request": 2, None: 3}


def test_a_deleted_session_is_still_paid(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        for name in ("a", "b"):
            store.write(op.PutCall(call(id=name, session=name, model=SONNET, usage=USED)))
        store.write(op.DeleteSession("t1", "a")).result()
        bill = report.bill(store)
        assert (bill.total.cost, bill.total.calls) == (Decimal(1), 2)
        assert {each.id: each.cost for each in bill.sessions} == {"b": Decimal("0.5"), None: Decimal("0.5")}


def test_parts_of_hours_are_counted_by_their_calls_alone(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        for minute in (10, 50):
            at = NOON + minute * 60_000_000
            store.write(op.PutCall(call(id=f"c{minute}", model=SONNET, started_at=at, usage=USED))).result()
        half = NOON + HOUR // 2
        assert report.bill(store, start=NOON, end=half).total.calls == 1
        assert report.bill(store, start=half).total.calls == 1
        assert report.bill(store, start=NOON, end=NOON + HOUR).total.calls == 2


def test_a_break_whose_call_is_gone_still_counts(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        store.write(op.PutBreak(found(call="gone", model=SONNET, tokens=10, dollars=Decimal("0.3")))).result()
        bill = report.bill(store)
        assert (bill.total.breaks, bill.total.break_cost, bill.total.calls) == (1, Decimal("0.3"), 0)
        assert bill.clients[0].id is None


@pytest.mark.parametrize("tenant", [None, "t-nobody"])
def test_an_empty_bill(tenant: str | None, tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        bill = report.bill(store, tenant=tenant)
        assert bill.total == Sums()
        assert not any(everything(bill).values())
