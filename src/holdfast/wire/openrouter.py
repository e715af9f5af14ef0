"""OpenRouter: OpenAI's shape around many providers; `cache_control` survives on Anthropic-backed routes."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from holdfast.canonical import Capabilities
from holdfast.facts import ModelFacts

from .body import Body
from .codecs.anthropic import MARKERS
from .openai_chat import OpenAIChat
from .values import object_of, string_of

NAME = "openrouter"


class OpenRouter(OpenAIChat):
    """Chat Completions with another marker, on some routes, and a capability that has to be seen first."""

    name = NAME
    provider = "openrouter"
    marker_key = "cache_control"
    limit_key = "max_tokens"

    def takes_markers(self, model: str) -> bool:
        return model.removeprefix("~").startswith("anthropic/")

    def marker_value(self, ttl: str) -> bytes:
        return MARKERS[ttl]

    def ttl_of(self, body: Body, marker: bytes) -> str:
        return string_of((object_of(marker) or {}).get("ttl")) or "5m"

    def capabilities(
        self, facts: ModelFacts, *, caching: Literal["never", "seen"] = "seen", read_seen: bool = False
    ) -> Capabilities:
        """`never` is the seed's honest answer for a route that cannot be known; `seen` waits for a read on it."""
        supported = caching == "seen" and read_seen and facts.capabilities.supports_prompt_caching
        return replace(facts.capabilities, supports_prompt_caching=supported)
