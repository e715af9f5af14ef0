"""The whole configuration as one value. It stands apart from the table of keys, so that an engine loads no table."""

from __future__ import annotations

from msgspec import Struct

from .agent import Agent, Memory, Skills, Tools
from .cache import Cache
from .mcp import Mcp
from .server import Facts, Gateway, Store, Upstream


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
