"""Compaction and trimming of a session: measure, ask for a summary, log, and tell what it cost.

Until `compaction.completed` is in the log nothing has changed: whatever ends it before leaves the window as it was.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from msgspec import Struct

from holdfast.records.events import CompactionCompleted, CompactionFailed, CompactionStarted, Event, HistoryTrimmed
from holdfast.tools import Cancel
from holdfast.wire import is_too_long

from .. import memory_updates, tools_array
from ..contract import CompactionResult, CostLine, Watch
from ..costs import dollars, summed, used
from ..model_call import CallFailed, Stopped, call
from ..window.entries import Compacted, UserMessage, to_json
from ..window.renderer import render
from .carry_over import told_again
from .cut import Cut, choose, trim, turn_starts
from .sizes import Payback, Sizes, due, estimate_payback, length, limit_of, measured, message_tokens, reserve_of
from .summary import ATTEMPTS, OpenWork, UnusableSummary, composed, instruction, summary_of

if TYPE_CHECKING:
    from ..session import Session


_SHORTEST = 1_024
"""Tokens that a summary needs at least: with less room than this none is asked for."""

_GROWTH = 4_096
"""Tokens by which a conversation grows before it is looked at again whether a compaction would gain something."""

_STOPPED = (Stopped, asyncio.CancelledError, KeyboardInterrupt)

_in_vain: WeakKeyDictionary[Session, int] = WeakKeyDictionary()
"""Sessions whose user was told that compaction gains nothing, with their length at that time."""


class _Order(Struct, frozen=True, kw_only=True):
    """Why a compaction is begun, and for whom. It is a `must` where the next request would not fit without it."""

    why: str
    turn: str | None = None
    watch: Watch
    cancel: Cancel
    must: bool = False


class _Work(Struct):
    """A compaction under way."""

    order: _Order
    limit: int
    sizes: Sizes
    cut: Cut
    lines: list[CostLine]
    problems: tuple[str, ...] = ()
    attempts: int = 0


class _Quietly(Watch):
    """Who watches a turn sees nothing of a summary, but that it is waited for."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def retrying(self, why: str, seconds: float) -> None:
        self._watch.retrying(why, seconds)


async def before_request(
    session: Session, *, turn: str | None = None, watch: Watch | None = None, cancel: Cancel | None = None
) -> list[CostLine]:
    """Make room for the next request where that is due; gives what was paid for it."""
    watch, lines = watch or Watch(), list[CostLine]()
    _trim_history(session, turn, watch)
    state, settings = session.state, session.settings.agent.compaction
    now = length(session)
    needed = due(
        settings,
        context_limit=session.facts.context_limit,
        used=now.used,
        pending=now.pending,
        output_limit=session.output_limit,
        turns_since=state.turns_since_compaction if state.compactions else None,
    )
    futile = _in_vain.get(session)
    if needed is not None and (futile is None or needed.tokens >= futile + _GROWTH):
        order = _Order(why="limit", turn=turn, watch=watch, cancel=cancel or Cancel(), must=needed.must)
        compaction = await _compact(session, order, lines)
        if compaction.tokens_after < compaction.tokens_before:
            await memory_updates.refresh(session, turn)
    return lines


async def compact(session: Session, *, watch: Watch | None = None, cancel: Cancel | None = None) -> CompactionResult:
    """Put a summary in the place of old history, because the user wants it. `Stopped` if he stops it."""
    lines: list[CostLine] = []
    _in_vain.pop(session, None)
    try:
        order = _Order(why="user", watch=watch or Watch(), cancel=cancel or Cancel())
        return await _compact(session, order, lines)
    finally:
        session.lines += lines


