"""vLLM's automatic prefix cache: hashed blocks of fixed size, least recently used first.

V1  Only full blocks are cached: 16 tokens on a GPU, 32 and up on a CPU.
V2  A block is named by its tokens and everything before them, so a hit is a run of blocks from the start.
V3  At least one token is always computed: of n tokens at most n-1 are read, in full blocks.
V4  Generated tokens are cached too, except the last one, which was never computed.
V5  A running request holds its blocks. Released ones stay readable, and when room is needed the least recently released
    goes first, of one request its end before its beginning. A block that had to be computed again takes room beside its
    older copy. One block of the server's number is its own.
V6  What a request computes can be read by others once its first token has come.
V7  `cache_salt` separates entries.

Numbers come from `facts`; how many blocks there are is the server's setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.facts import ModelFacts

from .prompts import NEVER, Block, Cache, Entry, Outcome, Prompt, Section
from .tokens import Names, read

AFFECTING: Mapping[str, Section] = {}
"""Whatever matters is rendered into tokens by the chat template."""


class _Request:
    """A running request: the blocks it holds, in order, and how many more it has claimed that nobody can read yet."""

    def __init__(self, outcome: Outcome, blocks: list[int], claimed: int) -> None:
        self.outcome = outcome
        self.blocks = blocks
        self.claimed = claimed


class Vllm(Cache):
    """One server with so many blocks; `cpu` takes the CPU's block size."""

    def __init__(
        self, facts: ModelFacts, *, blocks: int = 8_192, block_tokens: int | None = None, cpu: bool = False
    ) -> None:
        default = facts.limits.block_tokens_cpu if cpu else facts.limits.block_tokens
        self._size = block_tokens or default or facts.granularity
        self._unread = facts.limits.unread_tail_tokens or 0
        self._room = blocks - (facts.limits.reserved_blocks or 0)
        self._names = Names(self._size)
        self._serial = 0
        self._name_of: dict[int, bytes] = {}  # readable blocks
        self._copies: dict[bytes, dict[int, None]] = {}  # the same by name, the oldest copy first
        self._holders: dict[int, int] = {}  # how many running requests hold a block
        self._idle: dict[int, None] = {}  # readable blocks nobody holds, least recently released first
        self._claimed = 0
        self._running: dict[int, _Request] = {}

    def begin(self, prompt: Prompt, now: float) -> Outcome:
        names = self._names.of(read(prompt), prompt.route.encode())
        hits: list[int] = []
        for name in names[: max(0, prompt.tokens - self._unread) // self._size]:
            copies = self._copies.get(name)
            if not copies:
                break
            hits.append(next(iter(copies)))
        for block in hits:
            self._idle.pop(block, None)
            self._holders[block] = self._holders.get(block, 0) + 1
        tokens = len(hits) * self._size
        why = f"{len(hits)} full blocks of {self._size} tokens (V1, V3)" if hits else "no cached block begins it (V2)"
        outcome = Outcome(prompt, now, tokens, prompt.tokens - tokens, hit=prompt.block_at(tokens), why=(why,))
        request = _Request(outcome, hits, 0)
        self._running[id(outcome)] = request
        self._claim(request, prompt.tokens)
        return outcome

    def first_token(self, outcome: Outcome, now: float) -> None:
        request = self._running.get(id(outcome))
        if request is not None:
            self._publish(request, self._names.of(read(outcome.prompt), outcome.prompt.route.encode()))

    def finish(self, outcome: Outcome, output: Sequence[Block], now: float) -> None:
        request = self._running.get(id(outcome))
        if request is None:
            return
        tokens = read(outcome.prompt)
        whole = tokens.followed_by(output)
        computed = whole.first(max(len(tokens), len(whole) - self._unread))
        self._claim(request, len(computed))
        self._publish(request, self._names.of(computed, outcome.prompt.route.encode()))
        self._release(request)

    def abandon(self, outcome: Outcome, now: float) -> None:
        request = self._running.get(id(outcome))
        if request is not None:
            self._release(request)

    def entries(self, now: float) -> list[Entry]:
        """Blocks, each with the tokens it alone covers."""
        return [Entry(name, self._size, "", NEVER, 0.0, NEVER, 0.0) for name in self._copies]

    def _claim(self, request: _Request, tokens: int) -> None:
        """Reserve blocks for `tokens` tokens, taking free blocks first and then idle ones (V5)."""
        more = -(-tokens // self._size) - len(request.blocks) - request.claimed
        request.claimed += more
        self._claimed += more
        while self._idle and len(self._name_of) + self._claimed > self._room:
            self._forget(next(iter(self._idle)))

    def _publish(self, request: _Request, names: Sequence[bytes]) -> None:
        """Claimed blocks that are full and computed get their names, so others can read them (V6)."""
        for name in names[len(request.blocks) :]:
            self._serial += 1
            self._name_of[self._serial] = name
            self._copies.setdefault(name, {})[self._serial] = None
            self._holders[self._serial] = 1
            request.blocks.append(self._serial)
            request.claimed -= 1
            self._claimed -= 1

    def _release(self, request: _Request) -> None:
        del self._running[id(request.outcome)]
        self._claimed -= request.claimed
        for block in reversed(request.blocks):  # the end is released first, so it goes first
            self._holders[block] -= 1
            if not self._holders[block]:
                del self._holders[block]
                self._idle[block] = None

    def _forget(self, block: int) -> None:
        del self._idle[block]
        name = self._name_of.pop(block)
        del self._copies[name][block]
        if not self._copies[name]:
            del self._copies[name]
