"""A gateway's store: what it found when the bytes went out is what is told, each thing once."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from holdfast import observe
from holdfast.observe.explain import Explainer
from holdfast.store import open_existing
from holdfast.traces.logs.finding import records, sources
from tests.observe.worked import work


def test_breaks_and_dollars_are_those_of_the_store(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "holdfast.db"
    work(path)
    explainer = Explainer()
    for source in sources([path]):
        for record in records(source, lambda _: None):
            explainer.add(record, source.format)
    found = explainer.result()
    store = open_existing(f"sqlite:///{path}")
    assert store is not None
    with store:
        told = observe.breaks(store, resets=True, limit=1_000).breaks
        bill = observe.bill(store).total
    breaks = [each for session in found.sessions for each in session.breaks]
    assert {each.evidence for each in breaks} == {"log"}
    key = sorted((each.cause or "", each.reset or "", each.tokens_lost, each.path or "") for each in breaks)
    assert key == sorted((each.cause or "", each.reason or "", each.tokens, each.path or "") for each in told)
    assert found.totals.cost_usd == bill.cost
    known = [each.dollars for each in told if each.reason is None and each.dollars is not None]
    assert found.totals.break_cost_usd == sum(known, Decimal(0)) == found.totals.money.rewritten
