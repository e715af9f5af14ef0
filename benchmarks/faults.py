"""Clients that break their own prefix, on a recorded session of texts: what they pay through the engine.

Costs are shares of what the same requests cost without any caching. The client places markers itself, rolling, for five
minutes; the engine runs with its defaults and with all repairs; the simulator bills what is sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec.structs import replace

from benchmarks import Result
from benchmarks.recordings import JUDGED, SOURCE, session
from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings
from holdfast.engine import EngineCore, Lane
from holdfast.facts import model
from holdfast.lab import FAULTS, SEEDS, Trace, with_gaps
from holdfast.lab.client_faults import memory_in_system
from holdfast.records import Request
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.wire import DIALECTS, Body

MODEL = "claude-opus-4-6"
START = 1_700_000_000.0
ANTHROPIC = DIALECTS["anthropic"]
Repair = Literal["suggest", "on"]
REPAIRS: tuple[Repair, ...] = ("suggest", "on")
LIMITS: dict[str, tuple[float | None, float | None]] = {
    "clean": (0.13, 0.13),
    "tools-shuffled": (0.14, 0.14),
    "keys-reordered": (0.14, 0.14),
    "clock-at-head": (1.005, 0.15),
    "memory-in-system": (0.505, 0.16),
}
"""What is to be kept, by fault: with the defaults and with all repairs. A limit of 1.00 is one to two places."""


def run(*, quick: bool) -> Iterator[Result]:
    base = with_gaps(session(), "none", SEEDS[0])
    sessions = {"clean": base, **{name: fault(base, SEEDS[0]) for name, fault in FAULTS.items()}}
    sessions["memory-in-system"] = memory_in_system(base, SEEDS[0], calls=3)
    for name, trace in sessions.items():
        alone = share(trace, None)
        for repair, limit in zip(REPAIRS, LIMITS.get(name, (None, None)), strict=True):
            paid = share(trace, repair)
            bound = limit if JUDGED else None
            yield Result(f"{name}, repair {repair}", paid, "x", bound, "lower", f"alone {alone:.3f}; {SOURCE}")


def share(trace: Trace, repair: Repair | None) -> float:
    """The cost of a session's input over that of no caching; without `repair` the client's bytes go out as they are."""
    clock = VirtualClock(START)
    simulator, engine = (
        Simulator(clock=clock),
        EngineCore(Settings(cache=CacheSettings(repair=repair or "off")), strict=True),
    )
    lane, facts = Lane(tenant="t", session=trace.name, id=trace.name, client="bench"), model(f"anthropic:{MODEL}")
    paid = plain = 0.0
    for step in trace.steps:
        assert isinstance(step.content, Request)
        assert step.at is not None
        now = clock.set(START + step.at)
        raw, prepared = _client(step.content), None
        if repair is not None:
            body = engine.parse(ANTHROPIC, raw)
            assert isinstance(body, Body)
            prepared = engine.prepare(body, lane=lane, now=now)
            raw = prepared.raw
        exchange = simulator.bill(HttpRequest("POST", "/v1/messages", {"x-api-key": "k"}, {}, raw))
        exchange.first_token()
        exchange.finish()
        usage = exchange.record.usage
        assert usage is not None
        if prepared is not None:
            engine.settle(prepared, usage, now=now)
        written = sum(tokens * float(facts.write(ttl)) for ttl, tokens in usage.writes)
        paid += usage.read * float(facts.read) + written + usage.input
        plain += usage.prompt
    return paid / plain


def _client(request: Request) -> bytes:
    """The request as a client sends it that marks the last tool, the last system block and the last block."""
    body = ANTHROPIC.parse(ANTHROPIC.encode(replace(request, model=MODEL)))
    assert isinstance(body, Body)
    last: dict[str, int] = {}
    for index, span in enumerate(body.blocks):
        if ANTHROPIC.markable(body, index):
            last[span.section] = index
    return body.apply([splice for index in last.values() for splice in ANTHROPIC.place(body, index, "5m")])
