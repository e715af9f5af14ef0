"""From events to a state: `project(events)` is the fold of `advance`, a pure function of both.

Events that say nothing about a session's state are passed over. A log that ends anywhere gives the state of that
moment.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.records.events import Envelope

from . import timeline_fold, window_fold
from .state import DelegateState, ProcessState, Projection, TaskState

__all__ = ["DelegateState", "ProcessState", "Projection", "TaskState", "advance", "project"]

_FOLDS = {**window_fold.FOLDS, **timeline_fold.FOLDS}


def advance(state: Projection, envelope: Envelope, seq: int) -> Projection:
    """The state after one more event; `seq` is its line in the log."""
    state = replace(state, events=seq + 1, last_at=max(state.last_at, envelope.at))
    fold = _FOLDS.get(type(envelope.payload))
    if fold is None:
        return state
    try:
        return fold(state, envelope.payload, envelope, seq)
    except (msgspec.MsgspecError, ValueError) as error:
        raise HoldfastError(
            f"event {seq + 1} of session {envelope.session} ({envelope.type}) cannot be read: {error}; "
            "use the version of Holdfast that wrote it"
        ) from error


def project(envelopes: Iterable[Envelope]) -> Projection:
    state = Projection()
    for seq, envelope in enumerate(envelopes):
        state = advance(state, envelope, seq)
    return state
