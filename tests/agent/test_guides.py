"""Guides through the agent's door: each comes with the first successful result of its tools, once, and never before."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.guides import CUSTOMISING, DELEGATION, GUIDES, MOST_BYTES, PRIVILEGED, SECTIONS
from holdfast.agent.stable_text import PERSONA
from holdfast.config.sections.agent import ToolsSettings
from holdfast.records import Request, Text
from holdfast.records.events import Bus
from holdfast.records.events.tools import GuideDelivered
from holdfast.simulator import VirtualClock
from holdfast.tools import GuideSection, Tool, ToolContext, ToolExecutionError, ToolOutput, tool
from holdfast.tools.builtin import builtin_tools
from holdfast.tools.guides import HEADING, wrapped
from tests.agent.bench import MODELS, START, calls, obey
from tests.agent.open_agents import RecordingProvider, recorded_agent
from tests.agent.summaries import GOOD, summarizer

WRITE = ("write_file", {"path": "a.txt", "content": "a"})
ADD = ("memory_add", {"file": "memory", "text": "Tests run with make."})
HOST, PROJECT = "The host's.", "The project's."
DELEGATE = ("delegate", {"tasks": [{"task": "Say so."}]})


def talk(place: Path, *said: str, **more: Any) -> RecordingProvider:
    """One session in which this is said."""
    clock = VirtualClock(START)
    provider = RecordingProvider(clock)

    async def main() -> None:
        async with recorded_agent(place, provider, clock, **more) as sessions:
            session = await sessions.create()
            for each in said:
                await session.ask(each)

    asyncio.run(main())
    return provider


def counted(provider: RecordingProvider, text: str) -> list[int]:
    """How often a guide stands in each request, in any of its results."""
    heads = json.dumps(text.split("\n")[0], ensure_ascii=False)[1:-1].encode()
    return [raw.count(heads) for _, _, raw in provider.sent]


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses", "openai_chat", "gemini", "openrouter"])
@pytest.mark.parametrize(("call", "text"), [(WRITE, PRIVILEGED.text), (ADD, CUSTOMISING), (DELEGATE, DELEGATION.text)])
def test_c24_c44_c45_a_guide_of_ours_is_the_end_of_the_first_result(
    tmp_path: Path, dialect: str, call: tuple[str, dict[str, Any]], text: str
) -> None:
    provider = talk(tmp_path, "hello", calls(call), calls(call), model=MODELS[dialect])
    parents = [n for n, session in enumerate(provider.sessions) if session == provider.sessions[0]]
    assert [counted(provider, text)[n] for n in parents] == [0, 0, 1, 1, 1]
    first, second = provider.results()
    assert first.endswith(f"\n---\n[Tool Guide - shown once per session]\n{text}\n---")
    assert first.count(HEADING) == 1
    assert HEADING not in second
    assert text not in (provider.requests()[-1].system_prompt or "")


def test_c50_the_section_of_the_privileged_tools_comes_once_for_all_of_them(tmp_path: Path) -> None:
    run = ("run_command", {"command": "echo hi"})
    provider = talk(tmp_path, calls(run), calls(WRITE), calls(("read_file", {"path": "a.txt"})))
    ran, wrote, read = provider.results()
    assert ran.endswith(wrapped(PRIVILEGED.text))
    assert HEADING not in wrote + read


def test_c50_the_group_is_every_built_in_tool_that_writes_or_executes() -> None:
    made = builtin_tools(ToolsSettings())
    changing = {each.name for each in made if each.effect in ("write", "execute")}
    assert changing == set(PRIVILEGED.tools) - {"process_output"}  # which goes with process_stop
    assert {each.name for each in made} >= set(PRIVILEGED.tools)


def test_c48_a_call_that_failed_leaves_the_guide_for_the_next(tmp_path: Path) -> None:
    missing = ("patch_file", {"path": "none.txt", "old": "a", "new": "b"})
    provider = talk(tmp_path, calls(missing), calls(WRITE))
    failed, wrote = provider.results()
    assert HEADING not in failed
    assert wrote.endswith(wrapped(PRIVILEGED.text))


def test_c46_the_event_names_the_tool_and_the_call(tmp_path: Path) -> None:
    bus = Bus()
    heard = bus.subscribe()
    talk(tmp_path, calls(WRITE), calls(WRITE), calls(ADD), bus=bus)
    events = [event.payload for event in heard.drain() if isinstance(event.payload, GuideDelivered)]
    assert [event.tool for event in events] == ["write_file", "memory_add"]
    assert all(event.tool_use_id for event in events)


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses", "gemini"])
async def test_c46_a_resumed_session_was_given_it_already_and_sends_the_same_bytes(
    tmp_path: Path, dialect: str
) -> None:
    clock = VirtualClock(START)
    provider = RecordingProvider(clock)

    flags: dict[str, object] = {"agent.on_load": "replay"}
    async with recorded_agent(tmp_path, provider, clock, model=MODELS[dialect], flags=flags) as sessions:
        session = await sessions.create()
        await session.ask(calls(WRITE))
    before = provider.requests()[-1]
    async with recorded_agent(tmp_path, provider, clock, model=MODELS[dialect], flags=flags) as sessions:
        again = await sessions.resume(session.id)
        await again.ask(calls(WRITE))
    after = provider.requests()[-1]
    assert after.system_prompt == before.system_prompt
    assert after.messages[: len(before.messages)] == before.messages
    first, second = provider.results()
    assert first.endswith(wrapped(PRIVILEGED.text))
    assert HEADING not in second


async def test_a_session_that_began_with_another_system_text_keeps_it(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    provider = RecordingProvider(clock)

    async with recorded_agent(tmp_path, provider, clock, persona="An older text about sub-agents.") as sessions:
        session = await sessions.create()
        await session.ask("hello")
    async with recorded_agent(tmp_path, provider, clock) as sessions:
        again = await sessions.resume(session.id)
        await again.ask("hello")
    one, two = (request.system_prompt for request in provider.requests())
    assert one == two
    assert two is not None
    assert PERSONA not in two


async def test_c47_compaction_frees_a_guide_that_it_removed(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    provider = RecordingProvider(clock, summarizer(GOOD))

    flags: dict[str, object] = {"agent.compaction.anchor_turns": 0, "agent.compaction.keep_recent_tokens": 2_000}
    async with recorded_agent(tmp_path, provider, clock, flags=flags) as sessions:
        session = await sessions.create()
        await session.ask(calls(WRITE))
        await session.ask(calls(WRITE))
        for _ in range(4):
            await session.ask("word " * 2_500)
        made = await session.compact()
        assert made.tokens_after < made.tokens_before
        assert HEADING not in str(session.messages())
        await session.ask(calls(WRITE))
        await session.ask(calls(WRITE))
    again, last = provider.results()[-2:]
    assert again.endswith(wrapped(PRIVILEGED.text))
    assert HEADING not in last


async def test_sub_agents_have_the_same_guides_and_are_given_them_themselves(tmp_path: Path) -> None:
    own = ("delegate", {"tasks": [{"task": f"Do this.\n\n{calls(WRITE)}"}]})
    clock = VirtualClock(START)

    def obedient(request: Request) -> object:
        last = request.messages[-1]
        said = [block.text for block in last.content if isinstance(block, Text)]
        inner = next((line for text in said for line in text.split("\n") if line.startswith('[["write_file"')), None)
        if inner is None:
            return obey(request)
        return {"call": [{"tool": name, "input": given} for name, given in json.loads(inner)]}

    provider = RecordingProvider(clock, obedient)

    async with recorded_agent(tmp_path, provider, clock) as sessions:
        session = await sessions.create()
        await session.ask(calls(WRITE))
        await session.ask(calls(own))
    child = next(n for n, session in enumerate(provider.sessions) if session != provider.sessions[0])
    theirs = [raw for n, (_, _, raw) in enumerate(provider.sent) if provider.sessions[n] == provider.sessions[child]]
    heading = json.dumps(PRIVILEGED.text.split("\n")[0])[1:-1].encode()
    assert [raw.count(heading) for raw in theirs] == [0, 1]


async def _note(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    if input.get("fail"):
        raise ToolExecutionError("no")
    return ToolOutput(content="noted")


NOTE = Tool(name="note", description="Notes.", run=_note, effect="read", guide="Its own guide.")


def test_c49_a_host_adds_its_own_by_tool_and_by_section(tmp_path: Path) -> None:
    group = GuideSection(name="notes", text="Held back.", tools=("note",))
    provider = talk(
        tmp_path, calls(("note", {"fail": 1})), calls(("note", {})), calls(WRITE), tools=(NOTE,), sections=[group]
    )
    failed, noted, wrote = provider.results()
    assert failed == "no"
    assert noted == f"noted\n{wrapped('Its own guide.')}\n{wrapped('Held back.')}"
    assert wrote.endswith(wrapped(PRIVILEGED.text))
    replaced = talk(
        tmp_path,
        calls(("note", {}), WRITE),
        tools=(NOTE,),
        guides={"note": HOST},
        sections=[GuideSection(name=PRIVILEGED.name, text="Ask Ann first.", tools=("write_file",))],
    )
    noted, wrote = replaced.results()
    assert noted == f"noted\n{wrapped(HOST)}"
    assert wrote.endswith(wrapped("Ask Ann first."))
    assert wrote.count(HEADING) == 1


def test_c49_a_decorated_tool_brings_its_guide(tmp_path: Path) -> None:
    @tool(effect="read", guide="Cities are named in English.")
    async def weather(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    provider = talk(tmp_path, calls(("weather", {"city": "Oslo"})), tools=[weather])
    assert provider.results() == [f"rain in Oslo\n{wrapped('Cities are named in English.')}"]


class TestFiles:
    """A user's own guides: NAME.md for the tool NAME."""

    def place(self, root: Path, name: str, text: str) -> None:
        root.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)

    def test_the_workspaces_wins_over_the_users_and_an_empty_one_switches_off(self, tmp_path: Path) -> None:
        user, project = tmp_path / "home" / "guides", tmp_path / "work" / ".holdfast" / "guides"
        self.place(user, "note.md", "The user's.\n\n")
        self.place(user, "write_file.md", "Two spaces.")
        self.place(project, "note.md", f"{PROJECT}\r\n")
        self.place(project, "memory_add.md", "")
        self.place(project, "not a tool.md", "x")
        provider = talk(tmp_path, calls(("note", {}), WRITE, ADD), tools=(NOTE,))
        noted, wrote, added = provider.results()
        assert noted == f"noted\n{wrapped(PROJECT)}"
        assert wrote.endswith(f"{wrapped('Two spaces.')}\n{wrapped(PRIVILEGED.text)}")
        assert HEADING not in added

    def test_one_that_leads_out_or_is_too_long_is_not_sent_whole(self, tmp_path: Path) -> None:
        project = tmp_path / "work" / ".holdfast" / "guides"
        self.place(project, "write_file.md", "line\n" * MOST_BYTES)
        (tmp_path / "outside.md").write_text("outside")
        (project / "note.md").symlink_to(tmp_path / "outside.md")
        provider = talk(tmp_path, calls(("note", {}), WRITE), tools=(NOTE,))
        noted, wrote = provider.results()
        assert "outside" not in noted
        assert f"[This guide is longer than {MOST_BYTES} bytes; the rest is left out.]" in wrote
        assert len(wrote) < 2 * MOST_BYTES


def test_the_setting_leaves_all_of_them_out(tmp_path: Path) -> None:
    provider = talk(tmp_path, calls(WRITE, ADD, ("note", {})), tools=(NOTE,), flags={"tools.guides": False})
    assert len(provider.results()) == 3
    assert not any(HEADING in each for each in provider.results())


@pytest.mark.parametrize("text", [*GUIDES.values(), *(section.text for section in SECTIONS)])
def test_the_texts_are_worth_holding_back(text: str) -> None:
    assert 1_200 <= len(text) <= 3_500
    assert text.startswith("# ")
    assert text == text.strip()
    assert "---\n" not in text
