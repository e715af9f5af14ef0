"""What a chat stands on: the configuration of its workspace, the store, the engine, the provider, MCP servers."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.agent import KEYS, Host, HttpProvider, Provider, Sessions, not_served, routing
from holdfast.cli.setup import use_configured_facts
from holdfast.config import Config, close_to_others, inert, load_config
from holdfast.engine import EngineCore, Reports
from holdfast.engine.identity import LOCAL
from holdfast.errors import HoldfastError
from holdfast.serving import is_loopback
from holdfast.store import SqliteStore, open_store
from holdfast.tools import dialect_of_model
from holdfast.tools.mcp import Hub, started, unconnected, usable

from .turns import Conductor

SIMULATED = "anthropic:claude-haiku-5-5"
"""The model that is simulated where none is named: one that caches short prompts, so that there is something to see."""


class ChatOptions(Struct, frozen=True, kw_only=True):
    """What the command line says about where and how to work."""

    workspace: Path
    here: Path | None = None
    """Where the command was given."""
    model: str | None = None
    agent: str = ""
    simulate: bool = False
    script: Path | None = None
    yes: bool = False
    amnesia: bool = False
    effort: str | None = None

    @property
    def again(self) -> tuple[str, ...]:
        """What has to be said again to go on in the same way from the same place."""
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
        """The store where what is paid stands; what is simulated is on no bill."""
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
    """What to do about a key that is not there, before anything is said; empty where all is well."""
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
        named = usable(settings, workspace or Path(), config.home, notice)
        if not named:
            return None
        hub = conductor.run("starting MCP servers", lambda cancel: started(named, settings, workspace=workspace))
    except HoldfastError as problem:
        notice(str(problem))
        return None
    for line in unconnected(hub):
        notice(line)
    return hub
