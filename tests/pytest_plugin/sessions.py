"""Sessions as request bodies in every dialect, with and without the faults of clients, and what is wrong with them by a
plain comparison of their blocks."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.lab import FAULTS, SEEDS, with_gaps
from holdfast.pytest_plugin.bodies import RecordedRequest
from holdfast.records import Request
from holdfast.wire import DIALECTS, Body
from tests.lab.recordings import own
from tests.wire.marked_bodies import encoded

MODELS = {
    "anthropic": "anthropic:claude-opus-5-5",
    "openai_chat": "openai:gpt-5.6",
    "openai_responses": "openai:gpt-5.6",
    "gemini": "gemini:gemini-2.5-flash",
}
SESSIONS = ("session", "dialogue-0", "dialogue-1", "dialogue-2")


def bodies(dialect: str, fault: str | None = None, name: str = "session", most: int = 18) -> list[bytes]:
    """The requests of one of our own sessions, as a client of a dialect sends them; Anthropic's with markers."""
    trace = with_gaps(own(name), "minutes", SEEDS[0])
    if fault is not None:
        trace = FAULTS[fault](trace, SEEDS[0])
    found = []
    for step in trace.steps[:most]:
        assert isinstance(step.content, Request)
        request = replace(step.content, model=MODELS[dialect], dialect=None)
        found.append(encoded(request, dialect))
    return found


def recorded(raws: list[bytes], dialect: str, **more: Any) -> list[RecordedRequest]:
    """Bodies as recorded requests; Gemini's model stands in the path."""
    model = MODELS["gemini"].partition(":")[2] if dialect == "gemini" else ""
    return [
        RecordedRequest(number=number, body=raw, dialect=dialect, model=model, **more)
        for number, raw in enumerate(raws, 1)
    ]


def departures(raws: list[bytes], dialect: str) -> set[int]:
    """The requests of one conversation that do not begin with the one before, by their blocks' contents alone."""
    found, before = set(), list[tuple[str, bytes]]()
    for number, raw in enumerate(raws, 1):
        body = DIALECTS[dialect].parse(raw, model="any" if dialect == "gemini" else "")
        assert isinstance(body, Body)
        blocks = [(span.section, DIALECTS[dialect].content(body, i)) for i, span in enumerate(body.blocks)]
        if blocks[: len(before)] != before:
            found.add(number)
        before = blocks
    return found


def turn(*texts: str, markers: bool = True, **members: Any) -> dict[str, Any]:
    """A body for Anthropic: a question, an answer, a question and so on. The last block carries a marker."""
    messages: list[dict[str, Any]] = []
    for index, text in enumerate(texts):
        messages.append({"role": "assistant" if index % 2 else "user", "content": [{"type": "text", "text": text}]})
    if markers:
        messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return {"model": "claude-opus-5-5", "max_tokens": 100, "system": MANUAL, "messages": messages} | members


MANUAL = "The station writes down temperature, wind and rain of every hour, and leaves out what it does not know. " * 60
"""Long enough for every provider to cache it."""
