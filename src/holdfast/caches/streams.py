"""Where caches that match token by token keep what they have seen: whole sequences, found by their longest common
prefix with a new one.

A sequence that is continued gives way to its continuation. Bounded by tokens, for one cache or for several together:
beyond that the least recently used goes. Knows no provider's rules.
"""

from __future__ import annotations

from weakref import ref

from msgspec import Struct

from .prompts import Entry, Prompt
from .tokens import Names, TokenSequence, read, shared_tokens

CAPACITY = 20_000_000
"""Tokens kept, four bytes each."""

_STEP = 256  # tokens between two signposts of the index, unless the smallest hit is smaller


class TokenStream(Struct, frozen=True):
    """A sequence that can be read from `readable` to `expires`."""

    tokens: TokenSequence
    ttl: str
    seconds: float
    written: float
    expires: float
    readable: float

    def live(self, now: float) -> bool:
        return self.readable <= now <= self.expires


class Room:
    """What the streams of several caches may take together, and what they need not do twice. Not safe for threads."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._size = 0
        self._serial = 0
        self._order: dict[int, tuple[ref[TokenStreams], int]] = {}  # of use, the oldest first
        self._names: dict[int, Names] = {}
        self._last: tuple[Prompt, TokenSequence] | None = None

    def __len__(self) -> int:
        return len(self._order)

    def names(self, step: int) -> Names:
        return self._names.setdefault(step, Names(step))

    def tokens(self, prompt: Prompt) -> TokenSequence:
        """The tokens of a prompt: one sequence for all caches that are asked about it one after the other."""
        if self._last is None or not _same(self._last[0], prompt):
            self._last = prompt, read(prompt)
        return self._last[1]

    def enter(self, streams: TokenStreams, size: int) -> int:
        """Room for a stream of this size, and its number; the caller keeps it before it makes room again."""
        self._serial += 1
        self._order[self._serial] = ref(streams), size
        self._size += size
        return self._serial

    def leave(self, serial: int) -> None:
        self._size -= self._order.pop(serial)[1]

    def make(self) -> None:
        """Evict the least recently used streams of all caches, deleted caches included, until the rest fits."""
        while self._size > self._capacity and len(self._order) > 1:
            serial = next(iter(self._order))
            streams = self._order[serial][0]()
            if streams is None:
                self.leave(serial)
            else:
                streams.remove(serial)


class TokenStreams:
    """`floor` is the smallest prefix anyone will ask for; shorter sequences are not kept."""

    def __init__(self, floor: int, capacity: int = CAPACITY, *, room: Room | None = None) -> None:
        self.room = Room(capacity) if room is None else room
        self._step = max(1, min(_STEP, floor))
        self._streams: dict[int, tuple[TokenStream, tuple[bytes, ...]]] = {}  # in order of use, the oldest first
        self._through: dict[bytes, dict[int, None]] = {}  # streams by the name of each of their whole steps
        self._ending: dict[bytes, dict[int, None]] = {}  # streams by the name of their last whole step
        self._names = self.room.names(self._step)

    def __len__(self) -> int:
        return len(self._streams)

    @property
    def indexed(self) -> int:
        """How many names of whole steps lead to a stream."""
        return len(self._through) + len(self._ending)

    def match(self, head: bytes, tokens: TokenSequence, now: float) -> list[tuple[int, TokenStream]]:
        """The live streams under `head` that share most whole steps with `tokens`, and how many tokens each shares."""
        names = self._names.of(tokens, head)
        for depth in range(len(names), 0, -1):
            streams = [self._streams[serial][0] for serial in self._through.get(names[depth - 1], ())]
            matches = [(shared_tokens(s.tokens, tokens, depth * self._step), s) for s in streams if s.live(now)]
            if matches:
                return matches
        return []

    def put(self, head: bytes, stream: TokenStream) -> None:
        """Store a stream. It replaces the streams that it continues, except those that live longer."""
        names = self._names.of(stream.tokens, head)
        if not names:
            return
        for serial in self._contained(stream, names):
            self.remove(serial)
        serial = self.room.enter(self, len(stream.tokens))
        self._streams[serial] = (stream, names)
        for name in names:
            self._through.setdefault(name, {})[serial] = None
        self._ending.setdefault(names[-1], {})[serial] = None
        self.room.make()

    def sweep(self, now: float) -> None:
        """Forget what is dead, from the least recently used on up to the first that lives."""
        while self._streams:
            serial = next(iter(self._streams))
            if self._streams[serial][0].expires >= now:
                return
            self.remove(serial)

    def live(self, now: float) -> list[Entry]:
        return [
            Entry(names[-1], len(s.tokens), s.ttl, s.seconds, s.written, s.expires, s.readable)
            for s, names in self._streams.values()
            if s.live(now)
        ]

    def _contained(self, stream: TokenStream, names: tuple[bytes, ...]) -> list[int]:
        """Streams that are prefixes of this one and end no later."""
        return [
            serial
            for depth, name in enumerate(names, 1)
            for serial in self._ending.get(name, ())
            for other in (self._streams[serial][0],)
            if other.expires <= stream.expires
            and shared_tokens(other.tokens, stream.tokens, depth * self._step) == len(other.tokens)
        ]

    def remove(self, serial: int) -> None:
        _, names = self._streams.pop(serial)
        for name in names:
            _discard(self._through, name, serial)
        _discard(self._ending, names[-1], serial)
        self.room.leave(serial)


def _same(one: Prompt, other: Prompt) -> bool:
    """Whether two prompts are the same but for their markers."""
    scopes = one.scope == other.scope and one.model == other.model
    return one.blocks is other.blocks and one.seeds == other.seeds and scopes


def _discard(index: dict[bytes, dict[int, None]], name: bytes, serial: int) -> None:
    del index[name][serial]
    if not index[name]:
        del index[name]
