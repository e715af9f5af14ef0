"""Seed cache-page, tips for long-running agents (C86 to C91), as `holdfast doctor` and `explain` print them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from holdfast import facts
from holdfast.agent import open_agent
from holdfast.cli import cli
from holdfast.records import usage
from holdfast.records.events.fields import Event
from holdfast.records.events.tools import ToolDeferred, ToolDiscovered, ToolMasked, ToolOffloaded
from holdfast.report.tips import TIPS
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.in_process import Simulated
from holdfast.store import Break, Call, SqliteStore, open_store
from holdfast.store import operations as op
from holdfast.tools.journal import ToolJournal
from tests.agent.bench import Bench
from tests.agent.summaries import small, summarizer, talk

NOON = 1_794_657_600_000_000
OPUS, GEMINI = "anthropic:claude-opus-5-5", "gemini:gemini-3.5-flash"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOLDFAST_STORE_URL", f"sqlite:///{tmp_path}/h.db")
    monkeypatch.setenv("HOLDFAST_GATEWAY_PORT", "0")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    facts.use(None)


def holdfast(*arguments: str) -> str:
    done = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def doctor() -> dict[str, dict[str, Any]]:
    found = json.loads(holdfast("doctor", "--json", "--offline"))
    printed = holdfast("doctor", "--offline")
    for tip in found["tips"]:
        assert f"{tip['tip']}: {tip['seen']}. {tip['sentence']}" in printed
    return {tip["tip"]: tip for tip in found["tips"]}


def explain(path: Path) -> dict[str, dict[str, Any]]:
    """The tips of the JSON, which the table, the Markdown and the page have too."""
    found = json.loads(holdfast("explain", str(path), "--json", "--quiet"))["tips"]
    forms = {form: holdfast("explain", str(path), "--format", form, "--quiet") for form in ("table", "md", "html")}
    for tip in found:
        assert f"  {tip['tip']}: {tip['seen']}. " in forms["table"]
        assert f"- **{tip['tip'].replace('_', chr(92) + '_')}**" in forms["md"]
        assert f"<h3>{tip['tip']}</h3>" in forms["html"]
    return {tip["tip"]: tip for tip in found}


def call(number: int, session: str = "s", model: str = OPUS, *, at: int = NOON, **used: Any) -> Call:
    return Call(
        tenant="t",
        id=f"call-{session}-{number}",
        session=session,
        lane=f"{session}-lane",
        model=model,
        started_at=at + number * 10_000_000,
        status="settled",
        usage=usage(**({"input": 100, "output": 10} | used)),
    )


def stored(place: Path, *calls: Call, told: dict[str, list[Event]] | None = None) -> None:
    with open_store(place / "h.db") as store:
        for each in calls or (call(1),):
            store.write(op.PutCall(each))
        for session, events in (told or {}).items():
            emit = ToolJournal(None, session, store=store, tenant="t", now=lambda: NOON + 1_000_000).emit
            for event in events:
                emit(event)
        store.flush()


def test_c86_doctor_advises_a_window_of_35_where_many_results_were_masked(place: Path) -> None:
    masked: list[Event] = [ToolMasked(tool="read_file", tool_use_id=f"t{n}", characters=9_000) for n in range(10)]
    stored(place, told={"s": masked[:9], "other": masked[:5]})
    assert "drift" not in doctor()
    stored(place, told={"s": masked[9:]})
    assert doctor()["drift"]["settings"] == ["tools.mask.keep_window = 35"]
    (place / "holdfast.toml").write_text("tools.mask.keep_window = 40\n")
    assert "drift" not in doctor()


@pytest.mark.slow
async def test_c87_doctor_advises_a_longer_cool_down_where_an_agent_compacts_often(place: Path) -> None:
    """A real session of Holdfast's agent, with a limit that a few turns reach."""
    tight = {"limit_tokens": 12_000, "cooldown_turns": 5}
    async with Bench(place, config=small(compaction=tight), reply=summarizer()) as bench:
        await talk(await bench.sessions.create(), bench, 20)
    tip = doctor()["frequent_compaction"]
    assert tip["settings"] == ["agent.compaction.cooldown_turns = 12"]
    assert "compactions, one every" in tip["seen"]


