"""What a provider says when it fails: error responses with their headers, and error events inside a stream."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from holdfast.records import encode_string
from holdfast.wire import ERROR_TYPES, WireError, obj

from .checks import Refusal, error_body, id_headers
from .checks.gemini import STATUSES
from .messages import HttpResponse

_MESSAGES = {
    400: "The request was refused.",
    401: "The key was refused.",
    429: "This request would exceed the rate limit. Please try again later.",
    500: "Internal server error",
    503: "The service is currently unavailable.",
    529: "Overloaded",
}


def error_of(dialect: str, status: int | None, message: str | None) -> WireError:
    """An error in the provider's words; overloaded unless a status says otherwise."""
    status = status or (529 if dialect == "anthropic" else 503)
    message = message or _MESSAGES.get(status, f"The request failed with status {status}.")
    if dialect == "anthropic":
        return WireError(status, ERROR_TYPES.get(status, "api_error"), message)
    if dialect == "gemini":
        return WireError(status, STATUSES.get(status, "UNKNOWN"), message)
    if status == 429:
        return Refusal(status, "requests", message, code="rate_limit_exceeded")
    if status >= 500:
        return Refusal(status, "server_error", message)
    return Refusal(status, "invalid_request_error", message, code="invalid_api_key" if status == 401 else None)


def failure(
    dialect: str, error: WireError, retry_after: float | None, *, request_id: str = "", now: float = 0
) -> HttpResponse:
    """The whole response of a failure. `now` dates the header that says when a limit is lifted."""
    body = error_body(dialect, error, request_id)
    headers = [("content-type", "application/json"), *id_headers(dialect, request_id)]
    if retry_after is not None:
        headers.append(("retry-after", str(math.ceil(retry_after))))  # whole seconds, as HTTP has it
        if dialect == "gemini":
            body = body[:-2] + b',"details":[' + _retry_info(retry_after) + b"]}}"
    if error.status == 429:
        headers += _limits(dialect, retry_after or 0.0, now)
    if dialect == "anthropic":
        again = error.status in (408, 409, 429) or error.status >= 500
        headers.append(("x-should-retry", "true" if again else "false"))
    return HttpResponse(error.status, tuple(headers), body)


def _limits(dialect: str, retry_after: float, now: float) -> list[tuple[str, str]]:
    """The headers that tell how much of a limit is left: nothing."""
    if dialect == "anthropic":
        reset = datetime.fromtimestamp(now + retry_after, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        names = {"limit": "50", "remaining": "0", "reset": reset}
        return [(f"anthropic-ratelimit-requests-{name}", value) for name, value in names.items()]
    if dialect == "gemini":
        return []
    names = {"limit": "500", "remaining": "0", "reset": _duration(retry_after)}
    return [(f"x-ratelimit-{name}-requests", value) for name, value in names.items()]


def _duration(seconds: float) -> str:
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"


def _retry_info(seconds: float) -> bytes:
    kind = encode_string("type.googleapis.com/google.rpc.RetryInfo")
    return obj((("@type", kind), ("retryDelay", encode_string(_duration(seconds)))))


def event(dialect: str, error: WireError, sent: tuple[bytes, ...], *, array: bool = False) -> bytes:
    """An error inside a stream, as the provider tells it once the status is out."""
    if dialect == "openai_responses":
        members = (
            ("type", b'"error"'),
            ("code", encode_string(error.kind)),
            ("message", encode_string(error.message)),
            ("param", b"null"),
            ("sequence_number", b"%d" % len(sent)),
        )
        return b"event: error\ndata: " + obj(members) + b"\n\n"
    body = error_body(dialect, error)
    if dialect == "anthropic":
        return b"event: error\ndata: " + body + b"\n\n"
    if dialect == "gemini":
        return (b"," if sent else b"[") + body + b"]" if array else b"data: " + body + b"\r\n\r\n"
    return b"data: " + body + b"\n\n"
