"""The engine inside the official SDKs' HTTP clients: what their requests are given besides what the engine does.

`transport` has the clients themselves. Here they get memory, which `transport` knows nothing of. May import memory,
transport and what is below.
"""

from .http_clients import http_client
from .passages import passages_of

__all__ = ["http_client", "passages_of"]
