"""The lanes that are known by their prefix chain, and the search for the one a request goes on with.

A request goes on with a lane if it repeats at least one turn of the model that the lane has seen or just asked for.
Where several lanes might be meant, the one used last is; who lets texts of a lane stand in its later requests asks for
more care, so that no conversation is sent a text of another's.
Bounded in memory: the lanes used last, and of each a few places at its beginning and many at its end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Literal, NamedTuple

from msgspec import Struct

from ..lane import Lane
from .chains import Chain

MOST_LANES = 2_000
FIRST, RECENT = 8, 64
"""Turns of the model that are remembered of a lane, from its beginning and up to its end."""

MOST_ALIKE = 64
"""Lanes that are remembered at one place: so many conversations may begin alike at once."""

Care = Literal["none", "repairs", "memory"]
"""What stands in a lane's requests that is not this request's own: nothing, values its client said before, or memory
that it was given."""

RESPONSES = 8
_LONGEST_ID = 256
RESEND = 600.0
"""Seconds within which the same opening may be the same request, sent again."""


class LaneRecord(Struct, eq=False):
    """A lane and the last request it sent, which held `count` turns of the model and was known after those in `turns`.

    `given` is the number of turns that its first request brought along: examples that every conversation of a client
    begins with, or a history that was not seen to grow. They are no evidence of this lane; the turns after them are.
    `project` stands for the one that its first request named, if any. `head` stands for the tools and the system text
    of its last request, `varied` if they were ever others. A lane is `shared` if a request was taken for its own that
    may have been another conversation's. It has `gone_on` if a lane that began with more of the same words stands for
    what followed; until then its conversation may be ahead of it, by turns that went another way.
    `by_response` if a later request may name a response instead of repeating what was said (Responses), `unanswered`
    if the last request is known to have come to nothing. `tick` orders by use.
    """

    lane: Lane
    model: str
    started: float
    used: float
    given: int = -1
    count: int = 0
    system: bytes = b""
    whole: bytes = b""
    end: bytes = b""
    turns: tuple[bytes, ...] = ()
    tails: tuple[bytes, ...] = ()
    responses: tuple[str, ...] = ()
    by_response: bool = False
    unanswered: bool = False
    tick: int = 0
    saved: bytes = b""
    project: bytes = b""
    head: bytes = b""
    varied: bool = False
    shared: bool = False
    gone_on: bool = False


class LaneMatch(NamedTuple):
    """The lane a request goes on with. `shared` if it may as well be one of another conversation's."""

    known: LaneRecord
    shared: bool = False


