"""The window of a conversation: a pure projection of events, rendered by pure functions of its entries.

`projection` folds events into a `state`, whose `flush` makes entries of what is queued; `renderer` makes messages of
entries. Imports records, events and errors; what renders (entries, renderer, texts) not even events.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .projection import project
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".projection": "project",
        },
    )
