"""Calls that were not planned, events of others, a body that is read once."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.engine import EngineCore, Lane, UnplannedCall
from holdfast.records import Usage, usage
from holdfast.records.events import Bus
from holdfast.records.events.calls import LlmCallCompleted, LlmCallStarted
from holdfast.records.events.sessions import GatewayPreflight
from holdfast.store import open_store

from .driver import START, Driver, raw_of, talk

LANE = Lane(tenant="t", session="s", id="s/title", client="cli")
MODEL = "anthropic:claude-sonnet-5-5"
BILLED = usage(input=1_000, output=10)


@pytest.mark.parametrize(
    ("used", "error", "status", "told"),
    [
        (BILLED, "", "settled", "llm.call_completed"),
        (None, "", "abandoned", "llm.call_failed"),
        (None, "status 529", "failed", "llm.call_failed"),
        (BILLED, "cut", "failed", "llm.call_failed"),
    ],
)
def test_a_call_that_was_not_planned_is_a_row_and_two_events(
    tmp_path: Path, used: Usage | None, error: str, status: str, told: str
) -> None:
    with open_store(tmp_path / "h.db") as store:
        engine = EngineCore(store=store)
        call = engine.call_id()
        side = UnplannedCall(
            id=call,
            lane=LANE,
            kind="side",
            model=MODEL,
            started=START,
            ended=START + 2,
            first_token=START + 1,
            usage=used,
            error=error,
            why="a title",
        )
        engine.note(side)
        engine.close(now=START + 3)
    with open_store(tmp_path / "h.db") as store:
        row = store.call("t", call)
        assert (row.kind, row.status, row.session, row.lane, row.model) == ("side", status, "s", "s/title", MODEL)
        assert (row.started_at, row.first_token_at, row.ended_at) == (
            int(START * 1e6),
            int((START + 1) * 1e6),
            int((START + 2) * 1e6),
        )
        assert row.plan == b'{"why":"a title"}'
        assert row.error == (error or None)
        if used is not None:
            assert row.usage.cost is not None
            assert row.usage.cost > 0
        assert [event.payload.type for event in store.events("t", "s")] == ["llm.call_started", told]
        assert store.session("t", "s") is not None
        assert store.ledger("t", "s/title") is None


def test_without_a_store_a_call_that_was_not_planned_is_told_to_the_bus() -> None:
    bus = Bus()
    heard = bus.subscribe()
    EngineCore(bus=bus).note(
        UnplannedCall(id="c", lane=LANE, kind="bypassed", model=MODEL, started=START, ended=START + 1, usage=BILLED)
    )
    first, second = (event.payload for event in heard.drain())
    assert isinstance(first, LlmCallStarted)
    assert isinstance(second, LlmCallCompleted)
    assert first.call == second.call == "c"


def test_events_of_others_reach_store_and_bus(tmp_path: Path) -> None:
    bus = Bus()
    heard = bus.subscribe()
    told = GatewayPreflight(call="c", action="warned", dollars=Decimal("0.75"), limit=Decimal("0.5"))
    with open_store(tmp_path / "h.db") as store:
        EngineCore(store=store, bus=bus).tell(LANE, told, now=START)
    assert [event.payload for event in heard.drain()] == [told]
    with open_store(tmp_path / "h.db") as store:
        assert [event.payload for event in store.events("t", "s")] == [told]


def test_a_body_that_was_read_is_not_read_again_to_prepare_it() -> None:
    driver = Driver()
    body = driver.body(raw_of(talk(2)))
    reading = driver.engine.read(body)
    before = driver.engine.reader.canonicalised
    prepared = driver.engine.prepare(body, lane=driver.lane, now=driver.now)
    assert prepared.core.request.alone is reading.prompt
    assert driver.engine.reader.canonicalised == before


def test_another_body_in_between_changes_no_reading() -> None:
    driver = Driver()
    body, other = driver.body(raw_of(talk(2))), driver.body(raw_of(talk(1)))
    reading = driver.engine.read(body)
    driver.engine.read(other)
    assert driver.engine.read(body).prompt.keys == reading.prompt.keys
