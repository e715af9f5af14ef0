"""What is added up: tokens, money, causes, cures; what is kept of it, and what a gateway's store found itself."""

from __future__ import annotations

import gc
import logging
import tracemalloc
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from holdfast import facts, report
from holdfast.core.breaks import cost_of
from holdfast.records import Usage
from holdfast.report.explainer import Explainer, RequestWindow
from holdfast.report.explainer.results import ExplainReport, Money
from holdfast.report.explainer.sessions import MOST_BREAKS
from holdfast.report.logs.discovery import records, sources
from holdfast.report.logs.records import BrokenSource, LoggedBreak, LoggedRequest
from holdfast.store import open_existing, open_store
from holdfast.store import operations as op
from tests.report.explainer.logs import DAY, OPUS, billed, breaks, explained, lines, told
from tests.report.workday import work
from tests.store.samples import NOON, call, usage

MODELS = (OPUS, "claude-haiku-5-5", "gpt-6.1-sol", "gpt-5.5", "gemini-2.5-pro", "claude-sonnet-4-5")


def some_log(random: Random, requests: int) -> list[LoggedRequest]:
    """Requests of several models and sessions that read more or less as they like; some have failed."""
    found = []
    for number in range(requests):
        model = random.choice(MODELS)
        writes = {"30m": 300} if model.startswith("gpt-6") else {}
        used: Usage | None = billed(
            input=random.randrange(5_000),
            read=random.choice([0, 5_000, 20_000, 90_000, 250_000]),
            short=random.randrange(2_000) if model.startswith("claude") else 0,
            long=random.choice([0, 7_000]) if model.startswith("claude") else 0,
            output=random.randrange(3_000),
            **writes,
        )
        if random.random() < 0.05:
            used = None
        reset = "compaction" if random.random() < 0.1 else None
        at = DAY + number * random.choice([1, 50, 400])
        session = f"s{random.randrange(3)}"
        found.append(LoggedRequest(session=session, source=f"a:{number}", model=model, at=at, usage=used, reset=reset))
    return found


def whole(money: Money) -> Decimal:
    return money.reads + money.growth + money.rewritten + money.resets + money.input + money.output


@pytest.mark.parametrize("seed", range(10))
def test_the_parts_of_the_money_add_up_exactly(seed: int) -> None:
    records = some_log(Random(seed), 300)
    report = explained(records)
    prices = [facts.price(each.usage, each.model).cost for each in records if each.usage is not None]
    assert report.totals.cost_usd == sum((cost for cost in prices if cost is not None), Decimal(0))
    assert whole(report.totals.money) == report.totals.cost_usd
    assert report.totals.money.rewritten == report.totals.break_cost_usd
    assert all(getattr(report.totals.money, name) >= 0 for name in Money.__struct_fields__)
    found = [each for session in report.sessions for each in session.breaks]
    resets = [each for each in found if each.reset is not None]
    assert report.totals.money.resets == sum((each.cost_usd or Decimal(0) for each in resets), Decimal(0))
    assert (report.totals.resets, report.totals.breaks) == (len(resets), len(found) - len(resets))
    assert report.totals.tokens_lost == sum(each.tokens_lost for each in found if each.reset is None)
    assert sum(each.breaks for each in report.totals.causes) == len(found)


def test_a_break_costs_what_its_tokens_were_billed_beyond_a_read() -> None:
    lost = billed(read=17_000, short=9_000, input=40)
    (found,) = breaks(explained(lines([billed(read=17_000, short=8_000), lost])))
    assert (
        found.cost_usd == cost_of(8_000, lost, facts.rates(OPUS)) == 8_000 * (Decimal("6.25") - Decimal("0.5")) / 10**6
    )


def test_prices_are_those_of_the_day() -> None:
    """gpt-5.6-sol became cheaper; a log without dates is priced as of today."""
    before, after = 1_783_000_000.0, 1_790_000_000.0  # July and September 2026
    records = lines([billed(input=1_000, output=0)], model="gpt-5.6-sol")
    costs = [explained([replace(records[0], at=at)]).totals.cost_usd for at in (before, after, 5.0, None)]
    assert costs[0] is not None
    assert costs[1] is not None
    assert costs[0] > costs[1] == costs[2] == costs[3]


