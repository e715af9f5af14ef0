"""How well caches were used: the definition of the rates, the window, prices nobody knows."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import msgspec

from holdfast import report
from holdfast.records import Usage
from holdfast.store import Call, SqliteStore, open_store
from holdfast.store import operations as op
from tests.report.workday import GPT, HAIKU, SONNET, START, UNPRICED, Workday

HOUR = 3_600_000_000


def test_tokens_are_those_the_provider_billed(store: SqliteStore, workday: Workday) -> None:
    found = report.cache_effectiveness(store, start=None, end=None)
    billed = {name: [call for call in store.calls() if call.model == name and call.usage] for name in (SONNET, GPT)}
    for model in found.models:
        if model.model in billed:
            usages = [call.usage for call in billed[model.model]]
            assert model.call_count == len(usages)
            assert model.uncached_tokens == sum(used.input for used in usages if used)
            assert model.cached_tokens == sum(used.read for used in usages if used)
            assert model.creation_tokens == sum(used.written for used in usages if used)
            assert model.cost == sum((used.cost or Decimal(0) for used in usages if used), Decimal(0))
    assert [model.model for model in found.models] == [HAIKU, UNPRICED, SONNET, GPT]


def test_rates_are_over_all_prompt_tokens(store: SqliteStore) -> None:
    total = report.cache_effectiveness(store).total
    prompt = total.uncached_tokens + total.cached_tokens + total.creation_tokens
    assert total.hit_rate == total.cached_tokens / prompt
    assert total.cache_write_share == total.creation_tokens / prompt


def test_an_unknown_price_is_none_and_the_total_goes_without_it(store: SqliteStore) -> None:
    found = report.cache_effectiveness(store)
    by_model = {model.model: model for model in found.models}
    assert by_model[UNPRICED].cost is None
    assert by_model[UNPRICED].creation_tokens > 0
    assert found.total.cost == sum((model.cost for model in found.models if model.cost is not None), Decimal(0))


def test_without_a_call_everything_is_nothing(store: SqliteStore) -> None:
    found = report.cache_effectiveness(store, start=0, end=HOUR)
    assert (found.models, found.total.call_count) == ((), 0)
    assert (found.total.hit_rate, found.total.cache_write_share, found.total.cost) == (None, None, None)
    assert json.loads(msgspec.json.encode(found))["window"] == {
        "start": "1970-01-01T00:00:00Z",
        "end": "1970-01-01T01:00:00Z",
    }


def test_the_window_and_the_tenant_select(store: SqliteStore) -> None:
    begin = round(START * 1_000_000)
    early = report.cache_effectiveness(store, start=begin, end=begin + HOUR)
    late = report.cache_effectiveness(store, start=begin + HOUR)
    whole = report.cache_effectiveness(store)
    assert early.total.call_count + late.total.call_count == whole.total.call_count
    assert late.total == report.cache_effectiveness(store, tenant="t-two").total
    assert late.window.end is None
    assert whole.window == report.TimeWindow(None, None)


def test_a_free_model_costs_nothing_rather_than_something_unknown(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        used = Usage(input=10, cost=Decimal(0), price_version="v")
        store.write(
            op.PutCall(
                Call(
                    tenant="t", id="c", session="s", lane="l", model=SONNET, started_at=1, status="settled", usage=used
                )
            )
        ).result()
        assert report.cache_effectiveness(store).total.cost == 0
