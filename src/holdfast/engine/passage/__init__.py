"""Calls through the engine, whoever carries them: `Passages` for the gateway, HTTP clients for the official SDKs.

A passage takes a request's bytes in, gives the bytes to send, reads the answer as it passes and settles. Imports
`identity`, `engine` and below; knows no server.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import kill_switch as kill_switch
    from .client_request import OURS as OURS
    from .client_request import Incoming as Incoming
    from .client_request import RawHeaders as RawHeaders
    from .client_request import by_name as by_name
    from .client_request import without_ours as without_ours
    from .fail_open import place_of as place_of
    from .fail_open import quiet as quiet
    from .fail_open import quietly as quietly
    from .kill_switch import Switch as Switch
    from .memory_hook import BYPASSED as BYPASSED
    from .memory_hook import Remembered as Remembered
    from .memory_hook import Reminder as Reminder
    from .passage import Passage as Passage
    from .passage import Passages as Passages
    from .response_headers import RELAYED as RELAYED
    from .response_headers import Header as Header
    from .response_headers import Held as Held
    from .warmup import warm_up as warm_up
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "kill_switch",
            ".client_request": "Incoming OURS RawHeaders by_name without_ours",
            ".fail_open": "place_of quiet quietly",
            ".kill_switch": "Switch",
            ".memory_hook": "BYPASSED Remembered Reminder",
            ".passage": "Passage Passages",
            ".response_headers": "Header Held RELAYED",
            ".warmup": "warm_up",
        },
    )
