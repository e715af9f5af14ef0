"""A plan on the wire: the splices that give a body exactly the plan's markers.

A client's marker that the plan keeps is not touched, so that a plan that changes nothing sends the client's bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, cast

from holdfast.caches import Prompt
from holdfast.core import Plan
from holdfast.facts import ModelFacts
from holdfast.wire import Body, Dialect, Marker, Splice, Ttl, cache_parameters

Mode = Literal["implicit", "explicit"]


def marked(body: Body, dialect: Dialect, prompt: Prompt, plan: Plan, model: ModelFacts) -> bytes:
    """Return the body with the plan's markers. `prompt` is this body as read by a reader; client markers missing in the
    prompt are not touched."""
    mode = plan.mode if plan.mode in ("implicit", "explicit") and plan.mode != prompt.mode else ""
    if not mode and (plan.marks == prompt.marks or set(plan.marks) == set(prompt.marks)):
        return body.raw
    wanted = dict.fromkeys([(prompt.place(mark.block), mark.ttl) for mark in plan.marks])
    known: list[tuple[Marker, int]] = []
    if prompt.marks or prompt.hidden:  # else the reader has found none
        known = _shown(dialect.markers(body, sorted({prompt.place(mark.block) for mark in prompt.marks})), prompt)
    missing = {place: ttl for place, ttl in wanted if all((at, each.ttl) != (place, ttl) for each, at in known)}
    splices: list[Splice] = []
    for marker, place in known:
        if (place, marker.ttl) not in wanted and (place not in missing or marker.block is None):
            splices += dialect.remove(body, marker)
    for place, ttl in missing.items():
        splices += dialect.place(body, place, cast(Ttl, ttl))
    if mode:
        splices += cache_parameters.set_mode(body, cast(Mode, mode), model)
    return body.apply(splices)


def _shown(markers: Sequence[Marker], prompt: Prompt) -> list[tuple[Marker, int]]:
    """The client's markers and the blocks they count for. An automatic one counts for the last block that can carry it,
    unless that has one of its own."""
    placed = [(marker, marker.block) for marker in markers if marker.block is not None]
    last = next(_markable_from_end(prompt), None)
    automatic = next((marker for marker in markers if marker.block is None), None)
    if automatic is not None and last is not None and all(place != last for _, place in placed):
        placed.append((automatic, last))
    return placed


def _markable_from_end(prompt: Prompt) -> Iterator[int]:
    for index in range(len(prompt.blocks) - 1, -1, -1):
        if prompt.blocks[index].markable:
            yield prompt.place(index)
