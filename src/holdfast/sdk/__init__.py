"""The engine inside the official SDKs' HTTP clients: what their requests are given besides what the engine does.

`transport` has the clients themselves. Here they get memory, which `transport` knows nothing of. May import memory,
transport and what is below.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .http_clients import http_client as http_client
    from .http_clients import library_of as library_of
    from .passages import passages_of as passages_of
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".http_clients": "http_client library_of",
            ".passages": "passages_of",
        },
    )
