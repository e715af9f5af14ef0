"""`holdfast memory why`: when an entry was shown, and whether a session would be given it now."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent import open_agent
from holdfast.cli.memory import command
from holdfast.cli.show import command as show
from holdfast.memory.knowledge import Knowledge
from holdfast.simulator import Simulator
from holdfast.simulator.in_process import Simulated
from holdfast.store import open_store
from holdfast.store import operations as op
from tests.cli.commands import piped, run
from tests.cli.knowledge import database, remember

pytestmark = pytest.mark.usefixtures("utc")

MODEL = "anthropic:claude-haiku-4-5"


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_AGENT_MODEL", MODEL)


def now(id: str, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(piped(command, "why", id, "--json", *arguments))["now"]
    return found


def talk(workspace: Path, *messages: str, clock: float | None = None) -> str:
    """A session of the agent in the workspace; its id."""

    async def main() -> str:
        moment = time.time() if clock is None else clock
        async with open_agent(workspace, provider=Simulated(Simulator()), clock=lambda: moment) as sessions:
            session = await sessions.create()
            for words in messages:
                await session.ask(words)
            return session.id

    return asyncio.run(main())


def test_where_and_why_it_was_shown(workspace: Path) -> None:
    brief = remember(workspace, "Answers are brief", category="preference")
    deploy = remember(workspace, "Deploy to staging", "Run the deploy script first.")
    session = talk(workspace, "How do I deploy to staging?")
    out = piped(command, "why", brief)
    assert "stable block" in out
    assert "the session began" in out
    assert session in out
    told = json.loads(piped(command, "why", deploy, "--json"))
    [once] = told["shown"]
    assert (once["place"], once["why"], once["session"]) == ("delta", "session_start", session)
    piped(command, "edit", deploy, "--content", "Something else by now.")
    assert json.loads(piped(command, "why", deploy, "--json"))["shown"][0]["revision"] == 1


def test_one_that_was_never_shown(workspace: Path) -> None:
    out = piped(command, "why", remember(workspace, "Title"))
    assert "It has been shown to no session yet." in out
    assert "--query" in out


def test_the_latest_are_listed(workspace: Path) -> None:
    id_ = remember(workspace, "Title")
    with open_store(database(workspace)) as store:
        knowledge = Knowledge(store, "local")
        for number in range(5):
            known = ((id_, knowledge.get(id_).hash),)
            knowledge.note_shown(known, session=f"s{number}\x1b", lane="", place="delta", why="changed")
    out = piped(command, "why", id_, "--limit", "3")
    assert "The latest 3; --limit shows more." in out
    assert [line.split()[2] for line in out.splitlines() if "delta" in line] == ["s4?", "s3?", "s2?"]
    assert "shows more" not in piped(command, "why", id_, "--limit", "5")


def test_of_a_preference_that_clients_share_it_says_whom_it_speaks_of(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    liked, plain = remember(workspace, "Liked", category="preference"), remember(workspace, "Plain")
    words = "clients of the gateway begin with stable blocks of their own"
    assert words not in now(liked)["text"]
    monkeypatch.setenv("HOLDFAST_MEMORY_INJECT", "true")
    assert words not in now(liked)["text"]
    monkeypatch.setenv("HOLDFAST_MEMORY_INJECT_AS", "local")
    assert words in now(liked)["text"]
    assert words not in now(plain)["text"]


def test_forgotten_ones_and_those_of_other_projects_are_not_given(workspace: Path) -> None:
    gone = remember(workspace, "Gone")
    piped(command, "forget", gone, "--yes")
    assert (now(gone)["given"], now(gone)["why"]) == (False, "forgotten")
    assert f"restore {gone}" in now(gone)["text"]
    other = remember(workspace, "Other", project="other")
    assert (now(other)["given"], now(other)["why"]) == (False, "other_project")
    assert now(other, "--project", "other")["why"] == "safety_net"


def test_a_preference_waits_for_the_pin_to_end(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = remember(workspace, "First", category="preference")
    assert (now(first)["given"], now(first)["why"]) == (True, "next_session")
    begun = time.time()
    talk(workspace, "Hello", clock=begun)
    assert now(first)["why"] == "pinned"
    until = time.strftime("%Y-%m-%d %H:%M", time.gmtime(begun + 3600))
    assert until in now(first)["text"]
    later = remember(workspace, "Later", category="preference")
    assert (now(later)["given"], now(later)["why"]) == (True, "told")
    assert until in now(later)["text"]
    with monkeypatch.context() as blocks:
        blocks.setenv("HOLDFAST_MEMORY_PLACEMENT", "blocks")
        talk(workspace, "Hello", clock=begun)
        third = remember(workspace, "Third", category="preference")
        assert (now(third)["given"], now(third)["why"]) == (False, "waits")
        assert until in now(third)["text"]
    piped(command, "edit", first, "--content", "Something else.")
    assert (now(first)["given"], now(first)["why"]) == (True, "pinned_before")
    monkeypatch.setattr("holdfast.memory.judgement.time.time", lambda: begun + 3601)
    assert (now(first)["why"], now(later)["why"]) == ("next_session", "next_session")


@pytest.mark.parametrize("placement", ["deltas", "blocks"])
def test_what_is_pinned_counts_first(workspace: Path, placement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_MEMORY_PLACEMENT", placement)
    first = remember(workspace, "First", category="preference")
    second = remember(workspace, "Second", category="preference")
    moved = remember(workspace, "Moved", category="preference")
    plain = remember(workspace, "Plain", "Some decision.")
    begun = time.time()
    talk(workspace, "Hello", clock=begun)
    until = time.strftime("%Y-%m-%d %H:%M", time.gmtime(begun + 3600))
    piped(command, "edit", first, "--content", "Something else.")
    piped(command, "forget", second, plain, "--yes")
    piped(command, "edit", moved, "--project", "other")
    for id_, why, news in (
        (first, "pinned_before", "what it says now"),
        (second, "pinned_forgotten", "that it was forgotten"),
        (moved, "pinned_before", "that it holds here no more"),
    ):
        found = now(id_)
        assert (found["given"], found["why"]) == (True, why)
        assert f"until {until}" in found["text"]
        assert (f"{news} is told to nobody before" in found["text"]) == (placement == "blocks")
        assert (f"{news} is told to them with the first thing" in found["text"]) == (placement == "deltas")
    assert f"forget {second} --erase` removes that block too" in now(second)["text"]
    assert (now(plain)["given"], now(plain)["why"]) == (False, "forgotten")
    assert f"Its title stands in the stable block that sessions here begin with until {until}" in now(plain)["text"]
    piped(command, "forget", second, "--erase", "--yes")
    assert now(first)["why"] == "next_session"


def test_a_change_that_no_note_has_room_for_is_told_to_nobody(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_MEMORY_DELTA_MAX", "0")
    first = remember(workspace, "First", category="preference")
    talk(workspace, "Hello")
    piped(command, "edit", first, "--content", "Something else.")
    assert "what it says now is told to nobody before" in now(first)["text"]


async def test_of_a_block_that_changed_no_entry_is_said_to_have_changed(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_MEMORY_PLACEMENT", "blocks")
    kept, gone = remember(workspace, "Deploy here"), remember(workspace, "Deploy there")
    async with open_agent(workspace, provider=Simulated(Simulator())) as sessions:
        session = await sessions.create()
        await session.ask("How do I deploy?")
        Knowledge(sessions.store, sessions.tenant).forget(gone)
        await session.ask("And now?")
    out = piped(command, "why", kept)
    assert "the block had changed" in out
    assert "it had changed" not in out


@pytest.mark.parametrize("placement", ["deltas", "blocks"])
async def test_a_call_names_what_was_put_into_its_lane_by_then(
    workspace: Path, placement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_MEMORY_PLACEMENT", placement)
    liked = remember(workspace, "Answers are brief", category="preference")
    deploy = remember(workspace, "Deploy to staging", everywhere=True)
    async with open_agent(workspace, provider=Simulated(Simulator())) as sessions:
        session = await sessions.create()
        await session.ask("How do I deploy to staging?")
        Knowledge(sessions.store, sessions.tenant).add("Later", "Deploy on Mondays.", everywhere=True, id="k0000000")
    with open_store(database(workspace)) as store:
        [made] = store.calls("local")
    text = piped(show, made.id)
    place = "delta" if placement == "deltas" else "context block"
    line = f"Memory       put into this lane by then: stable block {liked}; {place} {deploy}\n"
    assert line in text
    with open_store(database(workspace)) as store:  # as of a client that is given what this machine's user knows
        store.write(op.PutCall(replace(made, tenant="t-client")))
    assert line in piped(show, made.id, "--tenant", "t-client")


def test_a_pin_is_found_whatever_model_it_was_made_for(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = remember(workspace, "First", category="preference")
    monkeypatch.setenv("HOLDFAST_AGENT_MODEL", "openai:gpt-5.5")
    talk(workspace, "Hello")
    assert now(first)["why"] == "pinned"
    monkeypatch.delenv("HOLDFAST_AGENT_MODEL")
    assert now(first)["why"] == "pinned"


def test_looking_pins_nothing(workspace: Path) -> None:
    id_ = remember(workspace, "First", category="preference")
    for _ in range(2):
        assert now(id_)["why"] == "next_session"


def test_preferences_without_room(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        remember(workspace, f"Sure {number}", "x " * 3_500, category="preference")
    small = remember(workspace, "Unsure", "y " * 3_500, category="preference", confidence=0.1)
    assert (now(small)["given"], now(small)["why"]) == (False, "no_room")
    monkeypatch.setenv("HOLDFAST_MEMORY_STABLE_BUDGET", "0")
    assert "stable_budget is 0" in now(small)["text"]


@pytest.mark.parametrize("placement", ["deltas", "blocks"])
def test_words_that_would_find_it(workspace: Path, placement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_MEMORY_PLACEMENT", placement)
    deploy = remember(workspace, "Deploy to staging", everywhere=True)
    found = now(deploy, "--query", "how do I deploy?")
    assert (found["given"], found["why"]) == (True, "found")
    assert "at place 1" in found["text"]
    missed = now(deploy, "--query", "colours of birds")
    assert (missed["given"], missed["why"]) == (False, "not_found")
    own = remember(workspace, "Something of this project")
    assert now(own, "--query", "colours of birds")["why"] == "safety_net"


def test_what_is_found_and_has_no_room(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(6):
        remember(workspace, f"Deploy deploy deploy {number}", "deploy", everywhere=True)
    last = remember(workspace, "About it", "One may also deploy, among other things.", everywhere=True, confidence=0.1)
    found = now(last, "--query", "deploy")
    assert (found["given"], found["why"]) == (False, "no_room")
    assert "at place 7" in found["text"]
    monkeypatch.setenv("HOLDFAST_MEMORY_RETRIEVE_MAX", "0")
    assert now(last)["why"] == "not_retrieved"


def test_clients_of_the_gateway_are_given_what_the_settings_say(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id_ = remember(workspace, "Theirs", tenant="tenant-a", everywhere=True)
    whose = ("--tenant", "tenant-a")
    assert now(id_, *whose)["why"] == "not_injected"
    monkeypatch.setenv("HOLDFAST_MEMORY_INJECT", "true")
    assert now(id_, *whose)["why"] == "by_words"
    monkeypatch.setenv("HOLDFAST_MEMORY_INJECT_TENANTS", '["tenant-b"]')
    assert "inject_tenants" in now(id_, *whose)["text"]
    monkeypatch.setenv("HOLDFAST_MEMORY_INJECT_AS", "local")
    assert "inject_as" in now(id_, *whose)["text"]
    assert run("memory", "why", id_)[0] == 1
