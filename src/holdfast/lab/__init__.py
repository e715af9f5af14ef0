"""The lab: recorded sessions replayed under any strategy, with the real engine against the cache rules, on a virtual
clock; beside them what other tools would have sent, the optimum, gap patterns, faults of clients, and the comparison
with billed usage. Imports `report.logs`, `engine` and below; knows nothing of HTTP.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from holdfast.report.logs.trace_files import read as read
    from holdfast.report.logs.trace_files import write as write
    from holdfast.report.logs.traces import Shape as Shape
    from holdfast.report.logs.traces import ShapeBlock as ShapeBlock
    from holdfast.report.logs.traces import Trace as Trace
    from holdfast.report.logs.traces import TraceStep as TraceStep
    from holdfast.report.logs.traces import lanes as lanes

    from .calibration import NEEDED as NEEDED
    from .calibration import RULES as RULES
    from .calibration import TOLERANCE as TOLERANCE
    from .calibration import Calibration as Calibration
    from .calibration import Rule as Rule
    from .calibration import calibrate as calibrate
    from .client_faults import FAULTS as FAULTS
    from .client_faults import Fault as Fault
    from .contenders import DEFAULT as DEFAULT
    from .contenders import STRATEGY_NAMES as STRATEGY_NAMES
    from .contenders import Repair as Repair
    from .contenders import summary as summary
    from .gaps import PATTERNS as PATTERNS
    from .gaps import SEEDS as SEEDS
    from .gaps import with_gaps as with_gaps
    from .lab import Lab as Lab
    from .lab import run as run
    from .models import Course as Course
    from .models import Used as Used
    from .models import facts_of as facts_of
    from .models import own_model as own_model
    from .models import recorded as recorded
    from .models import used_models as used_models
    from .optimum.search import Optimum as Optimum
    from .optimum.search import optimal as optimal
    from .options import ReplayOptions as ReplayOptions
    from .page import replay_page as replay_page
    from .recordings import InterruptedReading as InterruptedReading
    from .recordings import LogPass as LogPass
    from .recordings import NoLogsError as NoLogsError
    from .recordings import Recordings as Recordings
    from .recordings import gather as gather
    from .recordings import replay as replay
    from .results import BILLED as BILLED
    from .results import RECORDED as RECORDED
    from .results import ReplayReport as ReplayReport
    from .results import Result as Result
    from .results import SessionResult as SessionResult
    from .results import Spread as Spread
    from .timed_prompts import MarkerPlan as MarkerPlan
    from .timed_prompts import Ping as Ping
    from .timed_prompts import TimedCall as TimedCall
    from .timed_prompts import cost as cost
    from .timed_prompts import outcomes as outcomes
    from .timed_prompts import rolling as rolling
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".calibration": "Calibration NEEDED RULES Rule TOLERANCE calibrate",
            ".client_faults": "FAULTS Fault",
            ".contenders": "DEFAULT Repair STRATEGY_NAMES summary",
            ".gaps": "PATTERNS SEEDS with_gaps",
            ".lab": "Lab run",
            ".models": "Course Used facts_of own_model recorded used_models",
            ".optimum.search": "Optimum optimal",
            ".options": "ReplayOptions",
            ".page": "replay_page",
            ".recordings": "InterruptedReading LogPass NoLogsError Recordings gather replay",
            ".results": "BILLED RECORDED ReplayReport Result SessionResult Spread",
            ".timed_prompts": "MarkerPlan Ping TimedCall cost outcomes rolling",
            "holdfast.report.logs.trace_files": "read write",
            "holdfast.report.logs.traces": "Shape ShapeBlock Trace TraceStep lanes",
        },
    )
