"""The providers' cache rules as pure functions of values and time: one file per provider.

Prediction and simulator share them, so a rule exists once. Knows neither wire bytes, prices nor storage; imports
`canonical` and `facts`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import anthropic as anthropic
    from . import chain as chain
    from . import gemini as gemini
    from . import openai_breakpoints as openai_breakpoints
    from . import providers as providers
    from .anthropic import EFFORT as EFFORT
    from .anthropic import AnthropicCache as AnthropicCache
    from .anthropic import Divergence as Divergence
    from .anthropic import cold_writes as cold_writes
    from .anthropic import decide as decide
    from .anthropic import diagnose as diagnose
    from .anthropic import marked_prompt as marked_prompt
    from .anthropic import reach as reach
    from .entries import Entries as Entries
    from .gemini_contents import CachedContent as CachedContent
    from .gemini_contents import CachedContents as CachedContents
    from .noise import Noise as Noise
    from .noise import Noisy as Noisy
    from .openai_breakpoints import OpenAIBreakpoints as OpenAIBreakpoints
    from .openai_breakpoints import developer_end as developer_end
    from .openai_breakpoints import entry_key as entry_key
    from .prompts import NEVER as NEVER
    from .prompts import Block as Block
    from .prompts import Cache as Cache
    from .prompts import CacheControls as CacheControls
    from .prompts import Entry as Entry
    from .prompts import Mark as Mark
    from .prompts import Outcome as Outcome
    from .prompts import Prompt as Prompt
    from .prompts import Section as Section
    from .providers import Rules as Rules
    from .providers import cache as cache
    from .providers import prompt as prompt
    from .providers import rules as rules
    from .streams import Room as Room
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "anthropic chain gemini openai_breakpoints providers",
            ".anthropic": "AnthropicCache Divergence EFFORT cold_writes decide diagnose marked_prompt reach",
            ".entries": "Entries",
            ".gemini_contents": "CachedContent CachedContents",
            ".noise": "Noise Noisy",
            ".openai_breakpoints": "OpenAIBreakpoints developer_end entry_key",
            ".prompts": "Block Cache CacheControls Entry Mark NEVER Outcome Prompt Section",
            ".providers": "Rules cache prompt rules",
            ".streams": "Room",
        },
    )
