"""The request for a summary says what the last one said, and what comes of it is nobody's answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.window.entries import AssistantTurn
from holdfast.config.sections.agent import MaskSettings
from holdfast.tools import Cancel
from holdfast.tools.masking import PLACEHOLDER
from tests.agent.bench import MODELS, Bench, calls, extends
from tests.agent.sample_tools import LONG
from tests.agent.summaries import begin_talk, events_of, small, summarizer, summary_requests
from tests.agent.transcripts import texts


class Interrupting:
    """A provider in front of which the user stops a summary when its first words have come."""

    def __init__(self, provider: Any, cancel: Cancel) -> None:
        self._provider, self._cancel = provider, cancel

    @asynccontextmanager
    async def open(self, request: Any) -> AsyncIterator[Any]:
        async with self._provider.open(request) as answering:
            yield _Interrupted(answering, self._cancel) if b"Summarize this" in request.raw else answering


class _Interrupted:
    def __init__(self, answering: Any, cancel: Cancel) -> None:
        self.status, self.headers = answering.status, answering.headers
        self._answering, self._cancel, self._stopped = answering, cancel, False

    def __aiter__(self) -> _Interrupted:
        return self

    async def __anext__(self) -> bytes:
        if self._stopped:
            self._cancel.set()
            await asyncio.Event().wait()
        chunk: bytes = await anext(self._answering)
        self._stopped = b"text_delta" in chunk
        return chunk


async def test_what_had_come_of_a_summary_is_no_answer_when_the_turn_is_stopped(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=small(), reply=summarizer()) as bench:
        session = await begin_talk(bench, 8)
        before, cancel = session.state.window.entries, Cancel()
        whole, session.provider = session.provider, Interrupting(session.provider, cancel)
        turn = await session.ask("and now?", cancel=cancel)
        assert (turn.ended, turn.text) == ("cancelled", "")
        assert len(summary_requests(bench)) == 1
        assert session.state.window.entries == before
        session.provider = whole
        await session.ask("go on")
        assert isinstance(session.state.window.entries[-1], AssistantTurn)
        assert texts(session.messages()[-2]) == ["and now?", "go on"], "nothing that was said is lost"
        roles = [message.role for message in session.messages()]
        assert "assistant assistant" not in " ".join(roles)
        assert len(events_of(bench, session, "compaction.failed")) == 1
        bench.assert_sound(session)


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses"])
async def test_nothing_is_masked_in_it_that_was_not_before(tmp_path: Path, dialect: str) -> None:
    """In a cold lane masking costs nothing, and a summary of placeholders is worth nothing."""

    config = small(
        model=MODELS[dialect],
        compaction={"limit_tokens": 60_000, "keep_recent_tokens": 500},
        mask=MaskSettings(keep_window=1, trigger_chars=30_000, release_chars=9_000),
    )
    async with Bench(tmp_path, config=config, reply=summarizer(), tools=(LONG,)) as bench:
        session = await bench.sessions.create()
        for number in range(4):
            await session.ask(calls(("long", {"n": number})))
            bench.clock.advance(10)
        bench.events()
        bench.clock.advance(200_000)
        await session.compact()
        (place,) = summary_requests(bench)
        before, request = bench.bodies()[place - 1 : place + 1]
        earlier, raw = (raw for _, _, raw in bench.sent[place - 1 : place + 1])
        assert raw.count(PLACEHOLDER.encode()) == earlier.count(PLACEHOLDER.encode())
        assert extends(before.messages, request.messages)
        assert (request.system_prompt, request.tools) == (before.system_prompt, before.tools)
        assert bench.sent_by[place][1] is None
        assert not bench.events("tool.masked")
