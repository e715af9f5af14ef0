"""The engine: a body in, the bytes to send out; usage in, a verdict out.

Bridges wire, prefix, store and events, and knows nothing of HTTP: `prepare`, `first_token`, `settle`, `abandon`. May
import everything below it.
"""

from .engine import Engine
from .lane import Lane, Prepared

__all__ = ["Engine", "Lane", "Prepared"]
