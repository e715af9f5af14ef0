"""The application: who may come in, what is ours, what goes to a provider. Bare ASGI: every call passes here."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec import Struct
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.config.sections import Limits
from holdfast.engine.passage import by_name, place_of
from holdfast.serving import Protocol, arrived_of, connection_of, ends_with_mark
from holdfast.upstream import shown_path
from holdfast.wire import Dialect

from .auth import Access, Admin, Entry, OwnKeys, enter
from .chores import Chores
from .limits import too_many_connections
from .origins import OriginPolicy, preflight, readable_by
from .pipeline import Pipeline
from .problems import Answer, problem, say
from .relay import Relay
from .request_reader import Call, drain
from .routes import Route, Routes, is_client
from .runs import Runs

OWN = ("/healthz", "/calls/", "/analytics/", "/runs/")
SERVED = (
    "POST /v1/messages, /v1/chat/completions, /v1/responses, /v1beta/models/MODEL:generateContent, what else the "
    "providers have under /v1, /v1beta and /api, and all of it behind /anthropic, /openai, /gemini or /openrouter"
)
LONGEST = 200
"""Characters of a path that are shown."""


class Refused(Struct, frozen=True):
    """A request that was answered before it was routed."""

    method: str
    path: str
    status: int
    reason: str
    message: str
    at: float


class App:
    """The gateway as an ASGI application. What lives in its loop is made there, before the first request."""

    def __init__(
        self,
        *,
        routes: Routes,
        origins: OriginPolicy,
        access: Access,
        admin: Admin,
        own_keys: OwnKeys,
        pages: ASGIApp,
        refused: Callable[[str], None],
        limits: Limits,
        runs: Runs,
        make_relay: Callable[[], Relay],
        make_pipeline: Callable[[Relay, Callable[[Call], None]], Pipeline],
        make_chores: Callable[[Relay], Chores],
        on_call: Callable[[Call], None] | None = None,
        on_refused: Callable[[Refused], None] | None = None,
    ) -> None:
        self._routes, self._origins, self._access, self._admin = routes, origins, access, admin
        self._own_keys, self._pages, self._refused, self._on_refused = own_keys, pages, refused, on_refused
        self._limits, self._runs, self._on_call = limits, runs, on_call
        self._make_relay, self._make_pipeline, self._make_chores = make_relay, make_pipeline, make_chores
        self._pipeline: Pipeline | None = None
        self.chores: Chores | None = None
        self.trouble = ""
        """Why it did not start."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            relay = self._make_relay()
            self._pipeline, self.chores = self._make_pipeline(relay, self._over), self._make_chores(relay)
            self.chores.start()
        except Exception as error:
            self.trouble = place_of(error)  # the server itself says nothing
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.chores.stop()
        await self._pipeline.close()
        await relay.close()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, method = scope["headers"], scope["method"]
        first = by_name(headers)
        entry = enter(scope["raw_path"].decode("latin-1"))
        query = scope["query_string"].decode("latin-1")
        own = self._is_own(method, entry.path, query, first)
        caller = self._origins.judge(method, headers, own=own)
        if caller.refused:
            self._refused(caller.refused)
            style = self._routes.style(entry.path, query, first)
            answer = problem(style, 403, caller.message, close=True, refused=caller.refused)
            await self._decline(method, entry, first, receive, send, answer)
            return
        if caller.origin:
            send = readable_by(send, caller.origin)
            if method == "OPTIONS" and "access-control-request-method" in first:
                await say(send, Answer(204, tuple(preflight(headers)), b""))
                return
        if own:
            await self._pages({**scope, "path": entry.path, "raw_path": entry.path.encode("latin-1")}, receive, send)
            return
        connection = connection_of(scope)
        found = self._route(method, entry, query, headers, first, connection)
        if isinstance(found, Answer):
            await self._decline(method, entry, first, receive, send, found)
            return
        assert self._pipeline is not None
        await self._pipeline.serve(
            Call(
                method=method,
                query=query,
                marked=ends_with_mark(scope),
                headers=headers,
                first=first,
                route=found,
                run=entry.run,
                connection=connection,
                arrived=arrived_of(scope),
                receive=receive,
                send=send,
                started=time.time(),
            )
        )

    async def _decline(
        self, method: str, entry: Entry, first: Mapping[str, str], receive: Receive, send: Send, answer: Answer
    ) -> None:
        """Answer a request that goes nowhere."""
        await drain(receive, first)
        await say(send, answer)
        if self._on_refused is not None:
            hidden = self._own_keys.are_in(entry.path, "", ())
            path = "(a path with a key)" if hidden else shown_path(entry.path[:LONGEST])
            self._on_refused(Refused(method, path, answer.status, answer.refused, answer.message, time.time()))

    def _is_own(self, method: str, path: str, query: str, first: Mapping[str, str]) -> bool:
        """Whether a path is ours. At `/` clients look whether their provider is there."""
        if path == "/":
            return method in ("GET", "HEAD") and (self._admin.allows(first) or not is_client(query, first))
        return path.startswith(OWN)

    def _route(
        self,
        method: str,
        entry: Entry,
        query: str,
        headers: list[tuple[bytes, bytes]],
        first: Mapping[str, str],
        connection: Protocol,
    ) -> Route | Answer:
        """Where a request goes, or why it goes nowhere. Who has no access takes no place of those who have."""
        path = entry.path

        def style() -> Dialect:
            return self._routes.style(path, query, first)

        if not self._access.allows(entry, first):
            self._refused("access")
            message = (
                "this gateway needs an access key; send it as the header x-holdfast-key or as /k/KEY in the address."
            )
            return problem(style(), 401, message, close=True, refused="access")
        if not connection.admit():
            return too_many_connections(style(), self._limits)
        if self._own_keys.are_in(path, query, headers):
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

    def _over(self, call: Call) -> None:
        """A request is over."""
        if call.run is not None:
            self._runs.note(call.run, call.passage, call.status)
        if self.chores is not None:
            self.chores.seen(call)
        if self._on_call is not None:
            self._on_call(call)
