"""Calls that were not planned: side requests, and those that went out past us. A row and two events, no lane state."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from holdfast.records import Usage
from holdfast.store import Call, CallStatus

from .call_records import ESTIMATED
from .lane import Lane


class Noted(Struct, frozen=True):
    """One such call, from its beginning to its end, in seconds since 1970; without an end it is under way. `usage` has
    its price; it is `estimated` where the answer was cut."""

    call: str
    lane: Lane
    kind: str
    model: str
    started: float
    ended: float | None
    first_token: float | None = None
    usage: Usage | None = None
    error: str = ""
    why: str = ""
    estimated: bool = False

    @property
    def status(self) -> CallStatus:
        if self.ended is None:
            return "pending"
        if self.error:
            return "failed"
        return "abandoned" if self.usage is None or self.estimated else "settled"

    def row(self) -> Call:
        return Call(
            tenant=self.lane.tenant,
            id=self.call,
            session=self.lane.session,
            lane=self.lane.id,
            model=self.model,
            started_at=_micro(self.started),
            status=self.status,
            kind=self.kind,
            client=self.lane.client or None,
            first_token_at=None if self.first_token is None else _micro(self.first_token),
            ended_at=None if self.ended is None else _micro(self.ended),
            usage=self.usage,
            reset="bypassed" if self.kind == "bypassed" else None,
            error=self.error or None,
            plan=msgspec.json.encode({"why": self.why}) if self.why else None,
            verdict=ESTIMATED if self.estimated and self.usage is not None else None,
        )


def _micro(at: float) -> int:
    return round(at * 1_000_000)