class LaneIndex:
    """Lanes by name, by place in their chain and by the responses they got. Not safe for threads by itself."""

    def __init__(self, most: int = MOST_LANES) -> None:
        self._most = most
        self._lanes: OrderedDict[tuple[str, str], LaneRecord] = OrderedDict()
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
        return self._lanes.get((lane.tenant, lane.id))

    # Searching

    def match(
        self, chain: Chain, project: bytes = b"", *, retried: bool = False, care: Care = "none"
    ) -> LaneMatch | None:
        """The lane that a request goes on with.

        It is certain if no other lane knows as much of the request, whatever its system text. If it is not, a lane may
        be taken all the same that never had another head than the request's: there is no text in it that this request
        does not have. It is `shared` then, and takes no request with another head any more. Where lanes are given
        memory nothing is taken that is not certain.
        """
        known = self._longest(chain, project, retried)
        if known is None:
            return None
        rivals = self._rivals(chain, project)
        certain = rivals == [known] and not known.shared
        if care == "none":
            return LaneMatch(known, not certain)
        if certain and all(each is known for each in self._waiting(chain, project)):
            return LaneMatch(known)
        same = known.head == chain.head and not known.varied
        return LaneMatch(known, True) if care == "repairs" and same else None

    def _rivals(self, chain: Chain, project: bytes) -> list[LaneRecord]:
        """The lanes that know most of a request, each of which it may go on with. One that waits for an answer which
        never came is none of them, unless it is the only one."""
        for before, after in zip(reversed(chain.before[: len(chain.after)]), reversed(chain.after), strict=True):
            found = list(
                {id(known): known for known in (*self._at(after, project), *self._at(before, project))}.values()
            )
            if before in self._crowded or after in self._crowded:
                return [*found, *found]
            if found:
                return [known for known in found if not (known.unanswered and known.end == before)] or found
        return []

    def _waiting(self, chain: Chain, project: bytes) -> list[LaneRecord]:
        """The lanes that were last seen at the beginning of a request, with the longest part of it last: it may be one
        of theirs, of which some turns did not come here."""
        return [
            known
            for place in chain.before
            for known in self._at(place, project)
            if (known.end == place or place in known.tails) and not known.gone_on and not known.unanswered
        ]

    def _longest(self, chain: Chain, project: bytes, retried: bool) -> LaneRecord | None:
        """The lane with the longest known part of this chain, of several one of the same project, of those the one used
        last. One of another project is none of them; where either names none, that says nothing.

        With the lane's own system text it is enough that the request repeats a turn of the model that the lane has
        seen come, or goes on with one where the lane's last request ended. With another (there may be a clock in it)
        the request has to hold all that the lane's last request said, which held a turn of the model, and one more.

        A client that rewrites its last question goes on where nothing ended. If its turns are those that the lane was
        given and one more, and that is so of one lane only, it is that one.
        """
        if (found := self._resent(chain, project, retried)) is not None:
            return found
        for index in range(len(chain.after) - 1, -1, -1):
            seen = [known for known in self._at(chain.after[index], project) if known.system == chain.system]
            asked = self._at(chain.before[index], project)  # where a last request ended, perhaps with a reminder after
            same = [known for known in asked if known.system == chain.system]
            if own := [known for known in seen if known.given <= index]:
                return _last([*own, *same], project)
            if index == len(chain.after) - 2:
                grown = [known for known in seen if known.count == index + 1]
                if len(grown) == 1:
                    return grown[0]
            ended = same or [known for known in asked if known.end == chain.before[index] and known.count]
            if found := _last(ended, project):
                return found
        return None

    def _resent(self, chain: Chain, project: bytes, retried: bool) -> LaneRecord | None:
        """The lane whose last request said exactly this, if a turn of its own is in it: two under another system. One
        used since then that waits for the last of these turns may as well have come to the same words, unless the
        request is known to be sent again."""
        seen = [known for known in self._at(chain.end, project) if known.end == chain.end]
        same = [known for known in seen if known.system == chain.system and known.count > known.given]
        if same and not retried and not any(known.unanswered for known in same):
            same += [known for known in self._at(chain.before[-1], project) if known.system == chain.system]
        return _last(same or [known for known in seen if known.count > known.given + 1], project)

    def _at(self, place: bytes, project: bytes) -> list[LaneRecord]:
        """The lanes at a place that are of no other project."""
        known = self._places.get(place, ())
        return [each for each in known if each.project == project or not (each.project and project)]

    def opening(
        self, chain: Chain, now: float, project: bytes = b"", *, retried: bool, care: Care = "none"
    ) -> LaneMatch | None:
        """The lane that an opening, a request without a turn of the lane's own, is a resend of.

        The same opening again may as well be another conversation that begins alike: a job that runs every hour. So it
        counts as a resend only with evidence: the client says that it tries again, or the lane's request is known to
        have come to nothing; it must be the same in every block and of the same project, and soon after.
        """
        seen = [
            known
            for known in self._places.get(chain.end, ())
            if known.whole == chain.whole and known.project == project and 0 <= now - known.used <= RESEND
        ]
        found = _last([known for known in seen if retried or known.unanswered], project)
        if found is None or (care != "none" and len(self._places.get(chain.end, ())) > 1):
            return None
        return LaneMatch(found, found.shared or not found.unanswered)

    def by_response(self, tenant: str, response: str) -> LaneRecord | None:
        return self._responses.get((tenant, response))

    # Remembering

    def put(self, known: LaneRecord, chain: Chain | None, now: float) -> list[LaneRecord]:
        """The lane sent a request with this chain; None for one that says only what is new. Returns the lanes that have
        gone on with it, if it is new."""
        self._ticks += 1
        known.tick, known.used, known.unanswered = self._ticks, now, False
        before: list[LaneRecord] = []
        if chain is not None:
            if known.given < 0:
                known.given = len(chain.after)
                before = self._end(chain, known.project)
            turns = chain.after if len(chain.after) <= FIRST + RECENT else chain.after[:FIRST] + chain.after[-RECENT:]
            self._move(known, turns, chain.tails, chain.end)
            known.varied |= known.head not in (b"", chain.head)
            known.system, known.whole, known.head = chain.system, chain.whole, chain.head
            known.count, known.gone_on = len(chain.after), False
        self.add(known)
        return before

    def _end(self, chain: Chain, project: bytes) -> list[LaneRecord]:
        """A new lane begins with this chain: the one that waited furthest in it has gone on, and of those that were
        behind that, one. So nobody waits for ever for a conversation that was given up."""
        waiting = self._waiting(chain, project)
        ended = waiting[-1:] + [each for each in waiting[:1] if each.end != waiting[-1].end]
        for known in ended:
            known.gone_on = True
        return ended

    def add(self, known: LaneRecord) -> None:
        """Remember a lane as the one used last; the one used longest ago goes where there are too many."""
        name = (known.lane.tenant, known.lane.id)
        self._lanes[name] = known
        self._lanes.move_to_end(name)
        while len(self._lanes) > self._most:
            _, dropped = self._lanes.popitem(last=False)
            self._move(dropped, (), (), b"")
            for response in dropped.responses:
                self._responses.pop((dropped.lane.tenant, response), None)

    def restore(self, known: LaneRecord) -> None:
        """A lane that was stored, as if it had been here before those that are known already."""
        if self.get(known.lane) is not None or len(self._lanes) >= self._most:
            return
        places = known.turns, known.tails, known.end
        known.turns, known.tails, known.end = (), (), b""
        self._move(known, *places)
        self.answered(known, known.responses)
        self.add(known)
        self._lanes.move_to_end((known.lane.tenant, known.lane.id), last=False)

    def answered(self, known: LaneRecord, responses: Iterable[str]) -> None:
        """The lane got responses with these ids."""
        for response in responses:
            if response.isascii() and 0 < len(response) <= _LONGEST_ID:
                known.responses = (*(each for each in known.responses if each != response), response)
                self._responses[known.lane.tenant, response] = known
        for forgotten in known.responses[:-RESPONSES]:
            self._responses.pop((known.lane.tenant, forgotten), None)
        known.responses = known.responses[-RESPONSES:]

    def _move(self, known: LaneRecord, turns: tuple[bytes, ...], tails: tuple[bytes, ...], end: bytes) -> None:
        """The lane is known at these places and no others."""
        old, new = {*known.turns, *known.tails, known.end}, {*turns, *tails, end}
        for place in old - new:
            rest = tuple(each for each in self._places.get(place, ()) if each is not known)
            if rest:
                self._places[place] = rest
            else:
                self._places.pop(place, None)
                self._crowded.discard(place)
        for place in new - old:
            if place:
                if len(self._places.get(place, ())) >= MOST_ALIKE:
                    self._crowded.add(place)
                self._places[place] = (*self._places.get(place, ())[1 - MOST_ALIKE :], known)
        known.turns, known.tails, known.end = turns, tails, end


def _last(lanes: list[LaneRecord], project: bytes) -> LaneRecord | None:
    """The one used last, of the same project if there is one."""
    return max(lanes, key=lambda known: (known.project == project, known.tick), default=None)
