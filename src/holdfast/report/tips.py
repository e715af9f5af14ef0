"""Tips for long-running agents: a closed list, and which of them fit what was measured.

Pure: evidence and settings are parameters, so that the same rules serve the store (`holdfast doctor`) and clients' logs
(`holdfast explain`). Evidence that a source lacks is None, and its tip does not apply; nor does a tip that the settings
follow already. `docs/tips.md` has a section for each.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from statistics import median

import msgspec
from msgspec import Struct

from holdfast.config import Settings
from holdfast.facts import model
from holdfast.records import HEAD_CHANGES
from holdfast.store import Call, Store, StoredEvent

from .tally import LAST

MASKED = 10
"""Results replaced by placeholders in one session from which on an agent may miss them."""
KEEP_WINDOW = 35
COMPACTIONS = 2
"""Compactions of one session from which on their distance means something."""
TOO_OFTEN = 10
"""Turns between two compactions below which they come too often."""
COOLDOWN = 12
BRIEF_S = 300
"""Seconds within which a session is over before a five-minute entry is."""
SMALL_PROMPT = 20_000
"""Tokens of a prompt that is not worth an hour's price."""
BRIEF_WRITES = 10_000
"""Tokens written for an hour by brief sessions from which on it is worth a word."""
MCP_TOOLS = 30
BIG_RESULTS = 10
BIG_SHARE = 0.25
"""Of all results of a log: a few long ones are in every session, and belong into files."""
GEMINI_REQUESTS = 10
"""Requests to Gemini without a change of tools and system text, after which these count as settled."""


class Compactions(Struct, frozen=True):
    """Sessions with at least two compactions: how many compactions, and the turns of these sessions."""

    compactions: int
    turns: int


class BriefSessions(Struct, frozen=True):
    """Sessions with small prompts that were over within five minutes: how many, and what they wrote for an hour."""

    sessions: int
    long_tokens: int


class LongResults(Struct, frozen=True):
    """Results longer than what is kept inline: how many, and the characters of the middle one."""

    count: int
    median: int


class GeminiUse(Struct, frozen=True):
    """Requests to Gemini's own API, and breaks because their tools or system text changed."""

    requests: int
    changes: int


class TipEvidence(Struct, frozen=True, kw_only=True):
    """The evidence from one source; None where it has none."""

    masked: int | None = None
    """Results replaced by placeholders, in the session with the most."""
    compacted: Compactions | None = None
    brief: BriefSessions | None = None
    mcp_tools: int | None = None
    """MCP tools that were offered to a model, as far as is known."""
    frequent: tuple[str, ...] | None = None
    """The tools that most sessions discovered."""
    results: LongResults | None = None
    gemini: GeminiUse | None = None


class Tip(Struct, frozen=True):
    """The fixed text of a tip."""

    name: str
    sentence: str


class TipAdvice(Struct, frozen=True, kw_only=True):
    """A tip that applies: the observation and the lines for holdfast.toml."""

    tip: str
    seen: str
    sentence: str
    settings: tuple[str, ...]


TIPS: Mapping[str, Tip] = {
    tip.name: tip
    for tip in (
        Tip(
            "drift",
            "If an agent drifts because it misses what it read, keep more of the newest tool results in full.",
        ),
        Tip(
            "frequent_compaction",
            "Where compaction comes too often, leave 10 to 15 turns between two; other clients than Holdfast's agent "
            "have settings of their own for it.",
        ),
        Tip(
            "short_sessions",
            "Sessions with small prompts that end within five minutes never read what they pay an hour for: the "
            'gateway\'s default strategy decides this by price; with `cache.strategy = "zones"` switch adaptation off '
            "and choose the short lifetime.",
        ),
        Tip(
            "many_mcp_tools",
            "With many MCP tools let Holdfast's agent defer what is too much, and pin the few that nearly every "
            "session needs.",
        ),
        Tip(
            "big_results",
            "Long results go to a file with their head and tail inline; if the agent needs them whole, keep longer "
            "ones inline.",
        ),
        Tip(
            "gemini",
            "Once tools and system text have settled, Gemini's explicit cache promises the hit that its implicit one "
            "only hopes for, where requests come often enough to pay for its storage.",
        ),
    )
}


