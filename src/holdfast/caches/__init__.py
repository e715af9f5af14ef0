"""The providers' cache rules as pure functions of values and time: one file per provider.

Prediction and simulator share them, so a rule exists once. Knows neither wire bytes, prices nor storage; imports
`records` and `facts`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import anthropic, chain, gemini, openai_breakpoints, providers
    from .anthropic import (
        EFFORT,
        AnthropicCache,
        Lookup,
        ReportedDivergence,
        cold_writes,
        decide,
        diagnose,
        marked_prompt,
        reach,
    )
    from .entries import Entries
    from .gemini_contents import CachedContent, CachedContents
    from .noise import Noise, Noisy
    from .openai_breakpoints import OpenAIBreakpoints, developer_end, entry_key
    from .prompts import NEVER, Block, Cache, CacheControls, Entry, Mark, Outcome, Prompt, Section
    from .providers import Rules, cache, prompt, rules
    from .streams import Room
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "anthropic chain gemini openai_breakpoints providers",
            ".anthropic": (
                "AnthropicCache EFFORT Lookup ReportedDivergence cold_writes decide diagnose marked_prompt reach"
            ),
            ".entries": "Entries",
            ".gemini_contents": "CachedContent CachedContents",
            ".noise": "Noise Noisy",
            ".openai_breakpoints": "OpenAIBreakpoints developer_end entry_key",
            ".prompts": "Block Cache CacheControls Entry Mark NEVER Outcome Prompt Section",
            ".providers": "Rules cache prompt rules",
            ".streams": "Room",
        },
    )
