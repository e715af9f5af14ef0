"""The simulator over HTTP: the providers' paths, and `/_sim/` for its control.

Carries out what `steps` decided, step by step, and reports its progress to the exchange. Decides nothing itself.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from holdfast.errors import HoldfastError
from holdfast.serving import connection_of

from . import checks
from .clock import VirtualClock
from .faults import read_faults
from .journal import Record
from .messages import HttpRequest, HttpResponse
from .provider import Exchange, Simulator
from .steps import Abort, Began, EndResponse, StartResponse, Step, Wait, plan
from .steps import SendBytes as SendStep

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
    """Build the application. `on_request` is called after every provider request."""
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
        if isinstance(step, StartResponse):
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
        elif isinstance(step, EndResponse):
            if self._exchange is not None:  # before the last byte: who has read it all finds it in the journal
                whole = step.whole and (self._began or self._exchange.answer.status >= 400)
                (self._exchange.finish if whole else self._exchange.abandon)()
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _left(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


class Move(Struct, frozen=True, forbid_unknown_fields=True):
    """How far to move the clock."""

    advance: float


class Control:
    """The paths under `/_sim/`: what the cache holds, what each request read and wrote, faults and time."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator

    def routes(self) -> list[Route]:
        return [
            Route("/_sim/entries", _guarded(self.entries), methods=["GET"]),
            Route("/_sim/requests", _guarded(self.requests), methods=["GET"]),
            Route("/_sim/faults", _guarded(self.faults), methods=["GET"]),
            Route("/_sim/faults", _guarded(self.order), methods=["POST"]),
            Route("/_sim/faults", _guarded(self.forget), methods=["DELETE"]),
            Route("/_sim/clock", _guarded(self.clock), methods=["GET"]),
            Route("/_sim/clock", _guarded(self.move), methods=["POST"]),
            Route("/_sim/reset", _guarded(self.reset), methods=["POST"]),
            *(Route(path, Unknown()) for path in ("/_sim", "/_sim/{path:path}")),
        ]

    async def entries(self, request: Request) -> Response:
        simulator = self._simulator
        return _json({"now": simulator.clock.now(), "entries": simulator.entries(), "token_hours": simulator.stored()})

    async def requests(self, request: Request) -> Response:
        limit = request.query_params.get("limit", "0")
        if not (limit.isdecimal() and len(limit) < 10):
            limit = limit[:20]
            raise HoldfastError(f"limit={limit} is not a number of requests; give one, or leave it out for all.")
        session = request.query_params.get("session", "")
        return _json({"requests": self._simulator.requests(limit=int(limit), session=session)})

    async def faults(self, request: Request) -> Response:
        return _json({"faults": self._simulator.faults.listing()})

    async def order(self, request: Request) -> Response:
        for fault in read_faults(await request.body()):
            self._simulator.faults.add(fault)
        return _json({"faults": self._simulator.faults.listing()}, 201)

    async def forget(self, request: Request) -> Response:
        return _json({"removed": self._simulator.faults.clear()})

    async def clock(self, request: Request) -> Response:
        clock = self._simulator.clock
        return _json({"now": clock.now(), "virtual": isinstance(clock, VirtualClock)})

    async def move(self, request: Request) -> Response:
        clock = self._simulator.clock
        if not isinstance(clock, VirtualClock):
            raise HoldfastError("the clock is the machine's and cannot be moved; start with `--virtual-clock`.")
        try:
            move = msgspec.json.decode(await request.body(), type=Move)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise HoldfastError(f'the move is not understood ({error}); send {{"advance": SECONDS}}.') from error
        return _json({"now": clock.advance(move.advance), "virtual": True})

    async def reset(self, request: Request) -> Response:
        """Forget every entry and every fault; the list of requests stays."""
        self._simulator.reset()
        self._simulator.faults.clear()
        return _json({"reset": True})


class Unknown:
    """Whatever else is asked under this path, with any method."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sentence = f"{scope['method']} {scope['path']} is not served here; GET / lists what is."
        await _json({"error": sentence}, 400)(scope, receive, send)


Handler = Callable[[Request], Awaitable[Response]]


def _guarded(handler: Handler) -> Handler:
    """Bad input is answered with 400 and one sentence."""

    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except HoldfastError as problem:
            return _json({"error": str(problem)}, 400)
        except ClientDisconnect:
            return Response(status_code=400)  # nobody reads it

    return guarded


def _json(value: Any, status: int = 200) -> Response:
    """JSON for people: a line for each member."""
    try:
        text = msgspec.json.format(msgspec.json.encode(value))
    except UnicodeEncodeError:  # half of a surrogate pair in a client's words, which must be escaped
        text = json.dumps(msgspec.to_builtins(value), indent=2).encode()
    return Response(text + b"\n", status, media_type="application/json")
