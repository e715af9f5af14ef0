"""The message blocks of a lane's last request, as the client sent them and as they were first sent, by their digests.

They are stored in a `ByteMemory`, one part for each request that only added to the one before; a lane stores the name
of its last part. The module finds the earlier block in the place of a new one; whether both differ only in the order of
keys is decided by callers that have the bytes.
"""

from __future__ import annotations

from bisect import bisect_left

from msgspec import Struct, field

from .memory import ByteMemory

_DIGEST = 16
_NAME = 32
_NONE = bytes(_NAME)


class BlockHistory(Struct):
    """Digests in the order of the blocks. `first` differs from `client` where a block is sent as it first was."""

    client: list[bytes] = field(default_factory=list)
    first: list[bytes] = field(default_factory=list)

    def add(self, client: bytes, first: bytes) -> None:
        self.client.append(client)
        self.first.append(first)


class EarlierBlock(Struct, frozen=True):
    """The block that stood in a block's place. `sure` if the client sent the same bytes before."""

    first: bytes
    sure: bool


class HistoryWalk:
    """Along an earlier request, block by block of the new one. A block that is known leads back into step."""

    def __init__(self, history: BlockHistory) -> None:
        self._history, self._at = history, 0
        self._places: dict[bytes, list[int]] = {}

    def match(self, digest: bytes) -> EarlierBlock | None:
        """Return the earlier block in the place of the next one, or None if there is none."""
        client, first = self._history.client, self._history.first
        if self._at >= len(client):
            return None
        at = self._at if digest in (client[self._at], first[self._at]) else self._nearest(digest)
        self._at = (self._at if at is None else at) + 1
        return EarlierBlock(first[self._at - 1], at is not None)

    def skip(self, count: int) -> None:
        """Continue after `count` blocks that were found in their places."""
        self._at = count

    def _nearest(self, digest: bytes) -> int | None:
        """Where a block was that is not in its place."""
        if not self._places:
            for place, digests in enumerate(zip(self._history.client, self._history.first, strict=True)):
                for each in set(digests):
                    self._places.setdefault(each, []).append(place)
        places = self._places.get(digest)
        if places is None:
            return None
        after = bisect_left(places, self._at)
        return min(places[max(after - 1, 0) : after + 1], key=lambda place: abs(place - self._at))


def recall(memory: ByteMemory, name: bytes) -> BlockHistory | None:
    """The history of this name; None where a part of it is lost. It is not to be changed."""
    remembered: _Read | None = memory.read.get(name)
    if remembered is not None and memory.touch_all(remembered.parts):
        return remembered.history
    parts: list[bytes] = []
    names: list[bytes] = []
    at = name
    while at:
        part = memory.get(at)
        if part is None:
            return None
        parts.append(part)
        names.append(at)
        at = part[:_NAME] if part[:_NAME] != _NONE else b""
    history = BlockHistory()
    for part in reversed(parts):
        half = _NAME + (len(part) - _NAME) // 2
        history.client += [part[i : i + _DIGEST] for i in range(_NAME, half, _DIGEST)]
        history.first += [part[i : i + _DIGEST] for i in range(half, len(part), _DIGEST)]
    if names:
        _remember(memory, name, names, history)
    return history


def record(memory: ByteMemory, name: bytes, before: BlockHistory | None, now: BlockHistory) -> bytes:
    """Keep a history that follows the one of this name; returns its own name."""
    start = 0 if before is None else len(before.client)
    if before is None or now.client[:start] != before.client or now.first[:start] != before.first:
        name, start = b"", 0
    elif start == len(now.client):
        return name
    return _added(memory, name, start, now)


def settled(memory: ByteMemory, name: bytes) -> BlockHistory | None:
    """The history of this name, if it was found whole and is at hand."""
    remembered: _Read | None = memory.read.peek(name) if name in memory.whole else None
    return None if remembered is None else remembered.history


def grown(memory: ByteMemory, name: bytes, count: int, blocks: list[bytes]) -> bytes:
    """Keep what follows a `settled` history of so many blocks, all as they were first sent; returns its own name."""
    memory.read.get(name)  # it was used
    return name if count == len(blocks) else _added(memory, name, count, BlockHistory(blocks, blocks))


def _added(memory: ByteMemory, name: bytes, start: int, now: BlockHistory) -> bytes:
    """Keep the blocks from `start` on of a history that begins as the one of this name."""
    client = b"".join(now.client[start:])
    first = client if now.first is now.client else b"".join(now.first[start:])
    named = memory.keep((name or _NONE) + client + first)
    earlier: _Read | None = memory.read.pop(name, None) if name else None
    if earlier is not None or not name:
        parts = [] if earlier is None else earlier.parts
        parts.append(named)
        _remember(memory, named, parts, now)
    return named


class _Read(Struct, frozen=True):
    """A history, and the names of the parts it was put together of."""

    parts: list[bytes]
    history: BlockHistory


def _remember(memory: ByteMemory, name: bytes, parts: list[bytes], history: BlockHistory) -> None:
    memory.read[name] = _Read(parts, history)
