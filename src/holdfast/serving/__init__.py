"""What our servers share: listening sockets, and HTTP connections that can be reset and that tell when a client leaves.

Decides nothing about what is sent. Imports `errors` only.
"""

from .admission import Admission
from .listener import address_of, is_loopback, listen
from .protocol import CONNECTION, Arrived, Protocol, arrived_of, connection_of, ends_with_mark, send_together

__all__ = [
    "CONNECTION",
    "Admission",
    "Arrived",
    "Protocol",
    "address_of",
    "arrived_of",
    "connection_of",
    "ends_with_mark",
    "is_loopback",
    "listen",
    "send_together",
]
