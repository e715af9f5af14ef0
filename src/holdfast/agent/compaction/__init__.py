"""What is done when a conversation becomes too long: a summary in the place of old history, or without it.

When it is due and when it pays (`limits`), what goes (`cut`), what the model is asked for (`summary_request`) and what
stands in its place (`summary_entry`, `carry_over`) are functions of values; `compactor` does it to a session. What goes
stays in the log.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .compactor import before_request, compact, elide
    from .limits import is_too_long
    from .sizes import length
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".compactor": "before_request compact elide",
            ".limits": "is_too_long",
            ".sizes": "length",
        },
    )
