"""Tools: the contract and the dispatcher, built-in ones, and everything that keeps them from costing the prefix.

Long results go to files before they are first sent, guides are shown when they are first needed, definitions that are
not needed wait to be found, old results are cleared when that pays, and MCP servers come and go without changing a byte
of what was declared. May import everything below it; optional libraries are imported when they are needed.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .call_checks import unknown as unknown
    from .carriers import definition_of as definition_of
    from .carriers import function_text as function_text
    from .carriers import functions_text as functions_text
    from .carriers import given as given
    from .carriers import unwrapped as unwrapped
    from .change_lock import LoopLock as LoopLock
    from .confirmation import Confirmations as Confirmations
    from .confirmation import Confirmer as Confirmer
    from .confirmation import Decision as Decision
    from .confirmation import Question as Question
    from .confirmation import Scope as Scope
    from .contract import CALL_TOOL as CALL_TOOL
    from .contract import DISCOVER_TOOLS as DISCOVER_TOOLS
    from .contract import SKILL_LOAD as SKILL_LOAD
    from .contract import Cancel as Cancel
    from .contract import Effect as Effect
    from .contract import RefusedCall as RefusedCall
    from .contract import Run as Run
    from .contract import Tool as Tool
    from .contract import ToolAnswer as ToolAnswer
    from .contract import ToolContext as ToolContext
    from .contract import ToolExecutionError as ToolExecutionError
    from .contract import ToolOutput as ToolOutput
    from .contract import Touch as Touch
    from .deferral import size_of as size_of
    from .dispatcher import Dispatcher as Dispatcher
    from .function_tools import tool as tool
    from .guides import Guides as Guides
    from .guides import GuideSection as GuideSection
    from .guides import is_guide as is_guide
    from .journal import ToolJournal as ToolJournal
    from .journal import mended as mended
    from .offload import directory_of as directory_of
    from .safe_files import directory as directory
    from .safe_files import no_file as no_file
    from .safe_files import open_file as open_file
    from .search import COMMON as COMMON
    from .search import ToolIndex as ToolIndex
    from .search import ToolMatches as ToolMatches
    from .search import WordIndex as WordIndex
    from .search import meant as meant
    from .search import words as words
    from .text_limits import cut as cut
    from .text_limits import mend as mend
    from .text_limits import shown as shown
    from .time_limits import WorkTimeout as WorkTimeout
    from .time_limits import in_thread as in_thread
    from .time_limits import retrieve_exception as retrieve_exception
    from .time_limits import run_bounded as run_bounded
    from .time_limits import wait_until_done as wait_until_done
    from .toolbox import DIALECT_OF as DIALECT_OF
    from .toolbox import Toolbox as Toolbox
    from .toolbox import ToolHost as ToolHost
    from .toolbox import ToolSession as ToolSession
    from .toolbox import ToolSources as ToolSources
    from .toolbox import TurnResults as TurnResults
    from .toolbox import dialect_of_model as dialect_of_model
    from .toolkit import flag as flag
    from .toolkit import go_on as go_on
    from .toolkit import number as number
    from .toolkit import opened_directory as opened_directory
    from .toolkit import schema as schema
    from .toolkit import text as text
    from .toolkit import whole as whole
    from .toolset import Redeclared as Redeclared
    from .toolset import ToolSet as ToolSet
    from .workspace import Workspace as Workspace
    from .workspace import lexical as lexical
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".call_checks": "unknown",
            ".carriers": "definition_of function_text functions_text given unwrapped",
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
            ".workspace": "Workspace lexical",
        },
    )
