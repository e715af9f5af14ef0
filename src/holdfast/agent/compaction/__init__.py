"""What is done when a conversation becomes too long: a summary in the place of old history, or without it.

When it is due (`limits`), what goes (`cutting`, `trimming`), what the model is asked for (`asking`), what stands in its
place (`composing`) and what that costs (`reckoning`) are functions of values; `driving` does it to a session. What goes
stays in the log.
"""

from .compactor import before_request, compact, elide
from .limits import is_too_long

__all__ = ["before_request", "compact", "elide", "is_too_long"]
