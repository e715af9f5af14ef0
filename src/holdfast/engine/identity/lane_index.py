"""The lanes that are known by their prefix chain, and which of them a request continues.

The gateway's side of `continuation`: a request continues a lane if it repeats at least one turn of the model that the
lane has seen or just asked for. Where several lanes might be meant, the one used last is; whoever lets texts of a lane
stand in its later requests asks for more care, so that no conversation is sent a text of another's.
Bounded in memory: the lanes used last, and of each a few places at its beginning and many at its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from msgspec import Struct

from holdfast.lru import LRU

from ..lane import Lane
from .continuation import LANES, Chain, Evidence, Relation, choose, is_reopened

MOST_LANES = 2_000
FIRST, RECENT = 8, 64
"""Turns of the model that are remembered of a lane, from its beginning and up to its end."""

MOST_ALIKE = 64
"""Lanes that are remembered at one place: so many conversations may begin alike at once."""

Care = Literal["none", "repairs", "memory"]
"""What a lane's requests contain besides this request's own: nothing, values its client sent before, or injected
memory."""

RESPONSES = 8
_LONGEST_ID = 256
RESEND = 600.0
"""Seconds within which the same opening may be the same request, sent again."""


class LaneRecord(Struct, eq=False):
    """A lane and the last request it sent."""

    lane: Lane
    model: str
    started: float
    used: float
    given: int = -1  # turns that its first request brought along: no evidence of this lane, others may bring the same
    count: int = 0  # turns of the model in its last request
    system: bytes = b""
    whole: bytes = b""
    end: bytes = b""
    turns: tuple[bytes, ...] = ()  # the places behind those turns
    tails: tuple[bytes, ...] = ()
    responses: tuple[str, ...] = ()
    by_response: bool = False  # a later request may name a response instead of repeating what was said (Responses)
    unanswered: bool = False  # its last request is known to have come to nothing
    tick: int = 0  # orders by use
    saved: bytes = b""
    project: bytes = b""  # the one that its first request named, if any
    head: bytes = b""  # tools and system text of its last request
    varied: bool = False  # these were others before
    shared: bool = False  # a request was taken for its own that may have been another conversation's
    gone_on: bool = False  # a newer lane that began with its words stands for what followed; until then it may be ahead

    @property
    def own_turns(self) -> int:
        return self.count - self.given


class LaneQuery(Struct, frozen=True):
    """A request to find the lane of. Without a project it matches lanes of any project."""

    chain: Chain
    project: bytes = b""
    retried: bool = False  # the client says that it sends it again
    care: Care = "none"


class LaneMatch(NamedTuple):
    """The lane that a request continues. `shared` if it may as well be one of another conversation's."""

    record: LaneRecord
    shared: bool = False


