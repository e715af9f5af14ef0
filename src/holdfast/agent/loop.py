"""One turn of the user's: ask the model, run the tools it calls, ask again, until it has answered.

Everything that happens is an event of the session before anything is built on it, so a turn that is cut anywhere
leaves a conversation that can go on.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.records import Document, Image, Message, Text, ToolUse
from holdfast.records.events import AttemptFailed, TurnAnswered, TurnCancelled, TurnCompleted, TurnStarted
from holdfast.tools import Cancel
from holdfast.wire import Answer, is_too_long

from . import compaction, memory_updates, model_choice, tools_array
from .contract import CostLine, Ended, Turn, Watch
from .costs import total, used
from .model_call import CallFailed, ModelAnswer, Stopped, call, falls_back
from .window.entries import AssistantTurn, Entry, to_json

if TYPE_CHECKING:
    from .session import Session

CUT = "The answer was cut at the limit of {limit} tokens. Go on where it ended."
EMPTY = "The last answer was empty. Answer, or call a tool."
REFUSED = "The last message got no answer: it was refused."
INTERRUPTED = "The user interrupted the last answer."
CAPPED = "The turn was ended after {calls} requests; what was under way may be unfinished."
_MOST_REPEATS = 2
"""How often in a turn an answer that is empty or cut is asked for again."""


class _Running(Struct):
    """A turn under way."""

    id: str
    watch: Watch
    cancel: Cancel
    lines: list[CostLine]
    again: int = 0
    text: str = ""
    cut: int = 0
    """Calls that were stopped."""
    tried: list[str] = []
    """Models that did not answer."""


async def run_turn(
    session: Session,
    text: str,
    *,
    attachments: tuple[Image | Document, ...] = (),
    watch: Watch | None = None,
    cancel: Cancel | None = None,
) -> Turn:
    turn = _Running(session.new_id(), watch or Watch(), cancel or Cancel(), [])
    session.answer_open_calls()  # of a turn whose results could not be written
    helped = session.state.delegated_cost
    text = model_choice.route_turn(session, text, turn.id, turn.watch, images=bool(attachments))
    attached = to_json(attachments) if attachments else ""
    session.log(TurnStarted(text=text, attachments=attached), turn=turn.id, actor="user")
    problem = ""
    try:
        ended = await _steps(session, turn)
    except Stopped as stopped:
        _keep_partial(session, turn, stopped.partial)
        ended = "cancelled"
    except CallFailed as failed:
        ended, problem = "failed", failed.text
    except HoldfastError:
        with suppress(HoldfastError):  # it cannot be asked at all, or not be written down
            session.log(TurnCompleted(ended="failed", calls=len(turn.lines)), turn=turn.id, actor="agent")
        raise
    except asyncio.CancelledError:
        with suppress(HoldfastError):  # closed or full: whoever cancels has to see that it ended by that
            turn.cut += len(session.state.open_calls)
            session.answer_open_calls(turn.id)
            session.log(TurnCancelled(open_tool_calls=turn.cut), turn=turn.id, actor="user")
        raise
    line = total(turn.lines, session.model)
    if ended == "cancelled":
        session.log(TurnCancelled(open_tool_calls=turn.cut), turn=turn.id, actor="user")
    else:
        over = TurnCompleted(text=turn.text, ended=ended, calls=len(turn.lines), cost=line.cost)
        session.log(over, turn=turn.id, actor="agent")
        session.box.turn_over()
    session.keep_state()
    helped = session.state.delegated_cost - helped
    return Turn(id=turn.id, ended=ended, text=turn.text, line=line, problem=problem, delegated=helped)


async def _steps(session: Session, turn: _Running) -> Ended:
    """Requests and tools in turn, until the model calls no more tools."""
    most = session.settings.agent.max_calls
    while len(turn.lines) < most:
        answered = await _request_answer(session, turn)
        if answered is None:
            continue
        calls = _calls(answered.answer.message)
        if not calls:
            if answered.answer.stop == "length" and _once_more(turn):
                limit = session.output_limit
                session.log(AttemptFailed(feedback=CUT.format(limit=limit)), turn=turn.id)
                continue
            if answered.answer.stop == "paused" and _once_more(turn):
                continue
            return "completed"
        await _run(session, turn, calls)
        if turn.cancel.is_set():
            return "cancelled"
    session.log(AttemptFailed(feedback=CAPPED.format(calls=most)), turn=turn.id)
    return "capped"


async def _request_answer(session: Session, turn: _Running) -> ModelAnswer | None:
    """Request and log one answer of the model; None if the request has to be sent again."""
    turn.lines += await compaction.before_request(session, turn=turn.id, watch=turn.watch, cancel=turn.cancel)
    tools_array.before_request(session, turn=turn.id, watch=turn.watch, first=not turn.lines)
    await memory_updates.surface(session, turn.id)
    session.flush(turn.id)
    try:
        answered = await call(session, turn=turn.id, watch=turn.watch, cancel=turn.cancel)
    except CallFailed as failed:
        if is_too_long(failed.status, failed.text) and _once_more(turn):
            compaction.elide(session, turn=turn.id, watch=turn.watch)
            await memory_updates.refresh(session, turn.id)
            return None
        turn.tried.append(session.model)
        if falls_back(failed.status) and model_choice.fall_back(session, failed, turn.id, turn.watch, turn.tried):
            return None
        raise
    turn.lines.append(answered.line)
    answered = replace(answered, answer=_distinct(answered.answer, session.state.window.entries))
    if not answered.answer.message.content:
        refused = answered.answer.stop == "refusal"
        feedback = REFUSED if refused else EMPTY
        session.log(AttemptFailed(feedback=feedback, cost=answered.line.cost, used=used([answered.line])), turn=turn.id)
        if refused or not _once_more(turn):
            raise CallFailed(200, f"{session.model} {'refused to answer' if refused else 'gave an empty answer'}.")
        return None
    turn.text = _text(answered.answer.message) or turn.text
    _keep(session, turn, answered)
    turn.watch.answered(answered.answer.message, answered.line)
    return answered


def _distinct(answer: Answer, entries: tuple[Entry, ...]) -> Answer:
    """Return the answer with call ids that are unique in the conversation: some servers number calls anew in each
    answer, and edits of one result would apply to another one."""
    if not _calls(answer.message):
        return answer
    taken = {each.id for entry in entries if isinstance(entry, AssistantTurn) for each in _calls(entry.message)}
    content = list(answer.message.content)
    for place, block in enumerate(content):
        if isinstance(block, ToolUse):
            number, id_ = 1, block.id
            while id_ in taken:
                number, id_ = number + 1, f"{block.id}-{number + 1}"
            taken.add(id_)
            content[place] = replace(block, id=id_)
    return replace(answer, message=replace(answer.message, content=tuple(content)))


def _keep(session: Session, turn: _Running, answered: ModelAnswer) -> None:
    answer, used = answered.answer, answered.line.usage
    session.log(
        TurnAnswered(
            call=answered.call,
            model=session.model,
            dialect=session.dialect,
            message=to_json(answer.message),
            stop=answer.stop,
            input=used.input,
            read=used.read,
            written=used.written,
            output=used.output,
            cost=answered.line.cost,
        ),
        turn=turn.id,
        actor="agent",
    )


def _keep_partial(session: Session, turn: _Running, partial: Message | None) -> None:
    """What the user saw of an answer that was stopped is part of the conversation; calls that it began are not."""
    texts = () if partial is None else tuple(b for b in partial.content if isinstance(b, Text) and b.text.strip())
    if texts:
        message = Message("assistant", tuple(Text(block.text) for block in texts))
        turn.text = _text(message)
        session.log(
            TurnAnswered(
                call="", model=session.model, dialect=session.dialect, message=to_json(message), stop="cancelled"
            ),
            turn=turn.id,
            actor="agent",
        )
        session.log(AttemptFailed(feedback=INTERRUPTED), turn=turn.id)


async def _run(session: Session, turn: _Running, calls: tuple[ToolUse, ...]) -> None:
    """Answer the calls. Whatever happens, each of them is answered."""
    for each in calls:
        turn.watch.calling(each)
    with session.watched(turn.watch, turn.cancel):
        ran = await session.box.run(calls, turn=turn.id, cancel=turn.cancel)
    session.tools_answered(ran.messages, turn.id)
    turn.cut += sum(answer.cancelled for answer in ran.answers)
    for answer in ran.answers:
        turn.watch.called(answer)


def _once_more(turn: _Running) -> bool:
    turn.again += 1
    return turn.again <= _MOST_REPEATS


def _calls(message: Message) -> tuple[ToolUse, ...]:
    return tuple(block for block in message.content if isinstance(block, ToolUse))


def _text(message: Message) -> str:
    return "\n\n".join(block.text for block in message.content if isinstance(block, Text) and block.text.strip())
