"""Compaction of a conversation that becomes too long: a summary, or an outline, replaces old history.

When it is due and when it pays (`sizes`), what goes (`cut`), and what replaces it (`summary`, `carry_over`) are
functions of values; `compactor` applies them to a session. The log keeps what goes.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .compactor import before_request, compact, elide
    from .sizes import length
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".compactor": "before_request compact elide",
            ".sizes": "length",
        },
    )
