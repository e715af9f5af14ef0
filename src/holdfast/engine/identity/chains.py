"""The prefix chain of a conversation: what has been said so far, in digests, at every place where the speaker changes.

Only messages are counted. A model's thoughts are left out: providers and clients drop them from later requests. Tools
and system text are not part of it; the system text has a digest of its own, and so have both together.
"""

from __future__ import annotations

from hashlib import blake2b

from msgspec import Struct

from holdfast.caches import Block, Prompt
from holdfast.lru import LRU

from .continuation import TAIL

SIZE = 16
"""Bytes of a digest."""

KEPT_BLOCKS = 20_000
"""Blocks of earlier prompts that are kept to go on from."""

_ASSISTANT = frozenset({"assistant", "model"})
_THOUGHTS = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CLIENTS = ("_output", "_response")
"""How the items end that a client answers with (Responses): those have no role, as the model's own have none."""


class Chain(Struct, frozen=True):
    """The chain of one request. `before[i]` stands for all that was said before the model's i-th turn, `after[i]` for
    all up to the end of that turn, `end` for everything. `tails` stand for everything without the last blocks of what
    the model is asked: a client may put a reminder there that is gone the next time. `whole` stands for tools and
    system text too, `head` for those alone, in whatever order the tools come."""

    system: bytes
    whole: bytes
    end: bytes
    before: tuple[bytes, ...] = ()
    after: tuple[bytes, ...] = ()
    tails: tuple[bytes, ...] = ()
    head: bytes = b""


class _Walk:
    """A walk through blocks: the speakers' turns so far, and what was said since the last change."""

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
