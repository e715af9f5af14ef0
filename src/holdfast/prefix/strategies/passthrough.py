"""`passthrough`: as the client sent it."""

from __future__ import annotations

from ..situation import Situation
from ..values import Plan

NAME = "passthrough"


def passthrough(situation: Situation) -> Plan:
    return Plan(strategy=NAME, marks=situation.prompt.marks, reasons=("as the client sent it",))
