"""What the store says about a long-running agent, for `tips`: the newest calls and events, as many as are soon read."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from statistics import median

import msgspec
from msgspec import Struct

from holdfast.config import Settings
from holdfast.facts import model
from holdfast.records import HEAD_CHANGES
from holdfast.store import Call, Store, StoredEvent

from .tally import LAST
from .tips import BRIEF_S, SMALL_PROMPT, BriefSessions, Compactions, GeminiUse, LongResults, TipEvidence

MOST = 20_000
"""Calls that are looked at, about: the hours that hold the newest of them."""
EVENTS = 200_000
"""Events of the hours looked at, beyond which none is read: there are agents that never rest."""
FREQUENT = 3
"""Sessions at least that asked for a tool before it counts as frequent."""
MOST_NAMED = 5

_Where = tuple[str, str]


class _Payload(Struct):
    """What is read of events."""

    characters: int = 0
    tools: tuple[str, ...] = ()


class _Session(Struct):
    first: int
    last: int
    calls: int = 0
    prompt: int = 0
    long: int = 0


class _Events:
    """Events by session, one at a time."""

    def __init__(self) -> None:
        self.count: dict[str, Counter[_Where]] = defaultdict(Counter)
        self.sizes: list[int] = []
        self.tools: set[str] = set()
        self.asked: dict[str, set[_Where]] = defaultdict(set)

    def add(self, kind: str, event: StoredEvent) -> None:
        where = event.tenant, event.session
        self.count[kind][where] += 1
        if kind not in ("tool.offloaded", "tool.deferred", "tool.discovered"):
            return
        try:
            said = msgspec.json.decode(event.payload, type=_Payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # written by another version
            return
        if kind == "tool.offloaded":
            self.sizes.append(said.characters)
            return
        named = [name for name in said.tools if name.startswith("mcp__")]
        self.tools.update(named)
        if kind == "tool.discovered":
            for name in named:
                self.asked[name].add(where)


def evidence(store: Store, settings: Settings) -> TipEvidence:
    """What the newest calls and events say."""
    start = store.newest_hour(MOST)
    if start is None:
        return TipEvidence()
    sessions: dict[_Where, _Session] = {}
    gemini: Counter[str] = Counter()
    store.visit_calls(partial(_call, sessions, gemini), start=start)
    names = {name for name in gemini if model(name).ref.startswith("gemini:")}
    broke = sum(each.cause in HEAD_CHANGES and each.model in names for each in store.newest_breaks(start=start))
    told = _events(store, start)
    return TipEvidence(
        masked=max(told.count["tool.masked"].values(), default=None),
        compacted=_compacted(told),
        brief=_brief(sessions) if settings.cache.strategy == "zones" else None,
        mcp_tools=len(told.tools) or None,
        frequent=_frequent(told),
        results=LongResults(len(told.sizes), round(median(told.sizes))) if told.sizes else None,
        gemini=GeminiUse(sum(gemini[name] for name in names), broke) if names else None,
    )


def _call(sessions: dict[_Where, _Session], gemini: Counter[str], call: Call) -> None:
    if call.usage is None or call.kind != "request":
        return
    gemini[call.model] += 1
    at = call.started_at
    found = sessions.setdefault((call.tenant, call.session), _Session(at, at))
    found.last = max(found.last, at)
    found.calls += 1
    found.prompt += call.usage.prompt
    found.long += sum(tokens for ttl, tokens in call.usage.writes if ttl == "1h")


def _events(store: Store, start: int) -> _Events:
    told = _Events()
    counts = store.event_counts(start, LAST)
    for kind in (
        "tool.masked",
        "compaction.completed",
        "turn.started",
        "tool.offloaded",
        "tool.deferred",
        "tool.discovered",
    ):
        if 0 < counts.get(kind, 0) <= EVENTS:
            store.visit_events(partial(told.add, kind), kind, start=start)
    return told


def _compacted(told: _Events) -> Compactions | None:
    """Only sessions that were compacted more than once say how far apart that is."""
    often = {where: count for where, count in told.count["compaction.completed"].items() if count > 1}
    turns = sum(told.count["turn.started"][where] for where in often)
    return Compactions(sum(often.values()), turns) if often and turns else None


def _brief(sessions: dict[_Where, _Session]) -> BriefSessions:
    found = [
        each
        for each in sessions.values()
        if each.long and each.last - each.first < BRIEF_S * 1_000_000 and each.prompt < SMALL_PROMPT * each.calls
    ]
    return BriefSessions(len(found), sum(each.long for each in found))


def _frequent(told: _Events) -> tuple[str, ...]:
    sessions = len(told.count["tool.discovered"])
    named = [name for name, asked in told.asked.items() if len(asked) >= FREQUENT and 2 * len(asked) >= sessions]
    return tuple(sorted(named, key=lambda name: (-len(told.asked[name]), name))[:MOST_NAMED])
