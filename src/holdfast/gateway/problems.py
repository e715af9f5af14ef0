"""Errors for clients in their dialect, with what to do."""

from __future__ import annotations

from msgspec import Struct
from starlette.types import Send

from holdfast.config.sections import LimitSettings
from holdfast.upstream import Address, UpstreamError
from holdfast.wire import ERROR_TYPES, Dialect, WireError

RETRY_S = 1
"""Seconds after which a client may try again: calls end all the time."""

_KINDS = {408: "request_timeout", 426: "upgrade_required", 502: "bad_gateway", 504: "gateway_timeout"}


class OwnResponse(Struct, frozen=True):
    """A whole response of the gateway's own."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    refused: str = ""  # what a request was refused for before it was routed, in a word
    message: str = ""  # the same in a sentence


def problem(
    style: Dialect,
    status: int,
    message: str,
    *,
    retry_after: int | None = None,
    close: bool = False,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    refused: str = "",
) -> OwnResponse:
    """An error that the client can read as one of its provider's. `close` ends the connection after it."""
    kind = ERROR_TYPES.get(status) or _KINDS.get(status, "api_error")
    body = style.write_error(WireError(status, kind, f"Holdfast: {message}"))
    first = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if retry_after is not None:
        first.append((b"retry-after", b"%d" % retry_after))
    if close:
        first.append((b"connection", b"close"))
    return OwnResponse(status, (*first, *headers), body, refused, message)


async def send_own(send: Send, response: OwnResponse) -> None:
    await send({"type": "http.response.start", "status": response.status, "headers": list(response.headers)})
    await send({"type": "http.response.body", "body": response.body, "more_body": False})


def too_many_streams(style: Dialect, limits: LimitSettings) -> OwnResponse:
    most = limits.streams_per_tenant
    return problem(
        style,
        429,
        f"{most} calls of this key are open already (gateway.limits.streams_per_tenant); try again when one ends.",
        retry_after=RETRY_S,
    )


def too_many_connections(style: Dialect, limits: LimitSettings) -> OwnResponse:
    most = limits.connections
    return problem(
        style,
        503,
        f"{most} connections are open already (gateway.limits.connections); try again later.",
        retry_after=RETRY_S,
        close=True,
        refused="connections",
    )


def too_large(style: Dialect, limits: LimitSettings) -> OwnResponse:
    most = limits.body_bytes
    return problem(
        style,
        413,
        f"the request is larger than {most:,} bytes (gateway.limits.body_bytes); send less or raise the limit.",
        close=True,
    )


def no_answer(upstream: Address, error: UpstreamError, limits: LimitSettings) -> tuple[int, str]:
    """The status and the sentence for a request that its provider did not answer."""
    where = f"upstream.{upstream.name} ({upstream.host} port {upstream.port})"
    match error.kind:
        case "read_timeout":
            reason = f"did not answer within {limits.idle_s:g} seconds (gateway.limits.idle_s); try again later."
        case "connect_timeout":
            reason = (
                f"could not be connected to within {limits.connect_s:g} seconds (gateway.limits.connect_s); "
                "try again later."
            )
        case "untrusted":
            return 502, f"no secure connection to {where} can be made: {error.reason}."
        case "tls":
            return 502, f"no secure connection to {where} can be made; check its address and certificate."
        case "unreachable":
            reason = f"cannot be reached ({error.reason}); check the address and the network."
        case "not_http":
            reason = "answered with something that is not HTTP; check the address."
        case "invalid":
            reason = f"answered with {error.reason}; check the address."
        case "closed":
            reason = "closed the connection without an answer; try again."
    return 504 if error.kind.endswith("timeout") else 502, f"{where} {reason}"


def broken_off(upstream: Address, error: UpstreamError, limits: LimitSettings) -> str:
    """Return briefly why an answer ended early."""
    if error.kind == "read_timeout":
        return f"{upstream.host} was silent for {limits.idle_s:g} seconds"
    return f"{upstream.host} broke off"
