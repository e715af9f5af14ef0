"""The whole configuration as one value. It stands apart from the table of keys, so that an engine loads no table."""

from __future__ import annotations

from msgspec import Struct

from .agent import AgentSettings, MemorySettings, SkillsSettings, ToolsSettings
from .cache import CacheSettings
from .mcp import McpSettings
from .server import FactsSettings, GatewaySettings, StoreSettings, UpstreamSettings


class Settings(Struct, frozen=True):
    """The whole configuration, every value in place."""

    upstream: UpstreamSettings = UpstreamSettings()
    cache: CacheSettings = CacheSettings()
    gateway: GatewaySettings = GatewaySettings()
    store: StoreSettings = StoreSettings()
    agent: AgentSettings = AgentSettings()
    skills: SkillsSettings = SkillsSettings()
    tools: ToolsSettings = ToolsSettings()
    mcp: McpSettings = McpSettings()
    memory: MemorySettings = MemorySettings()
    facts: FactsSettings = FactsSettings()