@pytest.mark.parametrize(("apart", "given"), [(6, True), (12, False)])
def test_c87_explain_advises_it_where_a_log_shows_it(place: Path, apart: int, given: bool) -> None:
    lines = []
    for number in range(1, 3 * apart + 1):
        reset = "compaction" if number % apart == 0 else None
        lines.append(shape(number, reset=reset, added=[{"role": "user", "type": "text", "chars": 40}]))
    assert ("frequent_compaction" in explain(log(place, lines))) is given


def test_c88_explain_advises_the_short_lifetime_for_short_sessions_with_small_prompts(place: Path) -> None:
    hour = {"input": 3, "read": 0, "write_5m": 0, "write_1h": 6_000, "output": 50}
    lines = [shape(1, session=f"s{n}", usage=hour) for n in range(2)]
    assert explain(log(place, lines))["short_sessions"]["settings"] == ['cache.strategy = "economic"']
    (place / "holdfast.toml").write_text('cache.strategy = "zones"\n')
    wanted = ["cache.adaptive = false", 'cache.retention = "short"']
    assert explain(log(place, lines))["short_sessions"]["settings"] == wanted
    long = [shape(n, session="s", usage=hour, gap=200.0) for n in range(1, 4)]
    assert "short_sessions" not in explain(log(place, long))


def test_c88_doctor_advises_it_for_zones_only(place: Path) -> None:
    stored(place, call(1, "a", writes={"1h": 6_000}), call(1, "b", writes={"1h": 6_000}))
    assert "short_sessions" not in doctor()  # economic decides by price
    (place / "holdfast.toml").write_text('cache.strategy = "zones"\n')
    assert doctor()["short_sessions"]["settings"] == ["cache.adaptive = false", 'cache.retention = "short"']
    (place / "holdfast.toml").write_text('cache = { strategy = "zones", adaptive = false, retention = "short" }\n')
    assert "short_sessions" not in doctor()


def test_c89_doctor_names_the_tools_to_pin(place: Path) -> None:
    names = tuple(f"mcp__tracker__tool_{number}" for number in range(30))
    found: list[Event] = [ToolDeferred(tools=names), ToolDiscovered(tools=names[:1], tool_use_id="t1")]
    stored(place, told={f"s{number}": found for number in range(2)})
    assert "many_mcp_tools" not in doctor()  # nothing to pin yet, and `auto` is the default
    stored(place, told={"s2": found})
    assert doctor()["many_mcp_tools"]["settings"] == ['tools.deferral.never = ["mcp__tracker__tool_0"]']
    (place / "holdfast.toml").write_text('tools.deferral = { mode = "always", never = ["mcp__tracker__*"] }\n')
    assert doctor()["many_mcp_tools"]["settings"] == ['tools.deferral.mode = "auto"']


@pytest.mark.parametrize(("number", "given"), [(30, True), (29, False)])
def test_c89_explain_advises_deferral_where_requests_declare_many(place: Path, number: int, given: bool) -> None:
    tools = [{"name": f"mcp__tracker__tool_{n}", "input_schema": {"type": "object"}} for n in range(number)]
    body = {
        "model": "claude-opus-5-5",
        "max_tokens": 9,
        "tools": tools,
        "messages": [{"role": "user", "content": "hi"}],
    }
    tips = explain(log(place, [json.dumps(body)]))
    assert ("many_mcp_tools" in tips) is given
    if given:
        assert tips["many_mcp_tools"]["settings"][0] == 'tools.deferral.mode = "auto"'


