"""Passages in front of a simulated provider, on a virtual clock: what the tests of a call share."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import brotli
import zstandard

from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings
from holdfast.config.sections.server import GatewaySettings, LimitSettings
from holdfast.engine import EngineCore
from holdfast.engine.identity import Identities
from holdfast.engine.passage import Incoming, Passage, Passages, Timers
from holdfast.records.events import Bus
from holdfast.records.events.envelope import Envelope
from holdfast.serving.encodings import decoded
from holdfast.simulator import HttpRequest, HttpResponse, Simulator, VirtualClock
from holdfast.simulator.provider import Exchange
from holdfast.store import Call as Row
from holdfast.store import Session, SqliteStore, open_store
from holdfast.store import operations as op
from holdfast.wire import DIALECTS
from tests.engine.driver import HEADERS, MODELS
from tests.properties.sessions import PATHS

START = 1_800_000_000.0
KEY = b"a key that is for tests only, ok"
ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": partial(gzip.compress, mtime=0),
    "br": brotli.compress,
    "zstd": zstandard.compress,
}
SSE = [(b"Content-Type", b"text/event-stream")]


STAGES_S = 60
"""Seconds that our own stages may take: the store is real, and a busy machine is not what is tested."""


class Door:
    """An engine's passages and a provider. `work` is how many seconds our own work seems to have taken."""

    def __init__(
        self, cache: CacheSettings | None = None, gateway: GatewaySettings | None = None, path: Path | None = None
    ) -> None:
        self.clock = VirtualClock(START)
        self.simulator = Simulator(clock=self.clock)
        self.bus = Bus()
        self._told = self.bus.subscribe()
        self.store: SqliteStore | None = None if path is None else open_store(path)
        unhurried = GatewaySettings(limits=LimitSettings(stages_ms=STAGES_S * 1_000, wait_ms=STAGES_S * 1_000))
        settings = Settings(cache=cache or CacheSettings(), gateway=gateway or unhurried)
        self.engine = EngineCore(settings, store=self.store, bus=self.bus, strict=True)
        self.identities = Identities(KEY, store=self.store)
        self.work = 0.0
        self.passages = Passages(
            self.engine, self.identities, settings, clock=self.clock.now, timers=Timers(lambda: self.work)
        )

    def close(self) -> None:
        self.bus.close()
        if self.store is not None:
            self.store.close()

    def begin(
        self,
        raw: bytes,
        dialect: str = "anthropic",
        *,
        session: str | None = "s",
        encoding: str = "",
        query: str = "",
        path: str = "",
        **ours: str,
    ) -> Passage:
        """Take a request in; `ours` are headers of ours by the end of their names, `switch` is `x-holdfast` itself."""
        headers = [(b"X-Api-Key", b"k"), (b"User-Agent", b"cli/1.0"), (b"Anthropic-Version", b"2023-06-01")]
        headers += [(b"X-Holdfast-Session", session.encode())] if session is not None else []
        headers += [(b"Content-Encoding", encoding.encode())] if encoding else []
        for name, value in ours.items():
            headers.append((b"X-Holdfast" if name == "switch" else f"X-Holdfast-{name}".encode(), value.encode()))
        model = MODELS["gemini"] if dialect == "gemini" else ""
        body = ENCODERS[encoding](raw) if encoding in ENCODERS else raw
        found = path or PATHS[dialect].format(model=model)
        return self.passages.begin(Incoming("POST", found, query, tuple(headers), body), DIALECTS[dialect], model)

    def ask(self, passage: Passage, query: dict[str, str] | None = None) -> Exchange:
        """What the provider makes of what is sent."""
        incoming = passage.incoming
        encoding = incoming.named().get("content-encoding", "") if passage.verbatim else ""
        plain = decoded(passage.raw, encoding, 10**8)
        assert plain is not None
        return self.simulator.begin(HttpRequest("POST", incoming.path, HEADERS, query or {}, plain))

    def carry(
        self,
        passage: Passage,
        *,
        encoding: str = "",
        cut: Callable[[bytes], Sequence[bytes]] | None = None,
        query: dict[str, str] | None = None,
    ) -> Exchange:
        """A whole exchange; `cut` makes pieces of the answer's bytes."""
        exchange = self.ask(passage, query)
        answer = exchange.answer
        headers = [(name.encode(), value.encode()) for name, value in answer.headers]
        headers += [(b"Content-Encoding", encoding.encode())] if encoding else []
        self.clock.advance(1)
        passage.answer(answer.status, headers)
        exchange.first_token()
        whole = ENCODERS[encoding](whole_of(answer))
        for piece in [whole] if cut is None else cut(whole):
            passage.feed(piece)
        self.clock.advance(1)
        exchange.finish()
        passage.finish()
        return exchange

    def send(self, raw: bytes, dialect: str = "anthropic", **more: Any) -> tuple[Passage, Exchange]:
        """A request and its answer, ten seconds after the one before."""
        self.clock.advance(10)
        passage = self.begin(raw, dialect, **more)
        return passage, self.carry(passage)

    def told(self, kind: str | None = None) -> list[Envelope]:
        """The events since the last time, all or of one type."""
        return [each for each in self._told.drain() if kind in (None, each.type)]

    def rows(self) -> list[Row]:
        """The calls that are stored, oldest first."""
        self.store.write(op.PutSession(Session(tenant="-", id="-", started_at=0))).result(30)  # it comes behind them
        return self.store.calls()


def whole_of(answer: HttpResponse) -> bytes:
    return answer.body if answer.chunks is None else b"".join(answer.chunks)


def same(row: Row, exchange: Exchange) -> None:
    """What is stored is what was billed."""
    billed = exchange.record.usage
    assert (row.usage.input, row.usage.read, row.usage.output) == (billed.input, billed.read, billed.output)
    assert row.usage.written == billed.written


def believed(door: Door, passage: Passage) -> int:
    """How many blocks of the lane's last request are believed to be in the cache."""
    return door.engine.fence(passage.lane, now=door.clock.now())
