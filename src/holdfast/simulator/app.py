"""The simulator over HTTP: the providers' paths, and `/_sim/` for whoever drives it.

Carries out what `steps` decided, step by step, and tells the exchange how far it came. Decides nothing itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from holdfast.serving import connection_of

from . import checks
from .control import Control
from .journal import Record
from .messages import HttpRequest, HttpResponse
from .provider import Exchange, Simulator
from .steps import Abort, Began, End, Start, Step, Wait, plan
from .steps import Send as SendStep

SERVED = """Holdfast simulator: a provider on this machine.

Anthropic  POST /v1/messages, /v1/messages/count_tokens, GET /v1/models
OpenAI     POST /v1/chat/completions, /v1/responses, GET /v1/models
Gemini     POST /v1beta/models/MODEL:generateContent, :streamGenerateContent, :countTokens, GET /v1beta/models,
           /v1beta/cachedContents
           The prefixes /anthropic, /openai and /gemini lead to the same.

Look       GET /_sim/entries, /_sim/requests?limit=20&session=ID, /_sim/faults, /_sim/clock
Drive      POST /_sim/faults, /_sim/clock, /_sim/reset, DELETE /_sim/faults
"""

_UPGRADE = HttpResponse(
    426,
    (("content-type", "application/json"), ("upgrade", "HTTP/1.1"), ("connection", "close")),
    b'{"error":{"message":"Websockets are not served here; send a POST request.","type":"invalid_request_error",'
    b'"param":null,"code":null}}',
)


_ENDING = HttpResponse(
    503,
    (("content-type", "application/json"),),
    b'{"type":"error","error":{"type":"api_error","message":"The simulator ends."}}',
)


class Interrupted(BaseException):
    """The server shall end, and a script still thinks. Not an `Exception`: a script must not take it for its own."""


def build(simulator: Simulator, on_request: Callable[[Record], None] | None = None) -> Starlette:
    """The application. `on_request` is told of every provider request when it is over."""
    app = Starlette(routes=Control(simulator).routes())
    app.router.redirect_slashes = False
    app.router.default = ProviderApp(simulator, on_request)
    return app


class ProviderApp:
    """Every path that is not for control: the request goes to the simulator, its answer goes out by plan."""

    def __init__(self, simulator: Simulator, on_request: Callable[[Record], None] | None = None) -> None:
        self._simulator = simulator
        self._on_request = on_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        if request.method == "GET" and scope["path"] == "/":
            await PlainTextResponse(SERVED)(scope, receive, send)
            return
        try:
            body = await request.body()
        except ClientDisconnect:
            return
        path = scope["path"]  # not the address as the client names it: a host may be anything
        call = HttpRequest(request.method, path, dict(request.headers), dict(request.query_params), body)
        if call.headers.get("upgrade", "").lower() == "websocket":
            await Sending(plan(_UPGRADE), scope, receive, send).run()
            return
        try:
            exchange = self._simulator.begin(call)
        except Interrupted:
            await Sending(plan(_ENDING), scope, receive, send).run()
            return
        dialect = exchange.record.dialect
        steps = plan(
            _identified(exchange, dialect),
            exchange.fault,
            dialect=dialect or "anthropic",
            first_token_delay=exchange.first_token_delay,
            chunk_delay=exchange.chunk_delay,
        )
        try:
            await Sending(steps, scope, receive, send, exchange).run()
        finally:
            exchange.abandon()  # of no effect on one that is finished
            if self._on_request is not None:
                self._on_request(exchange.record)


def _identified(exchange: Exchange, dialect: str) -> HttpResponse:
    """The answer with the headers by which the provider names a request, unless it has them, and whose it was."""
    answer, record = exchange.answer, exchange.record
    headers = checks.id_headers(dialect, f"req_sim{record.number:012d}") if dialect else ()
    if dialect and answer.status != 401:
        headers = (*headers, *checks.organisation_headers(dialect, record.workspace))
    missing = tuple(header for header in headers if header[0] not in dict(answer.headers))
    return HttpResponse(answer.status, (*answer.headers, *missing), answer.body, answer.chunks)


class Sending:
    """One response on its way. A client that leaves ends it at once, also in the middle of a wait."""

    def __init__(
        self, steps: Sequence[Step], scope: Scope, receive: Receive, send: Send, exchange: Exchange | None = None
    ) -> None:
        self._steps = steps
        self._scope = scope
        self._receive = receive
        self._send = send
        self._exchange = exchange
        self._began = False

    async def run(self) -> None:
        gone = asyncio.ensure_future(self._left())
        try:
            for step in self._steps:
                if gone.done():
                    return
                if isinstance(step, Wait):
                    await asyncio.wait([gone], timeout=step.seconds)
                elif isinstance(step, Abort):
                    await connection_of(self._scope).reset()
                    return
                else:
                    await self._carry_out(step)
        finally:
            gone.cancel()

    async def _carry_out(self, step: Step) -> None:
        if isinstance(step, Start):
            headers = [(name.encode(), value.encode()) for name, value in step.headers]
            if step.length is not None:
                headers.append((b"content-length", b"%d" % step.length))
            await self._send({"type": "http.response.start", "status": step.status, "headers": headers})
        elif isinstance(step, Began):
            self._began = True
            if self._exchange is not None:
                self._exchange.first_token()
        elif isinstance(step, SendStep):
            if self._exchange is not None:
                self._exchange.sent += len(step.data)
            await self._send({"type": "http.response.body", "body": step.data, "more_body": True})
        elif isinstance(step, End):
            if self._exchange is not None:  # before the last byte: who has read it all finds it in the journal
                whole = step.whole and (self._began or self._exchange.answer.status >= 400)
                (self._exchange.finish if whole else self._exchange.abandon)()
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _left(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
