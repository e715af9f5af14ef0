"""The context inspector: every block of the next request with owner, size, age, and whether it is cached."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent.inspection import block_text
from holdfast.config.sections.agent import MaskSettings
from holdfast.records import Image, Request
from holdfast.simulator.messages import Reply, ToolCall, Words
from tests.agent.bench import MODELS, Bench, calls, settings
from tests.agent.sample_tools import LONG
from tests.agent.summaries import begin_talk, small, summarizer


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"type": "text", "text": "# Title"}, "# Title"),
        ({"name": "read_file", "description": "Read."}, "read_file"),
        ({"type": "tool_use", "id": "t1", "name": "ls", "input": {"path": "."}}, 'ls {"path":"."}'),
        ({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "done"}]}, "done"),
        ({"type": "function_call_output", "call_id": "c", "output": "done"}, "done"),
        ({"functionCall": {"name": "ls"}}, '{"functionCall":{"name":"ls"}}'),
    ],
)
def test_a_block_is_shown_by_its_words(block: object, said: str) -> None:
    assert block_text(block) == said


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses"])
async def test_every_block_has_an_owner_a_size_an_age_and_says_whether_it_is_cached(
    dialect: str, tmp_path: Path
) -> None:
    async with Bench(tmp_path, config=settings(model=MODELS[dialect])) as bench:
        session = await bench.sessions.create(goal="Count the files.")
        assert not any(block.cached for block in session.inspect())
        await session.ask(calls(("list_dir", {"path": "."})))
        bench.clock.advance(30)
        await session.ask("And now? " * 200)
        shown = session.inspect()
        owners = [block.owner for block in shown]
        if dialect == "anthropic":
            talk = ["surroundings", "goal", "user", "assistant", "tool:list_dir", "assistant", "user", "assistant"]
            assert [owner for owner in owners if owner not in ("tools", "host")] == talk
            ages = {bench.clock.now() - block.at for block in shown if block.at is not None}
            assert {0.0, 30.0} <= ages
            assert [block.cached for block in shown] == [True] * (len(shown) - 1) + [False]
        assert {"tools", "host"} <= set(owners)
        assert sum(block.tokens for block in shown) == pytest.approx(session.lines[-1].usage.prompt, rel=0.1)
        assert next(block.head for block in shown if block.owner == "user").startswith(('[["list_dir"', "#"))


async def test_nothing_is_cached_behind_a_change_that_was_not_sent_yet(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=small(), reply=summarizer()) as bench:
        session = await begin_talk(bench, 7)
        await session.compact()
        shown = session.inspect()
        owners = [block.owner for block in shown]
        summary = owners.index("summary")
        assert [block.cached for block in shown] == [True] * summary + [False] * (len(shown) - summary)
        await session.ask("go on")
        assert bench.used()[-1].read == pytest.approx(sum(each.tokens for each in shown if each.cached), rel=0.05)
        assert session.inspect()[summary].cached


async def test_what_was_masked_is_cached_as_it_was_sent(tmp_path: Path) -> None:
    mask = MaskSettings(keep_window=1, trigger_chars=20_000, release_chars=9_000)
    async with Bench(tmp_path, config=settings(mask=mask), tools=(LONG,)) as bench:
        session = await bench.sessions.create()
        for number in range(6):
            await session.ask(calls(("long", {"n": number})))
            bench.clock.advance(10)
        assert bench.events("tool.masked")
        shown = session.inspect()
        assert [block.cached for block in shown] == [True] * (len(shown) - 1) + [False]


async def test_the_volatile_segment_is_memorys(tmp_path: Path) -> None:
    async with Bench(tmp_path, config=settings(agent={"volatile": "system"})) as bench:
        session = await bench.begin(calls(("memory_add", {"file": "user", "text": "likes tea"})))
        assert [each.owner for each in session.inspect() if each.path.startswith("system")] == ["host", "memory"]


async def test_owners_are_known_where_not_all_that_was_said_is_sent(tmp_path: Path) -> None:
    """A message that is a picture alone, an answer with an empty text, thoughts of another model."""

    def reply(request: Request) -> object:
        called = Reply((Words("  "), ToolCall("t1", "list_dir", b"{}")), "tools", 9)
        return called if len(request.messages) < 2 else "ok"

    async with Bench(tmp_path, reply=reply) as bench:
        session = await bench.sessions.create()
        picture = Image("image/png", "iVBORw0KGgo=")
        await session.ask("", attachments=(picture,))
        owners = [each.owner for each in session.inspect() if each.path.startswith("messages")]
        assert owners == ["surroundings", "user", "assistant", "tool:list_dir", "assistant"]
