"""Repairs of what clients do to their own prefix: which order, which first value, what is told instead.

Pure decisions on texts and digests. Knows nothing of how a body is spelled; `engine.repairs` applies them.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import patches, texts, tool_texts
    from .exact import load_patterns
    from .history import BlockHistory, EarlierBlock, HistoryWalk, grown, recall, record, settled
    from .memory import ByteMemory
    from .state import MOVES, NAMES, FirstText, InsertedText, Mode, Name, Repair, RepairState, first_order, set_of
    from .texts import ChangedLine
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "patches texts tool_texts",
            ".exact": "load_patterns",
            ".history": "BlockHistory EarlierBlock HistoryWalk grown recall record settled",
            ".memory": "ByteMemory",
            ".state": "FirstText InsertedText MOVES Mode NAMES Name Repair RepairState first_order set_of",
            ".texts": "ChangedLine",
        },
    )
