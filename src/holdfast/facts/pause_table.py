"""The prior on pauses and sessions: dated figures from recorded sessions, before a tenant has any of its own."""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

Three = tuple[float, float, float]


class Human(Struct, frozen=True, forbid_unknown_fields=True):
    """Pauses before a user turn: shares by class (five minutes, an hour, longer), and what else is known of them."""

    classes: Three
    never: float
    authors: float
    after: tuple[tuple[float, float], ...]

    def longer_after(self, pause: float) -> float:
        """How much likelier than usual a pause above five minutes is after one of so many seconds."""
        share = next(share for seconds, share in self.after if pause <= seconds)
        return share / (1 - self.classes[0])


class Machine(Struct, frozen=True, forbid_unknown_fields=True):
    """Gaps inside tool loops, and their share of all gaps."""

    classes: Three
    share: float


class SessionLengths(Struct, frozen=True, forbid_unknown_fields=True):
    requests: float


class Policies(Struct, frozen=True, forbid_unknown_fields=True):
    """What fixed lifetimes cost relative to five minutes everywhere; `requests` is what that experience weighs."""

    hour: tuple[Three, ...]
    requests: float

    def hour_at(self, read: float) -> float:
        """The cost of an hour everywhere where a read has this price."""
        return min(self.hour, key=lambda row: abs(row[0] - read))[1]


class ProviderPauses(Struct, frozen=True, forbid_unknown_fields=True):
    """How often entries were really read, by seconds since their last use: those of the short lifetime, and those of
    the long one after the short one was over."""

    short: tuple[tuple[float, float], ...]
    long: float

    def short_after(self, idle: float) -> float:
        """The share of entries of the short lifetime that were still there after so many seconds."""
        return next((share for seconds, share in self.short if idle <= seconds), 0.0)


class Pauses(Struct, frozen=True, forbid_unknown_fields=True):
    as_of: date
    source: str
    human: Human
    machine: Machine
    sessions: SessionLengths
    policies: Policies
    provider: ProviderPauses


@cache
def pauses() -> Pauses:
    """The figures that are shipped."""
    text = Path(__file__).with_name("pauses.toml").read_text("utf-8")
    return msgspec.toml.decode(text, type=Pauses)
