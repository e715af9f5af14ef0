"""A tool's recorded requests beside what our model of it makes of the same prompts without their markers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from holdfast import facts
from holdfast.caches.prompts import Mark, Prompt
from holdfast.lab.peers import PEERS
from holdfast.simulator.messages import HttpRequest
from holdfast.wire import DIALECTS
from holdfast.wire.prompts import PromptReader

PATHS = {
    "/v1/messages": ("anthropic", "anthropic"),
    "/v1/chat/completions": ("openai_chat", "openai"),
    "/v1/responses": ("openai_responses", "openai"),
}
"""The dialect and the provider that the path of a request tells."""


def prompts(posted: Iterable[tuple[str, bytes]]) -> list[Prompt]:
    """Bodies, each with its path, as the provider's cache sees them; what is no model call is left out."""
    reader, found = PromptReader(), []
    for path, raw in posted:
        if path in PATHS:
            dialect, provider = PATHS[path]
            body = reader.parse(DIALECTS[dialect], raw)
            found.append(reader.read(body, facts.model(f"{provider}:{body.model}")).prompt)
    return found


def sent(calls: Sequence[HttpRequest]) -> list[Prompt]:
    """What a simulator was sent."""
    return prompts((call.path, call.body) for call in calls if call.method == "POST")


def ordered(marks: Iterable[Mark]) -> tuple[Mark, ...]:
    return tuple(sorted(marks, key=lambda mark: mark.block))


def compared(name: str, recorded: Sequence[Prompt]) -> None:
    """The same markers, block for block and for the same time, on every request."""
    assert recorded
    for number, prompt in enumerate(recorded, 1):
        placed = PEERS[name].place(replace(prompt, marks=()))
        assert placed == ordered(prompt.marks), f"request {number} of {len(recorded)} to {prompt.model}"
        assert not prompt.hidden, f"request {number} has a marker that does nothing"
        assert prompt.mode in ("", "implicit")
