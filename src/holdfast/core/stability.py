"""Which places of a lane's prompt keep their content: where a marker can pay, and where it has proved that it cannot.

A place is a number within tools, system text or messages; near the end of a request it is counted from the end, because
that is what a client that rewrites its newest message has in common from turn to turn. Only places that have changed
are kept. A resend or a fork of an earlier prefix is not evidence of instability.
"""

from __future__ import annotations

from holdfast.caches import Prompt, Section

from .divergence import Comparison
from .ledger import Ledger, Position
from .plan import SECTIONS, Sent

NEAR_END = 8
"""Blocks before the end whose place is counted from there."""
MOST_POSITIONS = 256
MEMORY = 10
"""Comparisons that count: a place that begins to change is found out soon, however long it held."""
_DOUBT = 0.5  # one change in one comparison is a chance of two in three, two in two of four in five
_NO_EVIDENCE = ("resend", "fork", "compaction")


def observe(ledger: Ledger, last: Sent, comparison: Comparison) -> None:
    """Count a comparison of a request with the one before it."""
    if comparison.course in _NO_EVIDENCE:
        return
    for position in ledger.positions.values():
        position.seen += 1
        if position.seen > 2 * MEMORY:
            position.seen, position.changed = position.seen / 2, position.changed / 2
    ledger.compared += 1
    if comparison.course == "extension" or comparison.divergence is None or comparison.divergence.what == "model":
        return
    name = _place(last, min(comparison.divergence.block, len(last) - 1))
    position = ledger.positions.setdefault(name, Position(seen=min(ledger.compared, MEMORY)))
    position.changed += 1
    if len(ledger.positions) > MOST_POSITIONS:
        del ledger.positions[min(ledger.positions, key=lambda each: ledger.positions[each].changed)]


def survival(ledger: Ledger, prompt: Prompt) -> list[float]:
    """For each block, the chance that everything up to its end comes again unchanged in the lane's next request."""
    if not ledger.positions:
        return [1.0] * len(prompt.blocks)
    chances: list[float] = []
    chance = 1.0
    counts: dict[str, int] = {}
    for index, block in enumerate(prompt.blocks):
        number = counts.get(block.section, 0)
        counts[block.section] = number + 1
        for name in _names(block.section, number, len(prompt.blocks) - index):
            position = ledger.positions.get(name)
            if position is not None:
                chance *= max(0.0, 1 - position.changed / (position.seen + _DOUBT))
        chances.append(chance)
    return chances


def _names(section: Section, number: int, from_end: int) -> tuple[str, ...]:
    name = f"{section}:{number}"
    return (name, f"end:{from_end}") if section == "messages" and from_end <= NEAR_END else (name,)


def _place(last: Sent, at: int) -> str:
    section = last.section(at)
    from_end = len(last) - at
    if section == "messages" and from_end <= NEAR_END:
        return f"end:{from_end}"
    return f"{section}:{last.sections[:at].count(SECTIONS.index(section))}"
