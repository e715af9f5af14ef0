"""One request to the model: rendered, prepared by the engine, sent, its answer read as it comes, settled.

What fails here may be sent again, because no tool of the answer has begun: tools run when it has come whole.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.engine import Partial, PreparedCall
from holdfast.errors import HoldfastError
from holdfast.records import Message, Request, ResetReason
from holdfast.records.events import WindowSent
from holdfast.tools import Cancel
from holdfast.wire import DIALECTS, Answer, AnswerReader, Body, Unreadable, wire_model

from .contract import CostLine, KeyMissing, OutgoingRequest, Unreachable, Watch
from .costs import line
from .requests import named

if TYPE_CHECKING:
    from .session import Session


_MOST_OF_AN_ERROR = 1_048_576


class ModelAnswer(Struct, frozen=True, kw_only=True):
    """An answer that came whole."""

    call: str
    answer: Answer
    line: CostLine


class Stopped(Exception):
    """The user stopped the call. `partial` is the part of the answer received so far."""

    def __init__(self, partial: Message | None = None) -> None:
        super().__init__("stopped")
        self.partial = partial


class CallFailed(HoldfastError):
    """No answer, also after sending again. `status` is 0 where the connection was the reason."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class _Refused(Exception):
    """One attempt without an answer."""

    def __init__(self, status: int, text: str, pause: float | None = None, *, again: bool = True) -> None:
        super().__init__(text)
        self.status, self.text, self.pause, self.again = status, text, pause, again


async def call(
    session: Session,
    *,
    extra: tuple[Message, ...] = (),
    output_limit: int | None = None,
    turn: str | None = None,
    watch: Watch | None = None,
    cancel: Cancel | None = None,
) -> ModelAnswer:
    """Send the session's window, with `extra` messages behind it, and read the answer. With them it is the last request
    and nothing else: no result is masked that was not (law 6)."""
    watch, cancel = watch or Watch(), cancel or Cancel()
    body = parsed(session, session.request(extra, output_limit=output_limit))
    attempt = 0
    while True:
        try:
            return await _attempt(session, body, turn, watch, cancel, masking=not extra)
        except _Refused as refused:
            if not refused.again or attempt >= session.settings.agent.retries:
                raise CallFailed(refused.status, refused.text) from refused
            pause = refused.pause if refused.pause is not None else retry_after({}, attempt, now=session.clock())
            watch.retrying(refused.text, pause)
            await _pause(session, pause, cancel)
            attempt += 1


def parsed(session: Session, request: Request) -> Body:
    """A request as the engine takes it."""
    dialect = DIALECTS[session.dialect]
    body = session.engine.parse(dialect, dialect.encode(request), model=wire_model(request.model))
    if isinstance(body, Unreadable):
        raise HoldfastError(f"the conversation {session.id} cannot be sent: {body.reason}.")
    return body


async def _attempt(
    session: Session, body: Body, turn: str | None, watch: Watch, cancel: Cancel, *, masking: bool
) -> ModelAnswer:
    if cancel.is_set():
        raise Stopped
    prepared = session.prepare(body, turn=turn, masking=masking)
    reader = AnswerReader(session.dialect)
    work = asyncio.ensure_future(_exchange(session, prepared, reader, watch))
    stop = asyncio.ensure_future(cancel.wait())
    try:
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            raise Stopped(await _send(session, prepared, reader, work))
        answer = work.result()
    except asyncio.CancelledError:
        await _send(session, prepared, reader, work)
        raise
    except (_Refused, Unreachable, KeyMissing) as problem:
        session.engine.abandon(prepared, now=session.clock(), error=_kind(problem), partial=_partial(reader))
        if isinstance(problem, _Refused):
            raise
        if isinstance(problem, KeyMissing):
            raise _Refused(401, str(problem), again=False) from problem
        raise _Refused(0, str(problem)) from problem
    except BaseException as problem:
        error = type(problem).__name__
        session.engine.abandon(prepared, now=session.clock(), error=error, partial=_partial(reader))
        raise
    finally:
        stop.cancel()
        session.sessions.contents.drop(prepared)
    return _settled(session, prepared, answer, reader.output)


async def _exchange(session: Session, prepared: PreparedCall, reader: AnswerReader, watch: Watch) -> Answer:
    request = OutgoingRequest(dialect=session.dialect, model=named(session.model), raw=prepared.raw, session=session.id)
    session.log(
        WindowSent(
            call=prepared.call,
            model=session.model,
            entries=len(session.state.window.entries),
            reset=cast("ResetReason | None", prepared.core.expectation.reset),
        ),
        turn=prepared.turn,
        actor="agent",
    )
    if (unnamed := await _read(session, prepared, request, reader, watch)) is not None:
        await _read(session, prepared, unnamed, reader, watch)
    answer = reader.close()
    if not answer.whole or (answer.usage is None and not answer.message.content):
        raise Unreachable(answer.error or "the answer broke off before its end")
    return answer


