"""The door for programs keeps to the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agent import open_agent
from holdfast.simulator import Simulator, VirtualClock
from holdfast.simulator.in_process import Simulated

FLAGS: dict[str, object] = {"agent.model": "anthropic:claude-haiku-4-5", "cache.padding": "always"}


@pytest.mark.slow
async def test_a_break_is_reported_where_the_settings_say(tmp_path: Path) -> None:
    reports, clock = tmp_path / "reports", VirtualClock(1_800_000_000.0)
    flags = FLAGS | {"cache.breaks.dir": str(reports)}

    provider = Simulated(Simulator(clock=clock))
    async with open_agent(
        tmp_path, home=tmp_path / "home", provider=provider, flags=flags, clock=clock.now
    ) as sessions:
        session = await sessions.create()
        await session.ask("Hello.")
        await session.ask("And again.")
        assert not reports.exists()
        provider.simulator.reset()  # what was cached is gone, and nobody has said why
        await session.ask("Once more.")
    (report,) = reports.glob("*.jsonl")
    assert b'"cause":"likely_server_side"' in report.read_bytes()
