"""The second table of docs/mechanisms.md: which mechanism acts through which door, with which provider.

What it says is what tests/doors checks: sessions with and without each mechanism, played through each door against the
simulated provider. A cell whose check fails stays empty.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from textwrap import wrap

from holdfast.config.keys import KEYS
from tests.doors.doors import DOORS
from tests.doors.sessions import PROVIDERS
from tests.doors.table import ROWS, Cell, Row

NAMES = {"anthropic": "Anthropic", "openai": "OpenAI", "gemini": "Gemini"}
WIDTH = 118
INTRODUCTION = """\
The doors are a program with `open_agent`, `holdfast chat`, `holdfast serve` (asked by the official SDKs over HTTP) and
the SDKs with `engine.http_client()` inside; the providers are Anthropic, OpenAI (Responses) and Gemini. **acts** means
that a test plays a session through that door with the mechanism and without it, and sees the difference in what the
simulated provider gets, and the trace of it under *seen by*; without names it holds for all three providers. **n/a** is
not applicable, with the reason below. Where nothing stands, nothing was shown. `pytest tests/doors` runs the tests;
numbers in parentheses are those of the first table."""


def section(without: Collection[Cell]) -> Iterator[str]:
    """The section of the page. `without` are cells that stay empty although they have a check."""
    yield "## Through every door"
    yield ""
    yield from wrap(" ".join(INTRODUCTION.split()), WIDTH, break_long_words=False, break_on_hyphens=False)
    yield ""
    reasons: dict[str, int] = {}
    yield f"| mechanism | setting | {' | '.join(door.name for door in DOORS)} | seen by |"
    yield f"|---|---|{'---|' * len(DOORS)}---|"
    for row in ROWS:
        cells = [_cell(row, door.name, without, reasons) for door in DOORS]
        yield f"| {row.name} | {_setting(row)} | {' | '.join(cells)} | {row.seen} |"
    yield ""
    yield "Not applicable, because:"
    yield ""
    for reason, number in reasons.items():
        yield f"{number}. {reason}"
    yield ""


def _setting(row: Row) -> str:
    """The keys that govern it, if there are such."""
    return row.setting if set(re.findall(r"`([a-z_.]+)`", row.setting)) <= set(KEYS) else "-"


def _cell(row: Row, door: str, without: Collection[Cell], reasons: dict[str, int]) -> str:
    """What stands in a cell: what acts first, then what does not apply."""
    groups: dict[str, list[str]] = {}
    for provider in PROVIDERS:
        what = row.cells.get((door, provider))
        if what is None or (row.name, door, provider) in without:
            continue
        words = f"n/a ({reasons.setdefault(what, len(reasons) + 1)})" if isinstance(what, str) else "acts"
        groups.setdefault(words, []).append(NAMES[provider])
    ordered = sorted(groups.items(), key=lambda group: group[0] != "acts")
    return "; ".join(
        words if len(names) == len(PROVIDERS) else f"{words}: {', '.join(names)}" for words, names in ordered
    )
