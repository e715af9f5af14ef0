"""The logs that clients already keep, as provider requests one by one: a reader for each format, found by content.

Readers stream: they hold a line at a time and what a conversation needs to be told apart, never a file. A line that
cannot be read is handed on as `BrokenSource` and the rest goes on. Knows nothing of breaks, prices or cache rules;
imports `engine.identity`, `store` and below. A new format is a module and a line in `discovery`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .discovery import KNOWN, LogReader, home_sources, in_words, megabytes, sniff, sources
    from .records import BrokenSource, LoggedRequest, Record, Source
    from .selection import REQUESTS, SESSIONS, SecondReading, SessionChooser
    from .trace_files import read
    from .traces import SIDECHAIN, Content, Shape, ShapeBlock, Trace, TraceStep, by_author, lanes
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".discovery": "KNOWN LogReader home_sources in_words megabytes sniff sources",
            ".records": "BrokenSource LoggedRequest Record Source",
            ".selection": "REQUESTS SESSIONS SecondReading SessionChooser",
            ".trace_files": "read",
            ".traces": "Content SIDECHAIN Shape ShapeBlock Trace TraceStep by_author lanes",
        },
    )
