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

from collections.abc import Iterator
from hashlib import sha256
from typing import Literal

from msgspec import Struct

from holdfast.core import Comparison, compare, masked, place
from holdfast.engine.identity import CHECKED, Evidence, Relation, choose
from holdfast.wire import unordered

from .request_reader import CheckedRequest

_ALIKE = 0.5
"""The share of two texts that has to be the same at their beginning and end for them to be versions of one text."""

MOST_ENDS = 256
"""Ends that are kept, those of the latest requests: a prefix that is never stable leaves one with every request."""

Outcome = Literal["continues", "forks", "departs", "opens", "opens_apart"]
"""opens: a conversation of a known agent, with the same tools and system text; opens_apart: of another one; departs: a
conversation with a changed past, or an agent with changed tools and system text."""


class End(Struct, eq=False):
    """The last request of a conversation. The same request may have been sent more than once: each of them may be
    continued by another."""

    request: CheckedRequest
    conversation: str
    copies: int = 1


class Continuation(Struct, frozen=True):
    """What a request is to the earlier ones. `end` is the one it was compared with."""

    outcome: Outcome
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

    def find(self, request: CheckedRequest) -> Continuation:
        """What a request is, which is remembered as the end of its conversation."""
        ends = [end for end in self._ends if _same_kind(end.request, request)]
        begun = choose(_begun(request, ends), CHECKED)
        changed = self._changed(request, ends, None if begun is None else begun.conversation)
        match = choose([*changed, begun] if begun is not None else changed, CHECKED)
        if match is not None and match is begun:
            return self._continued(request, match.conversation)
        continuation = self._opening(request, ends) if match is None else _parted(request, match.conversation)
        self._add(request, continuation.conversation)
        return continuation

    def _changed(self, request: CheckedRequest, ends: list[End], begun: End | None) -> list[Evidence[End]]:
        """The ends of conversations whose past a request has changed, or which it forks from.

        One that begins with an earlier end may still be such a one: where its conversation has gone on since under
        another version of its past, and the request knows more of that than of what it begins with. What others have
        been told in the meantime, agents that run side by side perhaps, is none of its past.
        """
        if request.name is None and not request.turns:
            return []
        least = 0 if begun is None else _shares(request, begun.request)
        if begun is not None:
            ends = [end for end in ends if end is not begun and end.conversation == begun.conversation]
        near = [(_shares(request, end.request), number, end) for number, end in enumerate(ends)]
        if request.name is not None:
            return [
                Evidence(end, Relation.REWRITTEN, (shared, number))
                for shared, number, end in near
                if begun is None or shared > least
            ]
        changed = [
            Evidence(end, Relation.REHEADED if _extends(request, end.request) else Relation.REWRITTEN, (shared, number))
            for shared, number, end in near
            if shared > least
        ]
        if not changed and begun is None:
            changed = [
                Evidence(end, Relation.RETOLD, (shared, number))
                for shared, number, end in near
                if _retells(request, end.request)
            ]
        return [
            each
            for each in changed
            if each.relation is Relation.REHEADED or self._heads_alike(request, each.conversation.request)
        ]

    def _continued(self, request: CheckedRequest, end: End) -> Continuation:
        """Put a request in the place of the end that it begins with, unless others may continue that too."""
        comparison = _compare(end.request, request)
        if comparison.divergence is not None:
            self._add(request, end.conversation)
        elif comparison.course == "resend":
            end.copies += 1
        else:
            end.copies -= 1
            if not end.copies:
                self._ends.remove(end)
            self._add(request, end.conversation)
        outcome: Outcome = "continues" if comparison.divergence is None else "departs"
        return Continuation(outcome, end.conversation, end.request, comparison)

    def _add(self, request: CheckedRequest, conversation: str) -> None:
        self._ends.append(End(request, conversation))
        del self._ends[:-MOST_ENDS]

    def _opening(self, request: CheckedRequest, ends: list[End]) -> Continuation:
        name = request.name if request.name is not None else f"conversation {len(self._names) + 1}"
        self._names.append(name)
        if request.name is not None:
            return Continuation("opens_apart", name)
        others = [end.request for end in reversed(ends) if end.request.view.model == request.view.model]
        for other in others:
            if _head(other) == _head(request):
                return Continuation("opens", name, other)
        for other in others:
            if request.head and other.head and self._shape(other) == self._shape(request):
                return Continuation("departs", name, other, _compare(other, request), in_head=True)
        return Continuation("opens_apart", name)

    def _heads_alike(self, one: CheckedRequest, other: CheckedRequest) -> bool:
        """Return whether the heads are versions of the same, by the system text, which identifies the agent."""
        if _head(one) == _head(other) or self._shape(one) == self._shape(other):
            return True
        texts = [b"\n".join(map(request.words, request.of("system"))) for request in (one, other)]
        return texts[0] == texts[1] or _alike(*texts)

    def _shape(self, request: CheckedRequest) -> bytes:
        """Tools and system text without what changes by itself: values, the order of tools and keys, white space."""
        shape = self._shapes.get(request.number)
        if shape is None:
            tools = sorted(_shape(unordered(text) or text) for text in map(request.content, request.of("tools")))
            system = [_shape(text) for text in map(request.words, request.of("system"))]
            shape = self._shapes[request.number] = sha256(repr((tools, system)).encode()).digest()
        return shape


