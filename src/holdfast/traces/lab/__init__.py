"""The lab: recorded sessions replayed under any strategy, with the real engine against the cache rules, on a virtual
clock; beside them what other tools would have sent, and the optimum.
"""

from .contenders import DEFAULT, STRATEGY_NAMES, summary
from .models import own_model, used_models
from .options import Options
from .running import Lab, run
from .values import BILLED, RECORDED, Replayed, Result, SessionResult, Spread

__all__ = [
    "BILLED",
    "DEFAULT",
    "RECORDED",
    "STRATEGY_NAMES",
    "Lab",
    "Options",
    "Replayed",
    "Result",
    "SessionResult",
    "Spread",
    "own_model",
    "run",
    "summary",
    "used_models",
]
