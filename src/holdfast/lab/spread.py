"""How a sum came about, session by session: what nine in ten pay at most, and in how many the bill was lower."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from msgspec.structs import replace

from .results import BILLED, Result, SessionResult, Spread, price_of

DEARER = 1.001
"""Times the bill beyond which a session counts as dearer: sizes of blocks are rebuilt, within less than that."""


def with_spread(results: Sequence[Result], sessions: Sequence[SessionResult]) -> Iterator[Result]:
    """The results with what their sessions tell."""
    found: dict[tuple[str, str], list[SessionResult]] = {}
    for each in sessions:
        found.setdefault((each.model, each.strategy), []).append(each)
    for result in results:
        mine = found.get((result.model, result.strategy), [])
        over_billed, dearer = _bill(mine) if result.strategy != BILLED else (None, None)
        yield replace(result, sessions=len(mine), spread=_spread(mine), over_billed=over_billed, dearer=dearer)


def quantile(values: Sequence[float], share: float) -> float:
    """The least of the values that so many of them do not exceed."""
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def _spread(sessions: Sequence[SessionResult]) -> Spread | None:
    ratios = [each.over_optimal for each in sessions if each.over_optimal is not None]
    if not ratios:
        return None
    return Spread(
        sessions=len(ratios), p50=quantile(ratios, 0.5), p90=quantile(ratios, 0.9), worst=quantile(ratios, 1.0)
    )


def _bill(sessions: Sequence[SessionResult]) -> tuple[float | None, float | None]:
    """The cost over the bill of all sessions that have one, and the share of them that cost more than that."""
    paid = billed = 0.0
    dearer = count = 0
    for each in sessions:
        if each.over_billed is None:
            continue
        paid += float(price_of(each))
        billed += float(price_of(each)) / each.over_billed
        dearer += each.over_billed > DEARER
        count += 1
    return (paid / billed, dearer / count) if count and billed else (None, None)