def _same_kind(one: CheckedRequest, other: CheckedRequest) -> bool:
    """Return whether two requests may be of one conversation at all. A given name is that of exactly one. A cached
    object of Gemini is a part of the prompt: requests with other objects have another part."""
    if one.name != other.name or one.body.dialect != other.body.dialect:
        return False
    return one.body.dialect != "gemini" or one.prompt.mode == other.prompt.mode


def _begun(request: CheckedRequest, ends: list[End]) -> Iterator[Evidence[End]]:
    """The ends that a request begins with: first those under the same settings, then the longest, then the latest."""
    whole = request.sent.digests
    for number, end in enumerate(ends):
        if not whole.startswith(end.request.sent.digests):
            continue
        same_settings = _compare(end.request, request).divergence is None
        # The same opening under other settings: nothing says that it is the same conversation.
        if same_settings or request.name is not None or request.turns or end.request.turns:
            yield Evidence(end, Relation.CONTINUED, (same_settings, len(end.request.sent), number))


def _parted(request: CheckedRequest, end: End) -> Continuation:
    comparison = _compare(end.request, request)
    by_blocks = comparison.divergence is not None and comparison.divergence.setting is None
    outcome: Outcome = "forks" if comparison.course == "fork" and by_blocks else "departs"
    return Continuation(outcome, end.conversation, end.request, comparison)


def _compare(earlier: CheckedRequest, request: CheckedRequest) -> Comparison:
    return compare(earlier.sent, request.view, request.digests, request.facts)


def _head(request: CheckedRequest) -> tuple[bytes, ...]:
    return tuple(block.digest for block in request.view.blocks[: request.head])


def _shape(text: bytes) -> str:
    words = text.decode("utf-8", "replace").replace("\\n", " ").replace("\\t", " ").replace("\\r", " ")
    return " ".join(masked(words).split())


def _shares(request: CheckedRequest, earlier: CheckedRequest) -> int:
    """Tokens of the messages that both have."""
    before = earlier.sayings
    return sum(block.tokens for block in request.view.blocks[request.head :] if block.digest in before)


def _retells(request: CheckedRequest, earlier: CheckedRequest) -> bool:
    """Whether a conversation with nothing in common begins with another version of the same message."""
    if not request.said or not earlier.said or request.turns <= earlier.turns:
        return False
    return _alike(request.words(request.head), earlier.words(earlier.head))


def _extends(request: CheckedRequest, earlier: CheckedRequest) -> bool:
    """Whether it holds all messages of the earlier request, and a further answer of the model."""
    return request.turns > earlier.turns and request.said[: len(earlier.said)] == earlier.said


def _alike(one: bytes, other: bytes) -> bool:
    """Whether two texts are versions of one: what they begin and end with alike is at least half of the longer."""
    first, last = place(one, other), place(one[::-1], other[::-1])
    if first is None or last is None:
        return True
    same = min(first.offset + last.offset, min(len(one), len(other)))
    return same >= _ALIKE * max(len(one), len(other), 1)
