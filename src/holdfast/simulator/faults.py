"""Faults on demand: a queue of orders for what shall go wrong with coming requests.

The errors that replace an answer are here, in the provider's format; the effects on sending one are in `steps`. Nothing
here knows HTTP servers or the cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.records import Usage, encode_string, usage
from holdfast.wire import ERROR_TYPES, WireError, obj

from .checks import Refusal, error_body, id_headers
from .checks.gemini import STATUSES
from .messages import HttpRequest, HttpResponse

Kind = Literal["status", "sse_error", "cut", "close", "stall", "drip", "malformed", "wrong_usage"]
Count = Literal["input", "read", "written", "output"]
Place = Literal["early", "mid", "before_last"]
Seconds = Annotated[float, Meta(ge=0, le=3600)]
Natural = Annotated[int, Meta(ge=0)]


class FaultMatch(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which requests a fault is for: part of the path, beginning of the model, headers with these values."""

    path: str = ""
    model: str = ""
    header: Mapping[str, str] = {}

    def fits(self, call: HttpRequest, model: str) -> bool:
        headers = {name.lower(): value for name, value in self.header.items()}
        return (
            self.path in call.path
            and model.startswith(self.model)
            and all(call.headers.get(name) == value for name, value in headers.items())
        )


class Options(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How a fault looks; each kind reads its own.

    status: `status`, `message`, `retry_after`. sse_error: `status` and `message`, `at`. cut, close, malformed: `at`.
    stall: `seconds`, `at`. drip: `bytes` at a time, `seconds` between them. wrong_usage: every count times `factor`,
    then those of `set`: input, read, written, output.
    """

    status: Annotated[int, Meta(ge=400, le=599)] | None = None
    message: str | None = None
    retry_after: Seconds | None = None
    at: Place = "mid"
    seconds: Seconds | None = None
    bytes: Annotated[int, Meta(ge=1)] = 1
    factor: Annotated[float, Meta(ge=0, le=1_000_000)] = 1.0
    set: Mapping[Count, Natural] = {}


class Fault(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One order. It skips `after` matching requests, then strikes `times` (0: until it is removed)."""

    kind: Kind
    times: Natural = 1
    after: Natural = 0
    match: FaultMatch = FaultMatch()
    options: Options = Options()

    @property
    def label(self) -> str:
        """The fault in a few words, for lists of requests."""
        details = {"status": str(self.options.status)}
        details |= dict.fromkeys(("sse_error", "cut", "close", "stall", "malformed"), self.options.at)
        return f"{self.kind} {details.get(self.kind, '')}".strip()

    @property
    def status(self) -> int | None:
        """The status it answers with instead of a response; None if the request is served."""
        return self.options.status if self.kind == "status" else None

    def answer(self, dialect: str, *, request_id: str = "", now: float = 0.0) -> HttpResponse:
        """The error response, in the provider's form."""
        error = error_of(dialect, self.options.status, self.options.message)
        return failure(dialect, error, self.options.retry_after, request_id=request_id, now=now)

    def event(self, dialect: str, sent: tuple[bytes, ...], *, array: bool = False) -> bytes:
        """The error event after what was already sent of a stream, or of one that is a JSON array."""
        return event(dialect, error_of(dialect, self.options.status, self.options.message), sent, array=array)

    def reported(self, used: Usage) -> Usage:
        """Return the usage for the response: the true one unless this fault changes it."""
        if self.kind != "wrong_usage":
            return used
        wrong, factor = self.options.set, self.options.factor
        writes = {ttl: round(tokens * factor) for ttl, tokens in used.writes}
        if "written" in wrong:
            writes = {next(iter(writes), "5m"): wrong["written"]}
        return usage(
            input=wrong.get("input", round(used.input * factor)),
            read=wrong.get("read", round(used.read * factor)),
            output=wrong.get("output", round(used.output * factor)),
            writes=writes,
        )


class Faults:
    """The orders in the sequence they came; the first that fits a request is the one that strikes."""

    def __init__(self) -> None:
        self._queue: list[Fault] = []

    def add(self, fault: Fault) -> None:
        self._queue.append(fault)

    def listing(self) -> list[Fault]:
        """Return the pending faults with the remaining `times` and `after`."""
        return list(self._queue)

    def clear(self) -> int:
        """Forget all orders; how many there were."""
        count = len(self._queue)
        self._queue.clear()
        return count

    def take(self, call: HttpRequest, model: str, *, refused: bool = False) -> Fault | None:
        """The fault for this request, if one strikes. Those before it that still skip count it as seen.

        A request that is refused anyway has no answer to spoil: only a `status` strikes it.
        """
        for index, fault in enumerate(self._queue):
            if not fault.match.fits(call, model) or (refused and fault.status is None):
                continue
            if fault.after:
                self._queue[index] = replace(fault, after=fault.after - 1)
                continue
            if fault.times == 1:
                del self._queue[index]
            elif fault.times:
                self._queue[index] = replace(fault, times=fault.times - 1)
            return fault
        return None


def read_faults(raw: bytes) -> list[Fault]:
    """The orders in a control request: one object, or a list of them."""
    try:
        value = msgspec.json.decode(raw.decode("utf-8"))
        faults = [msgspec.convert(each, Fault) for each in (value if isinstance(value, list) else [value])]
    except msgspec.ValidationError as error:
        raise HoldfastError(
            f"the fault is not understood: {_plain(error)}; see `kind`, `times`, `after`, `match` and "
            "`options` in the simulator's documentation."
        ) from error
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise HoldfastError(f"the fault is not JSON ({error}); send an object with at least a `kind`.") from error
    for fault in faults:
        _check(fault)
    return faults


def _check(fault: Fault) -> None:
    if fault.kind == "status" and fault.options.status is None:
        raise HoldfastError("a `status` fault needs `options.status`, a number from 400 to 599.")
    if fault.kind == "wrong_usage" and fault.options.factor == 1 and not fault.options.set:
        raise HoldfastError("a `wrong_usage` fault needs `options.factor` or `options.set`, or it changes nothing.")


def _plain(error: msgspec.ValidationError) -> str:
    return str(error).replace("`$.", "`").replace("`", "'")


_MESSAGES = {
    400: "The request was refused.",
    401: "The key was refused.",
    429: "This request would exceed the rate limit. Please try again later.",
    500: "Internal server error",
    503: "The service is currently unavailable.",
    529: "Overloaded",
}


def error_of(dialect: str, status: int | None, message: str | None) -> WireError:
    """Return an error in the provider's format; "overloaded" unless `status` is given."""
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
