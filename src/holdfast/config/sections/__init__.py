"""The sections of the configuration as declarations only; `holdfast.config.schema` puts them together."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .agent import Command as Command
    from .agent import Compaction as Compaction
    from .agent import Confirm as Confirm
    from .agent import Deferral as Deferral
    from .agent import Mask as Mask
    from .agent import Memory as Memory
    from .agent import Offload as Offload
    from .agent import Skills as Skills
    from .agent import Tools as Tools
    from .cache import Breaks as Breaks
    from .cache import Cache as Cache
    from .cache import Gemini as Gemini
    from .cache import Keepalive as Keepalive
    from .cache import OpenAI as OpenAI
    from .cache import Retention as Retention
    from .cache import Strategy as Strategy
    from .mcp import DeclaredServer as DeclaredServer
    from .mcp import Mcp as Mcp
    from .server import Gateway as Gateway
    from .server import Limits as Limits
    from .server import Upstream as Upstream
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".agent": "Command Compaction Confirm Deferral Mask Memory Offload Skills Tools",
            ".cache": "Breaks Cache Gemini Keepalive OpenAI Retention Strategy",
            ".mcp": "DeclaredServer Mcp",
            ".server": "Gateway Limits Upstream",
        },
    )
