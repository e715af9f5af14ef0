"""Recorded sessions: readers, gap patterns, faults of clients, the optimum, and the comparison with real usage.

Knows the cache rules and nothing of HTTP; imports `caches`, `wire`, `facts`, `canonical`. The lab, which replays
sessions under any strategy, imports `engine` and `prefix` too.
"""

from .calls import Call, Ping, Plan, cost, outcomes, rolling
from .client_faults import FAULTS, Fault
from .gaps import PATTERNS, SEEDS, with_gaps
from .optimum import Optimum, optimal
from .readers import read, write
from .values import Shape, ShapeBlock, Step, Trace, lanes

__all__ = [
    "FAULTS",
    "PATTERNS",
    "SEEDS",
    "Call",
    "Fault",
    "Optimum",
    "Ping",
    "Plan",
    "Shape",
    "ShapeBlock",
    "Step",
    "Trace",
    "cost",
    "lanes",
    "optimal",
    "outcomes",
    "read",
    "rolling",
    "with_gaps",
    "write",
]
