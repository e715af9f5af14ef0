"""The lab: recorded sessions replayed under any strategy, with the real engine against the cache rules, on a virtual
clock; beside them what other tools would have sent, the optimum, gap patterns, faults of clients, and the comparison
with billed usage. Imports `report.logs`, `engine` and below; knows nothing of HTTP.
"""

from holdfast.report.logs.trace_files import read, write
from holdfast.report.logs.traces import Shape, ShapeBlock, Step, Trace, lanes

from .client_faults import FAULTS, Fault
from .contenders import DEFAULT, STRATEGY_NAMES, summary
from .gaps import PATTERNS, SEEDS, with_gaps
from .models import own_model, used_models
from .optimum.search import Optimum, optimal
from .options import Options
from .replay import Lab, run
from .results import BILLED, RECORDED, Replayed, Result, SessionResult, Spread
from .timed_prompts import Call, Ping, Plan, cost, outcomes, rolling

__all__ = [
    "BILLED",
    "DEFAULT",
    "FAULTS",
    "PATTERNS",
    "RECORDED",
    "SEEDS",
    "STRATEGY_NAMES",
    "Call",
    "Fault",
    "Lab",
    "Optimum",
    "Options",
    "Ping",
    "Plan",
    "Replayed",
    "Result",
    "SessionResult",
    "Shape",
    "ShapeBlock",
    "Spread",
    "Step",
    "Trace",
    "cost",
    "lanes",
    "optimal",
    "outcomes",
    "own_model",
    "read",
    "rolling",
    "run",
    "summary",
    "used_models",
    "with_gaps",
    "write",
]