def test_tokens_by_kind_and_the_hit_rate() -> None:
    session = explained(lines([billed(input=10, short=6, long=4, output=5), billed(input=0, read=20, unsplit=10)]))
    usage = session.sessions[0].usage
    assert (usage.input, usage.read, usage.write_5m, usage.write_1h, usage.write_other) == (10, 20, 6, 4, 10)
    assert session.sessions[0].hit_rate == 20 / 50
    assert explained(lines([None])).sessions[0].hit_rate is None


def test_what_has_no_price_is_counted_and_left_open(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    records = lines([billed(read=5_000), billed(read=100)], model="claude-mythos-5-1")
    report = explained(records)
    assert report.totals.cost_usd is None
    assert report.totals.unpriced == report.sessions[0].unpriced == 2
    assert report.totals.break_cost_usd is None
    assert breaks(report)[0].cost_usd is None
    both = explained([*records, *lines([billed(input=1_000_000, output=0)], session="t")])
    assert both.totals.cost_usd == 5


def test_nothing_lost_costs_nothing() -> None:
    totals = explained(lines([billed(short=9_000)])).totals
    assert (totals.break_cost_usd, totals.tokens_lost, totals.causes, totals.cures) == (0, 0, (), ())


def test_the_three_cures_worth_most() -> None:
    records = []
    for number, (read, model) in enumerate([(17_000, OPUS), (100, OPUS), (17_000, "claude-sonnet-5-5"), (0, OPUS)]):
        first = billed(read=17_000, short=8_000)
        records += lines([first, billed(read=read, short=25_000 - read)], session=f"s{number}", model=model)
    cures = explained(records).totals.cures
    assert [(cure.cure, cure.breaks) for cure in cures] == [("system_prompt_changed", 1), ("messages_rewritten", 2)]
    assert cures[0].saves_usd == Decimal("0.1426") + Decimal("0.000575")  # 24,900 tokens; nothing promises the unknown


def test_the_dearest_breaks_are_kept_and_all_are_counted() -> None:
    def usages() -> list[Usage]:
        each = []
        for number in range(MOST_BREAKS + 50):
            each += [billed(read=5_000, short=10_000 + number), billed(read=5_000, short=10_000 + number)]
        return each

    report = explained(lines(usages(), gap=0.1))
    session = report.sessions[0]
    assert len(session.breaks) == MOST_BREAKS
    assert report.totals.breaks == MOST_BREAKS + session.breaks_left_out
    assert min(each.request for each in session.breaks) > session.breaks_left_out  # later ones cost more
    assert report.totals.money.rewritten == report.totals.break_cost_usd
    assert [each.request for each in session.breaks] == sorted(each.request for each in session.breaks)


def test_what_a_store_has_seen_is_taken_as_it_says() -> None:
    first, second = lines([billed(read=17_000, short=8_000), billed(read=17_000, short=9_000)])
    seen = LoggedBreak(
        cause="tools_changed", reset=None, tokens=7_990, path="tools[3]", offset=120, cure="tool_added", advice="Do."
    )
    (found,) = breaks(explained([first, replace(second, told=seen)]))
    assert (found.cause, found.path, found.offset, found.cure) == ("tools_changed", "tools[3]", 120, "tool_added")
    assert (found.evidence, found.tokens_lost, found.advice) == ("log", 7_990, "Do.")
    reset = replace(seen, cause=None, reset="bypassed", tokens=400, dollars=Decimal(1))
    unpriced = replace(second, told=reset, model="claude-mythos-5-1")
    report = explained([first, unpriced])
    assert (told(report), report.totals.breaks, report.totals.resets) == ([(2, "reset bypassed")], 0, 1)
    assert breaks(report)[0].cost_usd == 1


def test_a_window_counts_what_is_in_it_and_compares_with_what_was_before() -> None:
    first = billed(read=17_000, short=8_000)
    records = lines([first, billed(read=17_000, short=8_000), billed(read=100, short=9_000)])
    late = explained(records, window=RequestWindow(since=DAY + 25.0))
    assert told(late) == [(3, "system_prompt_changed")]
    assert late.sessions[0].requests == 1
    assert late.totals.usage.read == 100
    early = explained(records, window=RequestWindow(until=DAY + 30.0))
    assert told(early) == [(2, "messages_rewritten")]
    assert explained(records, window=RequestWindow(since=DAY + 90.0)).sessions == ()
    assert explained([replace(each, at=None) for each in records], window=RequestWindow(since=1.0)).sessions == ()
    other = [*records, *lines([first], session="other")]
    assert [each.session for each in explained(other, window=RequestWindow(session="oth")).sessions] == ["other"]


def test_a_session_in_two_kinds_of_logs_is_counted_once() -> None:
    explainer = Explainer()
    for record in lines([billed(read=17_000, short=8_000), billed(read=25_000)]):
        explainer.add(record, "store")
    for record in lines([billed(read=17_000, short=8_000), billed(read=25_000)]):
        explainer.add(record, "claude-code")
    report = explainer.result()
    assert (report.totals.sessions, report.totals.requests) == (1, 2)
    assert explainer.sessions.repeated == {"s"}


def test_broken_lines_are_counted_and_the_first_named() -> None:
    report = explained([BrokenSource(f"a.jsonl:{number}", "no JSON") for number in range(1, 101)])
    assert (report.broken, len(report.broken_lines)) == (100, 20)
    assert report.broken_lines[0].source == "a.jsonl:1"


@pytest.mark.slow
def test_memory_does_not_grow_with_requests() -> None:
    def held(requests: int) -> int:
        explainer, used = Explainer(), billed(read=17_000, short=8_000)
        tracemalloc.start()
        for number in range(requests):
            read = 17_000 if number % 2 == 0 else 25_000
            explainer.add(
                LoggedRequest(session="s", source="log", model=OPUS, at=DAY + number, usage=replace(used, read=read))
            )
        gc.collect()  # what is garbage by now is no matter of ours
        found = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert explainer.result().totals.requests == requests
        return found

    held(10)
    assert held(9 * MOST_BREAKS) < 1.5 * held(3 * MOST_BREAKS)  # three times as much if all were kept


def test_the_prices_are_named() -> None:
    report: ExplainReport = explained(lines([billed()]))
    assert report.prices.startswith("genai-prices")


def explained_store(path: Path) -> ExplainReport:
    explainer = Explainer()
    for source in sources([path]):
        for record in records(source, lambda _: None):
            explainer.add(record, source.format)
    return explainer.result()


def test_breaks_and_dollars_are_those_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    work(path)
    found = explained_store(path)
    store = open_existing(f"sqlite:///{path}")
    assert store is not None
    with store:
        told = report.breaks(store, resets=True, limit=1_000).breaks
        bill = report.bill(store).total
    breaks = [each for session in found.sessions for each in session.breaks]
    assert {each.evidence for each in breaks} == {"log"}
    key = sorted((each.cause or "", each.reset or "", each.tokens_lost, each.path or "") for each in breaks)
    assert key == sorted((each.cause or "", each.reason or "", each.tokens, each.path or "") for each in told)
    assert found.totals.cost_usd == bill.cost
    known = [each.dollars for each in told if each.reason is None and each.dollars is not None]
    assert found.totals.break_cost_usd == sum(known, Decimal(0)) == found.totals.money.rewritten


@pytest.mark.parametrize(("verdict", "breaks"), [(b'{"explained":true}', 0), (None, 1)])
def test_parallel_calls_that_the_gateway_judged_are_not_judged_again(
    tmp_path: Path, verdict: bytes | None, breaks: int
) -> None:
    """The one that came first waited for the other and read what that had written."""
    path = tmp_path / "holdfast.db"
    with open_store(path) as store:
        for number, (read, written) in enumerate([(0, 8_000), (12_000, 0), (8_000, 4_000)]):
            store.write(
                op.PutCall(
                    call(
                        id=f"call-{number}",
                        started_at=NOON + number,
                        first_token_at=NOON + 900_000,
                        usage=usage(read=read, w5=written, w1=0),
                        verdict=verdict,
                    )
                )
            )
    assert explained_store(path).totals.breaks == breaks
