"""A plan on the wire: the splices that give a body exactly the plan's markers.

A client's marker that the plan keeps is not touched, so that a plan that changes nothing sends the client's bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, cast

from holdfast.caches.values import Prompt
from holdfast.facts import ModelFacts
from holdfast.prefix.values import Plan
from holdfast.wire import Body, Dialect, Marker, Splice, Ttl, caching

Mode = Literal["implicit", "explicit"]


def marked(body: Body, dialect: Dialect, prompt: Prompt, plan: Plan, model: ModelFacts) -> bytes:
    """The body with the plan's markers. `prompt` is what a reader made of this body."""
    wanted = dict.fromkeys((_place(prompt, mark.block), mark.ttl) for mark in plan.marks)
    known = [(marker, _stands_on(marker, prompt)) for marker in dialect.markers(body, _may_have_one(body, prompt))]
    missing = {place: ttl for place, ttl in wanted if all((at, each.ttl) != (place, ttl) for each, at in known)}
    splices: list[Splice] = []
    for marker, place in known:
        if (place, marker.ttl) not in wanted and (place not in missing or marker.block is None):
            splices += dialect.remove(body, marker)
    for place, ttl in missing.items():
        splices += dialect.place(body, place, cast(Ttl, ttl))
    if plan.mode in ("implicit", "explicit") and plan.mode != prompt.mode:
        splices += caching.set_mode(body, cast(Mode, plan.mode), model)
    return body.apply(splices)


def _may_have_one(body: Body, prompt: Prompt) -> list[int]:
    """The blocks that can have a marker: those the reader found one on, and those it left out of the prompt."""
    left_out = set(range(len(body.blocks))).difference(prompt.origin) if prompt.origin else set[int]()
    return sorted(left_out | {_place(prompt, mark.block) for mark in prompt.marks})


def _place(prompt: Prompt, block: int) -> int:
    return prompt.origin[block] if prompt.origin else block


def _stands_on(marker: Marker, prompt: Prompt) -> int | None:
    """The block of the body that a marker counts for; an automatic one counts for the last that can carry it."""
    if marker.block is not None:
        return marker.block
    return next(_markable_from_end(prompt), None)


def _markable_from_end(prompt: Prompt) -> Iterator[int]:
    for index in range(len(prompt.blocks) - 1, -1, -1):
        if prompt.blocks[index].markable:
            yield _place(prompt, index)
