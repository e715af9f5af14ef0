"""Signs of long-running agents in logs, for the tips: a few counts that grow while the logs are read.

Missing data is not guessed: turns and sizes of results need a log that has them, tools need request bodies.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from holdfast.config import Settings
from holdfast.records import HEAD_CHANGES

from ..logs.records import LoggedRequest
from ..logs.traces import kind_of_shape
from ..tips import BIG_SHARE, BRIEF_S, SMALL_PROMPT, BriefSessions, Compactions, GeminiUse, LongResults, TipEvidence
from .lanes import LaneUsage
from .sessions import SessionTally

_STEP = 1_000  # characters: sizes are counted in steps of so many
_MOST = 1_000  # steps
_MCP_TOOLS = re.compile(rb'"name"\s*:\s*"(mcp__[^"\\]{1,200})"').findall


class Signs:
    """`took` for every request that counts, `broke` for every break."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        offload = settings.tools.offload
        self._inline = offload.max_result_chars or offload.inline_chars
        self._sizes: Counter[int] = Counter()
        self._all_results = 0
        self._mcp_tools = 0
        self._gemini = self._unsettled = 0

    def took(self, session: SessionTally, lane: LaneUsage, record: LoggedRequest) -> None:
        added = record.added
        if record.reset == "compaction":
            session.compactions += 1
        kind = record.kind or (kind_of_shape(added) if added else None)
        if kind == "user" and not record.agent:
            session.turns += 1
        for block in added:
            if block.type != "tool_result":
                continue
            self._all_results += 1
            if block.chars > self._inline:
                self._sizes[min(_MOST, -(-block.chars // _STEP))] += 1
        if record.body is not None and not lane.requests:
            self._mcp_tools = max(self._mcp_tools, len(set(_MCP_TOOLS(record.body))))
        if lane.model.ref.startswith("gemini:"):
            self._gemini += 1

    def broke(self, lane: LaneUsage, cause: str | None) -> None:
        self._unsettled += cause in HEAD_CHANGES and lane.model.ref.startswith("gemini:")

    def evidence(self, sessions: Sequence[SessionTally]) -> TipEvidence:
        often = [each for each in sessions if each.compactions > 1 and each.turns]
        return TipEvidence(
            compacted=Compactions(sum(s.compactions for s in often), sum(s.turns for s in often)) if often else None,
            brief=_brief([each for each in sessions if self._chose(each)]),
            mcp_tools=self._mcp_tools or None,
            results=_results(self._sizes, self._all_results),
            gemini=GeminiUse(self._gemini, self._unsettled) if self._gemini else None,
        )

    def _chose(self, session: SessionTally) -> bool:
        """Return whether its lifetimes were chosen regardless of cost, unlike those of the gateway's own plans."""
        return session.origin != "store" or self._settings.cache.strategy == "zones"


def _brief(sessions: Sequence[SessionTally]) -> BriefSessions:
    count = long = 0
    for each in sessions:
        if each.estimated or each.started is None or each.ended is None or each.ended - each.started >= BRIEF_S:
            continue
        used = each.tokens()
        if used.write_1h and used.prompt < SMALL_PROMPT * each.requests:
            count, long = count + 1, long + used.write_1h
    return BriefSessions(count, long)


def _results(sizes: Counter[int], among: int) -> LongResults | None:
    if not sizes or sizes.total() < BIG_SHARE * among:
        return None
    count, seen, middle = sizes.total(), 0, 0
    for size in sorted(sizes):
        middle, seen = size, seen + sizes[size]
        if 2 * seen >= count:
            break
    return LongResults(count, middle * _STEP)