def elide(session: Session, *, turn: str | None = None, watch: Watch | None = None) -> CompactionResult:
    """Make room without a model: the provider says that the conversation is too long even for it."""
    order = _Order(why="too_long", turn=turn, watch=watch or Watch(), cancel=Cancel(), must=True)
    work = _begin(session, order, [], most=measured(session).total // 2)
    return work if isinstance(work, CompactionResult) else _without_model(session, work)


async def _compact(session: Session, order: _Order, lines: list[CostLine]) -> CompactionResult:
    work = _begin(session, order, lines)
    if isinstance(work, CompactionResult):
        return work
    output = _output(session, work)
    while output >= _SHORTEST and work.attempts < ATTEMPTS:
        work.attempts += 1
        try:
            text = await _summary(session, work, output)
        except UnusableSummary as problem:
            work.problems += (str(problem),)
        except CallFailed as failed:
            if is_too_long(failed.status, failed.text):
                break
            error = f"status {failed.status}" if failed.status else "not reachable"
            _failed(session, work, error, last=not order.must)
            if not order.must:  # the conversation still fits, and later there may be an answer
                if order.why == "user":
                    raise
                order.watch.notice(failed_notice(failed.text))
                return _compaction(work, work.sizes.total)
            return _without_model(session, work)
        except BaseException as problem:
            _failed(session, work, "stopped" if isinstance(problem, _STOPPED) else type(problem).__name__, last=True)
            if isinstance(problem, Stopped):  # what had come of the summary is no answer to the user
                raise Stopped from problem
            raise
        else:
            return _completed(session, work, text)
    if work.problems:
        _failed(session, work, work.problems[-1], last=False)
    return _without_model(session, work)


def _begin(
    session: Session, order: _Order, lines: list[CostLine], *, most: int | None = None
) -> _Work | CompactionResult:
    """Measure and decide what goes; what became of it where nothing would be gained."""
    settings, sizes = session.settings.agent.compaction, measured(session)
    limit = limit_of(settings, session.facts.context_limit, session.output_limit)
    limit = limit if most is None else min(limit, most)
    cut = choose(
        session.state.window.entries,
        sizes.entries,
        fixed=sizes.fixed,
        anchor=settings.anchor_turns,
        keep=settings.keep_recent_tokens,
        limit=limit,
    )
    if cut is None or session.state.open_calls:
        if session not in _in_vain:
            now = length(session)  # with the message that waits: it may be what is too long
            order.watch.notice(in_vain_notice(now.used + now.pending, order.why))
        _in_vain[session] = sizes.total
        return CompactionResult(
            why=order.why, tokens_before=sizes.total, tokens_after=sizes.total, elided=False, attempts=0
        )
    session.log(CompactionStarted(tokens=sizes.total, limit=limit, why=order.why), turn=order.turn)
    return _Work(order, limit, sizes, cut, lines)


def _output(session: Session, work: _Work) -> int:
    """Return the token limit of the summary: what is reserved for it, or what is left of the context."""
    context = session.facts.context_limit
    request = round(message_tokens(instruction(("",) * (ATTEMPTS - 1))) * work.sizes.ratio)
    room = context - work.sizes.total - request
    return min(reserve_of(session.settings.agent.compaction, context), session.facts.output_limit, room)


async def _summary(session: Session, work: _Work, output: int) -> str:
    """The text that takes the place of what goes, with the model's summary in it."""
    answered = await call(
        session,
        extra=instruction(work.problems),
        output_limit=output,
        turn=work.order.turn,
        watch=_Quietly(work.order.watch),
        cancel=work.order.cancel,
    )
    work.lines.append(answered.line)
    text = _text(session, work, summary_of(answered.answer))
    if text is None:
        raise UnusableSummary("it is longer than what it replaces")
    return text


def _text(session: Session, work: _Work, summary: str | None) -> str | None:
    state, cut = session.state, work.cut
    entries = state.window.entries
    open_work = OpenWork(
        files=state.files, tasks=state.tasks, processes=state.running_processes, delegates=state.running_delegates
    )
    return composed(
        entries[cut.head : cut.cut],
        entries[cut.cut :],
        open_work,
        summary=summary,
        fits=lambda text: work.sizes.of(text) < cut.dropped,
    )


def _without_model(session: Session, work: _Work) -> CompactionResult:
    return _completed(session, work, _text(session, work, None) or "", elided=True)


def _completed(session: Session, work: _Work, text: str, *, elided: bool = False) -> CompactionResult:
    cut, size = work.cut, work.sizes.of(text)
    cost = summed(line.cost for line in work.lines)
    after = cut.kept + size
    reckoned = estimate_payback(
        session.facts.ref, before=work.sizes.total, after=after, behind=cut.behind + size, cost=cost
    )
    entry = Compacted(at=session.now_us(), text=text, replaced=cut.cut - cut.head)
    session.log(
        CompactionCompleted(
            tokens_before=work.sizes.total,
            tokens_after=after,
            summary=text,
            elided=elided,
            cost=cost,
            used=used(work.lines),
            head=cut.head,
            cut=cut.cut,
            entry=to_json(entry),
            payback=reckoned.payback,
        ),
        turn=work.order.turn,
    )
    _reset(session, work.order.turn)
    _in_vain.pop(session, None)
    compaction = _compaction(work, after, elided, reckoned)
    work.order.watch.notice(done_notice(compaction))
    return compaction


def _compaction(
    work: _Work,
    after: int,
    elided: bool = False,
    reckoned: Payback = Payback(),  # noqa: B008  a frozen value
) -> CompactionResult:
    return CompactionResult(
        why=work.order.why,
        tokens_before=work.sizes.total,
        tokens_after=after,
        elided=elided,
        attempts=work.attempts,
        cost=summed(line.cost for line in work.lines),
        rewrite_cost=reckoned.rewrite,
        saved_per_request=reckoned.saved,
        payback=reckoned.payback,
    )


def _failed(session: Session, work: _Work, error: str, *, last: bool) -> None:
    """Log that no summary was made; the next request continues where the instruction stood and gives this as its
    reason. The entry carries the cost only where it is the `last` one for this compaction."""
    lines = work.lines if last else []
    cost = summed(line.cost for line in lines) if lines else None
    spent = used(lines) if lines else ()
    session.log(CompactionFailed(attempts=work.attempts, error=error, cost=cost, used=spent), turn=work.order.turn)


def _reset(session: Session, turn: str | None) -> None:
    """The prefix is lost behind the front: tools and skills hear of what is left."""
    tools_array.record(session, session.box.at_reset(render(session.state.window, session.static)), turn)
    session.keep_state(turn=turn)  # guides and skills have changed also where the array has not


def _trim_history(session: Session, turn: str | None, watch: Watch) -> None:
    """Leave out old turns where `agent.history_turns` asks for that and it is time."""
    turns, entries = session.settings.agent.history_turns, session.state.window.entries
    coming = any(isinstance(item, UserMessage) for item in session.state.queue)
    if not turns or not coming:
        return
    lost = session.reset is not None or not session.engine.fence(session.lane, now=session.clock())
    cut = trim(entries, turns, lost=lost)
    if cut is None:
        return
    remaining = (*entries[: cut.head], *entries[cut.cut :])
    repeated: tuple[Event, ...] = told_again(entries[cut.head : cut.cut], remaining)
    session.log(HistoryTrimmed(head=cut.head, cut=cut.cut), *repeated, turn=turn)
    _reset(session, turn)
    watch.notice(trimmed_notice(len(turn_starts(remaining)) + 1))


def done_notice(compaction: CompactionResult) -> str:
    how = "outlined without the model" if compaction.elided else "summarized"
    sentences = [f"Older history was {how}: {compaction.tokens_before:,} tokens became {compaction.tokens_after:,}."]
    if compaction.cost is not None and compaction.rewrite_cost is not None:
        sentences.append(
            f"It cost {dollars(compaction.cost)}, and the next request costs {dollars(compaction.rewrite_cost)} more."
        )
    if compaction.saved_per_request is not None and compaction.payback is not None:
        each = dollars(compaction.saved_per_request)
        sentences.append(f"Each request is {each} cheaper, so it pays for itself after {compaction.payback:,} of them.")
    elif compaction.saved_per_request is not None:
        sentences.append("It does not pay for itself; it makes room.")
    return " ".join(sentences)


def in_vain_notice(tokens: int, why: str) -> str:
    advice = "" if why == "user" else " Lower agent.compaction.keep_recent_tokens, or begin a new session."
    return f"The conversation has {tokens:,} tokens; a summary would not make it shorter, so nothing was done.{advice}"


def failed_notice(problem: str) -> str:
    return f"Older history could not be summarized and stays as it is for now: {problem}"


def trimmed_notice(turns: int) -> str:
    """`turns` are those that stay, with the one that begins."""
    range_ = "this turn" if turns == 1 else f"the last {turns:,} turns"
    return f"Older history is left out: {range_} and what follows are sent. The log keeps everything."