def test_c90_doctor_advises_longer_results_where_many_were_offloaded(place: Path) -> None:
    sizes = [9_000, 12_300, 40_000]
    gone: list[Event] = [
        ToolOffloaded(tool="build", tool_use_id=f"t{n}", characters=sizes[n % 3], path="x") for n in range(10)
    ]
    stored(place, told={"s": gone[:9]})
    assert "big_results" not in doctor()
    stored(place, told={"s": gone[9:]})
    assert doctor()["big_results"]["settings"] == ["tools.offload.max_result_chars = 13000"]


def test_c90_explain_counts_the_results_of_a_log(place: Path) -> None:
    blocks = [{"role": "user", "type": "tool_result", "chars": chars} for chars in (7_999, 30_000, 20_500)]
    lines = [shape(number, added=blocks) for number in range(1, 6)]
    tip = explain(log(place, lines))["big_results"]
    assert tip["settings"] == ["tools.offload.max_result_chars = 21000"]
    assert tip["seen"].startswith("10 results")


def test_c91_doctor_advises_geminis_cache_once_the_system_text_has_settled(place: Path) -> None:
    stored(place, *(call(number, model=GEMINI, at=NOON) for number in range(10)))
    assert doctor()["gemini"]["settings"] == ["cache.gemini.enabled = true"]
    with open_store(place / "h.db") as store:
        _changed(store)
    assert "gemini" not in doctor()


def test_c91_an_agent_is_advised_and_following_it_saves(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice after an agent's session on Gemini is gone once it is followed, and the same session costs less."""
    clock = VirtualClock(NOON / 1_000_000)
    paid: list[Decimal] = []

    async def session() -> None:
        flags: dict[str, object] = {"agent.model": "gemini:gemini-2.5-pro"}
        async with open_agent(
            place,
            provider=Simulated(Simulator(clock=clock)),
            flags=flags,
            persona="You keep books. " * 4_000,
            clock=clock.now,
        ) as sessions:
            session = await sessions.create()
            for number in range(16):
                turn = await session.ask(f"question {number}")
                assert turn.ended == "completed", turn.problem
                await asyncio.sleep(0.01)
                clock.advance(150)
            cost = session.totals().cost
            assert cost is not None
            paid.append(cost)

    asyncio.run(session())
    assert doctor()["gemini"]["settings"] == ["cache.gemini.enabled = true"]
    monkeypatch.setenv("HOLDFAST_CACHE_GEMINI_ENABLED", "true")
    asyncio.run(session())
    assert "gemini" not in doctor()
    before, after = paid
    assert after < before * Decimal("0.9")


def test_c91_explain_advises_it_too(place: Path) -> None:
    lines = [shape(number, model="gemini-3.5-flash") for number in range(1, 11)]
    assert explain(log(place, lines))["gemini"]["settings"] == ["cache.gemini.enabled = true"]
    assert "gemini" not in explain(log(place, lines[:9]))


def test_without_a_reason_no_tip_is_given(place: Path) -> None:
    stored(place)
    assert doctor() == {}
    assert explain(log(place, [shape(1)])) == {}
    assert len(TIPS) == 6


def _changed(store: SqliteStore) -> None:
    """A break of one of the calls, because its system text changed."""
    store.write(
        op.PutBreak(
            Break(
                tenant="t",
                id="b1",
                call="call-s-3",
                session="s",
                lane="s-lane",
                model=GEMINI,
                at=NOON + 30_000_000,
                cause="system_prompt_changed",
                tokens=5_000,
                dollars=Decimal("0.01"),
            )
        )
    )
    store.flush()


def shape(number: int, *, session: str = "s", gap: float = 10.0, **more: Any) -> str:
    """A line of a log that has usage and sizes, and no words."""
    at = 1_790_000_000.0 + number * gap
    used = {"input": 3, "read": 6_000, "write_5m": 100, "write_1h": 0, "output": 50}
    line = {"session": session, "request": number, "at": at, "first_token_at": at + 1, "model": "claude-opus-5-5"}
    return json.dumps(line | {"sidechain": False, "reset": None, "added": [], "usage": used} | more)


def log(place: Path, lines: list[str]) -> Path:
    path = place / "log.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path
