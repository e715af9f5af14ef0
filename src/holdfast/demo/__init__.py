"""What `holdfast demo` shows: one coding session, sent by a careless client through a real gateway, and done by
Holdfast's own agent, against the simulator. May import everything but the commands.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import agent as agent
    from . import session as session
    from .agent import AgentRun as AgentRun
    from .arms import ARMS as ARMS
    from .arms import WHOLE as WHOLE
    from .runs import CarelessClient as CarelessClient
    from .runs import Run as Run
    from .runs import progress as progress
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "agent session",
            ".agent": "AgentRun",
            ".arms": "ARMS WHOLE",
            ".runs": "CarelessClient Run progress",
        },
    )
