"""What our servers share: listening sockets, and HTTP connections that can be reset and that tell when a client leaves.

Decides nothing about what is sent. Imports `errors` only.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import encodings
    from .admission import Admission
    from .encodings import readable
    from .listener import address_of, is_loopback, listen
    from .protocol import CONNECTION, Arrived, Protocol, arrived_of, connection_of, ends_with_mark, send_together
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "encodings",
            ".admission": "Admission",
            ".encodings": "readable",
            ".listener": "address_of is_loopback listen",
            ".protocol": "Arrived CONNECTION Protocol arrived_of connection_of ends_with_mark send_together",
        },
    )
