"""Holdfast: a cache-first context engine for LLM agents.

This is what programs import; beside it stand `holdfast.facts`, `holdfast.simulator` and `holdfast.pytest_plugin`. Names
are loaded when they are first asked for.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports
from holdfast.version import __version__ as __version__

if TYPE_CHECKING:
    from holdfast.agent import Task as Task
    from holdfast.agent import Watch as Watch
    from holdfast.agent import open_agent as open_agent
    from holdfast.config import load_config as load_config
    from holdfast.engine import Lane as Lane
    from holdfast.errors import HoldfastError as HoldfastError
    from holdfast.lab import ReplayOptions as ReplayOptions
    from holdfast.lab import replay as replay
    from holdfast.memory import Knowledge as Knowledge
    from holdfast.records import Message as Message
    from holdfast.records import Usage as Usage
    from holdfast.records.events import Bus as Bus
    from holdfast.report.explainer import explain as explain
    from holdfast.report.logs import LoggedRequest as LoggedRequest
    from holdfast.sdk import Call as Call
    from holdfast.sdk import Engine as Engine
    from holdfast.sdk import message_of as message_of
    from holdfast.store import open_store as open_store
    from holdfast.tools import Cancel as Cancel
    from holdfast.tools import Decision as Decision
    from holdfast.tools import Question as Question
    from holdfast.tools import Tool as Tool
    from holdfast.tools import ToolContext as ToolContext
    from holdfast.tools import ToolExecutionError as ToolExecutionError
    from holdfast.tools import tool as tool
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "holdfast.agent": "Task Watch open_agent",
            "holdfast.config": "load_config",
            "holdfast.engine": "Lane",
            "holdfast.errors": "HoldfastError",
            "holdfast.lab": "ReplayOptions replay",
            "holdfast.memory": "Knowledge",
            "holdfast.records": "Message Usage",
            "holdfast.records.events": "Bus",
            "holdfast.report.explainer": "explain",
            "holdfast.report.logs": "LoggedRequest",
            "holdfast.sdk": "Call Engine message_of",
            "holdfast.store": "open_store",
            "holdfast.tools": "Cancel Decision Question Tool ToolContext ToolExecutionError tool",
        },
    )
