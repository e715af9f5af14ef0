"""Statement C7 through every door: a break that a client causes is a line on disk that shows exactly what changed where
bodies are kept, and says that it is masked and how to see it where they are not."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anthropic
import pytest

from holdfast import Engine
from holdfast.agent import Session, Sessions, open_agent
from holdfast.cli import run as command
from holdfast.config import load
from holdfast.engine.reports import KEYS_MASKED, NOT_AT_HAND, WORDS_MASKED, Reports
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.in_process import Simulated
from holdfast.simulator.server import running as simulating
from tests.gateway.gate import gated

MODEL = "claude-opus-4-6"
TEXT = "You look after a loader that reads every record of a file. " * 500
KEY = "sk-ant-api03-pLanted0123456789wOrd-AbCdEf"


def lines(directory: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(directory.glob("*.jsonl")) for line in path.read_text().splitlines()]


def talk(client: anthropic.Anthropic, *systems: str, session: str = "s") -> None:
    """One conversation of a client that marks its system text, with this text in each request."""
    for number, system in enumerate(systems):
        history = [{"role": role, "content": f"{role} {n}"} for n in range(number) for role in ("user", "assistant")]
        client.messages.create(
            model=MODEL,
            max_tokens=64,
            system=[{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}],
            messages=[*history, {"role": "user", "content": f"user {number}"}],  # type: ignore[list-item]
            extra_headers={"x-holdfast-session": session},
        )


def by_gateway(home: Path, keep: bool, *systems: str) -> Path:
    with (
        simulating(Simulator()) as upstream,
        gated(home, upstream, store__keep_bodies=keep) as gate,
        anthropic.Anthropic(base_url=gate.address, api_key="k", max_retries=0) as client,
    ):
        talk(client, *systems)
    return gate.config.home / "cache-breaks"


def by_sdk(home: Path, keep: bool, *systems: str) -> Path:
    with simulating(Simulator()) as upstream:
        config = load(workspace=None, home=home / "holdfast", environ={}, flags={"store.keep_bodies": keep})
        engine = Engine(config.for_agent, reports=Reports.configured(config))
        with anthropic.Anthropic(
            base_url=upstream, api_key="k", max_retries=0, http_client=engine.http_client()
        ) as client:
            talk(client, *systems)
        engine.close(now=time.time())
    return config.home / "cache-breaks"


DOORS = {"gateway": by_gateway, "sdk": by_sdk}


@pytest.mark.parametrize("door", DOORS)
class TestClients:
    def test_c7_where_bodies_are_kept_the_line_shows_exactly_what_changed(self, tmp_path: Path, door: str) -> None:
        one, two = f"It is 13:01.\n{TEXT}The end is red.", f"It is 13:02.\n{TEXT}The end is green."
        directory = DOORS[door](tmp_path, True, one, one, two)
        (line,) = lines(directory)
        assert (line["cause"], line["path"]) == ("system_prompt_changed", "system[0]")
        assert [(each["removed"], each["added"]) for each in line["changes"]] == [
            ("13:01.", "13:02."),
            ("red.", "green."),
        ]
        assert line["changes"][0]["at"] == len('"It is ')
        assert line["changes"][1]["at"] == len('"' + two.replace("\n", "\\n")) - len("green.")
        assert "masked" not in line
        assert "note" not in line
        assert line["offset"] > 0

    def test_c7_where_they_are_not_it_says_that_it_is_masked_and_how_to_see_it(self, tmp_path: Path, door: str) -> None:
        directory = DOORS[door](tmp_path, False, f"It is 13:01.\n{TEXT}", *[f"It is 14:02.\n{TEXT}"] * 2)
        (line,) = lines(directory)
        assert line["masked"] == WORDS_MASKED
        assert "store.keep_bodies = true" in line["masked"]
        assert [(each["removed"], each["added"]) for each in line["changes"]] == [("99:99.", "99:99.")]
        told = "".join(path.read_text() for path in directory.iterdir())
        assert "13:0" not in told
        assert "is 14:0" not in told
        assert "loader" not in told

    def test_c7_a_key_is_masked_whatever_is_kept_and_that_is_said(self, tmp_path: Path, door: str) -> None:
        one, two = f"Use {KEY}1 here.\n{TEXT}", f"Use {KEY}2 there.\n{TEXT}"
        directory = DOORS[door](tmp_path, True, one, one, two)
        (line,) = lines(directory)
        assert line["masked"] == KEYS_MASKED
        (change,) = line["changes"]
        assert change["removed"].endswith(" here.")
        assert change["added"].endswith(" there.")
        assert "pLanted" not in "".join(path.read_text() for path in directory.iterdir())


def by_agent(home: Path, keep: bool, *, again: bool = False) -> Path:
    """A session whose memory stands in its system text, where somebody edits it."""
    clock = VirtualClock(1_800_000_000.0)
    flags: dict[str, object] = {
        "agent.model": f"anthropic:{MODEL}",
        "store.keep_bodies": keep,
        "agent.volatile": "system",
    }
    notes = home / "work" / ".holdfast" / "MEMORY.md"
    notes.parent.mkdir(parents=True)
    notes.write_text("- Tests run with make.\n- The loader is slow.\n")
    provider = Simulated(Simulator(clock=clock))

    def opened() -> AbstractAsyncContextManager[Sessions]:
        return open_agent(home / "work", home=home / "home", provider=provider, flags=flags, clock=clock.now)

    async def edited(session: Session) -> None:
        notes.write_text("- Tests run with tox.\n- The loader is slow.\n")
        await session.ask("Once more.")

    async def main() -> None:
        async with opened() as sessions:
            session = await sessions.create()
            for words in (TEXT, "And again."):
                await session.ask(words)
                clock.advance(10)
            if not again:
                await edited(session)
        if again:
            async with opened() as sessions:
                await edited(await sessions.resume(session.id))

    asyncio.run(main())
    return home / "home" / "cache-breaks"


def test_c7_through_the_agent_a_break_shows_what_changed(tmp_path: Path) -> None:
    (line,) = lines(by_agent(tmp_path, True))
    assert (line["reason"], line["section"]) == ("volatile_system_changed", "system")
    assert [(each["removed"], each["added"]) for each in line["changes"]] == [("make.", "tox.")]
    assert "masked" not in line


def test_c7_through_the_agent_it_is_masked_where_bodies_are_not_kept(tmp_path: Path) -> None:
    (line,) = lines(by_agent(tmp_path, False))
    assert [(each["removed"], each["added"]) for each in line["changes"]] == [("xxxx.", "xxx.")]
    assert line["masked"] == WORDS_MASKED


def test_c7_what_another_process_sent_is_not_at_hand_and_that_is_said(tmp_path: Path) -> None:
    (line,) = lines(by_agent(tmp_path, True, again=True))
    assert line["reason"] == "volatile_system_changed"
    assert line["note"] == NOT_AT_HAND
    assert "changes" not in line


@pytest.mark.parametrize("keep", [True, False])
def test_c7_the_commands_show_the_same(
    tmp_path: Path, keep: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = f"It is 13:01.\n{TEXT}", f"It is 13:02.\n{TEXT}"
    directory = by_gateway(tmp_path, keep, one, one, two)
    monkeypatch.setenv("HOLDFAST_HOME", str(directory.parent))
    monkeypatch.chdir(tmp_path)
    (line,) = lines(directory)
    assert command(["breaks"]) == 0
    listed = capsys.readouterr().out
    assert ('system[0]: byte 7 of the block: "13:01." became "13:02."' in listed) == keep
    assert ("What changed:" in listed) == keep
    assert command(["breaks", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["breaks"]
    assert found["changes"] == line["changes"]
    assert found["masked"] == line.get("masked")
    assert command(["show", line["call"]]) == 0
    shown = capsys.readouterr().out
    assert ('Changed      byte 7 of the block: "13:01." became "13:02."' in shown) == keep
    assert (WORDS_MASKED in shown) != keep


def test_c7_the_directory_is_a_setting(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    with (
        simulating(Simulator()) as upstream,
        gated(tmp_path, upstream, cache__breaks__dir=str(elsewhere)) as gate,
        anthropic.Anthropic(base_url=gate.address, api_key="k", max_retries=0) as client,
    ):
        talk(client, f"One. {TEXT}", f"One. {TEXT}", f"Two. {TEXT}")
    assert len(lines(elsewhere)) == 1
