"""What a request did to Anthropic's cache, in plain sentences; the rules they cite stand in `anthropic`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from holdfast.facts import ModelFacts

from .prompts import Entry, Mark, Prompt


def why(
    prompt: Prompt,
    marks: Sequence[Mark],
    hit: int,
    found: Entry | None,
    source: int,
    writes: tuple[tuple[str, int], ...],
    get: Callable[[bytes], Entry | None],
    now: float,
    model: ModelFacts,
) -> Iterator[str]:
    """What happened, for people. Looks only at what lies between the hit and the last marker."""
    for mark in prompt.marks:
        if prompt.ends[mark.block] < model.floor:
            yield (
                f"the marker at block {mark.block} ends at {prompt.ends[mark.block]} tokens, below the floor of "
                f"{model.floor}: it does nothing (A9)"
            )
    if marks:
        for index in range(marks[-1].block, hit, -1):
            missed = get(prompt.keys[index])
            if missed is not None:
                yield _missed(index, missed, now, model)
    if found is not None:
        yield (
            f"read {found.tokens} tokens: the {found.ttl} entry at block {hit}, written {now - found.written:.0f} s "
            f"ago, reached from the marker at block {source} (A4)"
        )
    elif marks:
        yield "nothing read: no entry for this prefix in reach of a marker (A4)"
    for ttl, tokens in writes:
        yield f"wrote {tokens} tokens for {ttl} (A12)"


def _missed(index: int, entry: Entry, now: float, model: ModelFacts) -> str:
    if entry.readable > now:
        return f"the entry at block {index} cannot be read yet: the answer that writes it has not begun (A11)"
    if entry.expires < now:
        return f"the {entry.ttl} entry at block {index} expired {now - entry.expires:.0f} s ago (A10)"
    return f"the live entry at block {index} is more than {model.lookback} positions before the next marker (A4)"
