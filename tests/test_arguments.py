"""What programs pass by mistake, through the names that they import: an error at once that says what to pass."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Engine, Lane, explain, load_config, open_store, replay
from holdfast.agent import Session, Sessions, Task, open_agent
from holdfast.config.keys import Settings
from holdfast.errors import ArgumentError, HoldfastError
from holdfast.tools import GuideSection, Tool, tool
from tests.agent.bench import Bench

MODEL = {"agent.model": "anthropic:claude-haiku-5-5"}
SECRET = "sk-" + "ant-api03-very-secret-indeed"


def find_room(city: str) -> str:
    """Find a room."""
    return city


def unhinted(city):  # type: ignore[no-untyped-def]
    """Find a room."""


def unsaid(city: str) -> None: ...


async def nothing(input: object, context: object) -> Any: ...


class TestEngine:
    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({}, "Engine got a dict; give settings, such as Engine(load_config("),
            ({"cache.strategy": "economic"}, "Engine got a dict"),
            ("x", "Engine got a str"),
            (5, "Engine got an int"),
            (Settings, "Engine got the class Settings"),
            (lambda agent: {}, "Engine got a function for its settings that returns a dict"),
        ],
    )
    def test_settings(self, settings: Any, said: str) -> None:
        with pytest.raises(HoldfastError) as problem:
            Engine(settings)
        assert said in str(problem.value)
        assert "Engine()" in str(problem.value)
        assert isinstance(problem.value, TypeError)

    def test_what_it_is_made_with(self, tmp_path: Path) -> None:
        with pytest.raises(
            HoldfastError, match=r"Engine\(store=…\) got a str; give an open store, such as .*open_store"
        ):
            Engine(store=str(tmp_path / "x.db"))  # type: ignore[arg-type]
        with pytest.raises(HoldfastError, match=r"Engine\(bus=…\) got an int"):
            Engine(bus=1)  # type: ignore[arg-type]
        assert not list(tmp_path.iterdir())

    def test_what_it_is_asked(self) -> None:
        engine = Engine()
        with pytest.raises(HoldfastError, match=r"engine\.announce got a str; give a lane, such as Lane\("):
            engine.announce("l", "compaction")  # type: ignore[arg-type]

    @pytest.mark.parametrize("way", ["http_client", "async_http_client"])
    def test_its_clients(self, way: str) -> None:
        make = getattr(Engine(), way)
        with pytest.raises(HoldfastError, match="knows no library 'nope'; give 'httpx2' or 'httpx'"):
            make(library="nope")
        with pytest.raises(HoldfastError, match="knows no library 'json'"):
            make(library="json")
        with pytest.raises(HoldfastError, match=r"http_client\(library=…\) got an int"):
            make(library=5)
        with pytest.raises(HoldfastError, match=r"unknown option 'timout'; did you mean timeout\?"):
            make(timout=5)

    @pytest.mark.parametrize("name", ["tenant", "session", "id"])
    def test_its_lanes(self, name: str) -> None:
        names: dict[str, Any] = {"tenant": "me", "session": "s1", "id": "s1/main"} | {name: 5}
        body = {"model": "claude-opus-5-5", "messages": []}
        with pytest.raises(HoldfastError, match=rf"Lane\({name}=…\) got an int; give a text, as in Lane\("):
            Engine().prepare(body, dialect="anthropic", lane=Lane(**names))


class TestFiles:
    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda: load_config("holdfast.toml"), r"load_config got a str; give settings by name, such as"),  # type: ignore[arg-type]
            (lambda: load_config(None), r"load_config got None"),  # type: ignore[arg-type]
            (lambda: open_store(load_config()), r"open_store got a Config; give a file, such as"),  # type: ignore[arg-type]
            (lambda: explain("x.jsonl", model=5), r"explain\(model=…\) got an int; give a text"),  # type: ignore[arg-type]
            (lambda: explain("x.jsonl", session=5), r"explain\(session=…\) got an int"),  # type: ignore[arg-type]
            (lambda: replay("x.jsonl", options=5), r"replay\(options=…\) got an int; give ReplayOptions"),  # type: ignore[arg-type]
        ],
    )
    def test_what_is_no_file_or_setting(
        self, call: Callable[[], object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ArgumentError, match=message):
            call()
        assert not list(tmp_path.iterdir())


class TestTool:
    def test_its_effect(self) -> None:
        with pytest.raises(
            HoldfastError, match=r"@tool got the effect 'bad', .* 'none', 'read', .*@tool\(effect='read'\)"
        ):
            tool(effect="bad")  # type: ignore[call-overload]
        with pytest.raises(HoldfastError, match="Did you mean 'write'"):
            tool(find_room, effect="writes")  # type: ignore[call-overload]
        with pytest.raises(HoldfastError, match=r"@tool says nothing of the tool's effect; give one of"):
            tool(find_room)  # type: ignore[call-overload]

    @pytest.mark.parametrize(
        ("function", "fields", "said"),
        [
            ("find_room", {}, "@tool got a str; give a function that has hints and a docstring"),
            (lambda: 1, {}, "of a function with a name, not of a lambda"),
            (unhinted, {}, "the parameter city of the tool unhinted has no type; add a hint, such as city: str"),
            (unsaid, {}, "the tool unsaid says nothing about itself; give it a docstring or a description"),
            (find_room, {"name": 5}, "@tool(name=…) got an int"),
            (find_room, {"description": 5}, "@tool(description=…) got an int"),
            (find_room, {"tmeout_s": 3}, "did you mean timeout_s?"),
        ],
    )
    def test_its_function(self, function: Any, fields: dict[str, Any], said: str) -> None:
        with pytest.raises(HoldfastError) as problem:
            tool(function, effect="read", **fields)
        assert said in str(problem.value)


class TestOpenAgent:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"tools": [lambda: 1]}, "tools=[…] got a function; give a list of tools, such as tools=[find_room]"),
            ({"tools": [find_room]}, "tools=[find_room] got a function"),
            ({"tools": tool(find_room, effect="read")}, "tools=… got a Tool; give a list"),
            ({"tools": find_room}, "tools=… got a function; give a list"),
            (
                {"tools": [Tool(name="a", description="b", run=nothing, effect="bad")]},  # type: ignore[arg-type]
                "the tool a has no function to run, or an effect that is none of none, read, write",
            ),
            ({"workspace": 123}, "open_agent got an int; give a directory as a text or Path, such as open_agent('.')"),
            ({"workspace": None}, "open_agent got None"),
            ({"home": 5}, "open_agent(home=…) got an int"),
            ({"flags": {"agent.modle": "x"}}, "unknown key agent.modle; the nearest known name is agent.model"),
            (
                {"flags": ["agent.model"]},
                "open_agent(flags=…) got a list; give settings by their names, such as flags={",
            ),
            ({"flags": {1: 2}}, "open_agent(flags=…) has a name that is an int"),
            ({"provider": "anthropic"}, "provider=… got a str; give a Provider"),
            ({"confirm": True}, "confirm=… got a bool; give a function"),
            ({"persona": 5}, "persona=… got an int; give a text"),
            ({"bus": "x"}, "bus=…) got a str; give a Bus"),
            (
                {"mcp": "weather"},
                "open_agent(mcp=…) got a str; give True or False, which says whether",
            ),
            ({"clock": 5}, "clock=… got an int; give a function that gives seconds"),
            (
                {"guides": {"read_file": 3}},
                "guides={'read_file': …} got an int; give texts by the names of tools, such as guides={'read_file':",
            ),
            ({"guides": {3: "x"}}, "guides=… has a name that is an int; give texts by the names of tools"),
            ({"guides": ["x"]}, "guides=… got a list; give texts by the names of tools"),
            ({"guides": []}, "guides=… got a list"),
            ({"guides": "x"}, "guides=… got a str"),
            (
                {"sections": "abc"},
                "sections=… got a str; give a list of sections of holdfast.tools, such as sections=[GuideSection(name=",
            ),
            ({"sections": [1]}, "sections=[…] got an int; give a list of sections"),
            ({"sections": None}, "sections=… got None"),
            (
                {"sections": GuideSection(name="a", text="b", tools=("c",))},
                "sections=… got a GuideSection; give a list",
            ),
            (
                {"sections": [GuideSection(name="a", text="b", tools="read_file")]},  # type: ignore[arg-type]
                "a section of sections=[…] has no text as its name or text, or tools that are no tuple of names; give",
            ),
            ({"sections": [GuideSection(name="a", text=3, tools=())]}, "a section of sections=[…] has no text"),  # type: ignore[arg-type]
            ({"sections": [GuideSection(name="a", text="b", tools=(1,))]}, "tools that are no tuple"),  # type: ignore[arg-type]
        ],
    )
    def test_what_it_is_opened_with(self, tmp_path: Path, given: dict[str, Any], said: str) -> None:
        async def main() -> None:
            place = given.pop("workspace") if "workspace" in given else tmp_path
            async with open_agent(place, **{"home": tmp_path / "home", "flags": MODEL, **given}):
                raise AssertionError("it was opened")

        with pytest.raises(HoldfastError) as problem:
            asyncio.run(main())
        assert said in str(problem.value)

    def test_guides_and_sections_that_it_takes(self, tmp_path: Path) -> None:
        async def main() -> None:
            section = GuideSection(name="rooms", text="Rooms are on floor 2.", tools=("read_file",))
            for given in (
                {"guides": {}},
                {"guides": None, "sections": ()},
                {"guides": {"a": "b"}, "sections": [section]},
            ):
                async with open_agent(tmp_path, home=tmp_path / "home", flags=MODEL, **given):  # type: ignore[arg-type]
                    pass

        asyncio.run(main())


Use = Callable[[Sessions, Session], Awaitable[object]]


class TestSession:
    @pytest.mark.parametrize(
        ("use", "said"),
        [
            (lambda _, s: s.ask(None), "session.ask got None; give a text, such as session.ask('What does"),
            (lambda _, s: s.ask(b"x"), "session.ask got bytes"),
            (lambda _, s: s.ask({"role": "user", "content": SECRET}), "session.ask got a dict"),
            (lambda _, s: s.ask(["x"]), "session.ask got a list"),
            (lambda _, s: s.ask("x", attachments=["a.png"]), "session.ask(attachments=[…]) got a str; give images"),
            (lambda _, s: s.ask("x", attachments="a.png"), "session.ask(attachments=…) got a str"),
            (lambda _, s: s.ask("x", watch=find_room), "session.ask(watch=…) got a function"),
            (lambda _, s: s.ask("x", cancel=True), "session.ask(cancel=…) got a bool"),
            (
                lambda _, s: s.delegate(["text"]),
                "session.delegate([…]) got a str; give a list of tasks, such as session",
            ),
            (lambda _, s: s.delegate("text"), "session.delegate got a str"),
            (lambda _, s: s.delegate(Task(task="x")), "session.delegate got a Task; give a list"),
            (lambda _, s: s.delegate([{"task": "x"}]), "session.delegate([…]) got a dict"),
            (lambda _, s: s.delegate([Task(task=5)]), "a task of session.delegate has no text"),  # type: ignore[arg-type]
            (lambda _, s: s.delegate(None), "session.delegate got None"),
            (
                lambda h, _: h.create(model=""),
                "create(model=…) got '', which names no model; give one as provider:name",
            ),
            (lambda h, _: h.create(model="anthropic:"), "got 'anthropic:', which names no model"),
            (
                lambda h, _: h.create(model=5),
                "create(model=…) got an int; give a text, such as create(model='anthropic:",
            ),
            (lambda h, _: h.create(goal=5), "create(goal=…) got an int"),
            (lambda h, _: h.create(system_prompt=b""), "create(system_prompt=…) got bytes"),
            (lambda h, _: h.create(agent=5), "create(agent=…) got an int"),
            (
                lambda h, _: h.create(effort=3),
                "create(effort=…) got an int; give one of 'low', 'medium', 'high', 'xhigh', 'max', or 'default' for",
            ),
            (lambda h, _: h.create(effort=["high"]), "create(effort=…) got a list"),
            (
                lambda h, _: h.create(model="anthropic:claude-haiku-4-5", effort=3),
                "create(effort=…) got an int; give 'default' for the provider's own",
            ),
            (lambda h, _: h.resume(5), "resume got an int; give a text, such as resume(session.id)"),
            (lambda h, _: h.resume(""), "resume got an empty id; give one of `sessions.stored()`"),
            (lambda h, _: h.fork(None), "fork got None"),
            (lambda _, s: asyncio.to_thread(s.set_model, 5), "set_model got an int; give a text"),
            (lambda _, s: asyncio.to_thread(s.set_model, ""), "set_model got '', which names no model"),
            (lambda _, s: asyncio.to_thread(s.set_goal, 5), "set_goal got an int"),
            (
                lambda _, s: asyncio.to_thread(s.set_effort, None),
                "set_effort got None; give one of 'low', 'medium', 'high', 'xhigh', 'max', or 'default' for",
            ),
            (lambda _, s: asyncio.to_thread(s.set_effort, ["high"]), "set_effort got a list; give one of"),
            (lambda _, s: s.compact(watch=3), "session.compact(watch=…) got an int; give an object of a class that"),
            (lambda _, s: s.compact(cancel=True), "session.compact(cancel=…) got a bool; give a Cancel"),
            (
                lambda _, s: asyncio.to_thread(s.tell, 5),
                "session.tell got an int; give an event, such as session.tell(",
            ),
            (lambda _, s: asyncio.to_thread(s.tell, "task.updated", 5), "session.tell got an int; give an event"),
            (
                lambda _, s: asyncio.to_thread(s.tell, "task.update", {}),
                "knows no event 'task.update'; did you mean task.updated?",
            ),
            (lambda _, s: asyncio.to_thread(s.tell, "task.updated", {}), "missing required field `task`"),
        ],
    )
    def test_what_it_is_told(self, tmp_path: Path, use: Use, said: str) -> None:
        async def main() -> None:
            async with Bench(tmp_path) as bench:
                session = await bench.sessions.create()
                before = len(bench.log(session.id))
                with pytest.raises(HoldfastError) as problem:
                    await use(bench.sessions, session)
                assert said in str(problem.value)
                assert SECRET not in str(problem.value)
                assert len(bench.log(session.id)) == before  # nothing of it came into the session
                assert (await session.ask("Hello")).ended == "completed"

        asyncio.run(main())

    def test_they_are_type_errors_too(self) -> None:
        assert issubclass(ArgumentError, TypeError)
        assert issubclass(ArgumentError, HoldfastError)
