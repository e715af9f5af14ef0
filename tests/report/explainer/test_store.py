"""A gateway's store: what it found when the bytes went out is what is told, each thing once."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from holdfast import report
from holdfast.report.explainer import Explainer
from holdfast.report.explainer.results import ExplainReport
from holdfast.report.logs.discovery import records, sources
from holdfast.store import open_existing, open_store
from tests.report.worked import work
from tests.store.samples import NOON, call, usage


def explained(path: Path) -> ExplainReport:
    explainer = Explainer()
    for source in sources([path]):
        for record in records(source, lambda _: None):
            explainer.add(record, source.format)
    return explainer.result()


def test_breaks_and_dollars_are_those_of_the_store(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.db"
    work(path)
    found = explained(path)
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
            store.put_call(
                call(
                    id=f"call-{number}",
                    started_at=NOON + number,
                    first_token_at=NOON + 900_000,
                    usage=usage(read=read, w5=written, w1=0),
                    verdict=verdict,
                )
            )
    assert explained(path).totals.breaks == breaks
