"""The application: who may come in, what is ours, what goes to a provider. Bare ASGI: every call passes here."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.config.sections.serving import Limits
from holdfast.identity import credentials_of
from holdfast.serving import Protocol, arrived_of, connection_of, ends_with_mark
from holdfast.transport.incoming import by_name
from holdfast.transport.quietly import place_of

from .auth import Access, Admin, Entry, enter
from .chores import Chores
from .limits import too_many_connections
from .pipeline import Pipeline
from .problems import Answer, problem, say
from .receiving import Call, drain
from .relay import Relay
from .routes import Route, Routes, is_client
from .runs import Runs

OWN = ("/healthz", "/calls/", "/analytics/", "/runs/")
SERVED = (
    "POST /v1/messages, /v1/chat/completions, /v1/responses, /v1beta/models/MODEL:generateContent, what else the "
    "providers have under /v1, /v1beta and /api, and all of it behind /anthropic, /openai, /gemini or /openrouter"
)
_LONGEST = 200

Refused = Callable[[str, str, Answer], None]
"""Is told of a request that goes to no provider: its method, its path, and what we answer."""


class App:
    """The gateway as an ASGI application. What lives in its loop is made there, before the first request."""

    def __init__(
        self,
        *,
        routes: Routes,
        access: Access,
        admin: Admin,
        pages: ASGIApp,
        refused: Callable[[str], None],
        limits: Limits,
        runs: Runs,
        make_relay: Callable[[], Relay],
        make_pipeline: Callable[[Relay, Callable[[Call], None]], Pipeline],
        make_chores: Callable[[Relay], Chores],
        on_call: Callable[[Call], None] | None = None,
        on_refused: Refused | None = None,
    ) -> None:
        self._routes, self._access, self._admin = routes, access, admin
        self._pages, self._refused = pages, refused
        self._limits, self._runs, self._on_call, self._on_refused = limits, runs, on_call, on_refused
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
        if self._is_own(method, entry.path, query, first):
            await self._pages({**scope, "path": entry.path, "raw_path": entry.path.encode("latin-1")}, receive, send)
            return
        connection = connection_of(scope)
        found = self._route(method, entry, query, first, connection)
        if isinstance(found, Answer):
            await drain(receive, first)
            await say(send, found)
            if self._on_refused is not None:
                self._on_refused(method, entry.path[:_LONGEST], found)
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

    def _is_own(self, method: str, path: str, query: str, first: Mapping[str, str]) -> bool:
        """Whether a path is ours. At `/` clients look whether their provider is there."""
        if path == "/":
            return method in ("GET", "HEAD") and (self._admin.allows(first) or not is_client(query, first))
        return path.startswith(OWN)

    def _route(
        self, method: str, entry: Entry, query: str, first: Mapping[str, str], connection: Protocol
    ) -> Route | Answer:
        """Where a request goes, or why it goes nowhere."""
        path = entry.path
        if not self._access.allows(entry, first):
            self._refused("access")
            style = self._routes.style(path, query, first)
            message = (
                "this gateway needs an access key; send it as the header x-holdfast-key or as /k/KEY in the address."
            )
            return problem(style, 401, message)
        if len(connection.connections) > self._limits.connections:
            return too_many_connections(self._routes.style(path, query, first), self._limits)
        if self._admin.is_given(credentials_of(first, query)):
            style = self._routes.style(path, query, first)
            return problem(style, 403, "the admin token is not for providers; send the provider's own key.")
        route = self._routes.find(method, path, query, first)
        if route is None:
            style = self._routes.style(path, query, first)
            return problem(style, 404, f"{method} {path[:_LONGEST]} is not served; there are {SERVED}.")
        if first.get("upgrade", "").lower() == "websocket":
            headers = ((b"upgrade", b"HTTP/1.1"),)
            message = "websockets are not served here; send a POST request."
            return problem(route.style, 426, message, close=True, headers=headers)
        return route

    def _over(self, call: Call) -> None:
        """A request is over."""
        if call.run is not None:
            self._runs.note(call.run, call.passage, call.status)
        if self.chores is not None:
            self.chores.seen(call)
        if self._on_call is not None:
            self._on_call(call)
