"""What was stored, as answers for people: effectiveness, breaks, sessions, single calls, skills, the bill.

Pure questions to a `Store`; every answer is a frozen value that `msgspec.json.encode` turns into JSON. Times are aware
UTC datetimes (ISO 8601 in JSON), dollars are Decimals (strings in JSON) and None where no price is known, never 0.
Windows come in as UTC microseconds, the start included, the end not; None leaves that side open. May import `store` and
below.
"""

from .bills import bill
from .break_reports import breaks
from .calls import call
from .effectiveness import cache_effectiveness
from .id_lookup import UnknownIdError, find, find_tenant
from .repair_estimates import repair_savings, worth_saying
from .results import (
    Bill,
    BreakReport,
    BreakReports,
    CallEvent,
    CallReport,
    Effectiveness,
    Effectivenesses,
    LaneReport,
    Marker,
    PlanReport,
    Predicted,
    RepairReport,
    RepairSavings,
    SessionReport,
    SessionReports,
    SessionSummary,
    SessionSums,
    SkillUsage,
    SkillUsages,
    Sums,
    Window,
)
from .session_reports import session, sessions, spent
from .skill_usage import skills
from .tally import window

__all__ = [
    "Bill",
    "BreakReport",
    "BreakReports",
    "CallEvent",
    "CallReport",
    "Effectiveness",
    "Effectivenesses",
    "LaneReport",
    "Marker",
    "PlanReport",
    "Predicted",
    "RepairReport",
    "RepairSavings",
    "SessionReport",
    "SessionReports",
    "SessionSummary",
    "SessionSums",
    "SkillUsage",
    "SkillUsages",
    "Sums",
    "UnknownIdError",
    "Window",
    "bill",
    "breaks",
    "cache_effectiveness",
    "call",
    "find",
    "find_tenant",
    "repair_savings",
    "session",
    "sessions",
    "skills",
    "spent",
    "window",
    "worth_saying",
]
