"""The context inspector: every block of the next request with owner, size, age, and whether it is cached."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.agent.inspecting import _said

from .driving import MODELS, Bench, calls, settings


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
    assert _said(block) == said


@pytest.mark.parametrize("dialect", ["anthropic", "openai_responses"])
def test_every_block_has_an_owner_a_size_an_age_and_says_whether_it_is_cached(dialect: str, tmp_path: Path) -> None:
    async def main() -> None:
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

    asyncio.run(main())
