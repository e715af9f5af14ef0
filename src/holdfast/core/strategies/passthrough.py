"""`passthrough`: as the client sent it."""

from __future__ import annotations

from ..plan import Plan
from ..situation import Situation

NAME = "passthrough"


def passthrough(situation: Situation) -> Plan:
    return Plan(strategy=NAME, marks=situation.prompt.marks, reasons=("as the client sent it",))