def applicable(evidence: TipEvidence, settings: Settings) -> tuple[TipAdvice, ...]:
    """The tips that fit, in the order of the list."""
    advices = (rule(evidence, settings) for rule in _RULES)
    return tuple(each for each in advices if each is not None)


def _advised(name: str, seen: str, *settings: str) -> TipAdvice:
    return TipAdvice(tip=name, seen=seen, sentence=TIPS[name].sentence, settings=settings)


def _drift(evidence: TipEvidence, settings: Settings) -> TipAdvice | None:
    window, masked = settings.tools.mask.keep_window, evidence.masked or 0
    if masked < MASKED or window >= KEEP_WINDOW:
        return None
    seen = f"{masked:,} old results were replaced by placeholders in one session, all but the newest {window}"
    return _advised("drift", seen, f"tools.mask.keep_window = {KEEP_WINDOW}")


def _frequent_compaction(evidence: TipEvidence, settings: Settings) -> TipAdvice | None:
    compactions = evidence.compacted
    if (
        compactions is None
        or compactions.compactions < COMPACTIONS
        or settings.agent.compaction.cooldown_turns >= TOO_OFTEN
    ):
        return None
    apart = compactions.turns / compactions.compactions
    if apart >= TOO_OFTEN:
        return None
    seen = f"{compactions.compactions:,} compactions, one every {apart:.1f} turns"
    return _advised("frequent_compaction", seen, f"agent.compaction.cooldown_turns = {COOLDOWN}")


def _short_sessions(evidence: TipEvidence, settings: Settings) -> TipAdvice | None:
    brief, cache = evidence.brief, settings.cache
    if brief is None or brief.long_tokens < BRIEF_WRITES:
        return None
    seen = (
        f"{brief.sessions:,} brief session{'' if brief.sessions == 1 else 's'} with small prompts wrote "
        f"{brief.long_tokens:,} tokens for an hour"
    )
    if cache.strategy == "zones":
        follows = not cache.adaptive and cache.retention != "long"
        settings_advised = ("cache.adaptive = false", 'cache.retention = "short"')
        return None if follows else _advised("short_sessions", seen, *settings_advised)
    return _advised("short_sessions", seen, 'cache.strategy = "economic"')


def _many_mcp_tools(evidence: TipEvidence, settings: Settings) -> TipAdvice | None:
    deferral, tools = settings.tools.deferral, evidence.mcp_tools or 0
    if tools < MCP_TOOLS:
        return None
    settings_advised = [] if deferral.mode == "auto" else ['tools.deferral.mode = "auto"']
    frequent = evidence.frequent or ()
    unpinned = [name for name in frequent if not any(fnmatchcase(name, each) for each in deferral.never)]
    seen = f"{tools:,} MCP tools"
    if unpinned:
        never = ", ".join(json.dumps(name, ensure_ascii=False) for name in (*deferral.never, *unpinned))
        settings_advised.append(f"tools.deferral.never = [{never}]")
        seen += f"; most sessions asked for {', '.join(unpinned)}"
    elif evidence.frequent is None and not deferral.never:  # nobody knows which: the user does
        settings_advised = ['tools.deferral.mode = "auto"', 'tools.deferral.never = ["mcp__SERVER__TOOL"]']
    return _advised("many_mcp_tools", seen, *settings_advised) if settings_advised else None


