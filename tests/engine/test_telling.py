"""What is told about a call: rows, events in their order, breaks with place, owner, cure and price."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.config.sections.cache import CacheSettings
from holdfast.engine.pool_effects import effects_from
from holdfast.store import operations as op
from tests.properties.sessions import Talk

from .driver import HOST, QUESTION, Driver, raw_of, talk
from .journal_driver import JournalDriver, types

SECRET = "xylophone"


def clock(turns: int, minute: int) -> Talk:
    return talk(turns, system=(HOST, f"Current time: 2026-11-15 13:{minute:02}:00\n" + "Rules. " * 900))


def test_a_call_is_told_from_its_start_to_its_verdict(tmp_path: Path) -> None:
    told = JournalDriver(tmp_path)
    prepared, used, _ = told.send(talk(0), turn="turn-1")
    events = told.events()
    assert types(events) == ["llm.call_started", "cache.planned", "llm.call_completed", "cache.verdict"]
    assert {event.session for event in events} == {"s"}
    assert {event.turn for event in events} == {"turn-1"}
    assert [event.id for event in events] == sorted(event.id for event in events)
    started, planned, completed, verdict = (event.payload for event in events)
    assert {each.call for each in (started, planned, completed, verdict)} == {prepared.call}  # type: ignore[attr-defined]
    assert planned.markers == prepared.markers  # type: ignore[attr-defined]
    assert (planned.predicted_read, planned.predicted_written) == (0, used.written)  # type: ignore[attr-defined]
    assert (completed.input, completed.writes, completed.cost) == (used.input, used.writes, used.cost)  # type: ignore[attr-defined]
    assert verdict.explained  # type: ignore[attr-defined]
    assert told.stored() == events
    told.done()


@pytest.mark.parametrize("ttl", ["long " * 100, "\ud800"])
def test_a_marker_with_an_odd_lifetime_is_told_in_short(ttl: str, tmp_path: Path) -> None:
    told = JournalDriver(tmp_path)
    request = json.loads(raw_of(talk(0)))
    request["messages"][-1]["content"] = [{"type": "text", "text": "q", "cache_control": {"type": "x", "ttl": ttl}}]
    told.prepare(json.dumps(request).encode())
    (planned,) = (event.payload for event in told.events() if event.payload.type == "cache.planned")
    assert planned.markers[-1][1] in (ttl[:256], "?")  # type: ignore[attr-defined]
    told.done()


@pytest.mark.parametrize("error", ["", "overloaded_error"])
def test_a_call_that_did_not_end_well_is_told(error: str, tmp_path: Path) -> None:
    told = JournalDriver(tmp_path)
    prepared = told.prepare(talk(0))
    told.bill(prepared).abandon()
    told.engine.abandon(prepared, now=told.now, error=error)
    told.engine.abandon(prepared, now=told.now, error=error)
    events = told.events()
    assert types(events) == ["llm.call_started", "cache.planned", "llm.call_failed"]
    failed = events[-1].payload
    assert (failed.abandoned, failed.error) == (not error, error or "abandoned")  # type: ignore[attr-defined]
    told.restart()
    row = told.store.call("t", prepared.call)
    assert (row.status, row.error) == (("failed", error) if error else ("abandoned", None))
    assert row.ended_at is not None
    effects = effects_from(row.chain or b"")
    assert effects.sent.first_token is None  # nothing was written
    told.done()


def test_a_row_grows_with_its_call(tmp_path: Path) -> None:
    told = JournalDriver(tmp_path)
    prepared = told.prepare(talk(0))
    exchange = told.bill(prepared)
    told.store.write(op.AppendEvents("t", ())).result()
    row = told.store.call("t", prepared.call)
    assert (row.status, row.usage, row.ended_at) == ("pending", None, None)
    assert (row.session, row.lane, row.client, row.model) == ("s", "l", "cli", "anthropic:claude-sonnet-5-5")
    assert msgspec.json.decode(row.plan or b"")["plan"]["strategy"] == "economic"
    told.wait(2)
    verdict = told.finish(prepared, exchange)
    told.restart()
    row = told.store.call("t", prepared.call)
    assert (row.status, row.usage) == ("settled", verdict.usage)
    assert row.first_token_at is not None
    assert row.ended_at is not None
    assert row.started_at + 2_000_000 == row.first_token_at == row.ended_at - 1_000_000
    unrepaired = {"repairs": "0.000000000", "exact": False}  # nothing is suggested for it
    assert msgspec.json.decode(row.verdict or b"") == {
        "explained": True,
        "saved": f"{verdict.saved:.9f}",
        **unrepaired,
    }
    effects = effects_from(row.chain or b"")
    assert effects.sent.first_token == prepared.core.first_token
    told.done()


def test_no_text_of_a_body_stands_in_what_is_told(tmp_path: Path) -> None:
    told = JournalDriver(tmp_path)
    for turns in range(4):
        told.send(talk(turns, system=(HOST + f" {SECRET} {turns}", SECRET)))
    assert "cache.break" in types(told.events())
    for event in told.stored():
        assert SECRET.encode() not in msgspec.json.encode(event)
        assert b"engineer" not in msgspec.json.encode(event)
    for call in told.store.calls("t"):
        assert SECRET.encode() not in msgspec.json.encode(call)
    for found in told.store.breaks("t"):
        assert SECRET.encode() not in msgspec.json.encode(found)
    told.done()


def test_a_break_names_the_byte_the_owner_the_price_and_the_cure(tmp_path: Path) -> None:
    told = JournalDriver(tmp_path)
    first, _, _ = told.send(clock(1, 1))
    prepared, used, verdict = told.send(clock(2, 2))
    finding = verdict.finding
    assert finding.cause == "system_prompt_changed"
    assert types(told.events())[-1] == "cache.break"
    told.restart()
    (row,) = told.store.breaks("t")
    assert (row.call, row.lane, row.session) == (prepared.call, "l", "s")
    assert (row.cause, row.reason, row.path, row.owner) == ("system_prompt_changed", None, "system[1]", "host")
    assert (row.cure, row.tokens) == ("clock", finding.tokens)
    assert row.tokens > 2_000
    assert row.offset is not None
    before, after = first.sent.raw, prepared.sent.raw
    assert before[: row.offset] == after[: row.offset]
    assert (before[row.offset : row.offset + 1], after[row.offset : row.offset + 1]) == (b"1", b"2")
    premium = {"5m": Decimal("2.5"), "1h": Decimal(4)}
    most = row.tokens * (max(premium[ttl] for ttl, _ in used.writes) - Decimal("0.1")) / 1_000_000
    assert 0 < row.dollars <= most
    (line,) = told.lines()
    assert (line["path"], line["offset"], line["owner"], line["cure"]) == ("system[1]", row.offset, "host", "clock")
    assert Decimal(line["dollars"]) == row.dollars
    assert (told.reported / line["diff"]).exists()
    told.done()


def test_the_offset_is_where_the_sent_bytes_differ_and_not_the_markers(tmp_path: Path) -> None:
    """A marker of ours moves on from the block whose text changes."""
    told = JournalDriver(tmp_path)
    first, second = talk(6), talk(7)
    text = first.turns[4][2][0]
    second.turns[4] = ("user", 2, [text[:50] + "CHANGED" + text[50:]])
    told.send(first)
    prepared, _, verdict = told.send(second)
    assert verdict.finding is not None
    told.restart()
    (row,) = told.store.breaks("t")
    assert (row.cause, row.owner) == ("messages_rewritten", "user")
    assert row.path.startswith("messages[4]")
    assert row.offset is not None
    assert prepared.sent.raw[row.offset :].startswith(b"CHANGED")
    assert prepared.client.raw[row.offset :].startswith(b"CHANGED")
    told.done()


START = "so it begins " * 2_000


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (  # the client's marker stands in front of the text, and moves on
            {"type": "text", "cache_control": {"type": "ephemeral"}, "text": START + "ALPHA"},
            {"type": "text", "text": START + "BETA"},
        ),
        (  # it comes to stand there
            {"type": "text", "text": START + "ALPHA"},
            {"type": "text", "cache_control": {"type": "ephemeral"}, "text": START + "BETA"},
        ),
        ({"type": "text", "text": START + "ALPHA"}, START + "BETA"),
        (START + "ALPHA", {"type": "text", "text": START + "BETA"}),
        (  # in a result, on it and inside it
            {
                "type": "search_result",
                "cache_control": {"type": "ephemeral"},
                "title": "t",
                "source": "s",
                "content": [{"type": "text", "text": START + "ALPHA"}],
            },
            {
                "type": "search_result",
                "title": "t",
                "source": "s",
                "content": [{"type": "text", "text": START + "BETA"}],
            },
        ),
        (
            {
                "type": "search_result",
                "title": "t",
                "source": "s",
                "content": [{"type": "text", "text": START + "ALPHA"}],
            },
            {
                "type": "search_result",
                "title": "t",
                "cache_control": {"type": "ephemeral"},
                "source": "s",
                "content": [{"type": "text", "text": START + "BETA"}],
            },
        ),
    ],
)
def test_the_offset_is_not_that_of_a_marker_or_of_another_form(before: Any, after: Any, tmp_path: Path) -> None:
    def raw(block: Any, *more: dict[str, Any]) -> bytes:
        content = block if isinstance(block, str) else [block]
        messages = [{"role": "user", "content": content}, *more]
        request = {"model": "claude-sonnet-5-5", "max_tokens": 9, "system": HOST, "messages": messages}
        return json.dumps(request).encode()

    told = JournalDriver(tmp_path).after(raw(before))
    prepared, _, verdict = told.send(
        raw(after, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "more " * 100})
    )
    assert verdict.finding is not None
    (line,) = told.lines()
    assert line["path"] == "messages[0].content[0]"
    assert prepared.sent.raw[line["offset"] :].startswith(b"BETA")
    assert line["was"].rstrip('"}]').endswith("x XXXXX")
    assert line["now"].rstrip('"}]').endswith("x XXXX")
    told.done()


def test_a_tool_that_nobody_announced_is_a_break(tmp_path: Path) -> None:
    told = JournalDriver(tmp_path).after(talk(2))
    more = talk(3)
    more.tools.append("fetch")
    verdict = told.send(more)[2]
    assert (verdict.finding.cause, verdict.finding.reason) == ("tools_changed", None)
    told.engine.announce(told.lane, "tools_changed_by_user", now=told.now)
    more = talk(4)
    more.tools.append("other")
    verdict = told.send(more)[2]
    assert (verdict.finding.cause, verdict.finding.reason) == (None, "tools_changed_by_user")
    told.done()


def test_an_announced_reason_is_told_as_a_reset(tmp_path: Path) -> None:
    told = JournalDriver(tmp_path).after(talk(6))
    told.engine.announce(told.lane, "compaction", now=told.now)
    told.events()
    prepared, _, _ = told.send(Talk([HOST], ["bash", "read"], [("user", 0, ["a summary " * 40])]))
    events = told.events()
    assert types(events)[-1] == "cache.reset"
    assert events[-1].payload.reason == "compaction"  # type: ignore[attr-defined]
    told.restart()
    (row,) = told.store.breaks("t")
    assert (row.cause, row.reason) == (None, "compaction")
    call = told.store.call("t", prepared.call)
    assert call.reset == "compaction"
    told.done()


@pytest.mark.parametrize(
    ("raw", "options", "causes", "path", "owner"),
    [
        (raw_of(talk(7), tool_choice={"type": "any"}), {}, {"parameters_changed"}, "tool_choice", "host"),
        (talk(7), {"model": "claude-opus-5-5"}, {"model_changed"}, "model", "host"),
        (talk(7), {"gap": 4_000}, {"ttl_expired_5m", "ttl_expired_1h"}, None, None),
    ],
    ids=["setting", "model", "expired"],
)
def test_what_is_no_block_has_no_offset_and_is_the_host_s_or_nobody_s(
    raw: bytes | Talk, options: dict[str, Any], causes: set[str], path: str | None, owner: str | None, tmp_path: Path
) -> None:
    told = JournalDriver(tmp_path).after(talk(6))
    told.send(raw, **options)
    told.restart()
    (row,) = told.store.breaks("t")
    assert row.cause in causes
    assert (row.path, row.offset, row.owner) == (path, None, owner)
    told.done()


def test_a_result_of_a_tool_belongs_to_the_tool(tmp_path: Path) -> None:
    told = JournalDriver(tmp_path)

    def said(result: str, *more: tuple[str, int, list[str]]) -> Talk:
        turns = [("user", 0, [QUESTION]), ("calls", 1, ["ls"]), ("results", 1, [result * 3_000]), *more]
        return Talk([HOST], ["bash", "read"], turns)

    told.send(said("one file "))
    told.send(said("two files ", ("assistant", 2, ["I see"]), ("user", 2, ["go on"])))
    told.restart()
    (row,) = told.store.breaks("t")
    assert (row.cause, row.owner) == ("messages_rewritten", "tool:bash")
    told.done()


def test_a_retention_that_changes_is_told_before_a_break(tmp_path: Path) -> None:
    told = JournalDriver(tmp_path, CacheSettings(strategy="zones")).after(*(talk(turns) for turns in range(5)))
    found = types(told.events())
    assert "cache.retention_changed" in found
    at = found.index("cache.retention_changed")
    assert found[at - 1] == "cache.verdict"
    told.done()


def test_without_store_bus_and_reports_nothing_is_told() -> None:
    driver = Driver().after(clock(1, 1))
    verdict = driver.send(clock(2, 2))[2]
    assert verdict.finding is not None
