"""A chat: one conversation at a time, its messages, and switching to another one."""

from __future__ import annotations

import contextlib
import difflib
import os
import shlex
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.agent import (
    EXPECTED_CALLS,
    KEYS,
    Host,
    HttpProvider,
    Provider,
    Session,
    SessionOnDisk,
    Sessions,
    Turn,
    listed,
    log_path,
    not_served,
    read_log,
    routing,
)
from holdfast.agent.window import project
from holdfast.config import Config, close_to_others, inert, load_config
from holdfast.engine import EngineCore, Reports
from holdfast.engine.identity import LOCAL
from holdfast.errors import HoldfastError
from holdfast.serving import is_loopback
from holdfast.store import SqliteStore, open_store
from holdfast.tools import dialect_of_model
from holdfast.tools.mcp import Hub, started, unconnected, usable

from ..setup import use_configured_facts
from ..tables import printable, uncut
from .turns import Conductor

SIMULATED = "anthropic:claude-haiku-5-5"
"""The model that is simulated where none is named: one that caches short prompts, so that there is something to see."""


class ChatOptions(Struct, frozen=True, kw_only=True):
    """The options of the command line for where and how to work."""

    workspace: Path
    here: Path | None = None
    """The directory in which the command was given."""
    model: str | None = None
    agent: str = ""
    simulate: bool = False
    script: Path | None = None
    yes: bool = False
    amnesia: bool = False
    effort: str | None = None

    @property
    def again(self) -> tuple[str, ...]:
        """The options to repeat for continuing in the same way and from the same directory."""
        simulated = ("--simulate", *(() if self.script is None else ("--script", str(self.script))))
        elsewhere = () if self.here in (None, self.workspace) else ("--workspace", str(self.workspace))
        forgets = ("--amnesia",) if self.amnesia else ()
        return (*(simulated if self.simulate else ()), *elsewhere, *forgets)


class ChatResources(Struct, frozen=True, kw_only=True):
    """Everything a conversation needs, apart from the conversation."""

    config: Config
    sessions: Sessions
    store: SqliteStore | None
    options: ChatOptions

    @property
    def billed(self) -> SqliteStore | None:
        """The store of billed calls; None for a simulated session, which is not billed."""
        return None if self.options.simulate else self.store

    @property
    def model(self) -> str | None:
        """The model for a new session: the one that was named, or one to be simulated where none is configured."""
        if self.options.model is not None or not self.options.simulate:
            return self.options.model
        return None if self.sessions.configured(self.options.agent).model else SIMULATED


def configured(options: ChatOptions) -> Config:
    """The configuration of the workspace, which is the current directory from now on."""
    try:
        os.chdir(options.workspace)
    except OSError as problem:
        raise HoldfastError(
            f"{options.workspace} cannot be worked in ({problem.strerror or problem}); choose another --workspace"
        ) from problem
    use_configured_facts()
    config = load_config(
        {"tools.confirm.mode": "allow" if options.yes else None, "memory.amnesia": True if options.amnesia else None}
    )
    if options.agent and options.agent not in config.agents:
        there = f"there are {', '.join(config.agents)}" if config.agents else "none is configured"
        raise HoldfastError(
            f"there is no agent {options.agent!r}; {there}. [agents.NAME.SECTION] in holdfast.toml makes one"
        )
    return config


@contextlib.contextmanager
def opened(
    options: ChatOptions, config: Config, conductor: Conductor, notice: Callable[[str], None]
) -> Iterator[ChatResources]:
    """Open it all, and close it again in the other order. What does not work and is not needed is a notice."""
    close_to_others(config.home)
    with contextlib.ExitStack() as stack:
        if without_effect := inert.warning(config, "agent", agent=options.agent or None, model=options.model):
            notice(without_effect)
        store = _store(options, config, notice, stack)
        reports = Reports.configured(config)
        engine = EngineCore(config.for_agent, store=store, reports=None if options.simulate else reports)
        stack.callback(lambda: engine.close(now=time.time()))
        hub = _hub(config, conductor, notice)
        if hub is not None:
            stack.callback(lambda: conductor.work.wait(hub.close()))
        provider = _provider(options, config)
        stack.callback(lambda: conductor.work.wait(provider.close()))
        sessions = Sessions(
            config.for_agent,
            workspace=config.workspace or Path(),
            home=config.home,
            host=Host(provider=provider, engine=engine, store=store, tenant=LOCAL, confirm=conductor.confirm, hub=hub),
            chosen=partial(routing.configured, config),
        )
        stack.callback(lambda: conductor.work.wait(sessions.close()))
        yield ChatResources(config=config, sessions=sessions, store=store, options=options)