class LaneIndex:
    """Lanes by name, by place in their chain and by the responses they got. Not synchronised."""

    def __init__(self, most: int = MOST_LANES) -> None:
        self._most = most
        self._lanes: LRU[tuple[str, str], LaneRecord] = LRU(most, on_evict=self._forget)
        self._places: dict[bytes, tuple[LaneRecord, ...]] = {}
        self._responses: dict[tuple[str, str], LaneRecord] = {}
        self._crowded: set[bytes] = set()  # places at which a lane was forgotten
        self._ticks = 0

    def __len__(self) -> int:
        return len(self._lanes)

    @property
    def places(self) -> int:
        """How many places of chains are remembered, to see that they stay bounded."""
        return len(self._places)

    def get(self, lane: Lane) -> LaneRecord | None:
        return self._lanes.peek((lane.tenant, lane.id))

    # Searching

    def match(self, query: LaneQuery) -> LaneMatch | None:
        """The lane that a request continues.

        It is certain if no other lane knows as much of the request, whatever its system text. If it is not, a lane may
        be taken all the same that never had another head than the request's: there is no text in it that this request
        does not have. It is `shared` then, and takes no request with another head any more. Where lanes are given
        memory nothing is taken that is not certain.
        """
        record = self._longest(query)
        if record is None:
            return None
        certain = self._rivals(query) == [record] and not record.shared
        if query.care == "none":
            return LaneMatch(record, not certain)
        if certain and all(each is record for each in self._waiting(query.chain, query.project)):
            return LaneMatch(record)
        same_head = record.head == query.chain.head and not record.varied
        return LaneMatch(record, True) if query.care == "repairs" and same_head else None

    def _rivals(self, query: LaneQuery) -> list[LaneRecord]:
        """The lanes that know most of a request, each of which it may continue. One that waits for an answer which
        never came is none of them, unless it is the only one."""
        chain = query.chain
        for before, after in zip(reversed(chain.before[: len(chain.after)]), reversed(chain.after), strict=True):
            there = (*self._at(after, query.project), *self._at(before, query.project))
            rivals = list({id(record): record for record in there}.values())
            if before in self._crowded or after in self._crowded:
                return [*rivals, *rivals]
            if rivals:
                return [record for record in rivals if not (record.unanswered and record.end == before)] or rivals
        return []

    def _waiting(self, chain: Chain, project: bytes) -> list[LaneRecord]:
        """The lanes that were last seen at the beginning of a request, with the longest part of it last: it may be one
        of theirs, of which some turns did not come here."""
        return [
            record
            for place in chain.before
            for record in self._at(place, project)
            if (record.end == place or place in record.tails) and not record.gone_on and not record.unanswered
        ]

    def _longest(self, query: LaneQuery) -> LaneRecord | None:
        """The lane with the longest known part of a request's chain. One of another project is none of them; where
        either names none, that says nothing."""
        match = choose(self._resent(query), LANES)
        index = len(query.chain.after)
        while match is None and index:
            index -= 1
            match = choose(self._at_turn(query, index), LANES)
        return None if match is None else match.conversation

    def _resent(self, query: LaneQuery) -> Iterator[Evidence[LaneRecord]]:
        """Yield lanes whose last request was the same, if it has a turn of their own: two under another system text. A
        lane used since then that awaits the last of these turns may have come to the same text, unless the request is
        known to be a retry."""
        chain = query.chain
        there = [record for record in self._at(chain.end, query.project) if record.end == chain.end]
        same = [record for record in there if record.system == chain.system and record.own_turns > 0]
        if same and not query.retried and not any(record.unanswered for record in same):
            waiting = self._at(chain.before[-1], query.project)
            same += [record for record in waiting if record.system == chain.system]
        for record in same:
            yield _evidence(record, Relation.RESENT, query)
        for record in there:
            if record.own_turns > 1:
                yield _evidence(record, Relation.REHEADED, query)

    def _at_turn(self, query: LaneQuery, index: int) -> Iterator[Evidence[LaneRecord]]:
        """Yield lanes that match a request up to one of the model's turns, or up to the question before it.

        With the lane's own system text it suffices that the request repeats a turn of the model that the lane has
        received, or adds one where the lane's last request ended. With another (there may be a clock in it) the request
        has to contain all of the lane's last request, which had a turn of the model, and one more.

        A client that rewrites its last question continues where no request ended. If its turns are those of exactly one
        lane and one more, it is that lane.
        """
        chain = query.chain
        before, after = chain.before[index], chain.after[index]
        seen = [record for record in self._at(after, query.project) if record.system == chain.system]
        own = [record for record in seen if record.given <= index]
        for record in own:
            yield _evidence(record, Relation.FORKED, query)
        if not own and index == len(chain.after) - 2:
            for record in seen:
                if record.count == index + 1:
                    yield _evidence(record, Relation.GROWN, query)
        for record in self._at(before, query.project):  # where a last request ended, perhaps with a reminder after
            ended = record.end == before
            if record.system == chain.system:
                yield _evidence(record, Relation.CONTINUED if ended else Relation.ANSWERED, query)
            elif ended and record.count:
                yield _evidence(record, Relation.REHEADED, query)

    def _at(self, place: bytes, project: bytes) -> list[LaneRecord]:
        """The lanes at a place that are of no other project."""
        there = self._places.get(place, ())
        return [record for record in there if record.project == project or not (record.project and project)]

    def opening(self, query: LaneQuery, now: float) -> LaneMatch | None:
        """The lane that an opening, a request without a turn of the lane's own, is sent again from: it has to be the
        same in every block and of the same project, and come soon after."""
        there = self._places.get(query.chain.end, ())
        again = [
            _evidence(record, Relation.RESENT, query)
            for record in there
            if record.project == query.project
            and 0 <= now - record.used <= RESEND
            and is_reopened(
                same=record.whole == query.chain.whole, came_to_nothing=record.unanswered, retried=query.retried
            )
        ]
        match = choose(again, LANES)
        if match is None or (query.care != "none" and len(there) > 1):
            return None
        record = match.conversation
        return LaneMatch(record, record.shared or not record.unanswered)

    def by_response(self, tenant: str, response: str) -> LaneRecord | None:
        return self._responses.get((tenant, response))

    # Remembering

    def put(self, record: LaneRecord, chain: Chain | None, now: float) -> list[LaneRecord]:
        """Record that the lane sent a request with this chain; None for one with only what is new. Returns the lanes
        that have been continued by it, if it is new."""
        self._ticks += 1
        record.tick, record.used, record.unanswered = self._ticks, now, False
        before: list[LaneRecord] = []
        if chain is not None:
            if record.given < 0:
                record.given = len(chain.after)
                before = self._end(chain, record.project)
            turns = chain.after if len(chain.after) <= FIRST + RECENT else chain.after[:FIRST] + chain.after[-RECENT:]
            self._move(record, turns, chain.tails, chain.end)
            record.varied |= record.head not in (b"", chain.head)
            record.system, record.whole, record.head = chain.system, chain.whole, chain.head
            record.count, record.gone_on = len(chain.after), False
        self.add(record)
        return before

    def _end(self, chain: Chain, project: bytes) -> list[LaneRecord]:
        """A new lane begins with this chain: the one that waited furthest in it has gone on, and of those that were
        behind that, one. So nobody waits for ever for a conversation that was given up."""
        waiting = self._waiting(chain, project)
        ended = waiting[-1:] + [each for each in waiting[:1] if each.end != waiting[-1].end]
        for record in ended:
            record.gone_on = True
        return ended

    def add(self, record: LaneRecord) -> None:
        """Remember a lane as the one used last; the one used longest ago goes where there are too many."""
        self._lanes[record.lane.tenant, record.lane.id] = record

    def _forget(self, _: tuple[str, str], record: LaneRecord) -> None:
        self._move(record, (), (), b"")
        for response in record.responses:
            self._responses.pop((record.lane.tenant, response), None)

    def restore(self, record: LaneRecord) -> None:
        """A lane that was stored, as if it had been here before those that are known already."""
        if self.get(record.lane) is not None or len(self._lanes) >= self._most:
            return
        places = record.turns, record.tails, record.end
        record.turns, record.tails, record.end = (), (), b""
        self._move(record, *places)
        self.answered(record, record.responses)
        self.add(record)
        self._lanes.demote((record.lane.tenant, record.lane.id))

    def answered(self, record: LaneRecord, responses: Iterable[str]) -> None:
        """The lane got responses with these ids."""
        for response in responses:
            if response.isascii() and 0 < len(response) <= _LONGEST_ID:
                record.responses = (*(each for each in record.responses if each != response), response)
                self._responses[record.lane.tenant, response] = record
        for forgotten in record.responses[:-RESPONSES]:
            self._responses.pop((record.lane.tenant, forgotten), None)
        record.responses = record.responses[-RESPONSES:]

    def _move(self, record: LaneRecord, turns: tuple[bytes, ...], tails: tuple[bytes, ...], end: bytes) -> None:
        """The lane is known at these places and no others."""
        old, new = {*record.turns, *record.tails, record.end}, {*turns, *tails, end}
        for place in old - new:
            rest = tuple(each for each in self._places.get(place, ()) if each is not record)
            if rest:
                self._places[place] = rest
            else:
                self._places.pop(place, None)
                self._crowded.discard(place)
        for place in new - old:
            if place:
                if len(self._places.get(place, ())) >= MOST_ALIKE:
                    self._crowded.add(place)
                self._places[place] = (*self._places.get(place, ())[1 - MOST_ALIKE :], record)
        record.turns, record.tails, record.end = turns, tails, end


def _evidence(record: LaneRecord, relation: Relation, query: LaneQuery) -> Evidence[LaneRecord]:
    """Of several lanes the one used last, of the same project if there is one."""
    return Evidence(record, relation, (record.project == query.project, record.tick))
