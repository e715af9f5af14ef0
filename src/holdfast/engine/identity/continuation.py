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

The prefix chain of a conversation are digests of its messages, one at every place where the speaker changes. A model's
thoughts are left out: providers and clients drop them from later requests. Tools and system text are not part of it;
the system text has a digest of its own, and so have both together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

from holdfast.caches import Block, Prompt
from holdfast.lru import LRU
from holdfast.records import common_head

TAIL = 3
"""Blocks at the end of a request that may be gone from the next one: clients put reminders there."""

C = TypeVar("C")


class Relation(Enum):
    """How a request relates to a conversation."""

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
    """A request's relation to one conversation."""

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
    """A request's hashes: of its tools, its system text and the blocks of its messages, and which of these blocks are
    the model's."""

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
    """Return how a request repeats a conversation's last one, and how many blocks of it. The `given` blocks of the
    conversation's first request are no evidence: all conversations of a program may begin with them."""
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
    """Return whether a first request repeats an earlier one. Equal text alone may be another conversation (an hourly
    job): the earlier one must have had no answer, or the client must mark a retry."""
    return same and (came_to_nothing or retried)


SIZE = 16
"""Bytes of a digest."""

KEPT_BLOCKS = 20_000
"""Blocks of earlier prompts that are kept to go on from."""

_ASSISTANT = frozenset({"assistant", "model"})
_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CLIENTS = ("_output", "_response")
"""How the items end that a client answers with (Responses): those have no role, as the model's own have none."""


class Chain(Struct, frozen=True):
    """The digests of one request. `before[i]` covers everything before the model's i-th turn, `after[i]` everything up
    to the end of it, `end` everything. `tails` leave out the last blocks of the latest question, where a client may put
    a reminder that is gone the next time. `whole` includes tools and system text, `head` is those alone, whatever the
    order of the tools."""

    system: bytes
    whole: bytes
    end: bytes
    before: tuple[bytes, ...] = ()
    after: tuple[bytes, ...] = ()
    tails: tuple[bytes, ...] = ()
    head: bytes = b""


class _Walk:
    """The state of a walk through blocks: the turns so far, and the blocks since the last change of speaker."""

    def __init__(self, scope: bytes) -> None:
        self.blocks: tuple[Block, ...] = ()
        self.at = scope
        self.said: list[bytes] = []
        self.speaking = False
        self.system: list[bytes] = []
        self.tools: list[bytes] = []
        self.before: list[bytes] = []
        self.after: list[bytes] = []

    def go_on(self, blocks: tuple[Block, ...]) -> None:
        """Walk the blocks that follow on those walked already."""
        for block in blocks[len(self.blocks) :] if self.blocks else blocks:
            if block.section != "messages":
                (self.system if block.section == "system" else self.tools).append(block.digest)
                continue
            if block.kind in _THOUGHTS:
                continue
            if _is_models(block) is not self.speaking:
                self.at = _digest(self.at, self.said)
                (self.after if self.speaking else self.before).append(self.at)
                self.speaking = not self.speaking
                self.said.clear()
            self.said.append(block.digest)
        self.blocks = blocks

    def chain(self, scope: bytes, whole: bytes) -> Chain:
        end = _digest(self.at, self.said)
        after = (*self.after, end) if self.speaking else tuple(self.after)
        # Not in what opens a conversation: others may open with the first of these blocks alone.
        lasts = () if self.speaking or not after else range(max(1, len(self.said) - TAIL), len(self.said))
        tails = tuple(_digest(self.at, self.said[:last]) for last in lasts)
        head = _digest(scope, [*self.system, *sorted(self.tools)])
        return Chain(_digest(scope, self.system), whole, end, tuple(self.before), after, tails, head)


class ChainReader:
    """Makes chains, and goes on from the last prompt that began the same: most only grow. Not safe for threads."""

    def __init__(self, kept_blocks: int = KEPT_BLOCKS) -> None:
        self.walks: LRU[tuple[bytes, bytes], _Walk] = LRU(kept_blocks, size_of=lambda walk: len(walk.blocks))

    def read(self, prompt: Prompt, scope: bytes) -> Chain:
        """The chain of a prompt; in another scope the same words give other digests."""
        blocks = prompt.blocks
        name = (scope, next((block.digest for block in blocks if block.section == "messages"), b""))
        walk = self.walks.pop(name, None)
        if walk is None or walk.blocks != blocks[: len(walk.blocks)]:
            walk = _Walk(scope)
        walk.go_on(blocks)
        self.walks[name] = walk
        return walk.chain(scope, prompt.keys[-1] if prompt.keys else b"")


def _is_models(block: Block) -> bool:
    if block.role:
        return block.role in _ASSISTANT
    return not block.kind.endswith(_CLIENTS) and block.kind not in ("text", "unknown")


def _digest(start: bytes, parts: list[bytes]) -> bytes:
    return blake2b(start + b"".join(parts), digest_size=SIZE).digest()
