"""What `open_agent` opens by itself: the way to the services, as the settings say, and the end of it all."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent import open_agent, program
from holdfast.agent.contract import Turn
from holdfast.errors import HoldfastError
from holdfast.simulator import Simulator
from holdfast.simulator.server import running
from holdfast.store import open_store
from tests.agent.open_agents import opened

MODEL = "anthropic:claude-haiku-4-5"


def asked(place: Path, toml: str) -> Turn:
    """One turn of an agent that is given no provider."""
    home = place / "home"
    home.mkdir(mode=0o700)
    (home / "holdfast.toml").write_text(f'[agent]\nmodel = "{MODEL}"\nretries = 0\n{toml}', "utf-8")

    async def main() -> Turn:
        async with open_agent(place, home=home) as sessions:
            session = await sessions.create()
            async with asyncio.timeout(5):
                return await session.ask("Hello.")

    return asyncio.run(main())


def test_the_upstream_of_the_settings_is_asked(tmp_path: Path) -> None:
    with running(Simulator()) as address:
        turn = asked(tmp_path, f'[upstream]\nanthropic = "{address}"\n')
    assert (bool(turn.text), turn.problem) == (True, "")


def test_a_silent_service_is_waited_for_as_long_as_the_settings_say(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        turn = asked(tmp_path, f'[upstream]\nanthropic = "{address}"\n[gateway.limits]\nidle_s = 0.2\n')
    assert "0.2 seconds" in turn.problem


def test_what_it_opened_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    class Way(program.HttpProvider):
        async def close(self) -> None:
            closed.append("connections")
            await super().close()

    class Closing(program.EngineCore):
        def close(self, **given: Any) -> None:
            closed.append("engine")
            super().close(**given)

    monkeypatch.setattr(program, "HttpProvider", Way)
    monkeypatch.setattr(program, "EngineCore", Closing)
    with running(Simulator()) as address:
        assert asked(tmp_path, f'[upstream]\nanthropic = "{address}"\n').text
    assert sorted(closed) == ["connections", "engine"]
    with open_store(f"sqlite:///{tmp_path / 'home' / 'holdfast.db'}") as store:
        assert [call.status for call in store.calls()] == ["settled"]


async def test_sessions_that_are_open_are_left_with_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as agent:
        session = await agent.begin("Hello.")
    assert agent.sessions.open_sessions() == ()
    async with opened(tmp_path) as agent:
        again = await agent.sessions.resume(session.id)
        assert (await again.ask("And again.")).ended == "completed"


async def test_a_session_of_another_workspace_is_gone_on_with_there(tmp_path: Path) -> None:
    async with opened(tmp_path) as agent:
        session = await agent.begin("Hello.")
    (tmp_path / "elsewhere").mkdir()
    async with open_agent(tmp_path / "elsewhere", home=tmp_path / "home") as sessions:
        for go_on in (sessions.resume, sessions.fork):
            with pytest.raises(HoldfastError, match=rf"belongs to {tmp_path / 'work'}; go there"):
                await go_on(session.id)
