"""Calls through the engine, whoever carries them: `Passages` for the gateway, HTTP clients for the official SDKs.

A passage takes a request's bytes in, gives the bytes to send, reads the answer as it passes and settles. Imports
`identity`, `engine` and below; knows no server.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import kill_switch
    from .client_request import OURS, Incoming, RawHeaders, by_name, without_ours
    from .fail_open import Timers, place_of, quiet, quietly
    from .kill_switch import Switch
    from .memory_hook import BYPASSED, Remembered, Reminder
    from .passage import Passage, Passages
    from .response_headers import RELAYED, Header, Held
    from .warmup import warm_up
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "kill_switch",
            ".client_request": "Incoming OURS RawHeaders by_name without_ours",
            ".fail_open": "Timers place_of quiet quietly",
            ".kill_switch": "Switch",
            ".memory_hook": "BYPASSED Remembered Reminder",
            ".passage": "Passage Passages",
            ".response_headers": "Header Held RELAYED",
            ".warmup": "warm_up",
        },
    )
