"""Tools: the contract and the dispatcher, built-in ones, and everything that keeps them from costing the prefix.

Long results go to files before they are first sent, guides are shown when they are first needed, definitions that are
not needed wait to be found, old results are cleared when that pays, and MCP servers come and go without changing a byte
of what was declared. May import everything below it; optional libraries are imported when they are needed.
"""

from .confirmation import Confirmations, Confirmer, Decision, Question
from .contract import Answer, Cancel, Tool, ToolContext, ToolExecutionError, ToolOutput, Touch
from .dispatcher import Dispatcher
from .function_tools import tool
from .guides import Guides, Section
from .toolbox import Ran, Toolbox
from .toolset import ToolSet
from .workspace import Workspace

__all__ = [
    "Answer",
    "Cancel",
    "Confirmations",
    "Confirmer",
    "Decision",
    "Dispatcher",
    "Guides",
    "Question",
    "Ran",
    "Section",
    "Tool",
    "ToolContext",
    "ToolExecutionError",
    "ToolOutput",
    "ToolSet",
    "Toolbox",
    "Touch",
    "Workspace",
    "tool",
]
