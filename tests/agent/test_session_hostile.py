"""Providers, disks and hosts that behave as no simulator does: the conversation is never lost by it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent.contract import OutgoingRequest
from holdfast.agent.loop import REFUSED
from holdfast.agent.session import Session
from holdfast.errors import HoldfastError
from holdfast.records import Request, ToolResult, ToolUse
from holdfast.records.events.agent import SettingToggled
from tests.agent.bench import MODEL, MODELS, Bench, settings, sound
from tests.agent.sample_tools import ECHO
from tests.agent.summaries import summaries, summarizer
from tests.agent.transcripts import texts

Answer = tuple[int, Sequence[bytes]]


class Scripted:
    """A provider that answers with these bytes, one answer for each request; the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers, self.asked = list(answers), list[OutgoingRequest]()
        self.read = 0

    @asynccontextmanager
    async def open(self, request: OutgoingRequest) -> AsyncIterator[_Coming]:
        self.asked.append(request)
        status, chunks = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        yield _Coming(self, status, chunks)


class _Coming:
    headers: Mapping[str, str] = {}

    def __init__(self, provider: Scripted, status: int, chunks: Sequence[bytes]) -> None:
        self.status, self._provider, self._chunks = status, provider, chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            await asyncio.sleep(0)
            self._provider.read += len(chunk)
            yield chunk


def use(id: str, name: str, input: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def anthropic(*blocks: dict[str, Any], stop: str = "end_turn") -> Answer:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"id": "m", "usage": {"input_tokens": 9}}}]
    for index, block in enumerate(blocks):
        given = block.get("input", "")
        if given:
            block = block | {"input": {}}
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        delta = {"type": "input_json_delta", "partial_json": given}
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 3}})
    return 200, _stream(*events, {"type": "message_stop"})


def chat(message: dict[str, Any], finish: str = "stop") -> Answer:
    choice = {"index": 0, "delta": message, "finish_reason": finish}
    used = {"prompt_tokens": 9, "completion_tokens": 3}
    return 200, [
        *_stream({"id": "c", "choices": [choice]}, {"id": "c", "choices": [], "usage": used}),
        b"data: [DONE]\n\n",
    ]


def _stream(*events: dict[str, Any]) -> list[bytes]:
    return [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events]


