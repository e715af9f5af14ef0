"""Where two bodies part, in bytes: the path of the block, the offset in the body, and the two texts there."""

from __future__ import annotations

from msgspec import Struct

from holdfast.caches import Prompt
from holdfast.core import Divergence, Place, place
from holdfast.wire import DIALECTS, Body, Splice, rewrite


class ByteDiff(Struct, frozen=True):
    """The first divergence of a body from the one before it."""

    path: str | None = None
    """The path of the block."""
    offset: int | None = None
    """The byte in the body."""
    before: bytes | None = None
    after: bytes | None = None
    """The two texts that were compared."""
    content_before: bytes | None = None
    content_after: bytes | None = None
    """The block's canonical content in each body."""
    place: Place | None = None
    """Where the two texts differ."""


NO_DIFFERENCE = ByteDiff()


def locate(
    body: Body, prompt: Prompt, earlier: Body | None, divergence: Divergence | None, *, keep_bodies: bool = False
) -> ByteDiff:
    """The place of a divergence in `body`, whose prompt is `prompt`. `earlier` is the body it departs from, if it is
    still in memory."""
    if divergence is None:
        return NO_DIFFERENCE
    if divergence.setting is not None:
        return ByteDiff(divergence.setting)
    if divergence.block >= len(prompt.blocks):
        return ByteDiff(f"{divergence.section} (end)", len(body.raw))
    dialect = DIALECTS[body.dialect]
    number = prompt.place(divergence.block)
    span, content = body.blocks[number], dialect.content(body, number)
    old = None if earlier is None else _at(earlier, span.path)
    if earlier is None or old is None:
        return ByteDiff(span.path, span.start, None, body.text(span), None, content)
    before, after, start, cuts = _compared(earlier, old, body, number)
    at = place(before, after, keep_bodies=keep_bodies)
    offset = start + (0 if at is None else at.offset)
    for cut in cuts:
        offset += cut.end - cut.start if cut.start <= offset else 0
    return ByteDiff(span.path, offset, before, after, dialect.content(earlier, old), content, at)


def _compared(earlier: Body, old: int, body: Body, new: int) -> tuple[bytes, bytes, int, list[Splice]]:
    """Two versions of a block to be compared byte for byte, where the second begins, and what was cut out of it.

    Texts are compared by their literals: one may be a string and the other a block of its own. Everything else is
    compared without markers, which move on with every turn.
    """
    spans = rewrite.text_span(earlier, old), rewrite.text_span(body, new)
    if spans[0] is not None and spans[1] is not None:
        before, after = earlier.raw[slice(*spans[0])], body.raw[slice(*spans[1])]
        if before != after:
            return before, after, spans[1][0], []
    dialect = DIALECTS[body.dialect]
    before, _ = rewrite.unmarked(earlier, old, [m.at for m in dialect.markers(earlier, (old,)) if m.block == old])
    after, cuts = rewrite.unmarked(body, new, [m.at for m in dialect.markers(body, (new,)) if m.block == new])
    return before, after, body.blocks[new].start, cuts


def _at(body: Body, path: str) -> int | None:
    """The block at this path."""
    return next((index for index, span in enumerate(body.blocks) if span.path == path), None)
