"""llama.cpp's server: slots that each keep one sequence, and a memory of sequences that had to leave one.

L1  A slot keeps the tokens it computed last: a prompt and its output, except the last generated token, which was never
    computed.
L2  A request takes the free slot with the longest common prefix, if that is above a share of the request
    (`slot_prompt_similarity`, 0.1): a request that merely shares a system prompt takes over the slot of another.
L3  Otherwise the free slot that was released the longest ago.
L4  Read is the common prefix with the slot, to the token; at least one token is always computed.
L5  Host memory (`cache-ram`, if on): when a slot is taken by L3, or by L2 keeping less than half of what it holds, its
    sequence is copied there first. A copy that keeps more of itself and of the request than the slot then replaces it,
    if at least a quarter of the copy is kept. A copy that is used is taken out.
L6  With it the sequences of all other free slots are copied there whenever a request starts. A sequence that begins
    another one is not kept beside it.
L7  With no free slot a request waits; here it takes the slot whose request began first.

Numbers come from `facts`; slots and memory are the server's settings. Reports no writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.facts import ModelFacts

from .prompts import NEVER, Block, Cache, Entry, Outcome, Prompt, Section
from .tokens import TokenSequence, read, shared_tokens

AFFECTING: Mapping[str, Section] = {}
"""Whatever matters is rendered into tokens by the chat template."""

_NOTHING = TokenSequence(b"")


class _Slot:
    def __init__(self, number: int) -> None:
        self.number = number
        self.tokens = _NOTHING
        self.released = -1
        self.busy: Outcome | None = None


class HostMemory:
    """Sequences that left their slot (L5, L6), oldest first, bounded by tokens."""

    def __init__(self, capacity: int, keep: float) -> None:
        self._capacity = capacity
        self._keep = keep
        self.sequences: list[TokenSequence] = []

    def save(self, tokens: TokenSequence) -> None:
        if not self._capacity or not len(tokens) or len(tokens) > self._capacity:
            return
        if any(shared_tokens(sequence, tokens) == len(tokens) for sequence in self.sequences):
            return
        self.sequences = [sequence for sequence in self.sequences if shared_tokens(sequence, tokens) < len(sequence)]
        self.sequences.append(tokens)
        while sum(map(len, self.sequences)) > self._capacity:
            del self.sequences[0]

    def exchange(self, held: TokenSequence, wanted: TokenSequence) -> TokenSequence:
        """What a slot that holds `held` should hold for a request that wants `wanted`."""
        shared = shared_tokens(held, wanted)
        share, similar = (shared / len(held) if len(held) else -1.0), shared / len(wanted)
        best = None
        for index, sequence in enumerate(self.sequences):
            shared = shared_tokens(sequence, wanted)
            kept_here, similar_here = shared / len(sequence), shared / len(wanted)
            if kept_here >= self._keep and kept_here > share and similar_here > similar:
                best, share, similar = index, kept_here, similar_here
        return held if best is None else self.sequences.pop(best)


class Llama(Cache):
    """One server with `slots` slots; `host_tokens` is the capacity of its host memory, 0 for none. A busy slot cannot
    be read by others."""

    def __init__(
        self, facts: ModelFacts, *, slots: int = 1, similarity: float | None = None, host_tokens: int = 0
    ) -> None:
        limits = facts.limits
        self._similarity = float(limits.slot_similarity or 0) if similarity is None else similarity
        self._slot_keep = float(limits.slot_keep or 0)
        self._unread = limits.unread_tail_tokens or 0
        self._slots = [_Slot(number) for number in range(slots)]
        self._host = HostMemory(host_tokens, float(limits.host_keep or 0))
        self._hosting = host_tokens > 0
        self._releases = 0

    def begin(self, prompt: Prompt, now: float) -> Outcome:
        tokens = read(prompt)
        slot, why, leaving = self._choose(tokens)
        if self._hosting and leaving:
            self._host.save(slot.tokens)
            slot.tokens = self._host.exchange(slot.tokens, tokens)
        shared = min(shared_tokens(slot.tokens, tokens), max(0, len(tokens) - self._unread))
        slot.tokens = tokens
        outcome = Outcome(
            prompt=prompt,
            at=now,
            read=shared,
            input=prompt.tokens - shared,
            hit=prompt.block_at(shared),
            why=(why, f"{shared} tokens are its common prefix (L4)"),
        )
        slot.busy = outcome
        if self._hosting:
            for other in self._slots:
                if other.busy is None:
                    self._host.save(other.tokens)
        return outcome

    def finish(self, outcome: Outcome, output: Sequence[Block], now: float) -> None:
        """Store the sampled `output`, including the end token, in the slot."""
        slot = self._slot_of(outcome)
        if slot is not None:
            whole = slot.tokens.followed_by(output)
            slot.tokens = whole.first(max(len(slot.tokens), len(whole) - self._unread))
            self._release(slot)

    def abandon(self, outcome: Outcome, now: float) -> None:
        """How far it had come nobody knows; what it had read is still there."""
        slot = self._slot_of(outcome)
        if slot is not None:
            slot.tokens = slot.tokens.first(outcome.read)
            self._release(slot)

    def entries(self, now: float) -> list[Entry]:
        slots = [(f"slot {slot.number}", slot.tokens) for slot in self._slots if len(slot.tokens)]
        host = [(f"host {index}", tokens) for index, tokens in enumerate(self._host.sequences)]
        return [Entry(name.encode(), len(tokens), "", NEVER, 0.0, NEVER, 0.0) for name, tokens in (*slots, *host)]

    def _choose(self, tokens: TokenSequence) -> tuple[_Slot, str, bool]:
        """The slot, why, and whether what it holds is about to be lost (L2, L3, L5, L7)."""
        free = [slot for slot in self._slots if slot.busy is None]
        if not free:
            first = min(self._slots, key=lambda slot: slot.busy.at if slot.busy is not None else NEVER)
            return first, "no slot was free: it waits for the one that began first (L7)", True
        best, similar = None, self._similarity
        for slot in free if self._similarity and len(tokens) else ():
            here = shared_tokens(slot.tokens, tokens) / len(tokens)
            if here > similar:
                best, similar = slot, here
        if best is not None:
            keeps = similar * len(tokens) / len(best.tokens)
            return best, f"slot {best.number} shares {similar:.1%} of the prompt (L2)", keeps < self._slot_keep
        oldest = free[0]
        for slot in free[1:]:  # of equally old ones the last, as the server's own scan has it
            if slot.released <= oldest.released:
                oldest = slot
        return oldest, f"slot {oldest.number} was released the longest ago (L3)", True

    def _slot_of(self, outcome: Outcome) -> _Slot | None:
        return next((slot for slot in self._slots if slot.busy is outcome), None)

    def _release(self, slot: _Slot) -> None:
        self._releases += 1
        slot.released, slot.busy = self._releases, None
