"""New sessions that could not read the head (tools and system text) of the session before, because theirs differs.

The first request of a session breaks nothing. But sessions of one agent share a head while its bytes are the same, and
an edit between two of them is paid for once more. It is reported if bodies and usage prove it: the entry was alive, the
cache rules would have read it with the old head, and less was read. Two heads with less than half in common belong to
two agents, and are not reported.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.caches import CacheControls, Mark, Prompt, providers
from holdfast.config.sections import BreaksSettings
from holdfast.core import DEFAULTS, Divergence, Finding, head, judge
from holdfast.core.cures import Cure, case, cure_for
from holdfast.engine import ByteDiff, locate
from holdfast.facts import Rates
from holdfast.lru import LRU
from holdfast.records import HEAD_CHANGES, Usage, common_head

from ..logs.records import LoggedRequest
from .advice import happened
from .bodies import BodyMemory, ComparedBody, LaneName
from .lanes import LaneUsage
from .results import HeadFinding, utf8
from .sessions import SessionTally

AGENTS = 256
"""Clients, agents and models whose last session is remembered: those used last."""
LOOKS = 100
"""Sessions of one agent that are looked at: each takes as long as a break."""
LEAST = 1_000
"""Tokens of a head that are worth a note."""

_WORTH = BreaksSettings(min_drop=DEFAULTS.min_drop, min_tokens=LEAST)
_SAME = 0.98  # of a head that was read: all of it, as far as tokens are estimates

Agent = tuple[str, str, str, str]
"""Kind of log, client, agent and model."""


class _Last:
    """Where an agent was met last. Its body is among those that are kept of lanes, or forgotten with them. `head` are
    the tokens that a session could read of the one before when that was last looked at, which was done `looks` times.
    """

    __slots__ = ("head", "lane", "looks", "name", "session")
    session: str
    name: LaneName
    lane: LaneUsage

    def __init__(self) -> None:
        self.head = self.looks = 0


class Heads:
    """The last session of each agent."""

    def __init__(self, bodies: BodyMemory) -> None:
        self._bodies = bodies
        self._last: LRU[Agent, _Last] = LRU(AGENTS)
        self.left_out = 0
        """Sessions that were not looked at, because enough of their agent were."""

    def sent(self, session: SessionTally, lane: LaneUsage, record: LoggedRequest) -> None:
        """A request with a body was billed."""
        agent = _agent(session, record)
        last = self._last.get(agent)
        if last is None:
            last = self._last[agent] = _Last()
        last.session, last.name, last.lane = session.name, (session.key, record.agent, record.model), lane

    def first(
        self, session: SessionTally, lane: LaneUsage, record: LoggedRequest, usage: Usage, rates: Rates | None
    ) -> HeadFinding | None:
        """What the first request of a lane could not share with the agent's last session; None where nothing is known
        to have been lost."""
        last = self._last.peek(_agent(session, record))
        if last is None or last.name[0] == session.key or record.at is None or not lane.guaranteed:
            return None
        lives, then = last.lane.seconds(), last.lane.at
        if lives is None or then is None or not 0 <= record.at - then <= lives or usage.prompt - usage.read <= LEAST:
            return None
        if last.head and usage.read >= last.head * _SAME:
            return None  # as much as others have read
        if last.looks >= LOOKS:
            self.left_out += 1
            return None
        # Where writes are not reported, what the last one read is no more than the least that it had covered.
        seen = self._bodies.beside(record, last.name, lane.model, last.lane.covered or 1)
        if seen is None or seen.first is None:
            return None
        could = _could(seen, seen.first.prompt)
        last.looks += 1
        last.head = round(could * usage.prompt / max(1, seen.prepared.prompt.tokens))
        head_finding = _parted(seen, seen.first.prompt, could, usage, rates)
        if head_finding is None:
            return None
        finding, place, cure = head_finding
        return HeadFinding(
            at=seen.prepared.outcome.at,
            tokens=min(finding.tokens, usage.prompt - usage.read),
            cost_usd=None if rates is None else finding.dollars,
            cure=cure.name,
            what=happened(cure.sentence),
            path=place.path,
            offset=place.offset,
            request=session.numbered,
            before=utf8(last.session),
            gap_s=round(record.at - then, 3),
            model=utf8(record.model),
            agent=utf8(record.agent),
            source=utf8(record.source),
        )


def _agent(session: SessionTally, record: LoggedRequest) -> Agent:
    return session.origin, record.client, record.agent, record.model


def _parted(
    seen: ComparedBody, old: Prompt, could: int, usage: Usage, rates: Rates | None
) -> tuple[Finding, ByteDiff, Cure] | None:
    """ByteDiff the heads part, if that is why less was read than `could` have been."""
    comparison, model = seen.prepared.comparison, seen.prepared.request.model
    divergence = None if comparison is None else comparison.divergence
    if divergence is None or divergence.setting is not None or divergence.section == "messages":
        return None
    expectation = replace(seen.prepared.expectation, expected=could, counted=False)
    finding = judge(expectation, usage, rates, _WORTH, tolerance=DEFAULTS)
    if finding is None or finding.cause not in HEAD_CHANGES:
        return None
    place = locate(seen.body, seen.prepared.prompt, seen.earlier, divergence)
    if not _alike(old, seen.prepared.prompt, divergence, place):
        return None
    return (
        finding,
        place,
        cure_for(case(finding, model, path=place.path, before=place.content_before, after=place.content_after)),
    )


def _could(seen: ComparedBody, old: Prompt) -> int:
    """What the request would have read with the head of the session before."""
    new, request = seen.prepared.prompt, seen.prepared.request
    ends = head(old), head(new)
    marks = [mark for mark in old.marks if mark.block < ends[0]]
    marks += [Mark(mark.block - ends[1] + ends[0], mark.ttl) for mark in new.marks if mark.block >= ends[1]]
    blocks = (*old.blocks[: ends[0]], *new.blocks[ends[1] :])
    controls = CacheControls(scope=new.scope, settings=request.settings, marks=marks, route=new.route, mode=new.mode)
    same = providers.prompt(request.model, blocks, controls)
    return seen.tenant.pool(request.model).begin(same, seen.prepared.outcome.at).read


def _alike(old: Prompt, new: Prompt, divergence: Divergence, place: ByteDiff) -> bool:
    """Whether at least half of the smaller head is in both: whole blocks, and the text of the one where they part."""
    ends = head(old), head(new)
    if not all(ends):
        return False
    digests = {block.digest for block in old.blocks[: ends[0]]}
    shared = float(sum(block.tokens for block in new.blocks[: ends[1]] if block.digest in digests))
    if divergence.block < ends[1] and place.content_before and place.content_after:
        before, says = place.content_before, place.content_after
        front = common_head(before, says)
        back = common_head(before[front:][::-1], says[front:][::-1])
        shared += new.blocks[divergence.block].tokens * (front + back) / len(says)
    return 2 * shared >= min(old.ends[ends[0] - 1], new.ends[ends[1] - 1])
