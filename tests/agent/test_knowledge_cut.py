"""Knowledge in turns that are cut, and entries that somebody changes while an agent works with them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.session import Session
from holdfast.agent.window.entries import KnowledgeNews, Timeline, UserMessage
from holdfast.records.events.agent import TurnToolsAnswered
from holdfast.tools import Tool, ToolContext, ToolOutput
from tests.agent.bench import calls, sound
from tests.agent.knowledge_bench import KnowledgeBench, knowledge_news
from tests.agent.summaries import LIMITS, summarizer, talk

TOKEN, REVIEW = "The deployment needs the token of the build server.", "Deployments need a review."
ASKED = "How does the deployment work?"


class Killed(BaseException):
    """The process is no more."""


class Slow:
    """A store that finds nothing before it may `go` on."""

    def __init__(self, store: Any) -> None:
        self._store, self.asked, self.go = store, threading.Event(), threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def find_knowledge(self, *args: Any, **more: Any) -> Any:
        self.asked.set()
        self.go.wait(10)
        return self._store.find_knowledge(*args, **more)


def changing(bench: KnowledgeBench, id: str, **members: Any) -> Tool:
    """A tool in whose time somebody else changes an entry."""

    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        bench.known.edit(id, **members)
        return ToolOutput(content="A while has passed.")

    return Tool(name="wait", description="Waits.", run=run, effect="write", core=True, confirm=False)


def in_place(session: Session) -> None:
    """Behind every delta stands what the user said."""
    for entry in session.state.window.entries:
        kinds = [type(item) for item in entry.items] if isinstance(entry, Timeline) else []
        if KnowledgeNews in kinds:
            assert UserMessage in kinds[kinds.index(KnowledgeNews) :]


@pytest.mark.parametrize("placement", ["deltas", "blocks"])
async def test_a_turn_that_is_cancelled_while_the_store_is_slow_tells_nothing_later(
    tmp_path: Path, placement: str
) -> None:
    async with KnowledgeBench(tmp_path, memory={"placement": placement}) as bench:
        entry = bench.add("Deployment rule", TOKEN)
        session = await bench.sessions.create()
        store = session.knowledge.store
        slow = Slow(store)
        session.knowledge.store = slow  # type: ignore[assignment]
        turn = asyncio.create_task(session.ask(ASKED))
        await asyncio.to_thread(slow.asked.wait, 10)
        turn.cancel()
        await asyncio.wait({turn})
        session.knowledge.store = store
        await session.ask("And with a token?")
        events = session.state.events
        slow.go.set()
        await asyncio.get_running_loop().shutdown_default_executor()
        assert session.state.events == events
        assert json.dumps(bench.raw()).count(f"- {entry.id} (gotcha)") == 1
        in_place(session)


@pytest.mark.parametrize("given", [{"title": "Shipping rule"}, {"confidence": 0.5}, {"category": "pattern"}])
async def test_an_agent_that_corrects_a_part_sees_what_somebody_else_made_of_the_rest(
    tmp_path: Path, given: dict[str, object]
) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        entry = bench.add("Deployment rule", TOKEN)
        bench.more = {"tools": (changing(bench, entry.id, content=REVIEW),)}
        await bench.restart()
        session = await bench.begin(
            ASKED, calls(("wait", {}), ("knowledge_replace", {"id": entry.id, **given})), "And now?"
        )
        assert json.dumps(bench.raw()["messages"]).count(REVIEW) == 1
        assert len(knowledge_news(session)) == 1


async def test_an_agent_that_corrects_the_content_sees_the_title_that_somebody_else_gave(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        entry = bench.add("Deployment rule", TOKEN)
        bench.more = {"tools": (changing(bench, entry.id, title="Shipping rule"),)}
        await bench.restart()
        await bench.begin(ASKED, calls(("wait", {}), ("knowledge_replace", {"id": entry.id, "content": REVIEW})))
        said = json.dumps(bench.raw()["messages"][-1])
        assert "Shipping rule" in said
        assert REVIEW not in said  # it has just said so itself


@pytest.mark.parametrize("tool", ["recall", "knowledge_replace", "knowledge_forget"])
async def test_what_a_tool_said_in_an_answer_that_was_lost_is_told(tmp_path: Path, tool: str) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        entry = bench.add("Deployment rule", TOKEN)
        bench.more = {"tools": (changing(bench, entry.id, content=REVIEW),)}
        await bench.restart()
        session = await bench.begin(ASKED)
        write = session.disk_log.append

        def append(envelopes: Any) -> None:
            if any(isinstance(each.payload, TurnToolsAnswered) for each in envelopes):
                raise Killed
            write(envelopes)

        session.disk_log.append = append  # type: ignore[method-assign]
        given: dict[str, Any] = {"query": entry.id} if tool == "recall" else {"id": entry.id}
        if tool == "knowledge_replace":
            given["confidence"] = 0.5
        with pytest.raises(Killed):
            await session.ask(calls(("wait", {}), (tool, given)))
        session = await bench.resumed(session, "And now?", clean=False)
        assert ("no longer holds" if tool == "knowledge_forget" else REVIEW) in knowledge_news(session)[-1]
        await session.ask("And then?")
        assert len(knowledge_news(session)) == 2
        sound(session)


@pytest.mark.parametrize("becomes", ["changed", "forgotten"])
async def test_what_was_recalled_and_outlived_a_compaction_is_told_when_it_changes(
    tmp_path: Path, becomes: str
) -> None:
    limits = {**LIMITS, "anchor_turns": 0, "limit_tokens": 100_000}
    async with KnowledgeBench(tmp_path, compaction=limits, memory={"retrieve_max": 0}, reply=summarizer()) as bench:
        first, second = bench.add("Deployment rule", TOKEN), bench.add("Linting rule", "ruff checks it.")
        session = await bench.begin(calls(("recall", {"query": second.id})))
        await talk(session, bench, 6)
        await session.ask(calls(("recall", {"query": first.id})))
        await session.compact()
        said = json.dumps([str(message) for message in session.messages()])
        assert TOKEN in said
        assert "ruff checks it." not in said
        for entry in (first, second):
            if becomes == "changed":
                bench.known.edit(entry.id, content=REVIEW)
            else:
                bench.known.forget(entry.id)
        await session.ask("And now?")
        (told,) = knowledge_news(session)
        assert first.id in told
        assert second.id not in told  # nothing speaks of it any more
        await session.ask("And then?")
        assert len(knowledge_news(session)) == 1
