"""A request as it comes in: what is known of it, and its body if that is not too much."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from msgspec import Struct
from starlette.types import Message, Receive, Send

from holdfast.config.sections import LimitSettings
from holdfast.engine.passage import Passage
from holdfast.serving import Arrived, Protocol

from .problems import OwnResponse, problem, too_large
from .routes import ProviderRoute

log = logging.getLogger(__name__)

DRAIN_S = 5.0
"""Seconds in which a client that is refused may finish sending: whoever is cut off sees no answer."""


class GatewayRequest(Struct, eq=False):
    """A request under way, and what became of it."""

    method: str
    query: str
    marked: bool  # the query is empty, but the question mark is there
    headers: list[tuple[bytes, bytes]]
    first: Mapping[str, str]
    route: ProviderRoute
    run: str | None
    connection: Protocol
    arrived: Arrived
    receive: Receive
    send: Send
    started: float
    passage: Passage | None = None
    relayed: bool = False  # it goes as it came: Holdfast is switched off
    status: int = 0  # 0: it was given up before there was one
    left: bool = False
    leave: Callable[[], None] | None = None  # called when the client leaves

    def unwatch(self) -> None:
        """The client may leave from here on; behind it another request of its connection may be watched."""
        if self.connection.on_leave is self.leave:
            self.connection.on_leave = None


async def receive_body(call: GatewayRequest, limits: LimitSettings) -> bytes | OwnResponse:
    """Return the complete request body, or the refusal. Its length is compared with the declared one and with the
    parser's count, so that a part is never forwarded as the whole."""
    body = await _body(call, limits)
    if isinstance(body, OwnResponse):
        return body
    declared = call.first.get("content-length", "")
    announced = int(declared) if declared.isdecimal() else call.arrived.received
    if len(body) == announced == call.arrived.received:
        return body
    log.error("a request of %d bytes was received as %d; it was not forwarded", announced, len(body))
    message = (
        f"{len(body):,} of the {announced:,} bytes of this request arrived, so it was not forwarded; send it again."
    )
    return problem(call.route.style, 400, message, close=True)


async def _body(call: GatewayRequest, limits: LimitSettings) -> bytes | OwnResponse:
    most = limits.body_bytes
    if call.arrived.whole and len(call.arrived) <= most and not call.connection.lost:  # most came with their heads
        return call.arrived.take()
    declared = call.first.get("content-length", "")
    if declared.isdecimal() and int(declared) > most:
        return await _too_large(call, limits)
    pieces, size, more = [], 0, True
    try:
        while more and size <= most:
            async with asyncio.timeout(limits.idle_s):
                message = await _receive(call)
            more = message["more_body"]
            pieces.append(message["body"])
            size += len(message["body"])
    except TimeoutError:
        late = f"the rest of the request did not come within {limits.idle_s:g} seconds; send it again."
        return problem(call.route.style, 408, late, close=True)
    return b"".join(pieces) if size <= most else await _too_large(call, limits)


async def drain(receive: Receive, first: Mapping[str, str]) -> None:
    """Take what still comes of a request that is refused and drop it, for a while. One that waits for permission to
    send never gets it."""
    if first.get("expect", "").lower() == "100-continue":
        return
    try:
        async with asyncio.timeout(DRAIN_S):
            while (await receive()).get("more_body"):
                pass
    except TimeoutError:
        return


async def _too_large(call: GatewayRequest, limits: LimitSettings) -> OwnResponse:
    await drain(call.receive, call.first)
    return too_large(call.route.style, limits)


async def _receive(call: GatewayRequest) -> Message:
    message = await call.receive()
    if message["type"] == "http.disconnect":
        call.left = True
        raise asyncio.CancelledError
    return message
