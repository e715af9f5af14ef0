"""`assert_prefix_stable` without pytest: what it is given, checked; what was found, raised.

Every request is held against the one it continues, departures that were announced left aside.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Protocol

from holdfast.core import Comparison, Divergence, Finding, allowed
from holdfast.core.cures import case, cure_for
from holdfast.errors import HoldfastError
from holdfast.facts import nearest
from holdfast.records import CAUSES, CHANGES, RESET_REASONS

from .bodies import RecordedRequest, recorded
from .conversations import Continuation, Conversations
from .failure_text import failure, nothing_compared
from .findings import PrefixCheck, PrefixUnstable, UnstableRequest
from .places import where
from .request_reader import CheckedRequest, RequestReader
from .worth import DEFAULT_RATE, price_of, rate_of

Lane = str | Sequence[Hashable] | Callable[[RecordedRequest], Hashable] | None

_CAUSES = tuple(CHANGES.values())
_BY_PLACE: dict[str, str] = {
    reason: CHANGES[CAUSES[reason].parts[0]]
    for reason in RESET_REASONS
    if CAUSES[reason].parts and CAUSES[reason].parts[0] != "messages"
}
"""Reasons that stand for every departure of a cause; the others are known by what happened to the messages."""

_BY_COURSE = {"compaction": "compaction", "history_trimmed": "window"}


def check(
    requests: Sequence[RecordedRequest],
    *,
    model: str | None = None,
    lane: Lane = None,
    resets: Mapping[int, str] | None = None,
    allow: Iterable[str] = (),
    redact: bool = False,
) -> PrefixCheck:
    """Hold every request against the one it goes on from. What was refused has left nothing in a cache."""
    announced, excused = _announced(resets, len(requests)), _excused(allow)
    names = _names(requests, lane)
    asking, conversations = RequestReader(model), Conversations()
    unstable: list[UnstableRequest] = []
    allowed_ones: list[UnstableRequest] = []
    last: dict[str, CheckedRequest] = {}
    compared = side = parts = 0
    for one, name in zip(requests, names, strict=True):
        if one.refused:
            continue
        asked = asking.read(one, name)
        if asked.part or (asked.side and lane is None):
            side, parts = side + asked.side, parts + asked.part
            continue
        found = conversations.find(asked)
        last[found.conversation] = asked
        compared += found.end is not None
        divergence = None if found.comparison is None else found.comparison.divergence
        if found.outcome != "departs" or found.end is None or found.comparison is None or divergence is None:
            continue
        reset = announced.get(asked.number)
        if reset is None or not allowed(reset, divergence):
            reset = _excuse(excused, found.comparison, divergence)
        report = _report(found, found.end, asked, found.comparison, divergence, reset, redact)
        (unstable if reset is None else allowed_ones).append(report)
    return PrefixCheck(
        requests=len(requests),
        conversations=len(conversations.names),
        compared=compared,
        side=side,
        parts=parts,
        refused=sum(one.refused for one in requests),
        unstable=tuple(unstable),
        resets=tuple(allowed_ones),
        unmarked=tuple(name for name, asked in last.items() if _unmarked(asked)),
    )


def _names(requests: Sequence[RecordedRequest], lane: Lane) -> list[str | None]:
    """The conversations' names as the user gives them, by request."""
    if lane is None:
        return [None] * len(requests)
    if isinstance(lane, str):
        return [lane] * len(requests)
    given = [lane(one) for one in requests] if callable(lane) else list(lane)
    if len(given) != len(requests):
        raise HoldfastError(f"lane names {len(given)} conversations for {len(requests)} requests; give one for each.")
    return [str(name) for name in given]


def _announced(resets: Mapping[int, str] | None, requests: int) -> dict[int, str]:
    found = dict(resets or {})
    for number, reason in found.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= requests:
            raise HoldfastError(f"resets names request {number!r}, but there are requests 1 to {requests}.")
        if reason not in RESET_REASONS:
            raise HoldfastError(f"resets gives the reason {reason!r}; {nearest(str(reason), RESET_REASONS)}.")
    return found


