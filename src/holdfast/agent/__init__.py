"""An agent whose prompt cannot break its own cache: sessions, their window, the loop, compaction, sub-agents.

What happened is appended to a session's log; everything else follows from it. May import everything below it; what
renders a window imports nothing but canonical values and errors.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import model_choice, routing
    from .contract import (
        CompactionResult,
        CostLine,
        DelegateResult,
        Equipment,
        Host,
        InspectedBlock,
        OutgoingRequest,
        Provider,
        ProviderAnswer,
        SideRequest,
        Task,
        Turn,
        Unreachable,
        Watch,
    )
    from .effort import DEFAULT, check_effort, lost_section, price_of_change
    from .log import DAMAGED, SUFFIX, TORN, SessionOnDisk, listed, log_path, read_log
    from .model_call import Stopped
    from .program import open_agent
    from .providers import KEYS, HttpProvider, not_served
    from .session import Session
    from .sessions import Sessions
    from .stable_text import CALLS_OF_A_MESSAGE, EXPECTED_CALLS, PERSONA
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "model_choice routing",
            ".contract": (
                "CompactionResult CostLine DelegateResult Equipment Host InspectedBlock OutgoingRequest "
                "Provider ProviderAnswer SideRequest Task Turn Unreachable Watch"
            ),
            ".effort": "DEFAULT check_effort lost_section price_of_change",
            ".log": "DAMAGED SUFFIX SessionOnDisk TORN listed log_path read_log",
            ".model_call": "Stopped",
            ".program": "open_agent",
            ".providers": "HttpProvider KEYS not_served",
            ".session": "Session",
            ".sessions": "Sessions",
            ".stable_text": "CALLS_OF_A_MESSAGE EXPECTED_CALLS PERSONA",
        },
    )
