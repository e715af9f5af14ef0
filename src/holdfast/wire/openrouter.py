"""OpenRouter: OpenAI's shape around many providers; `cache_control` survives on Anthropic-backed routes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

from msgspec.structs import replace

from holdfast.facts import ModelFacts
from holdfast.records import UNSPLIT, Capabilities, Extra

from .body import Body, Marker
from .cache_control import MARKERS, ttl_of
from .openai_chat import OpenAIChat, read_event
from .raw_json import facts_at
from .stream import Tap
from .usage import openai_usage

NAME = "openrouter"


class OpenRouter(OpenAIChat):
    """Chat Completions with another marker, on some routes, and a capability that has to be seen first."""

    name = NAME
    provider = "openrouter"
    marker_key = "cache_control"
    limit_key = "max_tokens"
    streamed: Extra = (*OpenAIChat.streamed, ("usage", b'{"include":true}'))

    def model_in_path(self, path: str) -> str | None:
        """None: its path is that of Chat Completions, and only the address distinguishes them."""
        return None

    def facts(self, model: str) -> ModelFacts:
        return facts_at(self.provider, model)

    def takes_markers(self, model: str) -> bool:
        return model.removeprefix("~").startswith("anthropic/")

    def marker_value(self, ttl: str) -> bytes:
        return MARKERS[ttl]

    def ttl_of(self, body: Body, marker: bytes) -> str:
        return ttl_of(marker) or "5m"

    def markers(self, body: Body, among: Sequence[int] | None = None) -> tuple[Marker, ...]:
        """The body's own markers; the automatic one (top level) last."""
        automatic = ttl_of(body.member("cache_control"))
        return (*super().markers(body, among), *((Marker(None, automatic),) if automatic is not None else ()))

    def tap(self) -> Tap:
        """Writes are reported without their TTL, which is the backing provider's."""
        return Tap(read_event, partial(openai_usage, write_ttl=UNSPLIT))

    def capabilities(
        self, facts: ModelFacts, *, caching: Literal["never", "seen"] = "seen", read_seen: bool = False
    ) -> Capabilities:
        """`never` is the seed's honest answer for a route that cannot be known; `seen` waits for a read on it."""
        supported = caching == "seen" and read_seen and facts.capabilities.supports_prompt_caching
        return replace(facts.capabilities, supports_prompt_caching=supported)
