"""The growth of a conversation, block by block, as a log is read: roles, kinds and sizes, never text.

A model's request adds everything since its previous request. Sizes are those of the log's own JSON: they give the
shares of a request's blocks, and the billed usage gives the total.
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Raw

from .traces import Role, ShapeBlock

MOST = 2_000
"""Messages that are kept of a conversation; of those a model has not seen, the latest count."""
START = 256
"""Bytes of a message in which the kind of its first block stands."""


Said = tuple[str, int, int]
"""The kind, number and total size of blocks."""


class Growth:
    """The items of one conversation since its last compaction."""

    __slots__ = ("_gone", "_known", "_said")

    def __init__(self) -> None:
        self._said: list[tuple[Role, Said]] = []
        self._gone = 0
        self._known: dict[str, int] = {}

    @property
    def end(self) -> int:
        """The number of the next item."""
        return self._gone + len(self._said)

    def says(self, role: Role, blocks: Said) -> None:
        self._said.append((role, blocks))
        if len(self._said) > MOST:
            self._gone += MOST // 2
            del self._said[: MOST // 2]

    def cut(self) -> None:
        """Drop everything so far; the next item replaces it."""
        self._gone = self.end
        self._said.clear()

    def new(self, model: str, end: int | None = None) -> tuple[ShapeBlock, ...]:
        """What a model's request sends that its request before did not, up to a place: the next one begins there."""
        start, end = self._known.get(model, 0), self.end if end is None else end
        self._known[model] = end
        return tuple(
            [
                ShapeBlock(role, kind, size // count)
                for role, (kind, count, size) in self._said[max(0, start - self._gone) : max(0, end - self._gone)]
                for _ in range(count)
            ]
        )


def asked(content: Raw) -> Said:
    """Classify a user's message: a tool result if it begins with one, else text. The type is matched with its quotes,
    which would be escaped inside a text."""
    is_result = _RESULT in bytes(memoryview(content)[:START])
    return "tool_result" if is_result else "text", 1, len(content)


def answered(content: Raw, call: bytes = b'"tool_use"') -> Said:
    """Classify a part of an answer: tool calls, thinking or text."""
    text = bytes(content)
    if calls := text.count(call):
        return "tool_use", min(calls, MOST), len(text)
    return "text" if text.find(_THINKING, 0, START) < 0 else "thinking", 1, len(text)


_RESULT, _THINKING = b'"tool_result"', b'thinking"'


REMEMBERED = 500_000


class RecentHashes:
    """Hashes of what was given, the latest half million: enough for copies, which clients make of recent sessions."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most // 2
        self._new: set[int] = set()
        self._old: set[int] = set()

    def first_time(self, *name: object) -> bool:
        key = hash(name)
        if key in self._new or key in self._old:
            return False
        self._new.add(key)
        if len(self._new) >= self._most:
            self._old, self._new = self._new, set()
        return True


class Cuts:
    """The cuts of conversations. Every model used before in a conversation learns of a cut at its next request: what it
    had cached is not continued."""

    def __init__(self) -> None:
        self._cuts: dict[Hashable, tuple[int, str]] = {}
        self._known: dict[tuple[Hashable, str], int] = {}

    def cut(self, conversation: Hashable, reason: str) -> None:
        number, _ = self._cuts.get(conversation, (0, ""))
        self._cuts[conversation] = (number + 1, reason)

    def reason(self, conversation: Hashable, model: str) -> str | None:
        """Why a model's request does not go on with its request before; None where it does, or has none before."""
        number, reason = self._cuts.get(conversation, (0, ""))
        number_before = self._known.get((conversation, model), number)
        self._known[conversation, model] = number
        return reason if number > number_before else None
