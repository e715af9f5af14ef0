"""Logs for the explainer: by hand, and of sessions that a simulated provider has billed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.lab import Trace
from holdfast.records import Usage, usage
from holdfast.report.explainer import Explainer
from holdfast.report.explainer.results import BreakFinding, ExplainReport
from holdfast.report.logs.records import BrokenSource, LoggedRequest
from holdfast.report.logs.traces import SIDECHAIN
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from tests.engine.driver import HEADERS, talk
from tests.properties.sessions import PATHS, RENDER, Talk

OPUS = "claude-opus-4-6"
DAY = 1_790_000_000.0  # in September 2026


def billed(input: int = 3, read: int = 0, short: int = 0, long: int = 0, output: int = 10, **other: int) -> Usage:
    return usage(input=input, read=read, output=output, writes={"5m": short, "1h": long, **other})


def lines(usages: Iterable[Usage | None], *, gap: float = 10.0, session: str = "s", **more: Any) -> list[LoggedRequest]:
    """Requests so many seconds apart."""
    return [
        LoggedRequest(
            session=session, source=f"log.jsonl:{n}", at=DAY + n * gap, usage=each, **({"model": OPUS} | more)
        )
        for n, each in enumerate(usages, 1)
    ]


def explained(records: Iterable[LoggedRequest | BrokenSource], **settings: Any) -> ExplainReport:
    explainer = Explainer(**settings)
    for record in records:
        explainer.add(record)
    return explainer.result()


def breaks(report: ExplainReport, session: str = "s") -> tuple[BreakFinding, ...]:
    return next(each.breaks for each in report.sessions if each.session == session)


def told(report: ExplainReport, session: str = "s") -> list[tuple[int, str]]:
    """Request and cause or reason of each break."""
    return [(found.request, found.cause or f"reset {found.reset}") for found in breaks(report, session)]


def of_trace(trace: Trace) -> list[LoggedRequest]:
    """A shape trace as its reader gives it."""
    return [
        LoggedRequest(
            session=trace.name,
            source=f"{trace.name}.jsonl:{number}",
            model=step.model,
            agent="sidechain" if step.lane.endswith(SIDECHAIN) else "",
            at=step.at,
            first_token_at=step.first_token_at,
            usage=step.usage,
            reset=step.reset,
        )
        for number, step in enumerate(trace.steps, 1)
    ]


class Said(Struct, frozen=True):
    """A request of a session: what is said, how long after the one before."""

    talk: Talk
    gap: float = 10.0
    more: dict[str, Any] = {}


def sent(
    said: Sequence[Said], dialect: str, model: str, *, bodies: bool = True, usages: bool = True, seed: int = 0
) -> list[LoggedRequest]:
    """What a simulated provider bills for a session, as a log with bodies, usage or both has it."""
    clock = VirtualClock(DAY)
    simulator = Simulator(clock=clock, seed=seed)
    records: list[LoggedRequest] = []
    for number, each in enumerate(said, 1):
        clock.set(clock.now() + each.gap)
        raw = json.dumps(RENDER[dialect](copy.deepcopy(each.talk), model) | each.more).encode()
        exchange = simulator.begin(HttpRequest("POST", PATHS[dialect].format(model=model), HEADERS, {}, raw))
        assert exchange.record.usage is not None, exchange.answer
        began = clock.now() + 1
        exchange.first_token(began)
        exchange.finish()
        record = LoggedRequest(
            session="s",
            source=f"bodies.jsonl:{number}",
            model=model,
            at=clock.now(),
            first_token_at=began,
            usage=exchange.record.usage if usages else None,
        )
        records.append(replace(record, body=raw, dialect=dialect) if bodies else record)
    return records


def growing(turns: int, **more: Any) -> list[Said]:
    """A session that only grows."""
    return [Said(talk(n, marks=(("system", "5m"), ("last", "5m"))), **more) for n in range(turns)]


def changed(said: Said, turn: int) -> Said:
    """The same with what was said in a turn changed."""
    after = copy.deepcopy(said.talk)
    kind, number, texts = after.turns[turn]
    after.turns[turn] = (kind, number, ["Something else. " * 200 for _ in texts])
    return replace(said, talk=after)
