"""The engine: a body in, the bytes to send out; usage in, a verdict out.

Bridges wire, prefix, store and events, and knows nothing of HTTP: `prepare`, `first_token`, `settle`, `abandon`. May
import everything below it.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .byte_diff import ByteDiff, locate
    from .call_records import UnplannedCall
    from .edits import is_signed
    from .engine import EngineCore
    from .keepalive import DuePing
    from .lane import Lane, PreparedCall, PrepareOptions, SideCall
    from .marker_splices import marked
    from .partial_usage import Partial
    from .persistence import DURABLE_TIMEOUT_S
    from .reports import WORDS_MASKED, Reports
    from .state import facts_of
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".byte_diff": "ByteDiff locate",
            ".call_records": "UnplannedCall",
            ".edits": "is_signed",
            ".engine": "EngineCore",
            ".keepalive": "DuePing",
            ".lane": "Lane PrepareOptions PreparedCall SideCall",
            ".marker_splices": "marked",
            ".partial_usage": "Partial",
            ".persistence": "DURABLE_TIMEOUT_S",
            ".reports": "Reports WORDS_MASKED",
            ".state": "facts_of",
        },
    )
