"""What a conversation gains, block by block, as a log is read: roles, kinds and sizes, never text.

A model's request has gained what was said since its request before. Sizes are those of the log's own JSON: they say how
a request's growth is shared among its blocks, and what was billed says how much it is.
"""

from __future__ import annotations

from msgspec import Raw

from ..values import Role, ShapeBlock

MOST = 2_000
"""Blocks that are kept of a conversation; of those a model has not seen, the latest count."""
START = 256
"""Bytes of a message in which the kind of its first block stands."""


class Growth:
    """The blocks of one conversation since its last compaction."""

    __slots__ = ("_blocks", "_gone", "_known")

    def __init__(self) -> None:
        self._blocks: list[ShapeBlock] = []
        self._gone = 0
        self._known: dict[str, int] = {}

    @property
    def end(self) -> int:
        """The number of the block that comes next."""
        return self._gone + len(self._blocks)

    def say(self, role: Role, kind: str, size: int) -> None:
        self._blocks.append(ShapeBlock(role, kind, size))
        if len(self._blocks) > MOST:
            self._gone += MOST // 2
            del self._blocks[: MOST // 2]

    def says(self, role: Role, said: tuple[str, int, int]) -> None:
        """So many blocks of a kind, of some size together."""
        kind, count, size = said
        for _ in range(count):
            self.say(role, kind, size // count)

    def cut(self) -> None:
        """What was said is replaced by what comes next."""
        self._gone = self.end
        self._blocks.clear()

    def new(self, model: str, end: int | None = None) -> tuple[ShapeBlock, ...]:
        """What a model's request sends that its request before did not, up to a block: the next one begins there."""
        start, end = self._known.get(model, 0), self.end if end is None else end
        self._known[model] = end
        return tuple(self._blocks[max(0, start - self._gone) : max(0, end - self._gone)])


def asked(content: Raw, name: bytes = b'"tool_result"') -> tuple[str, int, int]:
    """What a user's message says: results of tools, if it begins with one, else a text. `name` is the kind as the JSON
    has it, in quotes: inside a text they would be escaped."""
    if name in bytes(memoryview(content)[:START]):
        return "tool_result", min(bytes(content).count(name), MOST), len(content)
    return "text", 1, len(content)


def answered(content: Raw, name: bytes = b'"tool_use"') -> tuple[str, int, int]:
    """What an answer, or a part of one, says: calls of tools, thinking or text."""
    calls = bytes(content).count(name)
    if calls:
        return "tool_use", min(calls, MOST), len(content)
    return "thinking" if _THINKING in bytes(memoryview(content)[:START]) else "text", 1, len(content)


_THINKING = b'thinking"'
