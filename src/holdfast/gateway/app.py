"""The application: who may come in, what is ours, what goes to a provider. Bare ASGI: every call passes here."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.config.sections import LimitSettings
from holdfast.engine import EngineCore, Lane
from holdfast.engine.identity import LOCAL
from holdfast.engine.passage import by_name, place_of
from holdfast.records.events import GatewayAuthFailed
from holdfast.serving import Protocol, arrived_of, connection_of, ends_with_mark
from holdfast.upstream import shown_path
from holdfast.wire import Dialect

from .auth import Access, Admin, EntryPath, OwnKeys, parse_entry
from .chores import Chores
from .origins import OriginPolicy, preflight, readable_by
from .pipeline import Pipeline
from .problems import OwnResponse, problem, send_own, too_many_connections
from .request_reader import GatewayRequest, drain
from .routes import ProviderRoute, Routes, is_client

log = logging.getLogger(__name__)

EVERY_S = 1.0
LANE = Lane(tenant=LOCAL, session="gateway", id="gateway")


class RefusalEvents:
    """Emits an event for each door, once a second at most."""

    def __init__(self, engine: EngineCore, clock: Callable[[], float]) -> None:
        self._engine, self._clock = engine, clock
        self._emitted: dict[str, float] = {}

    def emit(self, door: str) -> None:
        now = self._clock()
        if now - self._emitted.get(door, 0.0) < EVERY_S:
            return
        self._emitted[door] = now
        try:
            self._engine.tell(LANE, GatewayAuthFailed(door=door), now=now)
        except Exception as error:  # noqa: BLE001  the answer is the same
            log.warning("a refusal was not told: %s", place_of(error))


OWN = ("/healthz", "/calls/", "/analytics/", "/runs/")
SERVED = (
    "POST /v1/messages, /v1/chat/completions, /v1/responses, /v1beta/models/MODEL:generateContent, what else the "
    "providers have under /v1, /v1beta and /api, and all of it behind /anthropic, /openai, /gemini or /openrouter"
)
LONGEST = 200
"""Characters of a path that are shown."""


class RefusedRequest(Struct, frozen=True):
    """A request that was answered before it was routed."""

    method: str
    path: str
    status: int
    reason: str
    message: str
    at: float


class Entrance(Struct, frozen=True):
    """Who may come in."""

    origins: OriginPolicy
    access: Access
    admin: Admin
    own_keys: OwnKeys
    emit_refusal: Callable[[str], None]  # with the door that was tried


class App:
    """The gateway as an ASGI application."""

    def __init__(
        self,
        entrance: Entrance,
        routes: Routes,
        pages: ASGIApp,
        pipeline: Pipeline,
        chores: Chores,
        limits: LimitSettings,
        on_refused: Callable[[RefusedRequest], None] | None = None,
    ) -> None:
        self._entrance, self._routes, self._pages = entrance, routes, pages
        self._pipeline, self._limits, self._on_refused = pipeline, limits, on_refused
        self.chores = chores
        self.trouble = ""  # why it did not start

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            self.chores.start()
        except Exception as error:
            self.trouble = place_of(error)  # the server itself says nothing
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.chores.stop()
        await self._pipeline.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, method = scope["headers"], scope["method"]
        first = by_name(headers)
        entry = parse_entry(scope["raw_path"].decode("latin-1"))
        query = scope["query_string"].decode("latin-1")
        own = self._is_own(method, entry.path, query, first)
        caller = self._entrance.origins.judge(method, headers, own=own)
        if caller.refused:
            self._entrance.emit_refusal(caller.refused)
            style = self._routes.style(entry.path, query, first)
            refusal = problem(style, 403, caller.message, close=True, refused=caller.refused)
            await self._decline(method, entry, first, receive, send, refusal)
            return
        if caller.origin:
            send = readable_by(send, caller.origin)
            if method == "OPTIONS" and "access-control-request-method" in first:
                await send_own(send, OwnResponse(204, tuple(preflight(headers)), b""))
                return
        if own:
            await self._pages({**scope, "path": entry.path, "raw_path": entry.path.encode("latin-1")}, receive, send)
            return
        connection = connection_of(scope)
        route = self._route(method, entry, query, headers, first, connection)
        if isinstance(route, OwnResponse):
            await self._decline(method, entry, first, receive, send, route)
            return
        await self._pipeline.serve(
            GatewayRequest(
                method=method,
                query=query,
                marked=ends_with_mark(scope),
                headers=headers,
                first=first,
                route=route,
                run=entry.run,
                connection=connection,
                arrived=arrived_of(scope),
                receive=receive,
                send=send,
                started=time.time(),
            )
        )

    async def _decline(
        self,
        method: str,
        entry: EntryPath,
        first: Mapping[str, str],
        receive: Receive,
        send: Send,
        refusal: OwnResponse,
    ) -> None:
        """Answer a request that goes nowhere."""
        await drain(receive, first)
        await send_own(send, refusal)
        if self._on_refused is not None:
            hidden = self._entrance.own_keys.are_in(entry.path, "", ())
            path = "(a path with a key)" if hidden else shown_path(entry.path[:LONGEST])
            self._on_refused(
                RefusedRequest(method, path, refusal.status, refusal.refused, refusal.message, time.time())
            )

    def _is_own(self, method: str, path: str, query: str, first: Mapping[str, str]) -> bool:
        """Whether a path is ours. At `/` clients look whether their provider is there."""
        if path == "/":
            return method in ("GET", "HEAD") and (self._entrance.admin.allows(first) or not is_client(query, first))
        return path.startswith(OWN)

    def _route(
        self,
        method: str,
        entry: EntryPath,
        query: str,
        headers: list[tuple[bytes, bytes]],
        first: Mapping[str, str],
        connection: Protocol,
    ) -> ProviderRoute | OwnResponse:
        """Where a request goes, or why it goes nowhere. Who has no access takes no place of those who have."""
        path = entry.path

        def style() -> Dialect:
            return self._routes.style(path, query, first)

        if not self._entrance.access.allows(entry, first):
            self._entrance.emit_refusal("access")
            message = (
                "this gateway needs an access key; send it as the header x-holdfast-key or as /k/KEY in the address."
            )
            return problem(style(), 401, message, close=True, refused="access")
        if not connection.admit():
            return too_many_connections(style(), self._limits)
        if self._entrance.own_keys.are_in(path, query, headers):
            message = "the gateway's own keys (admin token, access key) are not for providers; send the provider's key."
            return problem(style(), 403, message, refused="own key")
        route = self._routes.find(method, path, query, first)
        if route is None:
            message = f"{method} {shown_path(path[:LONGEST])} is not served; there are {SERVED}."
            return problem(style(), 404, message, refused="path")
        if first.get("upgrade", "").lower() == "websocket":
            refused = ((b"upgrade", b"HTTP/1.1"),)
            message = "websockets are not served here; send a POST request."
            return problem(route.style, 426, message, close=True, headers=refused, refused="websocket")
        return route