def call(id: str, name: str = "echo", arguments: str = '{"n":1}') -> Answer:
    function = {"name": name, "arguments": arguments}
    return chat({"tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]}, "tool_calls")


FINE = anthropic({"type": "text", "text": "Fine."})
FINE_CHAT = chat({"content": "Fine."})


def uses(request: Request) -> list[ToolUse]:
    return [block for message in request.messages for block in message.content if isinstance(block, ToolUse)]


def answered(request: Request) -> list[str]:
    blocks = [block for message in request.messages for block in message.content]
    return [block.tool_use_id for block in blocks if isinstance(block, ToolResult)]


@pytest.mark.parametrize("block", ["call", "unknown"])
async def test_an_answer_that_is_nested_without_end_does_not_make_the_conversation_unreadable(
    tmp_path: Path, block: str
) -> None:
    deep: Any = 1
    for _ in range(300):
        deep = {"a": deep}
    given = use("t1", "echo", json.dumps(deep)) if block == "call" else {"type": "novelty", "of": deep}
    words = {"type": "text", "text": "Look."}

    async with Bench(tmp_path, tools=(ECHO,)) as bench:
        bench.sessions.provider = Scripted(anthropic(words, given), FINE)
        session = await bench.sessions.create()
        for text in ("one", "two"):
            assert (await session.ask(text)).ended == "completed"
        depth = max(raw.count(b'{"a":') for raw in (each.raw for each in bench.sessions.provider.asked))
        assert depth == 0
        sound(session)


async def test_ids_that_a_server_gives_again_are_told_apart(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(model=MODELS["openai_chat"]), tools=(ECHO,)) as bench:
        bench.sessions.provider = Scripted(call("call_0"), call("call_0"), call("call_0"), FINE_CHAT)
        session = await bench.sessions.create()
        assert (await session.ask("one")).ended == "completed"
        assert [each.id for each in uses(session.request())] == ["call_0", "call_0-2", "call_0-3"]
        assert answered(session.request()) == ["call_0", "call_0-2", "call_0-3"]
        sound(session)


async def test_a_call_of_one_provider_is_told_to_another_in_a_form_that_it_takes(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(model=MODELS["openai_chat"]), tools=(ECHO,)) as bench:
        provider = Scripted(call("functions.echo:0", "no such/tool"), call("c" * 60), FINE_CHAT, FINE)
        bench.sessions.provider = provider
        session = await bench.begin("one")
        assert [each.id for each in uses(session.request())] == ["functions.echo:0", "c" * 60]
        assert (await session.ask(f"@{MODEL} two")).ended == "completed"
        request = session.request()
        assert session.model == MODEL
        assert [each.id for each in uses(request)] == answered(request)
        for each in uses(request):
            assert each.id.removeprefix("call_").isalnum()
            assert len(each.id) <= 40
        assert [each.name for each in uses(request)] == ["no_such_tool", "echo"]
        sound(session)


async def test_a_refusal_without_a_word_is_not_asked_for_again(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        provider = bench.sessions.provider = Scripted(anthropic(stop="refusal"), FINE)
        session = await bench.sessions.create()
        turn = await session.ask("one")
        assert (turn.ended, len(provider.asked)) == ("failed", 1)
        assert "refused" in turn.problem
        assert session.state.cost == turn.line.cost
        assert (await session.ask("two")).ended == "completed"
        assert REFUSED in [text for message in session.messages() for text in texts(message)]


async def test_an_error_without_end_is_not_read_to_its_end(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        provider = bench.sessions.provider = Scripted((400, [b"x" * 65_536] * 1_000))
        session = await bench.sessions.create()
        assert (await session.ask("one")).ended == "failed"
        assert provider.read <= 2 * 1_048_576


async def test_a_request_that_is_too_large_to_be_taken_makes_room(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        refused = (413, [b'{"error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}'])
        session = await bench.begin("word " * 8_000)
        bench.sessions.provider = session.provider = Scripted(refused, FINE)
        turn = await session.ask("and now")
        assert (turn.ended, session.state.compactions) == ("completed", 1)
        sound(session)


@pytest.mark.parametrize("steps", range(6))
async def test_a_model_that_is_chosen_while_a_request_is_on_its_way_is_asked_from_the_next_turn_on(
    tmp_path: Path, steps: int
) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.sessions.create()
        first = asyncio.ensure_future(session.ask("one"))
        for _ in range(steps):
            await asyncio.sleep(0)
        session.set_model(MODELS["openai_responses"])
        assert (await first).ended == "completed"
        assert (await session.ask("two")).ended == "completed"
        assert session.model == MODELS["openai_responses"]
        assert [dialect for dialect, *_ in bench.sent][-1] == "openai_responses"
        assert not bench.breaks()


async def _under_way(bench: Bench, session: Session) -> asyncio.Task[Any]:
    task = asyncio.create_task(session.ask("one"))
    while not bench.sent:
        await asyncio.sleep(0)
    return task


async def test_a_turn_that_is_cancelled_after_its_log_was_closed_is_cancelled(tmp_path: Path) -> None:
    async with Bench(tmp_path) as bench:
        session = await bench.sessions.create()
        task = await _under_way(bench, session)
        session.disk_log.close()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_request_is_given_up_also_by_who_is_cancelled_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_up = []

    async with Bench(tmp_path) as bench:
        session = await bench.sessions.create()
        abandon = bench.engine.abandon

        def noted(prepared: Any, **more: Any) -> None:
            given_up.append(prepared.call)
            abandon(prepared, **more)

        monkeypatch.setattr(bench.engine, "abandon", noted)
        task = await _under_way(bench, session)
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert given_up
        assert (await session.ask("two")).ended == "completed"


async def test_a_session_whose_log_was_removed_says_so_and_lets_the_others_close(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    first, second = await bench.sessions.create(), await bench.sessions.create()
    await first.ask("one")
    shutil.rmtree(bench.home)
    with pytest.raises(HoldfastError, match="removed"):
        await first.ask("two")
    first.box.turn_over()  # something to be kept, for which there is no place
    with pytest.raises(HoldfastError, match="removed"):
        await bench.sessions.close()
    assert not bench.sessions.open_sessions()
    assert first.disk_log.closed
    assert second.disk_log.closed
    await bench.close()


async def test_what_a_summary_says_of_settings_is_told_again_when_that_goes_too(tmp_path: Path) -> None:
    chosen = settings(agent={"history_turns": 2}, compaction={"keep_recent_tokens": 1, "anchor_turns": 0})

    async with Bench(tmp_path, config=chosen, reply=summarizer()) as bench:
        session = await bench.sessions.create()
        session.tell(SettingToggled(setting="colour", value="blue"))
        await session.ask("word " * 4_000)
        await session.compact()
        assert summaries(session)
        for number in range(6):
            await session.ask(f"and {number}")
        said = [text for message in session.messages() for text in texts(message)]
        assert [text for text in said if "colour" in text and "blue" in text]
        assert not summaries(session)
        sound(session)
