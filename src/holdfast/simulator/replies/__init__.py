"""A reply in each provider's words: one file per dialect, whole or as a stream of events.

Rendering is a pure function of a reply and its envelope. Knows nothing of caches, scripts, sockets or clocks.
"""

from __future__ import annotations

from typing import Protocol

from ..messages import HttpResponse, Reply, ReplyEnvelope
from . import anthropic, gemini, openai_chat, openai_responses

__all__ = ["RENDERERS", "Renderer", "answer"]


class Renderer(Protocol):
    """A dialect's two forms of a response: one JSON body, or one SSE frame per element."""

    def body(self, reply: Reply, envelope: ReplyEnvelope) -> bytes: ...
    def events(self, reply: Reply, envelope: ReplyEnvelope) -> tuple[bytes, ...]: ...


RENDERERS: dict[str, Renderer] = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "openrouter": openai_chat,
}

_JSON = ("content-type", "application/json")
_STREAM = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))


def answer(dialect: str, reply: Reply, envelope: ReplyEnvelope) -> HttpResponse:
    """The whole HTTP response: streamed if the envelope says so, in the form the settings ask for."""
    renderer = RENDERERS[dialect]
    if not envelope.stream:
        return HttpResponse(200, (_JSON,), renderer.body(reply, envelope))
    if dialect == "gemini" and not envelope.settings.sse:
        return HttpResponse(200, (_JSON,), chunks=gemini.array(reply, envelope))
    return HttpResponse(200, _STREAM, chunks=renderer.events(reply, envelope))
