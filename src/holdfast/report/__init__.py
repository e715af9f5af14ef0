"""What was stored, as answers for people: effectiveness, breaks, sessions, single calls, skills, the bill.

Pure questions to a `Store`; every answer is a frozen value that `msgspec.json.encode` turns into JSON. Times are aware
UTC datetimes (ISO 8601 in JSON), dollars are Decimals (strings in JSON) and None where no price is known, never 0.
Windows come in as UTC microseconds, the start included, the end not; None leaves that side open. May import `store` and
below.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .bills import bill
    from .id_lookup import UnknownIdError, find, find_tenant
    from .queries import breaks, cache_effectiveness, call, session, sessions, spent
    from .repair_estimates import repair_savings, sentence, worth_saying
    from .results import (
        Bill,
        BreakReport,
        BreakReports,
        CallEvent,
        CallReport,
        Effectiveness,
        Effectivenesses,
        LaneReport,
        PlanReport,
        PredictedUsage,
        RepairReport,
        RepairSavings,
        SentMarker,
        SessionReport,
        SessionReports,
        SessionSummary,
        SessionSums,
        SkillUsage,
        SkillUsages,
        Sums,
        TimeWindow,
    )
    from .skill_usage import skills
    from .tally import window
    from .tips import TipAdvice, applicable, evidence
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
                "LaneReport PlanReport PredictedUsage RepairReport RepairSavings SentMarker SessionReport "
                "SessionReports SessionSummary SessionSums SkillUsage SkillUsages Sums TimeWindow"
            ),
            ".skill_usage": "skills",
            ".tally": "window",
            ".tips": "TipAdvice applicable evidence",
        },
    )
