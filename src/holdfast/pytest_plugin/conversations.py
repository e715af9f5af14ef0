"""Which earlier request a request goes on from, when several conversations are mixed and nobody names them.

What is kept are the ends of all conversations so far: requests that no later one has gone on from. A request that
begins with all of one of them goes on with it, whatever else was sent in between. One that does not is either another
conversation, a fork, or the same one with its past changed; which of these it is, is decided here:

- With answers of the model in it, it belongs to the conversation with which it shares most of its messages, if tools
  and system text are alike, or if it holds all of that conversation's messages and a further answer.
- Without any answer it opens a conversation. Of those it is asked only whether tools and system text are those of an
  earlier one but for values that change by themselves (clocks, ids, order): that is the same agent, and its prefix is
  not stable. What differs in its words is another agent.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Literal

from msgspec import Struct

from holdfast.core import Comparison, compare, masked, place
from holdfast.wire import unordered

from .request_reader import CheckedRequest

_ALIKE = 0.5
"""The share of two texts that has to be the same at their beginning and end for them to be versions of one text."""

MOST_ENDS = 256
"""Ends that are kept, those of the latest requests: a prefix that is never stable leaves one with every request."""

Relation = Literal["continues", "forks", "departs", "opens", "opens_apart"]
"""opens: a conversation of an agent that is known, with the same tools and system text; opens_apart: of another one;
departs: a conversation whose past was changed, or an agent whose tools and system text were."""


class End(Struct, eq=False):
    """The last request of a conversation. The same request may have been sent more than once: each of them may be gone
    on from by another."""

    asked: CheckedRequest
    conversation: str
    copies: int = 1


class Continuation(Struct, frozen=True):
    """What a request is to the earlier ones. `end` is the one it was compared with."""

    relation: Relation
    conversation: str
    end: CheckedRequest | None = None
    comparison: Comparison | None = None
    in_head: bool = False
    """It is a conversation of its own: what is lost is tools and system text, no messages."""


class Conversations:
    """The conversations of one sequence of requests."""

    def __init__(self) -> None:
        self._ends: list[End] = []
        self._names: list[str] = []
        self._shapes: dict[int, bytes] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)

    def find(self, asked: CheckedRequest) -> Continuation:
        """What a request is, which is remembered as the end of its conversation."""
        ends = [end for end in self._ends if _same_kind(end.asked, asked)]
        end, seen = self._begins_with(asked, ends)
        parted = self._parted_from(asked, ends, end)
        if end is not None and seen is not None and parted is None:
            self._go_on(asked, end, seen)
            changed = seen.divergence is not None
            return Continuation("departs" if changed else "continues", end.conversation, end.asked, seen)
        found = self._opening(asked, ends) if parted is None else self._compared(asked, parted)
        self._add(asked, found.conversation)
        return found

    def _begins_with(self, asked: CheckedRequest, ends: list[End]) -> tuple[End | None, Comparison | None]:
        """The end that a request begins with; of several the one under the same settings, then the longest."""
        whole = asked.sent.digests
        begun = [end for end in ends if whole.startswith(end.asked.sent.digests)]
        both = [(end, compare(end.asked.sent, asked.view, asked.digests, asked.facts)) for end in begun]
        if asked.name is None and not asked.turns:
            # The same opening under other settings: nothing says that it is the same conversation.
            both = [(end, seen) for end, seen in both if seen.divergence is None or end.asked.turns]
        if not both:
            return None, None
        order = sorted(enumerate(both), key=lambda it: (it[1][1].divergence is None, len(it[1][0].asked.sent), it[0]))
        return order[-1][1]

    def _parted_from(self, asked: CheckedRequest, ends: list[End], begun: End | None) -> End | None:
        """The conversation whose past a request has changed, or which it forks from.

        One that begins with an earlier end may still be such a one: where its conversation has gone on since under
        another version of its past, and the request knows more of that than of what it begins with. What others have
        been told in the meantime, agents that run side by side perhaps, is none of its past.
        """
        least = 0 if begun is None else _shares(asked, begun.asked)
        ends = [end for end in ends if end is not begun and (begun is None or end.conversation == begun.conversation)]
        if asked.name is None:
            if not asked.turns:
                return None
            near = [end for end in ends if _shares(asked, end.asked) > least]
            if not near and begun is None:
                near = [end for end in ends if _retells(asked, end.asked)]
            ends = [end for end in near if _goes_on(asked, end.asked) or self._heads_alike(asked, end.asked)]
        elif begun is not None:
            ends = [end for end in ends if _shares(asked, end.asked) > least]
        if not ends:
            return None
        return max(enumerate(ends), key=lambda each: (_shares(asked, each[1].asked), each[0]))[1]

    def _compared(self, asked: CheckedRequest, end: End) -> Continuation:
        seen = compare(end.asked.sent, asked.view, asked.digests, asked.facts)
        by_blocks = seen.divergence is not None and seen.divergence.setting is None
        relation: Relation = "forks" if seen.course == "fork" and by_blocks else "departs"
        return Continuation(relation, end.conversation, end.asked, seen)

    def _go_on(self, asked: CheckedRequest, end: End, seen: Comparison) -> None:
        """Put a request in the place of the end that it begins with, unless others may go on from that too."""
        if seen.divergence is not None:
            self._add(asked, end.conversation)
        elif seen.course == "resend":
            end.copies += 1
        else:
            end.copies -= 1
            if not end.copies:
                self._ends.remove(end)
            self._add(asked, end.conversation)

    def _add(self, asked: CheckedRequest, conversation: str) -> None:
        self._ends.append(End(asked, conversation))
        del self._ends[:-MOST_ENDS]

    def _opening(self, asked: CheckedRequest, ends: list[End]) -> Continuation:
        name = asked.name if asked.name is not None else f"conversation {len(self._names) + 1}"
        self._names.append(name)
        if asked.name is not None:
            return Continuation("opens_apart", name)
        known = [end.asked for end in ends if end.asked.view.model == asked.view.model]
        for other in reversed(known):
            if _head(other) == _head(asked):
                return Continuation("opens", name, other)
        for other in reversed(known):
            if asked.head and other.head and self._shape(other) == self._shape(asked):
                seen = compare(other.sent, asked.view, other.digests, asked.facts)
                return Continuation("departs", name, other, seen, in_head=True)
        return Continuation("opens_apart", name)

    def _heads_alike(self, one: CheckedRequest, other: CheckedRequest) -> bool:
        """Whether tools and system text are versions of the same: by the system text, which says who is asked."""
        if _head(one) == _head(other) or self._shape(one) == self._shape(other):
            return True
        texts = [b"\n".join(map(asked.words, asked.of("system"))) for asked in (one, other)]
        return texts[0] == texts[1] or _alike(*texts)

    def _shape(self, asked: CheckedRequest) -> bytes:
        """Tools and system text without what changes by itself: values, the order of tools and keys, white space."""
        found = self._shapes.get(asked.number)
        if found is None:
            tools = sorted(_shape(unordered(text) or text) for text in map(asked.content, asked.of("tools")))
            system = [_shape(text) for text in map(asked.words, asked.of("system"))]
            found = self._shapes[asked.number] = sha256(repr((tools, system)).encode()).digest()
        return found


def _same_kind(one: CheckedRequest, other: CheckedRequest) -> bool:
    """Whether two requests may be of one conversation at all. A name given stands for exactly one. A cached object of
    Gemini holds a part of the prompt: those that name another one have another part."""
    if one.name != other.name or one.body.dialect != other.body.dialect:
        return False
    return one.body.dialect != "gemini" or one.prompt.mode == other.prompt.mode


def _head(asked: CheckedRequest) -> tuple[bytes, ...]:
    return tuple(block.digest for block in asked.view.blocks[: asked.head])


def _shape(text: bytes) -> str:
    words = text.decode("utf-8", "replace").replace("\\n", " ").replace("\\t", " ").replace("\\r", " ")
    return " ".join(masked(words).split())


def _shares(asked: CheckedRequest, earlier: CheckedRequest) -> int:
    """Tokens of the messages that both have."""
    said = earlier.sayings
    return sum(block.tokens for block in asked.view.blocks[asked.head :] if block.digest in said)


def _retells(asked: CheckedRequest, earlier: CheckedRequest) -> bool:
    """Whether a conversation with nothing in common begins with another version of the same message."""
    if not asked.said or not earlier.said or asked.turns <= earlier.turns:
        return False
    return _alike(asked.words(asked.head), earlier.words(earlier.head))


def _goes_on(asked: CheckedRequest, earlier: CheckedRequest) -> bool:
    """Whether it holds all messages of the earlier request, and a further answer of the model."""
    return asked.turns > earlier.turns and asked.said[: len(earlier.said)] == earlier.said


def _alike(one: bytes, other: bytes) -> bool:
    """Whether two texts are versions of one: what they begin and end with alike is at least half of the longer."""
    first, last = place(one, other), place(one[::-1], other[::-1])
    if first is None or last is None:
        return True
    same = min(first.offset + last.offset, min(len(one), len(other)))
    return same >= _ALIKE * max(len(one), len(other), 1)
