"""Bodies as a client of Anthropic's sends them that marks its prompts: the last tool, the last stable system block."""

from __future__ import annotations

from typing import Literal

from holdfast.records import Request, Text
from holdfast.wire import DIALECTS, Body

ANTHROPIC = DIALECTS["anthropic"]


def marked(request: Request, ttl: Literal["5m", "1h"] = "5m") -> bytes:
    """The request with both markers, where there is a place for them."""
    body = ANTHROPIC.parse(ANTHROPIC.encode(request))
    assert isinstance(body, Body)
    places = {"tools": -1, "system": -1}
    volatile = request.system_prompt_volatile
    behind = 0 if not volatile else 1 if isinstance(volatile, str | Text) else len(volatile)
    system = [index for index, block in enumerate(body.blocks) if block.section == "system"]
    for index, block in enumerate(body.blocks):
        stable = block.section == "tools" or index in system[: len(system) - behind]
        if stable and ANTHROPIC.markable(body, index):
            places[block.section] = index
    return body.apply([each for index in places.values() if index >= 0 for each in ANTHROPIC.place(body, index, ttl)])


def encoded(request: Request, dialect: str) -> bytes:
    """The request for a dialect; for Anthropic with its markers."""
    return marked(request) if dialect == "anthropic" else DIALECTS[dialect].encode(request)
