"""What broke prefixes: where, whose, what it cost, and what to do about it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from holdfast.records import MISSED
from holdfast.store import Break, Store, is_subscription

from .results import BreakReport, BreakReports
from .tally import dollars_of, moment, window


class _Cure(Struct):
    sentence: str | None = None
    setting: str | None = None


def breaks(
    store: Store,
    *,
    start: int | None = None,
    end: int | None = None,
    tenant: str | None = None,
    session: str | None = None,
    resets: bool = True,
    limit: int = 100,
) -> BreakReports:
    """Breaks of the window, newest first, turns that went past us or without markers and, unless they are not wanted,
    other resets."""
    found = _newest(store, tenant, session, start, end, limit, resets)
    shown = tuple(report(each, _client(store, each)) for each in found[:limit])
    return BreakReports(window=window(start, end), breaks=shown, more=len(found) > limit)


def _newest(
    store: Store, tenant: str | None, session: str | None, start: int | None, end: int | None, limit: int, resets: bool
) -> list[Break]:
    """One more than the limit, if there are so many; resets are left out after they were read."""
    asked = limit + 1
    while True:
        read = store.newest_breaks(tenant, session=session, start=start, end=end, limit=asked)
        found = [each for each in read if resets or each.reason is None or each.reason in MISSED]
        if len(found) > limit or len(read) < asked:
            return found
        asked *= 4


def report(found: Break, client: str | None) -> BreakReport:
    cure = _cure(found)
    return BreakReport(
        id=found.id,
        at=moment(found.at),
        cause=found.cause,
        reason=found.reason,
        tokens=found.tokens,
        dollars=dollars_of(found),
        path=found.path,
        offset=found.offset,
        owner=found.owner,
        cure=found.cure,
        advice=cure.sentence,
        setting=cure.setting,
        call=found.call,
        lane=found.lane,
        session=found.session,
        tenant=found.tenant,
        client=client,
        model=found.model,
        subscription=is_subscription(found.tenant),
    )


def _client(store: Store, found: Break) -> str | None:
    call = store.call(found.tenant, found.call)
    return None if call is None else call.client


def _cure(found: Break) -> _Cure:
    try:
        return msgspec.json.decode(found.data or b"{}", type=_Cure)
    except (msgspec.DecodeError, UnicodeDecodeError):  # written by another version
        return _Cure()
