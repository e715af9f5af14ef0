"""What a check finds, as frozen values."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:  # the recorder has no use for it, and it takes a while to import
    from holdfast.core.cures import Cure


class Cost(Struct, frozen=True, kw_only=True):
    """What a break costs each time it happens. `tokens` are billed again instead of read; `dollars` is the difference,
    None where no price is known. `today` is False where nothing would have been read anyway, for a reason that `why`
    gives: then both say what it would cost with a cache."""

    tokens: int
    dollars: Decimal | None
    today: bool = True
    why: str = ""
    model: str = ""
    prices: str = ""


class UnstableRequest(Struct, frozen=True, kw_only=True):
    """A request that does not begin with what its conversation had sent.

    `request` and `earlier` count from 1. `offset` is the byte in the request's body, `inside` the one in the text of
    the block. `before` and `after` are what stands around it; `at` counts their characters up to the divergence.
    """

    request: int
    earlier: int
    conversation: str
    dialect: str
    model: str
    cause: str
    what: str
    path: str
    cure: Cure
    cost: Cost
    offset: int | None = None
    inside: int | None = None
    before: str | None = None
    after: str | None = None
    at: int = 0
    reset: str | None = None


class PrefixCheck(Struct, frozen=True, kw_only=True):
    """A sequence that was checked. `compared` requests were held against an earlier one; `resets` are the departures
    that were allowed. Not compared are `side` requests, which stand beside the conversations (titles, probes), `parts`,
    of which the provider holds the rest, and `refused` ones. `unmarked` names conversations without a marker whose
    provider needs one."""

    requests: int
    conversations: int
    compared: int
    side: int = 0
    parts: int = 0
    refused: int = 0
    unstable: tuple[UnstableRequest, ...] = ()
    resets: tuple[UnstableRequest, ...] = ()
    unmarked: tuple[str, ...] = ()


class PrefixUnstable(AssertionError):
    """The prefix of a conversation is not stable. `checked` has what was found, for programs."""

    def __init__(self, message: str, checked: PrefixCheck) -> None:
        super().__init__(message)
        self.checked = checked


PrefixUnstable.__module__ = "holdfast.pytest_plugin"  # where users find it
