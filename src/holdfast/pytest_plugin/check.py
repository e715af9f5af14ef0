"""`assert_prefix_stable` without pytest: what it is given, checked; what was found, raised.

Every request is held against the one it continues, departures that were announced left aside.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core import Comparison, Divergence, Finding, allowed, as_bytes, mask, place, without_secrets
from holdfast.core.cures import case, cure_for
from holdfast.engine import locate
from holdfast.errors import HoldfastError
from holdfast.facts import nearest
from holdfast.records import CAUSES, CHANGES, RESET_REASONS

from .bodies import RecordedRequest, recorded
from .conversations import Continuation, Conversations
from .failure_text import failure, nothing_compared
from .findings import DEFAULT_RATE, PrefixCheck, PrefixUnstable, UnstableRequest, price_of, rate_of
from .request_reader import CheckedRequest, RequestReader

AROUND = 29
"""Characters shown on each side of a divergence: both sides stand on one line of a terminal."""

_MARGIN = 512  # bytes looked at beyond what is shown, so that a credential cut by the edge is still recognised


class Where(Struct, frozen=True, kw_only=True):
    """A place of divergence. `said` and `says` are the block's old and new bytes, for the cures. For the report: the
    offsets in the body and in the text, an excerpt of both sides and the offset of the difference in it."""

    path: str
    offset: int | None = None
    inside: int | None = None
    before: str | None = None
    after: str | None = None
    at: int = 0
    said: bytes | None = None
    says: bytes | None = None


def where(earlier: CheckedRequest, request: CheckedRequest, divergence: Divergence, *, redact: bool) -> Where:
    """The first place in which a request departs from an earlier one."""
    if divergence.setting is not None:
        return _setting(earlier, request, divergence.setting, redact)
    old, new = _block(earlier, divergence), _block(request, divergence)
    if new is None:
        if old is None:
            return Where(path=divergence.section)
        text = earlier.content(old)
        path = f"{earlier.body.blocks[earlier.places[old]].path} (gone)"
        return Where(path=path, before=_excerpt(text, 0, redact), said=text)
    parted = locate(request.body, replace(request.view, origin=request.places), earlier.body, divergence)
    before, after = parted.before, parted.after or b""
    if old is None or before is None:
        says = request.content(new)
        return Where(path=parted.path or "", offset=parted.offset, after=_excerpt(says, 0, redact), says=says)
    inside, offset = _part(before, after), parted.offset
    if offset is not None and parted.place is not None:
        offset -= parted.place.offset - inside  # to the beginning of the character
    if before[:1] == after[:1] == b'"':  # texts, as they stand in the bodies
        before, after, inside = before[1:-1], after[1:-1], inside - 1
    return Where(
        path=parted.path or "",
        offset=offset,
        inside=inside,
        before=_excerpt(before, inside, redact),
        after=_excerpt(after, inside, redact),
        at=_lead(after, inside),
        said=parted.content_before,
        says=parted.content_after,
    )


def _setting(earlier: CheckedRequest, request: CheckedRequest, name: str, redact: bool) -> Where:
    """A changed setting: its two values."""
    member = request.body.members.get(name.partition(".")[0])
    old, new = _value(earlier, name), _value(request, name)
    at = 0 if old is None or new is None else _part(old, new)
    return Where(
        path=name,
        offset=None if member is None else member.start,
        before="(not set)" if old is None else _excerpt(old, at, redact),
        after="(not set)" if new is None else _excerpt(new, at, redact),
        at=0 if old is None or new is None else _lead(new, at),
    )


def _value(request: CheckedRequest, name: str) -> bytes | None:
    if name == "model":
        return request.model.encode("utf-8", "replace")
    if name == "prompt_cache_key":
        return request.prompt.route.encode("utf-8", "replace") or None
    return request.settings.get(name)


def _block(request: CheckedRequest, divergence: Divergence) -> int | None:
    """The block of a view at the divergence, if it is of the section that changed: the other may have ended there."""
    blocks, index = request.view.blocks, divergence.block
    return index if index < len(blocks) and blocks[index].section == divergence.section else None


def _part(before: bytes, after: bytes) -> int:
    """The byte at which two texts part, at the beginning of a character."""
    difference = place(before, after)
    at = 0 if difference is None else difference.offset
    while at and (after[at : at + 1] or before[at : at + 1]) and at < len(after) and after[at] & 0xC0 == 0x80:
        at -= 1
    return at


def _excerpt(text: bytes, at: int, redact: bool) -> str:
    """A few characters on each side of a byte, on one line; an ellipsis where there is more."""
    start, end = max(0, at - _MARGIN), min(len(text), at + _MARGIN)
    lead, rest = _text(text[start:at]), _text(text[at:end])
    masked = mask(lead + rest) if redact else without_secrets(lead + rest, dense=False)
    first, last = max(0, len(lead) - AROUND), len(lead) + AROUND
    cut = ("…" if start or first else "", "…" if end < len(text) or last < len(masked) else "")
    return cut[0] + _one_line(masked[first:last]) + cut[1]


def _lead(text: bytes, at: int) -> int:
    """How many characters `_excerpt` shows before the byte."""
    start = max(0, at - _MARGIN)
    lead = len(_text(text[start:at]))
    return min(lead, AROUND) + (1 if start or lead > AROUND else 0)


def _text(raw: bytes) -> str:
    return as_bytes(raw).decode("utf-8", "replace")


def _one_line(text: str) -> str:
    """What a terminal shows as one character each; JSON has escaped line ends and control characters already."""
    return re.sub(r"\s", " ", "".join(char if char.isprintable() else "?" for char in text))


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
    """Compare every request with the one that it continues. Refused ones left nothing in a cache."""
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
        request = asking.read(one, name)
        if request.part or (request.side and lane is None):
            side, parts = side + request.side, parts + request.part
            continue
        continuation = conversations.find(request)
        last[continuation.conversation] = request
        compared += continuation.end is not None
        divergence = None if continuation.comparison is None else continuation.comparison.divergence
        if (
            continuation.outcome != "departs"
            or continuation.end is None
            or continuation.comparison is None
            or divergence is None
        ):
            continue
        reset = announced.get(request.number)
        if reset is None or not allowed(reset, divergence):
            reset = _excuse(excused, continuation.comparison, divergence)
        report = _report(continuation, continuation.end, request, continuation.comparison, divergence, reset, redact)
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
        unmarked=tuple(name for name, request in last.items() if _unmarked(request)),
    )


def _names(requests: Sequence[RecordedRequest], lane: Lane) -> list[str | None]:
    """The conversations' names as the user gives them, by request."""
    if lane is None:
        return [None] * len(requests)
    if isinstance(lane, str):
        return [lane] * len(requests)
    names = [lane(one) for one in requests] if callable(lane) else list(lane)
    if len(names) != len(requests):
        raise HoldfastError(f"lane names {len(names)} conversations for {len(requests)} requests; give one for each.")
    return [str(name) for name in names]


