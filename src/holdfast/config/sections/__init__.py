"""The sections of the configuration as declarations only; `holdfast.config.keys` puts them together."""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .agent import (
        CommandSettings,
        CompactionSettings,
        ConfirmSettings,
        DeferralSettings,
        MaskSettings,
        MemorySettings,
        OffloadSettings,
        SkillsSettings,
        ToolsSettings,
    )
    from .cache import (
        BreaksSettings,
        CacheSettings,
        GeminiSettings,
        KeepaliveSettings,
        OpenAISettings,
        Retention,
        Strategy,
    )
    from .mcp import DeclaredServer, McpSettings
    from .server import GatewaySettings, LimitSettings, UpstreamSettings
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".agent": (
                "CommandSettings CompactionSettings ConfirmSettings DeferralSettings MaskSettings MemorySettings "
                "OffloadSettings SkillsSettings ToolsSettings"
            ),
            ".cache": "BreaksSettings CacheSettings GeminiSettings KeepaliveSettings OpenAISettings Retention Strategy",
            ".mcp": "DeclaredServer McpSettings",
            ".server": "GatewaySettings LimitSettings UpstreamSettings",
        },
    )
