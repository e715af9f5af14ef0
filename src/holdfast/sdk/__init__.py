"""The engine for programs: `Engine`, its `Call`, and HTTP clients for the official SDKs with the engine inside.

It gives their requests memory too, which the engine knows nothing of. May import memory, engine and what is below.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .engine import Call, Engine
    from .http_clients import library_of
    from .responses import message_of
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".engine": "Call Engine",
            ".http_clients": "library_of",
            ".responses": "message_of",
        },
    )