def _announced(resets: Mapping[int, str] | None, requests: int) -> dict[int, str]:
    announced = dict(resets or {})
    for number, reason in announced.items():
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= requests:
            raise HoldfastError(f"resets names request {number!r}, but there are requests 1 to {requests}.")
        if reason not in RESET_REASONS:
            raise HoldfastError(f"resets gives the reason {reason!r}; {nearest(str(reason), RESET_REASONS)}.")
    return announced


def _excused(allow: Iterable[str]) -> tuple[str, ...]:
    names = (allow,) if isinstance(allow, str) else tuple(allow)
    choices = (*_BY_COURSE, *_BY_PLACE, *_CAUSES)
    for name in names:
        if name not in choices:
            raise HoldfastError(f"allow names {name!r}; {nearest(str(name), choices)}.")
    return names


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
    continuation: Continuation,
    earlier: CheckedRequest,
    request: CheckedRequest,
    comparison: Comparison,
    divergence: Divergence,
    reset: str | None,
    redact: bool,
) -> UnstableRequest:
    at = where(earlier, request, divergence, redact=redact)
    cost = price_of(earlier, request, divergence, in_head=continuation.in_head)
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
    break_case = case(finding, request.facts, path=path, before=at.said, after=at.says, marks=request.prompt.marks)
    return UnstableRequest(
        request=request.number,
        earlier=earlier.number,
        conversation=continuation.conversation,
        dialect=request.body.dialect,
        model=request.model,
        cause=cause,
        what=divergence.what,
        path=at.path,
        cure=cure_for(break_case),
        cost=cost,
        offset=at.offset,
        inside=at.inside,
        before=at.before,
        after=at.after,
        at=at.at,
        reset=reset,
    )


def _unmarked(request: CheckedRequest) -> bool:
    """Return whether a cacheable request has no marker at a provider that needs one."""
    facts, prompt = request.facts, request.prompt
    return facts.caching == "explicit" and not prompt.marks and not prompt.hidden and prompt.tokens >= facts.floor


class SessionOptions(Protocol):
    """The user's options for all checks of a session."""

    rate: str | None
    model: str | None
    redact: bool

    def add(self, counts: Mapping[str, int]) -> None: ...


class CheckOptions(Struct, frozen=True, kw_only=True):
    """The arguments of `assert_prefix_stable`, which describes them."""

    model: str | None
    dialect: str | None
    lane: Lane
    resets: Mapping[int, str] | None
    allow: Iterable[str]
    rate: str | float | Decimal | None
    require_markers: bool
    at_least: int
    redact: bool | None


def assert_stable(requests: Iterable[object], options: CheckOptions, session: SessionOptions | None) -> PrefixCheck:
    """Fail unless the requests' prefixes are stable. What `options` leaves open is that of the session."""
    __tracebackhide__ = True
    model, rate, redact = options.model, options.rate, options.redact
    if session is not None:
        model = session.model if model is None else model
        rate = session.rate if rate is None else rate
        redact = session.redact if redact is None else redact
    yearly_rate = rate_of(DEFAULT_RATE if rate is None else rate)
    records = recorded(requests, dialect=options.dialect)
    refused = [record.error or f"status {record.status}" for record in records if record.refused]
    checked = check(
        records, model=model, lane=options.lane, resets=options.resets, allow=options.allow, redact=bool(redact)
    )
    message = ""
    if checked.unstable or (options.require_markers and checked.unmarked):
        message = failure(checked, yearly_rate, missing_markers=options.require_markers)
    elif checked.compared < options.at_least:
        message = nothing_compared(checked, refused, options.at_least)
    if session is not None:
        counts = {"failed": bool(message), "unmarked": bool(checked.unmarked)}
        session.add({"checks": 1, "requests": checked.requests, **counts})
    if message:
        raise PrefixUnstable(message, checked)
    return checked
