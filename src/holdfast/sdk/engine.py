"""The engine as programs use it: bodies as they have them, times of the real clock, HTTP clients for the SDKs.

What only HTTP clients need, memory and asyncio among it, is imported when the first one is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

import msgspec

from holdfast.config import Settings
from holdfast.core import Plan, Preflight, Verdict
from holdfast.core.repairs import Repair
from holdfast.engine import DURABLE_TIMEOUT_S, EngineCore, Lane, Partial, PreparedCall, PrepareOptions
from holdfast.errors import ArgumentError, HoldfastError, kind_of, wrong_argument
from holdfast.records import Usage
from holdfast.records.events import Bus
from holdfast.store import Store
from holdfast.wire import DIALECTS, Body, Unreadable

from .responses import dialect_named, plain, usage_of

if TYPE_CHECKING:
    import httpx
    import httpx2

    from holdfast.config import Config
    from holdfast.engine import Reports
    from holdfast.engine.passage import Passages


class Call:
    """A request that may be sent, made by `Engine.prepare`.

    Send `raw`, call `first_token()` when the answer begins, and end the call once: `settle` with the billed usage, or
    `abandon`. Times are seconds since 1970, by default those of the engine's clock.
    """

    def __init__(self, core: EngineCore, prepared: PreparedCall, moment: Callable[[float | None], float]) -> None:
        self._core, self._moment = core, moment
        self.prepared = prepared

    @property
    def id(self) -> str:
        return self.prepared.call

    @property
    def lane(self) -> Lane:
        return self.prepared.lane

    @property
    def raw(self) -> bytes:
        """The bytes to send."""
        return self.prepared.raw

    @property
    def body(self) -> dict[str, object]:
        """The same as a dict, for SDKs: `client.messages.create(**call.body)`."""
        return msgspec.json.decode(self.prepared.raw, type=dict[str, object])

    @property
    def plan(self) -> Plan:
        """The markers by block, and the reasons for them."""
        return self.prepared.core.plan

    @property
    def prediction(self) -> Preflight:
        """Tokens that will be read, written and billed as input; dollars of that (`this`) and of a cold cache."""
        return self.prepared.preflight

    @property
    def markers(self) -> tuple[tuple[str, str], ...]:
        """The markers of the sent request: path and lifetime."""
        return self.prepared.markers

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """The repairs made, and those that would help."""
        return self.prepared.repairs

    @property
    def verdict(self) -> Verdict | None:
        """The prediction compared with the usage; None until the call is settled."""
        return self.prepared.verdict

    def first_token(self, usage: object = None, *, now: float | None = None) -> None:
        """The answer has begun, so its entries can be read. `usage` is the provider's usage so far."""
        said = None if usage is None else self._usage("call.first_token", usage)
        self._core.first_token(self.prepared, now=self._moment(now), usage=said)

    def settle(self, usage: object, *, now: float | None = None) -> Verdict:
        """The answer is complete. `usage` is a `Usage`, or what the provider gave: the SDK's usage object, its dict, or
        the whole answer. A call that is settled again gives its first verdict."""
        billed = self._usage("call.settle", usage)
        return self._core.settle(self.prepared, billed, now=self._moment(now))

    def abandon(
        self, usage: object = None, *, output: int = 0, error: str = "", now: float | None = None
    ) -> Usage | None:
        """End a call that was cancelled, was cut off or failed with `error`. `usage` is the provider's usage so far and
        `output` the number of tokens received, if the answer had begun. Returns what was booked."""
        if not isinstance(output, int):
            raise wrong_argument("call.abandon(output=…)", output, "the number of tokens that had come, such as 120")
        said = None if usage is None else self._usage("call.abandon", usage)
        moment = self._moment(now)
        return self._core.abandon(self.prepared, now=moment, error=error, partial=Partial(said, output))

    def _usage(self, method: str, usage: object) -> Usage:
        return usage_of(usage, dialect=self.prepared.sent.dialect, method=method)

    def __repr__(self) -> str:
        state = "settled" if self.verdict is not None else "ended" if self.prepared.core.done else "pending"
        return f"<Call {self.id} of {self.lane.id}: {state}>"


