"""The engine's state in memory: tenants, ledgers, byte memories, readers, the lanes' last bodies."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from time import monotonic
from typing import Any

from msgspec.structs import replace

from holdfast import facts
from holdfast.caches import Room
from holdfast.config import Settings
from holdfast.config.sections import CacheSettings, GeminiSettings, KeepaliveSettings, OpenAISettings
from holdfast.core import Ledger, Tenant
from holdfast.core.repairs import ByteMemory
from holdfast.facts import ModelFacts
from holdfast.lru import LRU
from holdfast.store import Store
from holdfast.wire import DIALECTS, Body, Dialect, PromptReader, Reading, Unreadable

from .lane import Lane
from .persistence import Persistence

KEPT_BODIES = 12_000_000
"""Bytes of lanes' last bodies that are remembered, to say what changed in them. Mostly the reader has the same ones."""

OURS_BODIES, OURS_BLOCKS = 8_000_000, 20_000
"""What the reader of repaired and edited bodies keeps: their blocks are mostly the client's own."""

GIVEN_BODIES = 8_000_000
"""What the reader of bodies keeps that clients have sent and were given something in front."""

STREAMS = 6_000_000
"""Tokens, four bytes each, of all tenants' prompts that may still be read from caches which match token by token."""

MOST_TENANTS = 1_000
MOST_MEMORIES = 32
"""Tenants in memory, and those of them with first bytes; the least recently used are loaded again or begin anew."""

MOST_RECENT, LOADING_S = 200, 2.0
"""Lanes that are loaded at the start of a process, and the seconds that this may take."""

FIRST_BYTES = 12_000_000
"""First bytes of all tenants together, beside those of the tenant at hand."""


_OBSERVING: dict[str, Any] = {
    "strategy": "passthrough",
    "client_markers": "respect",
    "repair": "off",
    "edits": "never",
    "padding": "off",
    "gemini": GeminiSettings(enabled=False),
    "openai": OpenAISettings(store_completions=False),
    "keepalive": KeepaliveSettings(enabled=False),
}
"""The settings under which a request goes out as it came."""


class State:
    """What is known, loaded where it is first asked for. Not safe for threads: the engine holds a lock."""

    def __init__(self, settings: Settings | Callable[[str], Settings] | None, store: Store | None) -> None:
        known = settings if settings is not None else Settings()
        self._settings = known if callable(known) else lambda _agent: known
        self.persistence = Persistence(store)
        self.theirs = PromptReader()
        self.given = PromptReader(kept_bodies=GIVEN_BODIES, beside=self.theirs)
        self.ours = PromptReader(kept_bodies=OURS_BODIES, kept_blocks=OURS_BLOCKS)
        self.tenants: LRU[str, Tenant] = LRU(MOST_TENANTS)
        self._room = Room(STREAMS)
        self._memories: LRU[str, ByteMemory] = LRU(MOST_MEMORIES)
        self._bodies: LRU[tuple[str, str], Body] = LRU(KEPT_BODIES, size_of=size_of, keep_newest=True)

    def settings(self, lane: Lane) -> CacheSettings:
        settings = self._settings(lane.agent).cache
        return replace(settings, **_OBSERVING) if lane.observed else settings

    def settings_of(self, agent: str) -> Settings:
        return self._settings(agent)

    def tenant(self, name: str) -> Tenant:
        tenant = self.tenants.get(name)
        if tenant is None:
            self.tenants[name] = tenant = self.persistence.tenant(name)
            tenant.room = self._room
        return tenant

    def ledger(self, lane: Lane, now: float) -> Ledger:
        if lane.parent is not None and not self.persistence.known(lane):
            self.persistence.inherit(lane, now)
        return self.persistence.lane(lane, now)

    def fresh(self, lane: Lane, now: float) -> Ledger:
        """The ledger to change: read again if another process has written it."""
        return self.persistence.refresh(lane, now) or self.ledger(lane, now)

    def pools(self, name: str, model: ModelFacts, now: float) -> None:
        """See that a tenant's pools of a model are there: rebuilt from its calls when they are first asked for."""
        tenant = self.tenant(name)
        if model.ref not in tenant.loaded:
            tenant.loaded.add(model.ref)
            self.persistence.load_pool(name, tenant.pool(model), tenant.pool_alone(model), now)
            if self.persistence.down:
                tenant.loaded.discard(model.ref)  # to be tried again

    def load_recent(self, now: float) -> list[str]:
        """See that lanes which may still be warm are there, those used last first, and the pools of their models; as
        many as there is time for. Gives their tenants."""
        tenants: dict[str, None] = {}
        ends = monotonic() + LOADING_S
        for lane in self.persistence.recent(now, MOST_RECENT):
            if monotonic() > ends:
                break
            tenants[lane.tenant] = None
            last = self.ledger(lane, now).last
            if last is not None:
                self.pools(lane.tenant, facts.model(last.model), now)
        return list(tenants)

    def close(self, now: float) -> None:
        for name, tenant in self.tenants.items():
            self.persistence.finish_tenant(name, tenant, now)

    def memory(self, tenant: str) -> ByteMemory:
        memory = self._memories.get(tenant)
        if memory is None:
            memory = self._memories[tenant] = ByteMemory(load=lambda name: self._stored(tenant, name))
        while len(self._memories) > 1 and sum(map(len, self._memories.values())) > FIRST_BYTES:
            self._memories.evict()
        return memory

    def _stored(self, tenant: str, name: bytes) -> bytes | None:
        """What was made durable goes by its SHA-256. First bytes, by a shorter digest, never are: asking for those of a
        whole conversation after a restart would take longer than making them again."""
        return self.persistence.load(tenant, name) if len(name) == sha256().digest_size else None

    def body(self, lane: Lane) -> Body | None:
        """The lane's last body, before markers of ours, where it is still remembered."""
        return self._bodies.peek((lane.tenant, lane.id))

    def remember(self, lane: Lane, body: Body) -> Body | None:
        """Keep the lane's body, give the one before."""
        before = self.body(lane)
        self._bodies[lane.tenant, lane.id] = body
        return before

    def forget(self, lane: Lane) -> Body | None:
        return self._bodies.pop((lane.tenant, lane.id), None)

    def reread(
        self, body: Body, reading: Reading, raw: bytes, dialect: Dialect, model: ModelFacts
    ) -> tuple[Body, Reading]:
        """Read a body again if repairs or edits have changed it."""
        if raw is body.raw:
            return body, reading
        parsed = self.ours.parse(dialect, raw, model=body.model)
        if isinstance(parsed, Unreadable):
            raise RuntimeError(f"a body of ours cannot be read: {parsed.reason}")
        return parsed, self.ours.read(parsed, model)


def size_of(body: Body) -> int:
    return len(body.raw)


def reference(dialect: Dialect, model: str) -> str:
    """Return the name of a model for stored data, where there is no body with it."""
    return facts_of(Body(raw=b"", dialect=dialect.name, model=model, blocks=(), members={}, end=0)).ref


def facts_of(body: Body) -> ModelFacts:
    """Return the facts of the model that a body names."""
    return DIALECTS[body.dialect].facts(body.model)
