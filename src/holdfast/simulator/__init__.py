"""A provider on this machine: four APIs around the cache rules, a scripted model, faults on demand.

Replay, demo and tests use `Simulator` in process on a virtual clock; `holdfast simulate` serves it over HTTP. Imports
`caches`, `wire`, `facts`, `canonical` and, to be served, `serving`.
"""

from .clock import Clock, SystemClock, VirtualClock
from .messages import Answer, Call
from .provider import Exchange, Simulator
from .script import ECHO, Script
from .script import load as load_script

__all__ = [
    "ECHO",
    "Answer",
    "Call",
    "Clock",
    "Exchange",
    "Script",
    "Simulator",
    "SystemClock",
    "VirtualClock",
    "load_script",
]
