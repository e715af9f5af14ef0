"""The door for programs: everything an agent stands on, opened by the configuration and closed again."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from holdfast.config import Config, close_to_others, configured_facts, inert, load
from holdfast.engine import EngineCore, Reports
from holdfast.engine.identity import LOCAL
from holdfast.errors import HoldfastError
from holdfast.facts import using
from holdfast.notices import warn_once
from holdfast.records.events import Bus
from holdfast.store import open_store
from holdfast.tools import Confirmer, GuideSection, Tool
from holdfast.tools.mcp import Hub, started, unconnected, usable

from .arguments import check_flags, check_place, check_switch
from .contract import Equipment, Host, Provider
from .providers import HttpProvider
from .routing import configured
from .sessions import Sessions

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_agent(
    workspace: Path | str = ".",
    *,
    home: Path | str | None = None,
    flags: dict[str, object] | None = None,
    provider: Provider | None = None,
    tools: Sequence[Tool] = (),
    confirm: Confirmer | None = None,
    persona: str | None = None,
    guides: Mapping[str, str] | None = None,
    sections: Sequence[GuideSection] = (),
    mcp: bool = True,
    bus: Bus | None = None,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[Sessions]:
    """Sessions in a workspace, as `holdfast.toml` and the environment say; `flags` win over both, by the names of the
    keys (`{"agent.model": …}`). Without a `provider` requests go to the services, with the keys of the environment.

    `guides` (texts by tool) and `sections` are shown once a session, with the first successful result of their tools.
    One of a name that ours have takes its place. The MCP servers of the configuration are started, as `holdfast chat`
    does, unless `mcp` is False; those that the workspace names wait for `holdfast mcp --approve`. What
    `facts.overrides` names counts for the whole process while the agent is open.
    """
    check_place("open_agent", workspace)
    if home is not None:
        check_place("open_agent(home=…)", home)
    check_flags(flags)
    check_switch("open_agent(mcp=…)", mcp, "the MCP servers of the configuration are started")
    place = Path(workspace).resolve()
    chosen = load(workspace=place, home=None if home is None else Path(home), environ=os.environ, flags=flags or {})
    if without_effect := inert.warning(chosen, "agent", mcp=mcp):
        inert.warn(without_effect)
    close_to_others(chosen.home, workspace=place)
    http = HttpProvider(chosen.settings.upstream, os.environ, limits=chosen.settings.gateway.limits)
    with using(configured_facts(chosen)), open_store(chosen.settings.store.url) as store:
        engine = EngineCore(chosen.for_agent, store=store, bus=bus, reports=Reports.configured(chosen))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(http.close)
            hub = await _hub(chosen, place, bus) if mcp else None
            if hub is not None:
                stack.push_async_callback(hub.close)
            sessions = Sessions(
                chosen.for_agent,
                workspace=place,
                home=chosen.home,
                host=Host(
                    provider=http if provider is None else provider,
                    engine=engine,
                    store=store,
                    bus=bus,
                    tenant=LOCAL,
                    clock=clock,
                    confirm=confirm,
                    hub=hub,
                ),
                equipment=Equipment(tools=tools, persona=persona, guides=guides, sections=sections),
                chosen=partial(configured, chosen),
            )
            stack.callback(lambda: engine.close(now=clock()))
            stack.push_async_callback(sessions.close)
            yield sessions


async def _hub(config: Config, workspace: Path, bus: Bus | None) -> Hub | None:
    """Start the configured MCP servers that are allowed; log a warning for each that is not connected."""
    try:
        named = usable(config.settings, workspace, config.home, _warn)
        if not named:
            return None
        hub = await started(named, config.settings, workspace=workspace, bus=bus)
    except HoldfastError as problem:
        raise HoldfastError(f"{str(problem).rstrip('.')}, or pass mcp=False to go without MCP servers.") from problem
    for line in unconnected(hub):
        _warn(line)
    return hub


def _warn(line: str) -> None:
    warn_once(_log, "%s", line)
