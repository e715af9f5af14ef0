"""The lab: recorded sessions replayed under any strategy, with the real engine against the cache rules, on a virtual
clock; beside them what other tools would have sent, the optimum, gap patterns, faults of clients, and the comparison
with billed usage. Imports `report.logs`, `engine` and below; knows nothing of HTTP.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.report.logs.trace_files import read, write
    from holdfast.report.logs.traces import Shape, ShapeBlock, Trace, TraceStep, lanes

    from .calibration import NEEDED, RULES, TOLERANCE, Rule, TraceCalibration, calibrate
    from .client_faults import FAULTS, Fault
    from .contenders import DEFAULT, STRATEGY_NAMES, Repair, summary
    from .gaps import PATTERNS, SEEDS, with_gaps
    from .lab import Lab, run
    from .marker_plans import MarkerPlan, PlannedPing, TimedCall, cost, outcomes, rolling
    from .models import Course, Used, facts_of, own_model, recorded, used_models
    from .optimum.search import Optimum, optimal
    from .options import ReplayOptions
    from .page import replay_page
    from .results import BILLED, RECORDED, ReplayReport, Result, SessionResult, Spread
    from .trace_sources import InterruptedReading, LogPass, NoLogsError, Recordings, gather, replay
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".calibration": "NEEDED RULES Rule TOLERANCE TraceCalibration calibrate",
            ".client_faults": "FAULTS Fault",
            ".contenders": "DEFAULT Repair STRATEGY_NAMES summary",
            ".gaps": "PATTERNS SEEDS with_gaps",
            ".lab": "Lab run",
            ".marker_plans": "MarkerPlan PlannedPing TimedCall cost outcomes rolling",
            ".models": "Course Used facts_of own_model recorded used_models",
            ".optimum.search": "Optimum optimal",
            ".options": "ReplayOptions",
            ".page": "replay_page",
            ".results": "BILLED RECORDED ReplayReport Result SessionResult Spread",
            ".trace_sources": "InterruptedReading LogPass NoLogsError Recordings gather replay",
            "holdfast.report.logs.trace_files": "read write",
            "holdfast.report.logs.traces": "Shape ShapeBlock Trace TraceStep lanes",
        },
    )
