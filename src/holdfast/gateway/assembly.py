"""A gateway put together from a configuration: store, engine, identities, passages, application."""

from __future__ import annotations

import logging
import secrets as random
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.config import Config, close_to_others, secret
from holdfast.engine import EngineCore, Reports
from holdfast.engine.identity import Identities
from holdfast.engine.passage import Passages, Switch, warm_up
from holdfast.errors import HoldfastError
from holdfast.memory import MemoryInjector
from holdfast.serving import is_loopback
from holdfast.store import Store, open_store, path_of
from holdfast.upstream import HttpClient

from .admin import Pages, StoreHealth, without_directories
from .app import App, Entrance, RefusalEvents, RefusedRequest
from .auth import Access, Admin, OwnKeys, serves
from .chores import Chores
from .origins import OriginPolicy
from .pipeline import Pipeline
from .request_reader import GatewayRequest
from .retention import RetentionPeriod
from .routes import Routes
from .runs import Runs

log = logging.getLogger(__name__)

ACCESS_KEY, ADMIN_TOKEN, TENANT_KEY = "access-key", "admin-token", "tenant-key"


class Gateway:
    """Everything that serves, apart from the server. Closed after the last request."""

    def __init__(
        self,
        config: Config,
        *,
        host: str = "127.0.0.1",
        on_call: Callable[[GatewayRequest], None] | None = None,
        on_refused: Callable[[RefusedRequest], None] | None = None,
        clock: Callable[[], float] = time.time,
        switch: Switch | None = None,
    ) -> None:
        self._clock = clock
        self.switch = switch or Switch.from_environment()
        settings = config.settings
        limits, loopback = settings.gateway.limits, is_loopback(host)
        self.needs_key = not loopback
        _check_memory(config, loopback)
        close_to_others(config.home)
        access_key = secret(config.home, ACCESS_KEY) if self.needs_key else None
        token = _secret(config.home, ADMIN_TOKEN)
        routes = Routes(settings.upstream)
        admin = Admin(token, serves=serves(settings))
        self.store, trouble = _store(settings.store.url)
        self.switch.remember(self.store)
        self.retention = RetentionPeriod.configured(config)
        self.engine = EngineCore(
            config.for_agent,
            store=self.store,
            reports=Reports.configured(config),
            timeout=limits.wait_ms / 1_000,
        )
        self.identities = Identities(_secret(config.home, TENANT_KEY).encode(), store=self.store, continues=loopback)
        memory = _memory(config, self.engine, self.store, clock)
        self.passages = Passages(
            self.engine, self.identities, config.for_agent, clock=clock, remembering=memory, switch=self.switch
        )
        self._warm_up()
        self.runs, self._on_call = Runs(), on_call
        refusals, health = RefusalEvents(self.engine, clock), StoreHealth(self.store, trouble)
        client = HttpClient(connect_s=limits.connect_s, idle_s=limits.idle_s)
        self.chores = Chores(
            self.engine,
            config.for_agent,
            client,
            store=self.store,
            clock=clock,
            off=lambda: self.switch.off,
            retention=self.retention,
        )
        entrance = Entrance(
            OriginPolicy(hosts=settings.gateway.hosts, origins=settings.gateway.origins, loopback=loopback),
            Access(access_key),
            admin,
            OwnKeys(token, *(() if access_key is None else (access_key,))),
            refusals.emit,
        )
        self.app = App(
            entrance,
            routes,
            Pages(self.store, self.runs, admin, refusals.emit, self.switch, health, settings.cache.repair).app(),
            Pipeline(self.passages, client, limits, self.runs, self._note_end),
            self.chores,
            limits,
            on_refused,
        )

    def _note_end(self, call: GatewayRequest) -> None:
        """Handle the end of a request."""
        if call.run is not None:
            self.runs.note(call.run, call.passage, call.status)
        self.chores.note(call)
        if self._on_call is not None:
            self._on_call(call)

    def _warm_up(self) -> None:
        """Load what requests would otherwise wait for, before anybody is told that we listen."""
        warm_up()
        now = self._clock()
        for tenant in self.engine.load_recent(now=now):
            self.identities.load(tenant, now)

    def close(self) -> None:
        """Leave behind what makes the next start quick."""
        try:
            self.engine.close(now=self._clock())
        finally:
            self.switch.close()
            if self.store is not None:
                self.store.close()


def _memory(
    config: Config, engine: EngineCore, store: Store | None, clock: Callable[[], float]
) -> MemoryInjector | None:
    """Return the memory of clients, None without a store. If no settings ask for memory, it still recognises
    conversations that got some before."""
    if store is None:
        if any(config.for_agent(agent).memory.inject for agent in ("", *config.agents)):
            log.warning("memory.inject is on, but nothing is stored; clients get no memory")
        return None
    return MemoryInjector(engine, store, config.for_agent, agents=config.agents, clock=clock)


def _check_memory(config: Config, loopback: bool) -> None:
    """This machine's user is not everybody who can reach it."""
    for agent in ("", *config.agents):
        memory = config.for_agent(agent).memory
        if memory.inject and memory.inject_as == "local" and not loopback:
            where = f" of the agent {agent}" if agent else ""
            raise HoldfastError(
                f"memory.inject_as{where} is `local`, which would give this user's memory to whoever reaches the "
                "gateway; serve on 127.0.0.1, or set memory.inject_as to `tenant`."
            )


def _store(url: str) -> tuple[Store | None, str]:
    """The store, or none and why: a gateway whose store cannot be opened works in memory."""
    try:
        return open_store(url), ""
    except HoldfastError as problem:
        log.warning("%s; going on in memory: nothing is kept", str(problem).rstrip("."))
        return None, without_directories(str(problem), path_of(url))


def _secret(home: Path, name: str) -> str:
    """A secret of this installation, or one for this time only where none can be kept."""
    try:
        return secret(home, name)
    except HoldfastError as problem:
        log.warning("%s; going on with one that ends with this process", str(problem).rstrip("."))
        return random.token_urlsafe(32)