def _store(
    options: ChatOptions, config: Config, notice: Callable[[str], None], stack: contextlib.ExitStack
) -> SqliteStore | None:
    """The store of the configuration. What is simulated costs nothing and belongs on no bill, and its cache ends with
    this process: it has a store of its own, for as long."""
    url = config.settings.store.url
    if options.simulate:
        url = str(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-"))) / "simulated.db")
    try:
        return stack.enter_context(open_store(url))
    except HoldfastError as problem:
        notice(f"{str(problem).rstrip('.')}; going on in memory: costs and breaks are not kept")
        return None


class _Closed(Provider, Protocol):
    """A provider that has something to close."""

    async def close(self) -> None: ...


def _provider(options: ChatOptions, config: Config) -> _Closed:
    if not options.simulate:
        return HttpProvider(config.settings.upstream, os.environ, limits=config.settings.gateway.limits)
    from holdfast.simulator import Simulated, Simulator
    from holdfast.simulator.script import ECHO, load_script

    return Simulated(Simulator(script=ECHO if options.script is None else load_script(options.script)))


def missing_key(opened: ChatResources, model: str) -> str:
    """Return the advice about a missing key before the first message, or an empty text."""
    dialect = dialect_of_model(model)
    name = dialect if dialect in KEYS else "openai"
    upstream = opened.config.settings.upstream
    problem = not_served(model, upstream)
    if problem and (not opened.options.simulate or model.endswith(":")):
        return problem
    host = urlsplit(getattr(upstream, name)).hostname or ""
    if opened.options.simulate or is_loopback(host) or any(os.environ.get(each, "").strip() for each in KEYS[name]):
        return ""
    return (
        f"there is no key for {name}; set {' or '.join(KEYS[name])} in the environment, choose another --model, or "
        "try it without a key: holdfast chat --simulate"
    )


def _hub(config: Config, conductor: Conductor, notice: Callable[[str], None]) -> Hub | None:
    settings, workspace = config.settings, config.workspace
    try:
        servers = usable(settings, workspace or Path(), config.home, notice)
        if not servers:
            return None
        hub = conductor.run("starting MCP servers", lambda cancel: started(servers, settings, workspace=workspace))
    except HoldfastError as problem:
        notice(str(problem))
        return None
    for line in unconnected(hub):
        notice(line)
    return hub


T = TypeVar("T")

_NEAREST = 4
NO_MODEL = (
    "no model is chosen; name one with `holdfast chat --model anthropic:claude-haiku-4-5`, set agent.model in "
    "holdfast.toml, or try it without a key: holdfast chat --simulate"
)


class Chat:
    """The conversation of this chat, and what it stands on."""

    def __init__(
        self,
        opened: ChatResources,
        conductor: Conductor,
        *,
        answer: Callable[[str], str] | None = None,
        expected_calls: float = EXPECTED_CALLS,
    ) -> None:
        self.opened, self.conductor, self.screen = opened, conductor, conductor.screen
        self.answer = answer
        """Asks the user at the terminal; None if there is none."""
        self._expected_calls = expected_calls
        self._session: Session | None = None
        self._begun: set[str] = set()

    @property
    def session(self) -> Session:
        assert self._session is not None
        return self._session

    def here(self, work: Callable[[], T]) -> T:
        """Run a function with the session in the agent's thread."""
        return self.conductor.work.call(work)

    # Which conversation

    def begin(self) -> None:
        """A new one."""
        opened = self.opened
        chosen = opened.sessions.configured(opened.options.agent)
        model = opened.model
        if model is None and chosen.model is None and not chosen.fallback:
            raise HoldfastError(NO_MODEL)
        if model is not None:
            model = opened.sessions.model_ref(model)
        missing = missing_key(opened, model or chosen.model or chosen.fallback[0])
        if missing and not chosen.fallback:
            raise HoldfastError(missing)
        options = opened.options
        opening = self._opening(
            lambda: opened.sessions.create(
                agent=options.agent,
                model=model,
                amnesia=options.amnesia,
                effort=options.effort,
                expected_calls=self._expected_calls,
            )
        )
        self._begun.add(opening.id)
        self._take(opening)

    def resume(self, id: str | None) -> None:
        """One that is stored, by its id or the beginning of it; the newest of this workspace where there is none."""
        whole_id = self.find(id)
        if self._session is not None and whole_id == self._session.id:
            raise HoldfastError(f"this is session {whole_id} already")
        self._take(self._opening(lambda: self.opened.sessions.resume(whole_id)))
        self._named_model()
        self._named_effort()

    def fork(self, id: str) -> None:
        """Switch to a new conversation that continues from another one."""
        whole_id = self.find(id)
        self._take(self._opening(lambda: self.opened.sessions.fork(whole_id)))
        self._named_model()
        self._named_effort()

    def _named_model(self) -> None:
        name = self.opened.options.model
        if name is None:
            return
        model = self.opened.sessions.model_ref(name)
        missing = missing_key(self.opened, model)
        if missing:
            raise HoldfastError(missing)
        if model != self.session.model:
            self.here(lambda: self.session.set_model(model))

    def _named_effort(self) -> None:
        effort = self.opened.options.effort
        if effort is not None:
            self.here(lambda: self.session.set_effort(effort))

    def _opening(self, make: Callable[[], Awaitable[Session]]) -> Session:
        try:
            return self.conductor.run("opening the session", lambda cancel: make())
        finally:
            self.screen.over(None)

    def _take(self, session: Session) -> None:
        self.leave()
        self._session = session

    def leave(self) -> str | None:
        """Close the conversation and return its id, if it can be resumed. One without a message is deleted."""
        session, self._session = self._session, None
        if session is None:
            return None
        empty = session.id in self._begun and not session.state.title
        if empty:
            self.here(session.discard)
        self.conductor.work.wait(session.close())
        return None if empty else session.id

    def stored(self, *, everywhere: bool = False) -> list[SessionOnDisk]:
        """Return the sessions of this workspace that have a message, newest first."""
        return [each for each in self.opened.sessions.stored(everywhere=everywhere) if each.title]

    def find(self, id: str | None) -> str:
        """The whole id of a stored session. One of another workspace is refused: its tools would work in the wrong
        place."""
        if id is None:
            sessions = self.stored()
            if not sessions:
                raise HoldfastError("there is no session of this workspace to resume; `holdfast chat` begins one")
            return sessions[0].id
        id = uncut(id.strip())
        ids = listed(self.opened.sessions.directory)
        fitting = [id] if id in ids else [each for each in ids if id and each.lower().startswith(id.lower())]
        if len(fitting) != 1:
            raise HoldfastError(self._unknown(id, fitting))
        composed = project(read_log(log_path(self.opened.sessions.directory, fitting[0]))).composed
        if composed is not None and composed.parent is not None:
            raise HoldfastError(
                f"session {fitting[0]} is that of a sub-agent; go on with the one it worked for: {composed.parent}"
            )
        if composed is not None and composed.workspace not in ("", self.opened.sessions.workspace_name):
            where = printable(composed.workspace)
            raise HoldfastError(
                f"session {fitting[0]} works in {where}; go on with it there, or with --workspace {shlex.quote(where)}"
            )
        return fitting[0]

    def _unknown(self, id: str, fitting: list[str]) -> str:
        name = printable(id)[:80]
        if fitting:
            ids = ", ".join(fitting[:_NEAREST]) + (", …" if len(fitting) > _NEAREST else "")
            return f"{len(fitting)} sessions begin with {name!r}: {ids}; give more of the id"
        titles = {each.id: each.title for each in self.stored(everywhere=True)}
        close = difflib.get_close_matches(id.upper()[:64], titles, n=_NEAREST, cutoff=0.6)
        close = close or [each.id for each in self.stored()[:_NEAREST]]
        if not close:
            other = " of this workspace" if titles else " yet"
            begin = "" if self._session is not None else "; `holdfast chat` begins one"
            return f"there is no session {name!r}, nor any other{other}{begin}"
        near = "; ".join(f"{each} ({printable(titles[each])[:40]})" for each in close)
        return f"there is no session {name!r}. The nearest or newest: {near}. `holdfast chat --list` lists all"

    # What is said

    def ask(self, text: str) -> Turn | None:
        """Send a message and show the answer; None if it could not be sent."""
        session = self.session
        try:
            turn = self.conductor.run(
                session.model, lambda cancel: session.ask(text, watch=self.conductor.watch, cancel=cancel)
            )
        except HoldfastError as problem:
            self.screen.over(None)
            self.screen.warn(str(problem))
            return None
        self.screen.over(turn)
        return turn
