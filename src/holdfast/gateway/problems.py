"""What clients are told when something went wrong: an error in their dialect, with what to do."""

from __future__ import annotations

from msgspec import Struct
from starlette.types import Send

from holdfast.wire import ERROR_TYPES, Dialect, WireError

_KINDS = {408: "request_timeout", 426: "upgrade_required", 502: "bad_gateway", 504: "gateway_timeout"}


class Answer(Struct, frozen=True):
    """A whole response of ours. `refused` says in a word what a request was refused for before it was routed, `message`
    in a sentence."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes
    refused: str = ""
    message: str = ""


def problem(
    style: Dialect,
    status: int,
    message: str,
    *,
    retry_after: int | None = None,
    close: bool = False,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    refused: str = "",
) -> Answer:
    """An error that the client can read as one of its provider's. `close` ends the connection after it."""
    kind = ERROR_TYPES.get(status) or _KINDS.get(status, "api_error")
    body = style.write_error(WireError(status, kind, f"Holdfast: {message}"))
    found = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if retry_after is not None:
        found.append((b"retry-after", b"%d" % retry_after))
    if close:
        found.append((b"connection", b"close"))
    return Answer(status, (*found, *headers), body, refused, message)


async def say(send: Send, answer: Answer) -> None:
    """Give an answer of ours."""
    await send({"type": "http.response.start", "status": answer.status, "headers": list(answer.headers)})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})
