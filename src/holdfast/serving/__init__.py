"""What our servers share: listening sockets, and HTTP connections that can be reset and that tell when a client leaves.

Decides nothing about what is sent. Imports `errors` only.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import encodings as encodings
    from .admission import Admission as Admission
    from .encodings import readable as readable
    from .listener import address_of as address_of
    from .listener import is_loopback as is_loopback
    from .listener import listen as listen
    from .protocol import CONNECTION as CONNECTION
    from .protocol import Arrived as Arrived
    from .protocol import Protocol as Protocol
    from .protocol import arrived_of as arrived_of
    from .protocol import connection_of as connection_of
    from .protocol import ends_with_mark as ends_with_mark
    from .protocol import send_together as send_together
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
