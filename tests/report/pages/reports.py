"""Reports made up for tests: every figure follows from a few numbers, every name is a filler."""

from __future__ import annotations

from decimal import Decimal
from itertools import cycle, islice
from typing import Any

from msgspec.structs import replace

from holdfast.lab.results import BreakCount, Kind, ReplayReport, Result, SessionResult
from holdfast.report.explainer.results import (
    BreakFinding,
    CauseSum,
    CureSum,
    ExplainReport,
    FileRead,
    Money,
    OtherTtl,
    SessionFindings,
    TokenSums,
    Totals,
)
from holdfast.report.logs import BrokenSource

START = 1_900_000_000.0
MODELS = ("claude-sonnet-4-5", "claude-haiku-4-5")

KINDS: tuple[dict[str, Any], ...] = (
    {"cause": "messages_rewritten", "path": "messages[14].content[0]", "offset": 48_211, "evidence": "bytes",
     "before": "…Current time: 14:02:09\nWorking", "after": "…Current time: 14:06:31\nWorking", "cure": "clock",
     "advice": "The clock at messages[14].content[0] changes on every request: move it to the newest user message.",
     "setting": 'cache.repair = "on"'},
    {"cause": "ttl_expired_5m", "gap_s": 512.4, "cure": "ttl_expired_5m",
     "advice": "The next request came after 8 minutes, the entry lived for 5: write it for an hour."},
    {"reset": "compaction", "evidence": "log"},
    {"cause": "system_prompt_changed", "path": "system[1].text", "offset": 9_120, "evidence": "bytes",
     "before": "gitStatus: M lines.py", "after": "gitStatus: clean", "cure": "git_state", "agent": "explore",
     "advice": "The state of the repository at system[1].text is refreshed inside the prefix: keep the first one.",
     "setting": 'cache.repair = "on"'},
)  # fmt: skip


def break_found(number: int, request: int, **changes: Any) -> BreakFinding:
    """A break of the kind that its number chooses."""
    tokens = 12_000 + 9_700 * number
    fields: dict[str, Any] = {
        "request": request, "at": START + 60.0 * request, "cause": None, "reset": None, "gap_s": 41.5,
        "tokens_lost": tokens, "cost_usd": Decimal(tokens) * Decimal("0.00000345"), "path": None, "cure": None,
        "model": MODELS[0], "expected": tokens + 14_000, "read": 14_000, "source": f"session.jsonl:{request * 2}",
    }  # fmt: skip
    return BreakFinding(**(fields | KINDS[number % len(KINDS)] | changes))


