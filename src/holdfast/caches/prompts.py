"""What a provider's cache sees of a request, and what it makes of it.

A `Prompt` is a request reduced to what cache rules ask about: blocks in prefix order, the cumulative digest and token
count at the end of each, and the markers. An `Outcome` says what was read and written and why. Nothing here knows how
a body is spelled, what a token costs or what time it is.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from holdfast.records import Usage, usage

Section = Literal["tools", "system", "messages"]

NEVER = float("inf")


class Block(Struct, frozen=True, gc=False):
    """The smallest part that can carry a marker.

    `digest` stands for the decoded content together with its role and the border of its message. `ids` are the token
    ids, four bytes each (`array("I")`), for the caches that match token by token; the others need only the count.
    """

    section: Section
    kind: str
    role: str
    message: int
    digest: bytes
    tokens: int
    markable: bool = True
    ids: bytes = b""


class Mark(Struct, frozen=True, gc=False):
    """A cache breakpoint at the end of a block of the prompt; `ttl` under the provider's own name."""

    block: int
    ttl: str


class CacheControls(Struct, frozen=True, kw_only=True):
    """The cache controls of a request outside its blocks."""

    scope: str = ""
    """Who may share entries: organisation and workspace."""
    settings: Mapping[str, bytes] = {}
    """Settings that cached sections may depend on."""
    marks: Sequence[Mark] = ()
    automatic: str | None = None
    """The lifetime that a top-level marker asks for, where there is one."""
    route: str = ""
    """What the provider routes by beyond the content (OpenAI's `prompt_cache_key`)."""
    mode: str = ""


class Prompt(Struct, frozen=True):
    """A request as a cache sees it. Scope and model are part of the keys."""

    scope: str
    model: str
    blocks: tuple[Block, ...]
    keys: tuple[bytes, ...]
    """`keys[i]` stands for everything up to the end of block i."""
    ends: tuple[int, ...]
    """The tokens up to the end of each block."""
    marks: tuple[Mark, ...] = ()
    route: str = ""
    origin: tuple[int, ...] = ()
    """Which block of the body each one was, where some were left out or moved."""
    mode: str = ""
    seeds: tuple[tuple[Section, bytes], ...] = ()
    hidden: int = 0
    """Markers that the body has beyond `marks`: on blocks that were left out, or a second one on a block. They do
    nothing but count towards the provider's limit."""

    @property
    def tokens(self) -> int:
        return self.ends[-1] if self.ends else 0

    def place(self, block: int) -> int:
        """The block of the body that a block of the prompt is."""
        return self.origin[block] if self.origin else block

    def block_at(self, tokens: int) -> int:
        """The last block that ends within the first so many tokens, -1 for none."""
        return bisect_right(self.ends, tokens) - 1 if tokens else -1

    def ids(self) -> array[int]:
        """The token ids of the whole prompt."""
        return array("I", b"".join([block.ids for block in self.blocks]))


class Entry(Struct, frozen=True, gc=False):
    """One cached prefix: live from `readable` until `expires`, refreshed for `seconds` by a read."""

    key: bytes
    tokens: int
    ttl: str
    seconds: float
    written: float
    expires: float
    readable: float = NEVER

    def live(self, now: float) -> bool:
        return self.readable <= now <= self.expires


class Outcome(Struct, frozen=True):
    """What one request reads and writes. `new` becomes readable with the first token, `refreshed` holds at once.

    `hit` is the block at whose end the read stops, -1 for none. `why` explains it in plain sentences.
    """

    prompt: Prompt
    at: float
    read: int
    input: int
    writes: tuple[tuple[str, int], ...] = ()
    hit: int = -1
    new: tuple[Entry, ...] = ()
    refreshed: tuple[Entry, ...] = ()
    why: tuple[str, ...] = ()

    def usage(self, output: int = 0) -> Usage:
        return usage(input=self.input, read=self.read, output=output, writes=dict(self.writes))


class Cache:
    """A provider's cache over time: the state around its rules. Times are seconds on any clock, passed in.

    What a cache does nothing on, it leaves out: most keep no output, and nothing is written before the first token.
    """

    def begin(self, prompt: Prompt, now: float) -> Outcome:
        """A request starts: what it reads; what it read is refreshed."""
        raise NotImplementedError

    def first_token(self, outcome: Outcome, now: float) -> None:
        """Its answer begins: what it wrote can be read."""

    def finish(self, outcome: Outcome, output: Sequence[Block], now: float) -> None:
        """Its answer is complete; some caches keep the output too."""

    def abandon(self, outcome: Outcome, now: float) -> None:
        """It failed or was cut before its first token: it has written nothing."""

    def entries(self, now: float) -> list[Entry]:
        """Return the live entries, for display."""
        return []
