"""The whole configuration as one typed value, every key at the place it has in `holdfast.toml`.

Only declarations: nothing here reads, merges or prints.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.config.sections.agent import Agent, Memory, Skills, Tools
from holdfast.config.sections.cache import Cache
from holdfast.config.sections.mcp import Mcp

from .sections.server import Facts, Gateway, Store, Upstream


class Settings(Struct, frozen=True):
    """The whole configuration, every value in place."""

    upstream: Upstream = Upstream()
    cache: Cache = Cache()
    gateway: Gateway = Gateway()
    store: Store = Store()
    agent: Agent = Agent()
    skills: Skills = Skills()
    tools: Tools = Tools()
    mcp: Mcp = Mcp()
    memory: Memory = Memory()
    facts: Facts = Facts()
