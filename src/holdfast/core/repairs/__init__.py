"""Repairs of what clients do to their own prefix: which order, which first value, what is told instead.

Pure decisions on texts and digests. Knows nothing of how a body is spelled; `engine.repairing` applies them.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import patches, texts, tool_texts
    from .exact import load_patterns
    from .history import BlockHistory, EarlierBlock, HistoryWalk, grown, recall, record, settled
    from .kinds import MOVES, NAMES, Mode, Name, Repair
    from .memory import ByteMemory
    from .order import first_order, set_of
    from .state import FirstText, InsertedText, RepairState
    from .texts import ChangedLine
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