def _big_results(evidence: TipEvidence, settings: Settings) -> TipAdvice | None:
    long_results, offload = evidence.results, settings.tools.offload
    if long_results is None or long_results.count < BIG_RESULTS:
        return None
    limit = -(-long_results.median // 1_000) * 1_000
    if limit > offload.hard_cap_chars or limit <= (offload.max_result_chars or 0):
        return None
    seen = (
        f"{long_results.count:,} results too long to stay inline, half of them up to {long_results.median:,} characters"
    )
    return _advised("big_results", seen, f"tools.offload.max_result_chars = {limit}")


def _gemini(evidence: TipEvidence, settings: Settings) -> TipAdvice | None:
    use = evidence.gemini
    if use is None or use.requests < GEMINI_REQUESTS or use.changes or settings.cache.gemini.enabled:
        return None
    seen = f"{use.requests:,} requests to Gemini, and no change of their tools or system text was seen"
    return _advised("gemini", seen, "cache.gemini.enabled = true")


_RULES: tuple[Callable[[TipEvidence, Settings], TipAdvice | None], ...] = (
    _drift,
    _frequent_compaction,
    _short_sessions,
    _many_mcp_tools,
    _big_results,
    _gemini,
)


MOST = 20_000
"""Calls that are looked at, about: the hours that hold the newest of them."""
EVENTS = 200_000
"""Events of the hours looked at, beyond which none is read: there are agents that never rest."""
FREQUENT = 3
"""Sessions at least that asked for a tool before it counts as frequent."""
MOST_NAMED = 5

_Where = tuple[str, str]


class _Payload(Struct):
    """The parts read of events."""

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
            payload = msgspec.json.decode(event.payload, type=_Payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # written by another version
            return
        if kind == "tool.offloaded":
            self.sizes.append(payload.characters)
            return
        mcp_tools = [name for name in payload.tools if name.startswith("mcp__")]
        self.tools.update(mcp_tools)
        if kind == "tool.discovered":
            for name in mcp_tools:
                self.asked[name].add(where)


def evidence(store: Store, settings: Settings) -> TipEvidence:
    """Collect the evidence from the newest calls and events."""
    start = store.newest_hour(MOST)
    if start is None:
        return TipEvidence()
    sessions: dict[_Where, _Session] = {}
    gemini: Counter[str] = Counter()
    store.visit_calls(partial(_call, sessions, gemini), start=start)
    names = {name for name in gemini if model(name).ref.startswith("gemini:")}
    broke = sum(each.cause in HEAD_CHANGES and each.model in names for each in store.breaks(start=start, newest=True))
    events = _events(store, start)
    return TipEvidence(
        masked=max(events.count["tool.masked"].values(), default=None),
        compacted=_compacted(events),
        brief=_brief(sessions) if settings.cache.strategy == "zones" else None,
        mcp_tools=len(events.tools) or None,
        frequent=_frequent(events),
        results=LongResults(len(events.sizes), round(median(events.sizes))) if events.sizes else None,
        gemini=GeminiUse(sum(gemini[name] for name in names), broke) if names else None,
    )


def _call(sessions: dict[_Where, _Session], gemini: Counter[str], call: Call) -> None:
    if call.usage is None or call.kind != "request":
        return
    gemini[call.model] += 1
    at = call.started_at
    session = sessions.setdefault((call.tenant, call.session), _Session(at, at))
    session.last = max(session.last, at)
    session.calls += 1
    session.prompt += call.usage.prompt
    session.long += sum(tokens for ttl, tokens in call.usage.writes if ttl == "1h")


def _events(store: Store, start: int) -> _Events:
    events = _Events()
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
            store.visit_events(partial(events.add, kind), kind, start=start)
    return events


def _compacted(events: _Events) -> Compactions | None:
    """Only sessions that were compacted more than once say how far apart that is."""
    often = {where: count for where, count in events.count["compaction.completed"].items() if count > 1}
    turns = sum(events.count["turn.started"][where] for where in often)
    return Compactions(sum(often.values()), turns) if often and turns else None


def _brief(sessions: dict[_Where, _Session]) -> BriefSessions:
    brief = [
        each
        for each in sessions.values()
        if each.long and each.last - each.first < BRIEF_S * 1_000_000 and each.prompt < SMALL_PROMPT * each.calls
    ]
    return BriefSessions(len(brief), sum(each.long for each in brief))


def _frequent(events: _Events) -> tuple[str, ...]:
    sessions = len(events.count["tool.discovered"])
    frequent = [
        name
        for name, sessions_asking in events.asked.items()
        if len(sessions_asking) >= FREQUENT and 2 * len(sessions_asking) >= sessions
    ]
    return tuple(sorted(frequent, key=lambda name: (-len(events.asked[name]), name))[:MOST_NAMED])
