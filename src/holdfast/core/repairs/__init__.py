"""Repairs of what clients do to their own prefix: which order, which first value, what is told instead.

Pure decisions on texts and digests. Knows nothing of how a body is spelled; `engine.repairing` applies them.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import patches as patches
    from . import texts as texts
    from . import tool_texts as tool_texts
    from .exact import load_patterns as load_patterns
    from .history import BlockHistory as BlockHistory
    from .history import EarlierBlock as EarlierBlock
    from .history import HistoryWalk as HistoryWalk
    from .history import grown as grown
    from .history import recall as recall
    from .history import record as record
    from .history import settled as settled
    from .kinds import MOVES as MOVES
    from .kinds import NAMES as NAMES
    from .kinds import Mode as Mode
    from .kinds import Name as Name
    from .kinds import Repair as Repair
    from .memory import ByteMemory as ByteMemory
    from .order import first_order as first_order
    from .order import set_of as set_of
    from .state import FirstText as FirstText
    from .state import InsertedText as InsertedText
    from .state import RepairState as RepairState
    from .texts import ChangedLine as ChangedLine
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "patches texts tool_texts",
            ".exact": "load_patterns",
            ".history": "BlockHistory EarlierBlock HistoryWalk grown recall record settled",
            ".kinds": "MOVES Mode NAMES Name Repair",
            ".memory": "ByteMemory",
            ".order": "first_order set_of",
            ".state": "FirstText InsertedText RepairState",
            ".texts": "ChangedLine",
        },
    )
