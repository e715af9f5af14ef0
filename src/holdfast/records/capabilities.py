"""What a model can do through a dialect; routing consults it before it substitutes one model for another."""

from __future__ import annotations

from msgspec import Struct


class Capabilities(Struct, frozen=True, kw_only=True):
    thinking: bool = False
    images: bool = False
    tools: bool = True
    system: bool = True
    structured_output: bool = False
    streaming: bool = True
    parallel_tools: bool = True
    supports_prompt_caching: bool = False
    context_limit: int
    output_limit: int
