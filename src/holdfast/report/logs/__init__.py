"""The logs that clients already keep, as provider requests one by one: a reader for each format, found by content.

Readers stream: they hold a line at a time and what a conversation needs to be told apart, never a file. A line that
cannot be read is handed on as `Broken` and the rest goes on. Knows nothing of breaks, prices or cache rules;
imports `store`, `identity`, `wire`, `config`, `facts`, `canonical`. `finding` is the door; a new format is a module and
a line in `formats`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .descriptions import in_words as in_words
    from .descriptions import megabytes as megabytes
    from .discovery import KNOWN as KNOWN
    from .discovery import LogReader as LogReader
    from .discovery import home_sources as home_sources
    from .discovery import sniff as sniff
    from .discovery import sources as sources
    from .records import BrokenSource as BrokenSource
    from .records import LoggedRequest as LoggedRequest
    from .records import Record as Record
    from .records import Source as Source
    from .selection import REQUESTS as REQUESTS
    from .selection import SESSIONS as SESSIONS
    from .selection import SecondReading as SecondReading
    from .selection import SessionChooser as SessionChooser
    from .trace_files import read as read
    from .traces import SIDECHAIN as SIDECHAIN
    from .traces import Content as Content
    from .traces import Shape as Shape
    from .traces import ShapeBlock as ShapeBlock
    from .traces import Trace as Trace
    from .traces import TraceStep as TraceStep
    from .traces import by_author as by_author
    from .traces import lanes as lanes
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".descriptions": "in_words megabytes",
            ".discovery": "KNOWN LogReader home_sources sniff sources",
            ".records": "BrokenSource LoggedRequest Record Source",
            ".selection": "REQUESTS SESSIONS SecondReading SessionChooser",
            ".trace_files": "read",
            ".traces": "Content SIDECHAIN Shape ShapeBlock Trace TraceStep by_author lanes",
        },
    )
