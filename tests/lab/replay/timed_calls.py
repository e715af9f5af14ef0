"""Lanes of calls with the times they were made at."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.facts import ModelFacts
from holdfast.lab.marker_plans import TimedCall
from tests.caches.prompts import SMALL, prompt
from tests.core.lanes import said, system, tool


def calls(turns: int, gap: float = 20.0, *, facts: ModelFacts = SMALL, first: float = 2.0) -> list[TimedCall]:
    """A growing conversation, a request every so many seconds."""
    head = [tool("bash"), system("host")]
    lane = []
    for number in range(turns):
        blocks = [*head, *(said(each) for each in range(2 * number + 1))]
        lane.append(TimedCall(number * gap, number * gap + first, prompt(blocks, (-1, "5m"), model=facts)))
    return lane


def without_markers(lane: list[TimedCall]) -> list[TimedCall]:
    """The same calls of a client that leaves caching to us."""
    return [replace(call, prompt=replace(call.prompt, marks=())) for call in lane]
