"""The paths under `/_sim/`: what the cache holds, what each request read and wrote, faults and time."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from holdfast.errors import HoldfastError

from .clock import VirtualClock
from .faults import read_faults
from .provider import Simulator


class Move(Struct, frozen=True, forbid_unknown_fields=True):
    """How far to move the clock."""

    advance: float


class Control:
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
