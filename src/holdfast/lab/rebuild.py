"""A session rebuilt from its shape: blocks of the right kinds and sizes, with the markers its client places.

A shape trace has no text, so a block's content is its place: the third block that request 14 added is the same block in
every later prompt. Sizes come from the sum of the provider's counts, never from its parts: the rules decide what is
read and what is written. Tools and system text are not in a trace; a few figures of its usage show where they end: what
the first request read, which sessions before it had left behind, what it wrote for the longer of two lifetimes, and
what is read right after a reset.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Block, Mark
from holdfast.report.logs import Shape, ShapeBlock, TraceStep

OVERHEAD = 20
"""Characters a block costs beside its text: names, ids, brackets. Used to share a request's growth among its blocks."""


class Rebuilt(Struct, frozen=True):
    """One request as recorded in its trace: blocks and markers. `billed` is the prompt that fits a smaller bill
    (`shrank`): something was removed that the trace does not show."""

    step: TraceStep
    blocks: tuple[Block, ...]
    marks: tuple[Mark, ...]
    billed: tuple[Block, ...]
    billed_marks: tuple[Mark, ...]
    shrank: bool


class Head(Struct, frozen=True):
    """Tools and system text: where the part ends that other sessions share, and where all of it does."""

    shared: int
    whole: int
    told_by: int | None

    @property
    def blocks(self) -> tuple[Block, ...]:
        sizes = ((b"shared", self.shared), (b"own", self.whole - self.shared))
        return tuple(Block("system", "text", "system", -1, name, size) for name, size in sizes if size)

    def request(
        self, messages: Sequence[Block], step: TraceStep, ttl: str
    ) -> tuple[tuple[Block, ...], tuple[Mark, ...]]:
        """Blocks and markers in Claude Code's pattern: the two parts of its system text, and the last block of the last
        message. Where both lifetimes were written, the long one is the system text's."""
        assert step.usage is not None
        mixed = step.usage.written_for("1h") and step.usage.written_for("5m")
        blocks = (*self.blocks, *messages)
        marks = [Mark(index, "1h" if mixed else ttl) for index in range(len(self.blocks))]
        if messages:
            marks.append(Mark(len(blocks) - 1, "5m" if mixed else ttl))
        return (*blocks, *_rest(step)), tuple(marks)


def head_of(steps: Sequence[TraceStep]) -> Head:
    """Return the head of a lane; `told_by` is the request whose bill shows where it ends."""
    start = steps[0].usage
    if start is None:
        return Head(0, 0, None)
    first = start.read
    if start.written_for("1h") and start.written_for("5m"):
        return Head(first, first + start.written_for("1h"), steps[0].number)
    for step in steps[1:]:
        # What is read after a reset and was not even sent at the start is no head: part of the history survived.
        if step.reset is not None and step.usage is not None and first <= step.usage.read <= first + start.written:
            return Head(first, step.usage.read, step.number)
    return Head(first, first, None)


def rebuild(steps: Sequence[TraceStep], *, resets: bool = True) -> Iterator[Rebuilt]:
    """The requests of one lane in order. Without `resets` a conversation only ever grows."""
    head = head_of(steps)
    messages: list[Block] = []
    ttl, end = "5m", head.whole
    for step in steps:
        assert isinstance(step.content, Shape)  # a trace with text needs no rebuilding
        assert step.usage is not None
        if step.reset is not None and resets:
            messages, end = [], head.whole
        covered = step.usage.read + step.usage.written
        ttl = next((name for name, _ in step.usage.writes), ttl)
        messages += _added(step, step.content.added, max(0, covered - end))
        rebuilt = head.request(messages, step, ttl)
        shrank = covered < end
        if shrank:
            messages = _anew(step, covered - head.whole)
        end = max(head.whole, covered)
        yield Rebuilt(step, *rebuilt, *(head.request(messages, step, ttl) if shrank else rebuilt), shrank)


def _added(step: TraceStep, added: Sequence[ShapeBlock], room: int) -> list[Block]:
    """The blocks a request added, its growth shared among them by their length."""
    if not added:
        return [_block(step, "0", "user", "text", room)] if room else []
    total = sum(block.chars + OVERHEAD for block in added)
    sizes = [room * (block.chars + OVERHEAD) // total for block in added]
    sizes[-1] += room - sum(sizes)
    return [
        _block(step, str(index), block.role, block.type, size)
        for index, (block, size) in enumerate(zip(added, sizes, strict=True))
    ]


def _block(step: TraceStep, name: str, role: str, kind: str, tokens: int) -> Block:
    return Block("messages", kind, role, step.number, f"{step.lane}/{step.number}/{name}".encode(), tokens)


def _rest(step: TraceStep) -> tuple[Block, ...]:
    """What follows the last marker and is billed as plain input."""
    tokens = step.usage.input if step.usage is not None else 0
    return (replace(_block(step, "rest", "user", "text", tokens), markable=False),) if tokens else ()


def _anew(step: TraceStep, tokens: int) -> list[Block]:
    return [_block(step, "anew", "user", "text", tokens)] if tokens > 0 else []
