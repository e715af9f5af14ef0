"""What strategies are asked and what they answer, and what a lane keeps of a request.

Block numbers count the blocks of a `Prompt`. Times are seconds on any clock, tokens are estimates unless they come from
a provider's usage.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from holdfast.caches.values import Entry, Mark, Prompt, Section

Kind = Literal["user", "tools"]
"""Whether a request follows something a user said, or stands inside a tool loop."""

DIGEST = 16
SECTIONS: tuple[Section, ...] = ("tools", "system", "messages")


class Lookup(Protocol):
    """Where entries are found; a pool is one, and so is `caches.entries.Entries`."""

    def get(self, key: bytes) -> Entry | None: ...
    def find(self, key: bytes, now: float) -> Entry | None: ...
    def on(self, keys: Sequence[bytes], now: float) -> list[Entry]: ...


class Plan(Struct, frozen=True, kw_only=True):
    """The markers of one request and why they are there; `dropped` says which ones were taken away and why.

    `mode` is what a provider with its own automatic marker is told to do (OpenAI's `explicit`), empty for its default.
    `probe` is what the plan spends, in plain input tokens, to learn how the route treats lifetimes.
    """

    strategy: str
    marks: tuple[Mark, ...] = ()
    mode: str = ""
    reasons: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    probe: float = 0.0


class Sent(Struct, frozen=True):
    """A request that went out, reduced to what later ones are compared with: twenty-one bytes for each block.

    `digests` are the blocks' own, one after the other, `tokens` their counts (`array("I")`), `sections` a byte each,
    the place in `SECTIONS`. `entries` are the blocks at whose ends it read or wrote one, and their keys. `settings` are
    digests of what the prefix depends on beside its blocks. `covered` is how many tokens were under an entry when it
    was answered: what the next request can read.
    """

    call: str
    at: float
    model: str
    digests: bytes
    tokens: bytes
    sections: bytes
    entries: tuple[tuple[int, bytes], ...] = ()
    settings: tuple[tuple[str, bytes], ...] = ()
    marks: tuple[Mark, ...] = ()
    first_token: float | None = None
    covered: int = 0
    read: int = 0

    def __len__(self) -> int:
        return len(self.sections)

    def digest(self, index: int) -> bytes:
        return self.digests[index * DIGEST : (index + 1) * DIGEST]

    def counts(self) -> array[int]:
        return array("I", self.tokens)

    def section(self, index: int) -> Section:
        return SECTIONS[self.sections[index]]


class Turn(Struct, frozen=True, kw_only=True):
    """A settled call as statistics and retention see it.

    `gap` is start to start since the lane's request before, None for the first. `expected` is what the lane could have
    read if nothing had changed or expired. `baseline` counts the tokens up to the end of tools and system text.
    """

    at: float
    kind: Kind
    gap: float | None
    read: int
    written: int
    input: int
    expected: int
    baseline: int
    evicted: bool = False
    """The bytes were the same and the entry should have lived, yet it was not read."""


def digests(prompt: Prompt) -> bytes:
    """The blocks' digests, one after the other, as `Sent.digests` has them."""
    each = [block.digest for block in prompt.blocks]
    joined = b"".join(each)
    if len(joined) != DIGEST * len(each) or max(map(len, each), default=DIGEST) != DIGEST:
        joined = b"".join([digest[:DIGEST].ljust(DIGEST, b"\0") for digest in each])
    return joined


def kind_of(prompt: Prompt) -> Kind:
    """What a request follows: results of tools alone at its end are a tool loop."""
    last = prompt.blocks[-1] if prompt.blocks else None
    if last is None or last.section != "messages":
        return "user"
    for block in reversed(prompt.blocks):
        if block.section != "messages" or block.message != last.message or block.role != last.role:
            break
        if not is_result(block.kind, block.role):
            return "user"
    return "tools"


def is_result(kind: str, role: str) -> bool:
    """A block that answers a tool call, in any dialect."""
    return role in ("tool", "function") or kind == "tool_result" or kind.endswith(("_output", "_tool_result"))


def baseline(prompt: Prompt) -> int:
    """Tokens up to the end of tools and system text."""
    end = 0
    for index, block in enumerate(prompt.blocks):
        if block.section == "messages":
            break
        end = prompt.ends[index]
    return end
