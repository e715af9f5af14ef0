"""Why the next request of a model may depart from its last one: found from the log, so that it is known after a crash.

Each model of a session has a lane of its own, and each lane has to be told the reason once.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.events import Envelope, Event
from holdfast.events.agent import HistoryTrimmed, SessionRedeclared, SessionRefreshed, VolatileChanged, WindowSent
from holdfast.events.sessions import CompactionCompleted, CompactionFailed, CompactionStarted, SessionResumed

_REASONS: Mapping[type[Event], str] = {
    SessionRedeclared: "tools_redeclared",
    SessionRefreshed: "session_load",
    VolatileChanged: "volatile_system_changed",
    CompactionCompleted: "compaction",
    CompactionFailed: "compaction",
    HistoryTrimmed: "history_trimmed",
}
_STRENGTH = {reason: number for number, reason in enumerate(_REASONS.values())}
"""Of several reasons the one that explains the earliest change."""


class Resets:
    """What is pending for each model that has been used."""

    def __init__(self) -> None:
        self.used: dict[str, None] = {}
        self._pending: dict[str, set[str]] = {}
        self._volatile = ""
        self._sent: dict[str, str] = {}  # the volatile text that each was last sent: one that is as it was is no reason
        self._asking: set[str] | None = None  # models that were asked for a summary which has not come yet

    def take(self, envelope: Envelope) -> None:
        payload = envelope.payload
        self._ask(payload)
        if isinstance(payload, WindowSent):
            self.used[payload.model] = None
            self._pending.pop(payload.model, None)
            self._sent[payload.model] = self._volatile
        elif isinstance(payload, VolatileChanged):
            self._volatile = payload.text
        elif (reason := _REASONS.get(type(payload))) is not None:
            self._due(reason, payload.model if isinstance(payload, SessionRedeclared) else "")

    def _due(self, reason: str, only: str = "") -> None:
        """The next request of each model that was used, or of this one alone, has this reason."""
        for model in self.used:
            if only in ("", model):
                self._pending.setdefault(model, set()).add(reason)

    def _ask(self, payload: Event) -> None:
        """Behind a demand for a summary nothing goes on. Where the program was killed meanwhile, nobody has said so."""
        if isinstance(payload, CompactionStarted):
            self._asking = set()
        elif isinstance(payload, CompactionCompleted | CompactionFailed):
            self._asking = None
        elif isinstance(payload, WindowSent) and self._asking is not None:
            self._asking.add(payload.model)
        elif isinstance(payload, SessionResumed):
            for model in self._asking or ():
                self._due("compaction", model)
            self._asking = None

    def of(self, model: str) -> str | None:
        if model not in self.used:
            return "model_switch" if self.used else None
        found = set(self._pending.get(model, ()))
        if self._sent.get(model, "") != self._volatile:
            found.add(_REASONS[VolatileChanged])
        return min(found, key=_STRENGTH.__getitem__, default=None)
