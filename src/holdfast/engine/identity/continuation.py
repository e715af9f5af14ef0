"""Which conversation a request continues: the one decision behind gateway, logs and pytest plugin.

A door remembers conversations as it can: the gateway digests at the turns of a chain, logs hashes of blocks, the plugin
whole requests. Of every conversation that comes into question it states what a request has in common with it
(`Evidence`); `choose` picks one by the door's ladder, the strongest relation first. A door leaves out of its ladder
what it does not accept as proof:

| relation  | gateway (`LANES`)         | logs (`LOGGED`)       | pytest (`CHECKED`)                            |
|-----------|---------------------------|-----------------------|-----------------------------------------------|
| resent    | with an answer of its own | as continued          | as continued, an opening too                  |
| continued | yes                       | first of all          | head included, unless it knows another better |
| answered  | as continued              | as forked             | as rewritten                                  |
| forked    | same system text          | the longest           | as rewritten                                  |
| reheaded  | last of all               | as continued          | as rewritten                                  |
| rewritten | no: nothing is repeated   | what comes most again | with an alike head                            |
| retold    | no                        | no                    | with an alike head                            |
| grown     | if one fits only          | if one fits only      | no                                            |
| alike     | no                        | in a named session    | no                                            |

The gateway is the strictest because text of a lane stands in its later requests: whether its choice is certain enough
for that, `LaneIndex.match` asks afterwards. A request without any answer opens a conversation, unless it is an earlier
opening, sent again (`is_reopened`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

from holdfast.records import common_head

TAIL = 3
"""Blocks at the end of a request that may be gone from the next one: clients put reminders there."""

C = TypeVar("C")


class Relation(Enum):
    """What a request has in common with a conversation."""

    RESENT = auto()  # it says exactly what the last request said
    CONTINUED = auto()  # it begins with all that the last request said
    ANSWERED = auto()  # it does but for a reminder, and an answer follows where the last request ended
    FORKED = auto()  # it repeats more than the first request brought along, and goes another way
    REHEADED = auto()  # it begins with all that the last request said, under other tools or system text
    REWRITTEN = auto()  # what was said in the conversation comes again in another place: edited or trimmed
    RETOLD = auto()  # nothing comes again, but it begins with another version of the same message
    GROWN = auto()  # it has one answer more
    ALIKE = auto()  # its tools or system text are the same


class Evidence(NamedTuple, Generic[C]):
    """What a request has in common with one conversation."""

    conversation: C
    relation: Relation
    strength: tuple[Any, ...]  # decides among several with relations of one rung: the larger one wins


class Rung(NamedTuple):
    """Relations that prove as much as each other."""

    relations: tuple[Relation, ...]
    only_one: bool = False  # they prove nothing where several conversations have them


LANES = (
    Rung((Relation.RESENT,)),
    Rung((Relation.GROWN,), only_one=True),
    Rung((Relation.FORKED, Relation.CONTINUED, Relation.ANSWERED)),
    Rung((Relation.REHEADED,)),
)
LOGGED = (
    Rung((Relation.CONTINUED,)),
    Rung((Relation.FORKED, Relation.ANSWERED)),
    Rung((Relation.REWRITTEN,)),
    Rung((Relation.GROWN,), only_one=True),
    Rung((Relation.ALIKE,)),
)
CHECKED = (
    Rung((Relation.REWRITTEN, Relation.REHEADED)),
    Rung((Relation.RETOLD,)),
    Rung((Relation.CONTINUED,)),
)


def choose(evidence: Iterable[Evidence[C]], ladder: Sequence[Rung]) -> Evidence[C] | None:
    """The evidence for the conversation that a request continues; None if there is none that the ladder accepts."""
    listed = list(evidence)
    for rung in ladder:
        fitting = [each for each in listed if each.relation in rung.relations]
        if fitting and not (rung.only_one and len(fitting) > 1):
            return max(fitting, key=lambda each: each.strength)
    return None


class History(Struct):
    """What a request says: hashes of its tools, of its system text and of the blocks of its messages, and which of
    these blocks are the model's."""

    tools: int
    system: int
    blocks: list[int]
    answers: list[bool]
    size: int = 0  # of the messages, in bytes

    @property
    def first(self) -> int:
        return self.blocks[0] if self.blocks else 0

    @property
    def opens(self) -> bool:
        """Whether it opens a conversation: there is no answer in it."""
        return True not in self.answers

    @property
    def turns(self) -> int:
        """Answers, each counted once however many blocks it has."""
        return sum(1 for i, answer in enumerate(self.answers) if answer and not (i and self.answers[i - 1]))

    @property
    def answered(self) -> int:
        """Where the last answer ends."""
        end = len(self.answers)
        while end and not self.answers[end - 1]:
            end -= 1
        return end

    def is_alike(self, other: History) -> bool:
        return self.tools == other.tools or self.system == other.system


def repeated(new: History, last: History, given: int) -> tuple[Relation, int] | None:
    """How a request begins with what a conversation said last, and with how many blocks of it. What the conversation's
    first request brought along, so many blocks, is no evidence: all conversations of a program may begin with it."""
    same = common_head(last.blocks, new.blocks)
    if same == len(last.blocks) and (len(new.blocks) > same > 0 or same > given):
        return Relation.CONTINUED, same
    if same > given:
        return Relation.FORKED, same
    opening = len(last.blocks) == given
    if opening and 0 < same < len(new.blocks) and new.answers[same] and same >= given - TAIL:
        return Relation.ANSWERED, same
    return None


def is_reopened(*, same: bool, came_to_nothing: bool, retried: bool = False) -> bool:
    """Whether an opening is an earlier one, sent again. The same words alone may as well open another conversation (a
    job that runs every hour): the earlier one came to nothing, or the client says that it tries again."""
    return same and (came_to_nothing or retried)
