"""What strategies are asked and what they answer, and what a lane keeps of a request.

Block numbers count the blocks of a `Prompt`. Times are seconds on any clock, tokens are estimates unless they come from
a provider's usage.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Literal

from msgspec import Struct

from holdfast.caches import Mark, Prompt, Section
from holdfast.records import common_head

Kind = Literal["user", "tools"]
"""Whether a request follows a user's message or is inside a tool loop."""

DIGEST = 16
SECTIONS: tuple[Section, ...] = ("tools", "system", "messages")
_NUMBERS = {section: number for number, section in enumerate(SECTIONS)}
_MESSAGES = bytes([_NUMBERS["messages"]])
_COUNT = array("I").itemsize


class Plan(Struct, frozen=True, kw_only=True):
    """The markers of one request with their reasons; `dropped` are the removed ones with the reasons.

    `mode` is the setting for a provider with its own automatic marker (OpenAI's `explicit`), empty for its default.
    `probe` is what the plan spends, in plain input tokens, to learn how the route treats lifetimes.
    """

    strategy: str
    marks: tuple[Mark, ...] = ()
    mode: str = ""
    reasons: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    probe: float = 0.0


class Sent(Struct, frozen=True):
    """A request that was sent, reduced to what later ones are compared with: twenty-one bytes for each block.

    `digests` are the blocks' own, concatenated, `tokens` their counts (`array("I")`), `sections` a byte each, the index
    in `SECTIONS`. `entries` are the blocks at whose ends it read or wrote one, and their keys. `settings` are digests
    of what the prefix depends on besides its blocks. `covered` is how many tokens were under an entry when it was
    answered: what the next request can read.
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

    def common_blocks(self, prompt: Prompt) -> int:
        """How many blocks of this request another one begins with."""
        digests = [block.digest[:DIGEST] for block in prompt.blocks[: len(self)]]
        return common_head(self.digests, b"".join(digests)) // DIGEST

    def counts(self) -> array[int]:
        return array("I", self.tokens)

    def section(self, index: int) -> Section:
        return SECTIONS[self.sections[index]]

    def departs(self, prompt: Prompt) -> bool:
        """Return whether the prompt diverges before the end of both."""
        return self.common_blocks(prompt) < min(len(self), len(prompt.blocks))


class SettledCall(Struct, frozen=True, kw_only=True):
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


class Columns(Struct, frozen=True):
    """A prompt's blocks as `Sent` has them; the first `same` are known to be those of the request before."""

    digests: bytes
    tokens: bytes
    sections: bytes
    same: int = 0

    @property
    def head(self) -> int:
        """How many blocks stand before the messages, which come last."""
        first = self.sections.find(_MESSAGES)
        return len(self.sections) if first < 0 else first


def columns(prompt: Prompt, before: Sent | None = None) -> Columns:
    """The blocks' digests, token counts and sections. What is proved to begin like the lane's last request is taken
    over from it."""
    same = 0 if before is None else _proved(prompt, before)
    blocks = prompt.blocks[same:] if same else prompt.blocks
    digests = _joined([block.digest for block in blocks])
    tokens = array("I", [block.tokens for block in blocks]).tobytes()
    sections = bytes([_NUMBERS[block.section] for block in blocks])
    if before is None or not same:
        return Columns(digests, tokens, sections)
    return Columns(
        before.digests[: same * DIGEST] + digests,
        before.tokens[: same * _COUNT] + tokens,
        before.sections[:same] + sections,
        same,
    )


def _proved(prompt: Prompt, before: Sent) -> int:
    """Return the number of common leading blocks proved by the last entry, whose key covers all before it."""
    if not before.entries or prompt.route:
        return 0
    block, key = before.entries[-1]
    if block >= len(prompt.keys) or prompt.keys[block] != key:
        return 0
    counts = memoryview(before.tokens).cast("I")
    tokens = sum(counts if block + 1 == len(counts) else counts[: block + 1])
    return block + 1 if tokens == prompt.ends[block] else 0


def _joined(each: list[bytes]) -> bytes:
    for digest in each:
        if len(digest) != DIGEST:
            return b"".join([digest[:DIGEST].ljust(DIGEST, b"\0") for digest in each])
    return b"".join(each)


def kind_of(prompt: Prompt) -> Kind:
    """Return what a request follows: if its last message has tool results, the previous answer had requested them,
    whatever a client adds."""
    for block in reversed(prompt.blocks):
        if block.section != "messages":
            break
        if is_result(block.kind, block.role):
            return "tools"
        if block.role != "user":
            break
    return "user"


def is_result(kind: str, role: str) -> bool:
    """A block that answers a tool call, in any dialect."""
    return role in ("tool", "function") or kind == "tool_result" or kind.endswith(("_output", "_tool_result"))


def baseline(prompt: Prompt, end: int | None = None) -> int:
    """Tokens up to the end of tools and system text: so many blocks, where that is known."""
    end = head(prompt) if end is None else end
    return prompt.ends[end - 1] if end else 0


def head(prompt: Prompt) -> int:
    """How many blocks stand before the messages, which come last."""
    return bisect_left(prompt.blocks, True, key=lambda block: block.section == "messages")
