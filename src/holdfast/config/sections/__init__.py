"""The sections of the configuration as declarations only; `holdfast.config.keys` puts them together."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .agent import Command, Compaction, Confirm, Deferral, Mask, Memory, Offload, Skills, Tools
    from .cache import Breaks, Cache, Gemini, Keepalive, OpenAI, Retention, Strategy
    from .mcp import DeclaredServer, Mcp
    from .server import Gateway, Limits, Upstream
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
