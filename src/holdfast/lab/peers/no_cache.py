"""No caching: no marker, and on OpenAI from GPT-5.6 on the explicit mode without breakpoints.

Older OpenAI models, Gemini and other providers that cache by themselves cannot be told not to: there this is the same
as `automatic`.
"""

from __future__ import annotations

from holdfast.caches import Mark, Prompt

from .peer import Peer


def place(prompt: Prompt) -> tuple[Mark, ...]:
    return ()


PEER = Peer(
    name="none",
    title="no caching",
    version="",
    place=place,
    mode="explicit",
    summary="No marker at all; a provider that caches by itself still does, except OpenAI from GPT-5.6 on.",
)
