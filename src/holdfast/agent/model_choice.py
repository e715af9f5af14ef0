"""Which model a session's turn goes to, and who takes over: `routing` decides, here it is done and recorded."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from holdfast.records import Image, Message
from holdfast.records.events import ModelRouted

from .compaction.sizes import length
from .contract import Watch
from .routing import Conditions, Gate, ModelRoute, fallback, route
from .window.entries import AssistantTurn, Timeline, UserMessage
from .window.state import Projection

if TYPE_CHECKING:
    from .model_call import CallFailed
    from .session import Session


def route_turn(session: Session, text: str, turn: str, watch: Watch, *, images: bool = False) -> str:
    """Go to the model that a message is for; gives the message without its mention."""
    configured = session.sessions.configured(session.agent)
    composed = session.state.composed
    begun = None if composed is None or composed.model == configured.model else composed.model
    decision = route(
        text,
        configured=configured,
        session=session.state.chosen or begun,
        before=session.model if session.resets.used else None,
        conditions=_conditions(session, images=images),
    )
    _take(session, decision, turn, watch)
    return decision.text or text


def fall_back(session: Session, failed: CallFailed, turn: str, watch: Watch, tried: Collection[str]) -> bool:
    """Switch to the next model of the chain; False if there is none. The provider's error text is shown, but not
    recorded: it may quote the prompt."""
    decision = fallback(
        session.sessions.configured(session.agent).fallback,
        after=session.model,
        why=f"status {failed.status}" if failed.status else "no connection",
        tried=tried,
        conditions=_conditions(session),
    )
    if decision is None:
        return False
    watch.notice(failed.text)
    _take(session, decision, turn, watch)
    return True


def choose(session: Session, model: str) -> None:
    """The user wants another model from the next turn on."""
    session.log(ModelRouted(model=model, source="session", before=session.model), actor="user")
    if not session.resets.used and session.state.turn is None:  # a request that is on its way stays what it is
        session.switch(model)


def _take(session: Session, decision: ModelRoute, turn: str, watch: Watch) -> None:
    if decision.notice:
        watch.notice(decision.notice)
    if decision.changed or decision.passed_over or decision.model != session.model or not session.resets.used:
        session.log(decision.event(), turn=turn)
    session.switch(decision.model)
    effort = session.state.effort
    if decision.changed and effort and effort not in session.facts.efforts:
        watch.notice(f"{decision.model} takes no effort {effort!r}: it thinks as much as it does by default.")


def _conditions(session: Session, *, images: bool = False) -> Conditions:
    """Return the conditions with the conversation's current length, 0 if it was never counted. OpenRouter counts as
    caching if this conversation has read something through it."""
    return Conditions(
        tokens=0 if session.state.last is None else length(session).used,
        images=images or _has_images(session.state),
        warm=partial(warm, session),
        gate=Gate(openrouter=session.settings.cache.openrouter.caching, seen=frozenset(session.reading)),
        at=datetime.fromtimestamp(session.clock(), UTC),
    )


def warm(session: Session, model: str) -> int:
    """How much of the conversation a model has cached: all that it was last sent, or nothing."""
    if model not in session.resets.used:
        return 0
    lane, now = session.lane_of(model), session.clock()
    last = session.engine.ledger(lane, now=now).last
    return last.covered if last is not None and session.engine.fence(lane, now=now) else 0


def _has_images(state: Projection) -> bool:
    for entry in state.window.entries:
        if isinstance(entry, Timeline) and any(isinstance(i, UserMessage) and i.attachments for i in entry.items):
            return True
        if isinstance(entry, AssistantTurn) and any(_shows(message) for message in entry.results):
            return True
    return any(isinstance(item, UserMessage) and item.attachments for item in state.queue)


def _shows(message: Message) -> bool:
    return any(isinstance(part, Image) for block in message.content for part in (block, *getattr(block, "content", ())))
