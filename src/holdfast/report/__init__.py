"""What was stored, as answers for people: effectiveness, breaks, sessions, single calls, skills, the bill.

Pure questions to a `Store`; every answer is a frozen value that `msgspec.json.encode` turns into JSON. Times are aware
UTC datetimes (ISO 8601 in JSON), dollars are Decimals (strings in JSON) and None where no price is known, never 0.
Windows come in as UTC microseconds, the start included, the end not; None leaves that side open. May import `store` and
below.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .bills import bill as bill
    from .id_lookup import UnknownIdError as UnknownIdError
    from .id_lookup import find as find
    from .id_lookup import find_tenant as find_tenant
    from .queries import breaks as breaks
    from .queries import cache_effectiveness as cache_effectiveness
    from .queries import call as call
    from .queries import session as session
    from .queries import sessions as sessions
    from .queries import spent as spent
    from .repair_estimates import repair_savings as repair_savings
    from .repair_estimates import sentence as sentence
    from .repair_estimates import worth_saying as worth_saying
    from .results import Bill as Bill
    from .results import BreakReport as BreakReport
    from .results import BreakReports as BreakReports
    from .results import CallEvent as CallEvent
    from .results import CallReport as CallReport
    from .results import Effectiveness as Effectiveness
    from .results import Effectivenesses as Effectivenesses
    from .results import LaneReport as LaneReport
    from .results import Marker as Marker
    from .results import PlanReport as PlanReport
    from .results import PredictedUsage as PredictedUsage
    from .results import RepairReport as RepairReport
    from .results import RepairSavings as RepairSavings
    from .results import SessionReport as SessionReport
    from .results import SessionReports as SessionReports
    from .results import SessionSummary as SessionSummary
    from .results import SessionSums as SessionSums
    from .results import SkillUsage as SkillUsage
    from .results import SkillUsages as SkillUsages
    from .results import Sums as Sums
    from .results import TimeWindow as TimeWindow
    from .skill_usage import skills as skills
    from .tally import window as window
    from .tips import TipAdvice as TipAdvice
    from .tips import applicable as applicable
    from .tips_of_store import evidence as evidence
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".bills": "bill",
            ".id_lookup": "UnknownIdError find find_tenant",
            ".queries": "breaks cache_effectiveness call session sessions spent",
            ".repair_estimates": "repair_savings sentence worth_saying",
            ".results": (
                "Bill BreakReport BreakReports CallEvent CallReport Effectiveness Effectivenesses "
                "LaneReport Marker PlanReport PredictedUsage RepairReport RepairSavings SessionReport "
                "SessionReports SessionSummary SessionSums SkillUsage SkillUsages Sums TimeWindow"
            ),
            ".skill_usage": "skills",
            ".tally": "window",
            ".tips": "TipAdvice applicable",
            ".tips_of_store": "evidence",
        },
    )