_BODY = "a request's body as a dict, bytes or text, such as {'model': 'claude-opus-5-5', 'messages': […]}"


class ClientOptions(TypedDict, total=False):
    """Options of httpx2's and httpx's `Client` and `AsyncClient`; they mean here what they mean there."""

    auth: object
    params: object
    headers: object
    cookies: object
    verify: object
    cert: object
    trust_env: bool
    http1: bool
    http2: bool
    proxy: object
    mounts: Mapping[str, object] | None
    timeout: object
    follow_redirects: bool
    limits: object
    max_redirects: int
    event_hooks: Mapping[str, object] | None
    base_url: object
    transport: object
    default_encoding: object


class Engine:
    """Makes requests ready for the cache and judges what came of them.

    `settings` are a configuration (`load_config()`), the settings of all agents, or a function that gives those of one
    agent by its name. With a `store` what is
    learned outlives the process. `strict` makes a bad plan an error. `timeout` is how many seconds a request waits for
    what must be durable before it is sent, `clock` gives the time where none is passed. Safe for threads.
    """

    def __init__(
        self,
        settings: Config | Settings | Callable[[str], Settings] | None = None,
        *,
        store: Store | None = None,
        bus: Bus | None = None,
        reports: Reports | None = None,
        strict: bool = False,
        timeout: float = DURABLE_TIMEOUT_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        per_agent: Any = getattr(settings, "for_agent", settings)  # a Config has it
        self.core = EngineCore(per_agent, store=store, bus=bus, reports=reports, strict=strict, timeout=timeout)
        self.clock = clock
        self._passages: Passages | None = None  # one identity for all HTTP clients of this engine
        self._lock = Lock()
        self._closed = False

    def prepare(
        self,
        body: Mapping[str, object] | bytes | str,
        *,
        dialect: str,
        lane: Lane,
        model: str = "",
        reset: str | None = None,
        skip: Collection[str] = (),
        edits: Mapping[bytes, bytes] | None = None,
        now: float | None = None,
    ) -> Call:
        """Make a request ready to be sent, and register it as pending.

        `model` is for Gemini, whose bodies do not name it. `reset` announces why the request may depart from the lane's
        last one; `skip` names repairs to leave out; `edits` are replacements by the digest of the block. If this
        raises, send the body as it is: the engine takes it for sent.
        """
        self._check_open("prepare")
        parsed = self._parse("engine.prepare", body, dialect, model)
        moment = self._moment(now)
        options = PrepareOptions(reset=reset, skip=frozenset(skip), edits=edits or {})
        prepared = self.core.prepare(parsed, lane=lane, now=moment, options=options)
        return Call(self.core, prepared, self._moment)

    def bypassed(
        self,
        body: Mapping[str, object] | bytes | str,
        *,
        dialect: str,
        lane: Lane,
        model: str = "",
        now: float | None = None,
    ) -> None:
        """The client's own body went out instead of what was prepared: the lane's next request is compared with it.
        Abandon a call that was prepared for the same request first."""
        self._check_open("bypassed")
        parsed = self._parse("engine.bypassed", body, dialect, model)
        self.core.bypassed(lane, parsed, now=self._moment(now))

    def announce(self, lane: Lane, reason: str, *, now: float | None = None) -> None:
        """The lane's next request may depart from its last one, for this reason."""
        self._check_open("announce")
        self.core.announce(lane, reason, now=self._moment(now))

    def fence(self, lane: Lane, *, now: float | None = None) -> int:
        """How many blocks of the lane's last request are under a live entry."""
        self._check_open("fence")
        return self.core.fence(lane, now=self._moment(now))

    def end(self, lane: Lane, *, now: float | None = None) -> None:
        """End the lane and delete what is stored for its bytes."""
        self._check_open("end")
        self.core.end(lane, now=self._moment(now))

    @property
    def store(self) -> Store | None:
        return self.core.store

    def settings(self, agent: str = "") -> Settings:
        """The settings of an agent."""
        return self.core.settings(agent)

    @overload
    def http_client(
        self, *, library: Literal["httpx2"] | None = None, **options: Unpack[ClientOptions]
    ) -> httpx2.Client: ...
    @overload
    def http_client(self, *, library: Literal["httpx"], **options: Unpack[ClientOptions]) -> httpx.Client: ...
    def http_client(
        self, *, library: Literal["httpx2", "httpx"] | None = None, **options: Unpack[ClientOptions]
    ) -> httpx2.Client | httpx.Client:
        """An HTTP client with this engine inside, for an SDK: `Anthropic(http_client=engine.http_client())`. It is one
        of httpx2, or of the `library` named; `options` are those of its `Client`."""
        from .http_clients import client

        http: httpx2.Client | httpx.Client = client(self._client_passages("http_client"), library, options)
        return http

    @overload
    def async_http_client(
        self, *, library: Literal["httpx2"] | None = None, **options: Unpack[ClientOptions]
    ) -> httpx2.AsyncClient: ...
    @overload
    def async_http_client(
        self, *, library: Literal["httpx"], **options: Unpack[ClientOptions]
    ) -> httpx.AsyncClient: ...
    def async_http_client(
        self, *, library: Literal["httpx2", "httpx"] | None = None, **options: Unpack[ClientOptions]
    ) -> httpx2.AsyncClient | httpx.AsyncClient:
        """The same for the asynchronous SDKs."""
        from .http_clients import async_client

        passages = self._client_passages("async_http_client")
        http: httpx2.AsyncClient | httpx.AsyncClient = async_client(passages, library, options)
        return http

    def close(self, *, now: float | None = None) -> None:
        """Save what makes the next start quick; the store stays open. Calls that are under way can still be settled."""
        if not self._closed:
            self._closed = True
            self.core.close(now=self._moment(now))

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _moment(self, now: float | None = None) -> float:
        if now is None:
            return self.clock()
        if isinstance(now, bool) or not isinstance(now, (int, float)):
            raise wrong_argument("now=…", now, "seconds since 1970, such as time.time()")
        return now

    def _client_passages(self, method: str) -> Passages:
        self._check_open(method)
        with self._lock:
            if self._passages is None:
                from .passages import passages_of

                self._passages = passages_of(self.core, self.clock)
            return self._passages

    def _check_open(self, method: str) -> None:
        if self._closed:
            raise HoldfastError(f"engine.{method} was called on an engine that is closed; make another Engine()")

    def _parse(self, method: str, body: object, name: object, model: str) -> Body:
        dialect = DIALECTS[dialect_named(method, name)]
        if not isinstance(body, (Mapping, bytes, str)):
            raise wrong_argument(method, body, _BODY)
        if not isinstance(model, str):
            raise wrong_argument(f"{method}(model=…)", model, "the model's name as a text")
        parsed = self.core.parse(dialect, _encoded(method, body), model=model)
        if isinstance(parsed, Unreadable):
            raise HoldfastError(
                f"{method} cannot read this body as {dialect.name}: {parsed.reason}; give {_BODY}, or send it as it is"
            )
        if not parsed.model:
            raise HoldfastError(f"{method} got a body that names no model; give one with model='…'")
        return parsed


def _encoded(method: str, body: Mapping[str, object] | bytes | str) -> bytes:
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    try:
        return msgspec.json.encode(body if isinstance(body, dict) else dict(body), enc_hook=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(
            f"{method} got {kind_of(body)} that cannot be written as JSON ({error}); give {_BODY}"
        ) from error
