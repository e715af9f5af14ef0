"""Why the next request of a model may depart from its last one: found from the log, so that it is known after a crash.

Each model of a session has a lane of its own, and each lane has to be told the reason once.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.records import ResetReason
from holdfast.records.events import (
    CompactionCompleted,
    CompactionFailed,
    CompactionStarted,
    EffortSet,
    Envelope,
    Event,
    HistoryTrimmed,
    MemorySurfaced,
    SessionComposed,
    SessionRedeclared,
    SessionRefreshed,
    SessionResumed,
    SessionSalvaged,
    TurnAnswered,
    VolatileChanged,
    WindowSent,
)

_MEMORY: ResetReason = "memory_block_changed"
_VOLATILE: ResetReason = "volatile_system_changed"
EFFORT: ResetReason = "effort_changed"
_REASONS: Mapping[type[Event], ResetReason] = {
    SessionRedeclared: "tools_redeclared",
    MemorySurfaced: _MEMORY,
    VolatileChanged: _VOLATILE,
    EffortSet: EFFORT,
    SessionRefreshed: "session_load",
    SessionSalvaged: "session_load",  # what was lost of the log may have changed what was sent
    CompactionCompleted: "compaction",
    CompactionFailed: "compaction",
    HistoryTrimmed: "history_trimmed",
}
_STRENGTH: dict[str, int] = {reason: number for number, reason in enumerate(dict.fromkeys(_REASONS.values()))}
"""Of several reasons the one that explains the earliest change."""


class Resets:
    """The pending resets of each model used."""

    def __init__(self) -> None:
        self.used: dict[str, None] = {}
        self._pending: dict[str, set[str]] = {}
        self._texts: dict[str, str] = {}  # system texts and settings that may change, by the reason that it is then
        self._sent: dict[str, dict[str, str]] = {}  # as each was last sent them: one as it was is no reason
        self._leaving: dict[str, set[str]] = {}  # reasons of requests that are logged and not answered yet
        self._asking: set[str] | None = None  # models that were asked for a summary which has not come yet

    def take(self, envelope: Envelope) -> None:
        payload = envelope.payload
        self._ask(payload)
        if isinstance(payload, WindowSent):
            self._leave(payload.model)
        elif isinstance(payload, TurnAnswered):
            self._leaving.pop(payload.model, None)
        elif isinstance(payload, VolatileChanged):
            self._texts[_VOLATILE] = payload.text
        elif isinstance(payload, SessionComposed | EffortSet):
            self._texts[EFFORT] = payload.effort
        elif isinstance(payload, MemorySurfaced):
            if payload.place == "context":
                self._texts[_MEMORY] = payload.text
        elif (reason := _REASONS.get(type(payload))) is not None:
            self._due(reason, payload.model if isinstance(payload, SessionRedeclared) else "")

    def _leave(self, model: str) -> None:
        """A request is about to go out, with its reason. Where the program is killed before it has, the next one has to
        give that again: one that is given twice does no harm."""
        reasons = self._of(model) | self._leaving.get(model, set())
        if reasons:
            self._leaving[model] = reasons
        self.used[model] = None
        self._pending.pop(model, None)
        self._sent[model] = dict(self._texts)

    def _due(self, reason: str, only: str = "") -> None:
        """The next request of each model that was used, or of this one alone, has this reason."""
        for model in self.used:
            if only in ("", model):
                self._pending.setdefault(model, set()).add(reason)

    def _ask(self, payload: Event) -> None:
        """Track requests for a summary, which no later request continues. A killed program has not ended them."""
        if isinstance(payload, CompactionStarted):
            self._asking = set()
        elif isinstance(payload, CompactionCompleted | CompactionFailed):
            self._asking = None
            if isinstance(payload, CompactionCompleted):
                self._leaving.clear()  # the demand for it was answered, and what is due now is another reason
        elif isinstance(payload, WindowSent) and self._asking is not None:
            self._asking.add(payload.model)
        elif isinstance(payload, SessionResumed):
            for model in self._asking or ():
                self._due("compaction", model)
            for model, reasons in self._leaving.items():
                self._pending.setdefault(model, set()).update(reasons)
            self._asking, self._leaving = None, {}

    def of(self, model: str, *, effort_matters: bool = True) -> str | None:
        """The strongest reason. A change of effort is none where the model's cache does not depend on it."""
        if model not in self.used:
            return "model_switch" if self.used else None
        reasons = self._of(model)
        if not effort_matters:
            reasons.discard(EFFORT)
        return min(reasons, key=_STRENGTH.__getitem__, default=None)

    def _of(self, model: str) -> set[str]:
        reasons = set(self._pending.get(model, ()))
        if model in self.used:
            sent = self._sent.get(model, {})
            reasons |= {reason for reason, text in self._texts.items() if sent.get(reason, "") != text}
        return reasons
