"""What the store and the bus are told of a session, in the order in which it happened."""

from __future__ import annotations

import asyncio
from pathlib import Path

from holdfast.config.sections.agent import Skills
from holdfast.config.sections.cache import Cache
from holdfast.events.sessions import SessionEnded, SessionStarted
from tests.agent.driving import Bench, calls, settings
from tests.skills.writing import write_skill

LIFE = ("session.started", "skill.loaded", "turn.started", "turn.completed", "session.ended")


def test_a83_the_store_and_the_bus_have_it_in_the_order_in_which_it_happened(tmp_path: Path) -> None:
    """Within one millisecond too, and whoever tells it: by chance it would be so once in four times."""
    write_skill(tmp_path / "skills", "csv", body="Do it well. " * 800)

    async def main() -> None:
        skills = Skills(roots=(str(tmp_path / "skills"),))
        async with Bench(tmp_path, config=settings(cache=Cache(padding="always"), skills=skills)) as bench:
            for _ in range(10):
                session = await bench.sessions.create()
                await session.ask("hello")
                await session.end()
                heard = [event.type for event in bench.events(*LIFE)]
                bench.store.flush()
                kept = [event.type for event in bench.store.events("t", session.id)]
                assert heard == list(LIFE)
                assert [kind for kind in kept if kind in LIFE] == list(LIFE)
                assert kept.index("turn.started") < kept.index("llm.call_started") < kept.index("turn.completed")

    asyncio.run(main())


def test_a_fork_is_a_session_that_was_started(tmp_path: Path) -> None:
    async def main() -> None:
        async with Bench(tmp_path) as bench:
            session = await bench.sessions.create()
            await session.ask("hello")
            bench.events()
            fork = await bench.sessions.fork(session.id)
            await fork.ask("and here")
            (started,) = bench.events("session.started")
            assert (started.session, started.payload) == (
                fork.id,
                SessionStarted(client="holdfast", forked_from=session.id),
            )
            bench.store.flush()
            kept = [event.type for event in bench.store.events("t", fork.id)]
            assert kept[:2] == ["session.started", "turn.started"], "what was copied happened elsewhere"

    asyncio.run(main())


def test_what_sub_agents_cost_is_on_the_bill_of_a_session_that_ends(tmp_path: Path) -> None:
    async def main() -> None:
        async with Bench(tmp_path, config=settings(cache=Cache(padding="always"))) as bench:
            session = await bench.sessions.create()
            await session.ask(calls(("delegate", {"tasks": [{"task": "look"}, {"task": "see"}]})))
            await session.end()
            (ended,) = [each.payload for each in bench.log(session.id) if isinstance(each.payload, SessionEnded)]
            (listed,) = bench.sessions.stored()
            assert session.state.delegated_cost > 0
            assert ended.cost == listed.cost == session.state.cost + session.state.delegated_cost

    asyncio.run(main())
