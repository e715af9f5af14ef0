"""Scripts: what the simulated model says, as rules in YAML or a function in Python.

A script is a pure function of the request: turns are counted from its messages, so the same request gets the same
reply. Knows no dialect, no limits and no clock; `simulator.model` makes replies of what it chooses.
"""

from .loader import ECHO, load
from .rules import CallStep, Rule, Script, Step, When

__all__ = ["ECHO", "CallStep", "Rule", "Script", "Step", "When", "load"]
