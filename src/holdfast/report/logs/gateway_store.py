"""The gateway's store: every billed call, with the breaks found when it was made.

Session by session, each in the order of its calls, a page at a time; the file is opened read-only, and writers are not
disturbed. Calls without usage (failed, abandoned, in progress) are left out: nothing is known to have been billed. Side
requests have the agents `side`, `side#2`…: none continues another. Pings were sent by the gateway, not by the client;
they cost, so they are included, as `ping`, `ping#2`…. Bodies are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.facts import rates
from holdfast.store import (
    APPLICATION_ID,
    Break,
    Call,
    SqliteStore,
    has_estimate,
    is_subscription,
    open_existing,
    read_verdict,
)

from .members import shown
from .records import Advance, BrokenSource, LoggedBreak, LoggedRequest, Record

_PAGE = 2_000
_MOST_BREAKS = 100_000
_LATE = 60_000_000  # microseconds after a call's end: a break is not stored later
_MOST_SESSIONS = 10_000_000
_SQLITE = b"SQLite format 3\0"
_ID_AT = 68  # where SQLite keeps the application's id
_BESIDE = ("side", "ping")


class _FullError(Exception):
    """A page is full."""


class _Cure(Struct):
    """The cure in a break's `data`."""

    sentence: str | None = None
    setting: str | None = None


def is_mine(path: Path, start: bytes) -> bool:
    """Return whether a file is a database of this project and not another SQLite file."""
    return start.startswith(_SQLITE) and start[_ID_AT : _ID_AT + 4] == APPLICATION_ID.to_bytes(4, "big")


def read(path: Path, advance: Advance) -> Iterator[Record]:
    """The calls of a store; why it cannot be read, or not to its end, as the last record."""
    try:
        store = open_existing(path)
        if store is None:
            return
        with store:
            yield from _calls(store, path, advance)
    except HoldfastError as error:
        yield BrokenSource(path.name, str(error))
    except (msgspec.DecodeError, ValueError, TypeError, ArithmeticError) as error:
        yield BrokenSource(path.name, f"a row that cannot be read ({type(error).__name__})")


def _calls(store: SqliteStore, path: Path, advance: Advance) -> Iterator[Record]:
    activities = store.active_sessions(limit=_MOST_SESSIONS)
    activities.sort(key=lambda activity: (activity.first, activity.session, activity.tenant))
    names: set[str] = set()
    size, advanced = path.stat().st_size, 0
    for number, each in enumerate(activities, 1):
        # The first keeps its name, by which a client's own log of the same session is recognised.
        name = f"{each.session} ({each.tenant})" if each.session in names else each.session
        names.add(each.session)
        yield from _session(store, path.name, each.tenant, each.session, shown(name))
        here = size * number // len(activities)
        advance(here - advanced)
        advanced = here
    advance(size - advanced)


def _session(store: SqliteStore, file: str, tenant: str, session: str, name: str) -> Iterator[Record]:
    agents = _Agents({lane.id: lane.agent or "" for lane in store.lanes(tenant, session)})
    start: int | None = None
    seen: set[str] = set()  # of the moment at which a page ended: the next one begins with it
    while True:
        page, last = _page(store, tenant, session, start, seen)
        breaks = _stored_findings(store, tenant, session, page)
        for call in page:
            if call.usage is not None:
                yield _logged(call, f"{file}:{call.id}", name, agents.of(call), breaks.get(call.id))
        if last:
            return
        now = page[-1].started_at
        seen = {call.id for call in page if call.started_at == now} | (seen if now == start else set())
        start = now


def _page(store: SqliteStore, tenant: str, session: str, start: int | None, seen: set[str]) -> tuple[list[Call], bool]:
    """Some calls of a session from a moment on, without those seen, and whether they are the last."""
    page: list[Call] = []

    def visit(call: Call) -> None:
        if call.id in seen:
            return
        if len(page) >= _PAGE:
            raise _FullError
        page.append(call)

    try:
        store.visit_calls(visit, tenant, session=session, start=start)
    except _FullError:
        return page, False
    return page, True


class _Agents:
    """Names for the lanes of a session: the agent's, with a number where an agent has several of one model."""

    def __init__(self, lanes: dict[str, str]) -> None:
        self._lanes = lanes
        self._names: dict[tuple[str, str], str] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def of(self, call: Call) -> str:
        if call.kind in _BESIDE:
            return self._next(call.kind, "")
        lane = (call.lane, call.model)
        name = self._names.get(lane)
        if name is None:
            name = self._names[lane] = self._next(shown(self._lanes.get(call.lane, "")), call.model)
        return name

    def _next(self, agent: str, model: str) -> str:
        count = self._counts[agent, model] = self._counts.get((agent, model), 0) + 1
        return agent if count == 1 else f"{agent}#{count}"


def _stored_findings(store: SqliteStore, tenant: str, session: str, calls: list[Call]) -> dict[str, LoggedBreak]:
    """What was found when the calls were made, which is stored when they end."""
    if not calls:
        return {}
    ids = {call.id for call in calls}
    start, end = calls[0].started_at, max(max(call.ended_at or 0, call.started_at) for call in calls) + _LATE
    breaks = store.breaks(tenant, session=session, start=start, end=end, limit=_MOST_BREAKS)
    return {each.call: _finding(each) for each in breaks if each.call in ids}


def _finding(break_: Break) -> LoggedBreak:
    try:
        cure = msgspec.json.decode(break_.data or b"{}", type=_Cure)
    except (msgspec.DecodeError, UnicodeDecodeError):  # written by another version
        cure = _Cure()
    unpriced = break_.tokens and not break_.dollars and rates(break_.model) is None  # stored as 0
    return LoggedBreak(
        cause=break_.cause,
        reset=break_.reason,
        tokens=break_.tokens,
        dollars=None if unpriced else break_.dollars,
        path=break_.path,
        offset=break_.offset,
        cure=break_.cure,
        advice=cure.sentence,
        setting=cure.setting,
    )


def _logged(call: Call, place: str, session: str, agent: str, logged_break: LoggedBreak | None) -> LoggedRequest:
    first, verdict = call.first_token_at, read_verdict(call.verdict)
    return LoggedRequest(
        session=session,
        source=place,
        model=call.model,
        client=shown(call.client or ""),
        agent=agent,
        at=call.started_at / 1_000_000,
        first_token_at=None if first is None else first / 1_000_000,
        usage=call.usage,
        reset=call.reset,
        told=logged_break,
        subscription=is_subscription(call.tenant),
        cut=has_estimate(call.verdict),
        judged=verdict.explained is not None,
        author=call.tenant,
        repairs=verdict.repairs,
        repairs_exact=verdict.exact,
    )
