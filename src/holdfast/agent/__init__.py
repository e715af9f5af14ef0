"""An agent whose prompt cannot break its own cache: sessions, their window, the loop, compaction, sub-agents.

What happened is appended to a session's log; everything else follows from it. May import everything below it; what
renders a window imports nothing but canonical values and errors.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import model_choice as model_choice
    from . import routing as routing
    from .contract import Compaction as Compaction
    from .contract import CostLine as CostLine
    from .contract import DelegateResult as DelegateResult
    from .contract import InspectedBlock as InspectedBlock
    from .contract import OutgoingRequest as OutgoingRequest
    from .contract import Provider as Provider
    from .contract import ProviderAnswer as ProviderAnswer
    from .contract import SideRequest as SideRequest
    from .contract import Task as Task
    from .contract import Turn as Turn
    from .contract import Unreachable as Unreachable
    from .contract import Watch as Watch
    from .effort import DEFAULT as DEFAULT
    from .effort import check_effort as check_effort
    from .effort import lost_section as lost_section
    from .effort import price_of_change as price_of_change
    from .host import Equipment as Equipment
    from .host import Host as Host
    from .log import DAMAGED as DAMAGED
    from .log import SUFFIX as SUFFIX
    from .log import TORN as TORN
    from .log import SessionOnDisk as SessionOnDisk
    from .log import listed as listed
    from .log import log_path as log_path
    from .log import read_log as read_log
    from .model_call import Stopped as Stopped
    from .program import open_agent as open_agent
    from .providers import KEYS as KEYS
    from .providers import HttpProvider as HttpProvider
    from .providers import not_served as not_served
    from .session import Session as Session
    from .sessions import Sessions as Sessions
    from .stable_text import CALLS_OF_A_MESSAGE as CALLS_OF_A_MESSAGE
    from .stable_text import EXPECTED_CALLS as EXPECTED_CALLS
    from .stable_text import PERSONA as PERSONA
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "model_choice routing",
            ".contract": (
                "Compaction CostLine DelegateResult InspectedBlock OutgoingRequest Provider ProviderAnswer "
                "SideRequest Task Turn Unreachable Watch"
            ),
            ".effort": "DEFAULT check_effort lost_section price_of_change",
            ".host": "Equipment Host",
            ".log": "DAMAGED SUFFIX SessionOnDisk TORN listed log_path read_log",
            ".model_call": "Stopped",
            ".program": "open_agent",
            ".providers": "HttpProvider KEYS not_served",
            ".session": "Session",
            ".sessions": "Sessions",
            ".stable_text": "CALLS_OF_A_MESSAGE EXPECTED_CALLS PERSONA",
        },
    )
