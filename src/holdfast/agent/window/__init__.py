"""The window of a conversation: a pure projection of events, rendered by pure functions of its entries.

`projection` folds events into a state, `flushing` makes entries of what waits, `rendering` makes messages of entries.
Imports canonical, events and errors; what renders (entries, rendering, coalescing, wording, times) not even events.
"""

from typing import TYPE_CHECKING

from ...lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .projection import project as project
else:
    __getattr__, __all__ = lazy_exports(
        __name__,
        {
            ".projection": "project",
        },
    )
