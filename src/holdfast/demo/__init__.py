"""What `holdfast demo` shows: one coding session, sent by a careless client through a real gateway, and done by
Holdfast's own agent, against the simulator. May import everything but the commands.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from . import agent, session
    from .agent import AgentRun
    from .arms import ARMS, WHOLE
    from .runs import CarelessClient, DemoRun
    from .savings import CLIENT_RUNS, MechanismSaving, agent_savings, client_savings
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            "": "agent session",
            ".agent": "AgentRun",
            ".arms": "ARMS WHOLE",
            ".runs": "CarelessClient DemoRun",
            ".savings": "CLIENT_RUNS MechanismSaving agent_savings client_savings",
        },
    )
