"""A provider on this machine: four APIs around the cache rules, a scripted model, faults on demand.

Replay, demo and tests use `Simulator` in process on a virtual clock; `holdfast simulate` serves it over HTTP. Imports
`caches`, `wire`, `facts`, `records` and, to be served, `serving`.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from .clock import Clock as Clock
    from .clock import SystemClock as SystemClock
    from .clock import VirtualClock as VirtualClock
    from .faults import Fault as Fault
    from .in_process import Simulated as Simulated
    from .journal import Journal as Journal
    from .journal import Record as Record
    from .messages import HttpRequest as HttpRequest
    from .messages import HttpResponse as HttpResponse
    from .messages import Part as Part
    from .messages import Reply as Reply
    from .messages import ToolCall as ToolCall
    from .messages import Words as Words
    from .provider import Exchange as Exchange
    from .provider import Simulator as Simulator
    from .script import ECHO as ECHO
    from .script import Script as Script
    from .script import load_script as load_script
    from .server import address_of as address_of
    from .server import listen as listen
    from .server import running as running
    from .server import serve as serve
else:
    __getattr__, __dir__, __all__ = lazy_exports(
        __name__,
        {
            ".clock": "Clock SystemClock VirtualClock",
            ".faults": "Fault",
            ".in_process": "Simulated",
            ".journal": "Journal Record",
            ".messages": "HttpRequest HttpResponse Part Reply ToolCall Words",
            ".provider": "Exchange Simulator",
            ".script": "ECHO Script load_script",
            ".server": "address_of listen running serve",
        },
    )