def session_found(number: int, breaks: int = 0, **changes: Any) -> SessionFindings:
    requests = 60 + 17 * number
    usage = TokenSums(
        input=4_100 + number, read=2_600_000 + 1_111 * number, write_5m=310_000, write_1h=21_000, output=55_000
    )
    places = (1 + (requests - 1) * (place + 1) // (breaks + 1) for place in range(breaks))
    started = START + 7_200.0 * number
    found = tuple(
        break_found(each, request, at=started + 60.0 * request, model=MODELS[number % 2])
        for each, request in enumerate(places)
    )
    fields: dict[str, Any] = {
        "session": f"session-{number:04}", "requests": requests, "model": MODELS[number % 2], "usage": usage,
        "cost_usd": Decimal("2.13") + Decimal(number) / 8, "hit_rate": usage.read / usage.prompt, "breaks": found,
        "models": MODELS[: 1 + number % 2], "client": "claude-code", "source": "project/session.jsonl",
        "started": started, "ended": started + 60.0 * requests,
    }  # fmt: skip
    return SessionFindings(**(fields | changes))


def explained(sessions: tuple[SessionFindings, ...], **changes: Any) -> ExplainReport:
    """A report whose sums are those of its sessions."""
    found = [each for session in sessions for each in session.breaks]
    breaks = [each for each in found if each.reset is None]
    sums = tuple(_cause(name, reset, found) for name, reset in dict.fromkeys((b.cause, b.reset) for b in found))
    costs = [session.cost_usd for session in sessions if session.cost_usd is not None]
    cost = sum(costs, Decimal(0)) if costs else None
    lost = _dollars(breaks)
    again = _dollars([each for each in found if each.reset is not None]) or Decimal(0)
    rest = (cost or Decimal(0)) - (lost or Decimal(0)) - again
    parts = {"reads": Decimal("0.36"), "growth": Decimal("0.34"), "input": Decimal("0.04"), "output": Decimal("0.26")}
    money = {name: rest * part for name, part in parts.items()} if cost is not None else {}
    usage = TokenSums(
        **{name: sum(getattr(session.usage, name) for session in sessions) for name in TokenSums.__struct_fields__}
    )
    totals = Totals(
        sessions=len(sessions), requests=sum(session.requests for session in sessions), usage=usage, cost_usd=cost,
        hit_rate=usage.read / usage.prompt if usage.prompt else None, breaks=len(breaks),
        resets=len(found) - len(breaks), tokens_lost=sum(each.tokens_lost for each in breaks), break_cost_usd=lost,
        unpriced=sum(session.unpriced for session in sessions), causes=sums, cures=_cures(breaks),
        money=Money(rewritten=lost or Decimal(0), resets=again, **money) if cost is not None else Money(),
        ttl=OtherTtl(as_billed=cost, all_5m=cost * 3 / 4, all_1h=cost * 5 / 6, no_cache=cost * 3, requests=900)
        if cost else None,
        estimated_sessions=sum(session.estimated for session in sessions),
    )  # fmt: skip
    return replace(ExplainReport(sessions=sessions, totals=totals, prices="genai-prices 0.2.1"), **changes)


def _dollars(found: list[BreakFinding]) -> Decimal | None:
    known = [each.cost_usd for each in found if each.cost_usd is not None]
    return sum(known, Decimal(0)) if known else None


def _cause(cause: str | None, reset: str | None, found: list[BreakFinding]) -> CauseSum:
    those = [each for each in found if (each.cause, each.reset) == (cause, reset)]
    tokens = sum(each.tokens_lost for each in those)
    return CauseSum(cause=cause, reset=reset, breaks=len(those), tokens_lost=tokens, cost_usd=_dollars(those))


def _cures(breaks: list[BreakFinding]) -> tuple[CureSum, ...]:
    sums = []
    for cure in dict.fromkeys(each.cure for each in breaks if each.cure):
        those = [each for each in breaks if each.cure == cure]
        sums.append(
            CureSum(cure=cure, advice=those[0].advice or "", setting=those[0].setting, breaks=len(those),
                    saves_usd=_dollars(those))
        )  # fmt: skip
    return tuple(sorted(sums, key=lambda each: -(each.saves_usd or Decimal(0))))


def usual() -> ExplainReport:
    """Twelve sessions, of which some broke."""
    numbers = enumerate(islice(cycle((5, 0, 1, 0)), 11))
    last = session_found(11, 7, estimated=True, unpriced=3)
    sessions = (*(session_found(number, breaks) for number, breaks in numbers), last)
    client = "claude-code"
    read = tuple(
        FileRead(path=f"~/.claude/projects/place/{each.session}.jsonl", format=client, client=client, size=1_400_000)
        for each in sessions
    )
    broken = (BrokenSource(source="session-0003.jsonl:17", why="not JSON: unexpected end of data"),)
    return explained(sessions, read=read, broken=3, broken_lines=broken)


STRATEGIES: tuple[tuple[str, Kind, float], ...] = (
    ("passthrough", "engine", 1.31),
    ("two-point", "engine", 2.44),
    ("rolling", "engine", 1.12),
    ("zones", "engine", 1.19),
    ("three-block", "engine", 1.15),
    ("economic", "engine", 1.036),
    ("litellm", "peer", 1.41),
    ("langchain", "peer", 1.22),
    ("automatic", "peer", 1.118),
    ("none", "peer", 5.87),
    ("optimal", "bound", 1.0),
)


def replayed(models: tuple[str, ...] = MODELS, traces: int = 8, **changes: Any) -> ReplayReport:
    """A run whose figures follow from each strategy's ratio."""
    results, sessions = [], []
    for place, model in enumerate(models):
        for name, kind, factor in STRATEGIES:
            ratio = 1 + (factor - 1) * (1 + place / 5)
            tokens = Decimal(str(round(ratio * 4_000_000)))
            causes = (BreakCount("ttl_expired_5m", 4), BreakCount("messages_rewritten", 2))
            results.append(Result(
                model=model, strategy=name, kind=kind, requests=900, input=210_000, read=round(31_000_000 / ratio),
                writes={"5m": round(900_000 * ratio), "1h": 120_000 if name == "economic" else 0}, output=88_000,
                cost_tokens=tokens, cost_usd=tokens * Decimal("0.000003"), output_usd=Decimal("1.32"),
                over_optimal=ratio, hit_rate=0.95 / ratio, breaks=6, resets=3, causes=causes,
                surprises=1 if kind == "engine" else 0,
            ))  # fmt: skip
            sessions += [
                SessionResult(trace=f"trace-{each}", seed=11, model=model, strategy=name, requests=900 // traces,
                              cost_tokens=tokens / traces, over_optimal=1 + (ratio - 1) * (0.4 + 1.2 * each / traces))
                for each in range(traces)
            ]  # fmt: skip
    run = ReplayReport(
        traces=tuple(f"trace-{each}" for each in range(traces)), models=models, gaps="real", seeds=(11,), fault=None,
        noise=None, ttl_raise="no", optimum="the cheapest markers of one who knows the future, without pings",
        results=tuple(results), sessions=tuple(sessions), requests=900 * len(results), seconds=7.25,
        versions=(("holdfast", "0.1.0"), ("litellm", "1.106.2")), notes=("A filler note on what was left out.",),
    )  # fmt: skip
    return replace(run, **changes)
