"""How an answer is sent: the steps of a response, with whatever a fault does to them.

`plan` is pure; the server carries the steps out. An answer whose plan has no `Began` never reached its first token.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from .faults import Fault, Options, Place
from .messages import HttpResponse


class StartResponse(Struct, frozen=True):
    """Status and headers. `length` is the length of the body where it is known beforehand."""

    status: int
    headers: tuple[tuple[str, str], ...]
    length: int | None = None


class Began(Struct, frozen=True):
    """The first token leaves with the next bytes: what the request wrote can be read."""


class SendBytes(Struct, frozen=True):
    data: bytes


class Wait(Struct, frozen=True):
    seconds: float


class Abort(Struct, frozen=True):
    """Reset the connection, as a crashing server does."""


class EndResponse(Struct, frozen=True):
    """End the response as if it were complete, whether or not it is `whole`."""

    whole: bool = True


Step = StartResponse | Began | SendBytes | Wait | Abort | EndResponse

STALL = 30.0
MOST_DROPS = 100_000
"""Pieces of a dripping answer: a very long one drips in larger drops, or its plan would not fit into memory."""


def plan(
    answer: HttpResponse,
    fault: Fault | None = None,
    *,
    dialect: str = "anthropic",
    first_token_delay: float = 0.0,
    chunk_delay: float = 0.0,
) -> list[Step]:
    """The steps by which an answer goes out. An answer that is a refusal already goes out as it is."""
    if fault is not None and answer.status < 400:
        answer = _spoilt(answer, fault, dialect)
    pieces = (answer.body,) if answer.chunks is None else answer.chunks
    kind, options = (fault.kind, fault.options) if fault is not None and answer.status < 400 else (None, Options())
    if kind == "drip":
        pieces, chunk_delay = _drops(pieces, options.bytes), options.seconds or 0.0
    sent, rest = _split(pieces, options.at) if kind in ("cut", "close", "stall") else (pieces, ())
    length = len(answer.body) if answer.chunks is None and kind != "close" else None
    began: list[Step] = [Began()] if answer.status < 400 else []
    steps: list[Step] = [Wait(first_token_delay), StartResponse(answer.status, answer.headers, length)]
    steps += [*(began if sent else ()), *_sends(sent, chunk_delay)]
    if kind == "stall":
        steps.append(Wait(STALL if options.seconds is None else options.seconds))
        steps += [*(() if sent else began), *_sends(rest, chunk_delay)]
    steps.append(Abort() if kind == "cut" else EndResponse(whole=kind not in ("close", "sse_error")))
    return [step for step in steps if step != Wait(0.0)]


def _spoilt(answer: HttpResponse, fault: Fault, dialect: str) -> HttpResponse:
    """The answer with those faults that are in its bytes; the others are in the way it is sent."""
    if fault.kind == "sse_error" and answer.chunks is None:
        return fault.answer(dialect)
    if fault.kind == "sse_error":
        sent, _ = _split(answer.chunks or (), fault.options.at)
        array = (answer.chunks or (b"",))[0].startswith(b"[")
        return replace(answer, chunks=(*sent, fault.event(dialect, sent, array=array)))
    return _malformed(answer, fault.options.at) if fault.kind == "malformed" else answer


def _split(pieces: tuple[bytes, ...], at: Place) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """What is sent before the fault and what after: whole events, or bytes where there is but one piece."""
    if len(pieces) > 1:
        index = {"early": 0, "mid": len(pieces) // 2, "before_last": len(pieces) - 1}[at]
        return pieces[:index], pieces[index:]
    whole = b"".join(pieces)
    index = {"early": 0, "mid": len(whole) // 2, "before_last": max(len(whole) - 1, 0)}[at]
    return (whole[:index],) if index else (), (whole[index:],)


def _drops(pieces: tuple[bytes, ...], size: int) -> tuple[bytes, ...]:
    size = max(size, sum(map(len, pieces)) // MOST_DROPS)
    return tuple(data[i : i + size] for data in pieces for i in range(0, len(data), size))


def _sends(pieces: Iterable[bytes], delay: float) -> Iterator[Step]:
    for index, data in enumerate(pieces):
        if index:
            yield Wait(delay)
        yield SendBytes(data)


def _malformed(answer: HttpResponse, at: Place) -> HttpResponse:
    """One event whose JSON breaks off, the others untouched; of a plain body, its first half."""
    if answer.chunks is None:
        return replace(answer, body=answer.body[: len(answer.body) // 2])
    count = len(answer.chunks)
    index = {"early": 0, "mid": count // 2, "before_last": max(count - 2, 0)}[at]
    event = answer.chunks[index]
    start = max(event.find(b"data:"), 0)
    text = event[: (start + len(event)) // 2].decode("utf-8", "ignore")  # not in the middle of a character
    broken = text.rstrip().encode() + b"\n\n"
    return replace(answer, chunks=(*answer.chunks[:index], broken, *answer.chunks[index + 1 :]))