def _excused(allow: Iterable[str]) -> tuple[str, ...]:
    given = (allow,) if isinstance(allow, str) else tuple(allow)
    known = (*_BY_COURSE, *_BY_PLACE, *_CAUSES)
    for name in given:
        if name not in known:
            raise HoldfastError(f"allow names {name!r}; {nearest(str(name), known)}.")
    return given


def _excuse(allowed_names: Iterable[str], comparison: Comparison, divergence: Divergence) -> str | None:
    """The name by which a departure is allowed wherever it happens."""
    cause = CHANGES[divergence.part]
    for name in allowed_names:
        if name in _BY_COURSE:
            if cause == "messages_rewritten" and comparison.course == _BY_COURSE[name]:
                return name
        elif _BY_PLACE.get(name, name) == cause:
            return name
    return None


def _report(
    found: Continuation,
    earlier: CheckedRequest,
    asked: CheckedRequest,
    comparison: Comparison,
    divergence: Divergence,
    reset: str | None,
    redact: bool,
) -> UnstableRequest:
    at = where(earlier, asked, divergence, redact=redact)
    cost = price_of(earlier, asked, divergence, in_head=found.in_head)
    cause = CHANGES[divergence.part]
    finding = Finding(
        cause=cause,
        reason=None,
        tokens=cost.tokens,
        dollars=cost.dollars or 0,  # type: ignore[arg-type]  # no cure looks at it
        expected=earlier.prompt.tokens,
        read=divergence.kept,
        divergence=divergence,
        comparison=comparison,
    )
    path = None if divergence.setting is not None else at.path.removesuffix(" (gone)")
    told = case(finding, asked.facts, path=path, before=at.said, after=at.says, marks=asked.prompt.marks)
    return UnstableRequest(
        request=asked.number,
        earlier=earlier.number,
        conversation=found.conversation,
        dialect=asked.body.dialect,
        model=asked.model,
        cause=cause,
        what=divergence.what,
        path=at.path,
        cure=cure_for(told),
        cost=cost,
        offset=at.offset,
        inside=at.inside,
        before=at.before,
        after=at.after,
        at=at.at,
        reset=reset,
    )


def _unmarked(asked: CheckedRequest) -> bool:
    """Whether a request that could be cached asks for nothing to be, at a provider that has to be asked."""
    facts, prompt = asked.facts, asked.prompt
    return facts.caching == "explicit" and not prompt.marks and not prompt.hidden and prompt.tokens >= facts.floor


class SessionOptions(Protocol):
    """What the user says for all checks of a session."""

    rate: str | None
    model: str | None
    redact: bool

    def add(self, counts: Mapping[str, int]) -> None: ...


def assert_stable(
    requests: Iterable[object],
    wishes: SessionOptions | None,
    *,
    model: str | None,
    dialect: str | None,
    rate: str | float | Decimal | None,
    require_markers: bool,
    at_least: int,
    redact: bool | None,
    **options: Any,
) -> PrefixCheck:
    """Fail unless the requests' prefixes are stable."""
    __tracebackhide__ = True
    told = rate_of(rate if rate is not None else (wishes.rate if wishes is not None else None) or DEFAULT_RATE)
    if model is None and wishes is not None:
        model = wishes.model
    if redact is None:
        redact = wishes is not None and wishes.redact
    given = recorded(requests, dialect=dialect)
    refused = [one.error or f"status {one.status}" for one in given if one.refused]
    checked = check(given, model=model, redact=redact, **options)
    message = ""
    if checked.unstable or (require_markers and checked.unmarked):
        message = failure(checked, told, missing_markers=require_markers)
    elif checked.compared < at_least:
        message = nothing_compared(checked, refused, at_least)
    if wishes is not None:
        counts = {"failed": bool(message), "unmarked": bool(checked.unmarked)}
        wishes.add({"checks": 1, "requests": checked.requests, **counts})
    if message:
        raise PrefixUnstable(message, checked)
    return checked
