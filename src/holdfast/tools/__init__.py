"""Tools: the contract and the dispatcher, built-in ones, and everything that keeps them from costing the prefix.

Long results go to files before they are first sent, guides are shown when they are first needed, definitions that are
not needed wait to be found, old results are cleared when that pays, and MCP servers come and go without changing a byte
of what was declared. May import everything below it; optional libraries are imported when they are needed.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .carriers import definition_of, function_text, functions_text, input_of, unwrapped
    from .change_lock import LoopLock
    from .confirmation import Confirmations, Confirmer, Decision, Question, Scope
    from .contract import (
        CALL_TOOL,
        DISCOVER_TOOLS,
        SKILL_LOAD,
        Cancel,
        Effect,
        RefusedCall,
        Run,
        Tool,
        ToolAnswer,
        ToolContext,
        ToolExecutionError,
        ToolOutput,
        Touch,
    )
    from .deferral import size_of
    from .dispatcher import Dispatcher
    from .function_tools import tool
    from .guides import Guides, GuideSection, is_guide
    from .journal import ToolJournal, mended
    from .offload import directory_of
    from .safe_files import directory, no_file, open_file
    from .search import COMMON, ToolIndex, ToolMatches, WordIndex, meant, words
    from .text_limits import cut, mend, shown
    from .time_limits import WorkTimeout, in_thread, retrieve_exception, run_bounded, wait_until_done
    from .toolbox import DIALECT_OF, Toolbox, ToolHost, ToolSession, ToolSources, TurnResults, dialect_of_model
    from .toolkit import flag, go_on, number, opened_directory, schema, text, whole
    from .toolset import Redeclared, ToolSet
    from .validation import unknown
    from .workspace import Workspace, lexical
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".carriers": "definition_of function_text functions_text input_of unwrapped",
            ".change_lock": "LoopLock",
            ".confirmation": "Confirmations Confirmer Decision Question Scope",
            ".contract": (
                "CALL_TOOL Cancel DISCOVER_TOOLS Effect RefusedCall Run SKILL_LOAD Tool ToolAnswer "
                "ToolContext ToolExecutionError ToolOutput Touch"
            ),
            ".deferral": "size_of",
            ".dispatcher": "Dispatcher",
            ".function_tools": "tool",
            ".guides": "GuideSection Guides is_guide",
            ".journal": "ToolJournal mended",
            ".offload": "directory_of",
            ".safe_files": "directory no_file open_file",
            ".search": "COMMON ToolIndex ToolMatches WordIndex meant words",
            ".text_limits": "cut mend shown",
            ".time_limits": "WorkTimeout in_thread retrieve_exception run_bounded wait_until_done",
            ".toolbox": "DIALECT_OF ToolHost ToolSession ToolSources Toolbox TurnResults dialect_of_model",
            ".toolkit": "flag go_on number opened_directory schema text whole",
            ".toolset": "Redeclared ToolSet",
            ".validation": "unknown",
            ".workspace": "Workspace lexical",
        },
    )
