"""The door for programs: everything an agent stands on, opened by the configuration and closed again."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from holdfast.config import load
from holdfast.engine import Engine
from holdfast.engine.reports import Reports
from holdfast.events import Bus
from holdfast.identity.core import LOCAL
from holdfast.store import open_store
from holdfast.tools import Confirmer, Tool

from .providers import HttpProvider
from .routing import configured
from .sessions import Sessions
from .values import Provider


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
    bus: Bus | None = None,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[Sessions]:
    """Sessions in a workspace, as `holdfast.toml` and the environment say; `flags` win over both, by the names of the
    keys (`{"agent.model": …}`). Without a `provider` requests go to the services, with the keys of the environment."""
    place = Path(workspace).resolve()
    chosen = load(workspace=place, home=None if home is None else Path(home), environ=os.environ, flags=flags or {})
    http = HttpProvider(chosen.settings.upstream, os.environ, limits=chosen.settings.gateway.limits)
    with open_store(chosen.settings.store.url) as store:
        engine = Engine(chosen.for_agent, store=store, bus=bus, reports=Reports.configured(chosen))
        sessions = Sessions(
            chosen.for_agent,
            workspace=place,
            home=chosen.home,
            provider=provider or http,
            engine=engine,
            store=store,
            bus=bus,
            tenant=LOCAL,
            clock=clock,
            confirm=confirm,
            tools=tools,
            persona=persona,
            chosen=partial(configured, chosen),
        )
        try:
            yield sessions
        finally:
            try:
                await sessions.close()
            finally:
                await http.close()
                engine.close(now=clock())