async def _read(
    session: Session, prepared: PreparedCall, request: OutgoingRequest, reader: AnswerReader, watch: Watch
) -> OutgoingRequest | None:
    """Send a request and read its answer. Where the provider has forgotten the cached content that it names, gives
    the request to send instead, which names none."""
    async with session.provider.open(request) as answering:
        if answering.status >= 400:
            raw = await _error_body(aiter(answering))
            if session.sessions.contents.forgotten(prepared, answering.status, raw):
                return replace(request, raw=prepared.raw)
            _refuse(session, answering.status, dict(answering.headers), raw)
        session.sessions.contents.begin(prepared)
        async for chunk in answering:
            pieces = reader.feed(chunk)
            if reader.started:
                session.began(prepared, reader.usage)
            for piece in pieces:
                watch.piece(piece.kind, piece.text)
    return None


async def _error_body(chunks: AsyncIterator[bytes]) -> bytes:
    raw = bytearray()
    async for chunk in chunks:
        raw += chunk[: _MOST_OF_AN_ERROR - len(raw)]
        if len(raw) >= _MOST_OF_AN_ERROR:
            break
    return bytes(raw)


def _refuse(session: Session, status: int, headers: dict[str, str], raw: bytes) -> None:
    error = DIALECTS[session.dialect].read_error(status, raw)
    has_delay = any(name in headers for name in ("retry-after", "retry-after-ms"))
    pause = retry_after(headers, 0, now=session.clock()) if has_delay else None
    text = f"{session.facts.ref} answered {status}: {error.message}"
    raise _Refused(status, text, pause, again=retryable(status, headers))


async def _send(
    session: Session, prepared: PreparedCall, reader: AnswerReader, work: asyncio.Future[Answer]
) -> Message | None:
    """Give up an answer that is on its way: what had come of it."""
    work.cancel()
    try:
        await asyncio.wait({work})
        if not work.cancelled():
            work.exception()  # heard
    finally:
        partial = reader.close()
        session.engine.abandon(prepared, now=session.clock(), partial=_partial(reader))
    return partial.message if partial.message.content else None


def _partial(reader: AnswerReader) -> Partial | None:
    """What had come of an answer that has no end: the provider bills for it."""
    return Partial(reader.usage, reader.output) if reader.started else None


def _settled(session: Session, prepared: PreparedCall, answer: Answer, output: int) -> ModelAnswer:
    """`output` are the tokens of the answer, estimated, for a provider that does not tell them."""
    now, finding = session.clock(), None
    session.began(prepared)
    if answer.usage is None:
        partial = Partial(output=output)
        billed = session.engine.abandon(prepared, now=now, error="no usage reported", partial=partial)
        used = billed or prepared.core.outcome.usage(output)
    else:
        verdict = session.engine.settle(prepared, answer.usage, now=now)
        used, finding = verdict.usage, verdict.finding
    reset = prepared.core.expectation.reset
    broke = finding is not None and finding.reason is None
    cost_line = line(session.facts.ref, used, resets=(reset,) if reset else (), breaks=int(broke))
    return ModelAnswer(call=prepared.call, answer=answer, line=cost_line)


async def _pause(session: Session, seconds: float, cancel: Cancel) -> None:
    """Wait, unless the user has had enough."""
    stop = asyncio.ensure_future(cancel.wait())
    sleep = asyncio.ensure_future(session.sleep(seconds))
    try:
        await asyncio.wait({stop, sleep}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        sleep.cancel()
    if cancel.is_set():
        raise Stopped


def _kind(problem: Exception) -> str:
    return f"status {problem.status}" if isinstance(problem, _Refused) else type(problem).__name__


LONGEST = 60.0
"""Seconds that are waited at most before a request is sent again."""

_FIRST = 0.5
_AGAIN = frozenset((408, 409, 429))
_ELSEWHERE = frozenset((401, 402, 403, 404))
"""No key, no credit, no right, no such model: the same request fails again here, and not with another provider."""


def retryable(status: int | None, headers: Mapping[str, str] | None = None) -> bool:
    """Return whether a retry may help; None or 0 is a failed connection. The server's own header takes precedence."""
    header = (headers or {}).get("x-should-retry", "").strip().lower()
    if header in ("true", "false"):
        return header == "true"
    return not status or status in _AGAIN or 500 <= status <= 599


def falls_back(status: int | None) -> bool:
    """Return whether to try the next model of the chain after failed retries. Errors of the request itself (400, 413,
    422) are the same for every model."""
    return not status or status in _AGAIN or status in _ELSEWHERE or 500 <= status <= 599


def retry_after(headers: Mapping[str, str], attempt: int, *, now: float) -> float:
    """Return the seconds to wait before a retry: the server's value, else a delay that doubles with each `attempt`
    (from 0). `now` is the time to compare an HTTP date with."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return min(max(milliseconds / 1000, 0.0), LONGEST)
    named = headers.get("retry-after")
    seconds = _number(named)
    if seconds is None and named:
        seconds = _until(named, now)
    if seconds is None:
        seconds = _FIRST * 2.0 ** min(attempt, 10)
    return min(max(seconds, 0.0), LONGEST)


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else math.nan
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _until(date: str, now: float) -> float | None:
    try:
        then = parsedate_to_datetime(date)
    except (ValueError, TypeError, OverflowError):
        return None
    then = then if then.tzinfo is not None else then.replace(tzinfo=UTC)
    try:
        return then.timestamp() - now
    except (ValueError, OverflowError, OSError):
        return None
