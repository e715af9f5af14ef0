"""From a body to the prompt a cache sees: blocks with digests and token counts, the settings that matter, the markers.

Reading is incremental: what a body shares with an earlier one of its conversation is recognised by its bytes, so a long
prompt that grew by one turn costs little more than the turn. Knows how things are spelled; the rules are in `caches`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from threading import Lock
from typing import TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Block, CacheControls, Prompt, rules
from holdfast.caches import prompt as prompt_of
from holdfast.facts import ModelFacts
from holdfast.lru import LRU

from . import cache_parameters
from .block_reader import ReadBlock, as_bytes, read_block
from .body import BlockSpan, Body, Unreadable, is_border
from .cache_control import ENDINGS
from .dialects import DIALECTS, Dialect
from .prompt_memory import LONGEST_NAME, WINDOWS, BlockCache, ReadBody, same_until, unchanged
from .resume import continues_body, has_same_end
from .scan import may_name

KEPT_BODIES = 12_000_000
"""Bytes of earlier bodies kept for comparison, with what is known of their blocks."""

_KEPT_STARTS = 1_000
_KEPT_GUESSES = 256
_START = 256  # bytes by which a body's client is recognised before it is parsed
_KEPT_WINDOWS = 10_000

KEPT_BLOCKS = 100_000
"""Blocks with cached digests and token counts."""
_KEPT_OTHERS = 8_000_000  # bytes of those that bring something with them or are matched token by token

_ENDS = tuple(ending for ending, _ in ENDINGS)

T = TypeVar("T")


class Reading(Struct, frozen=True, eq=False):
    """A body as a cache sees it."""

    prompt: Prompt
    settings: Mapping[str, bytes]  # those that went into its keys
    fresh: int = 0  # bytes of blocks that were not in the earlier body and had to be read; no part of what is compared

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reading) and (self.prompt, self.settings) == (other.prompt, other.settings)


class PromptReader:
    """Turns bodies into prompts and remembers what it has read; one per process is enough.

    Threads may read at the same time: what was read does not change, and the lock is held only to remember it.
    """

    def __init__(
        self, *, kept_bodies: int = KEPT_BODIES, kept_blocks: int = KEPT_BLOCKS, beside: PromptReader | None = None
    ) -> None:
        """Create a reader. `beside` is a reader to share blocks with: each knows the blocks that the other has read."""
        self.canonicalised = 0  # bytes of blocks that were not recognised and had to be read
        self._bodies: LRU[bytes, ReadBody] = LRU(kept_bodies, size_of=attrgetter("weight"), keep_newest=True)
        self._latest: dict[tuple[str, str], ReadBody] = {}  # of one dialect and model: conversations begin alike
        self._starts: LRU[bytes, tuple[int, bytes]] = LRU(_KEPT_STARTS)
        self._windows: LRU[tuple[int, int, int], bytes] = LRU(_KEPT_WINDOWS)
        blocks = BlockCache[ReadBlock](kept_blocks, heavy=_KEPT_OTHERS) if beside is None else beside._blocks
        self._blocks: BlockCache[ReadBlock] = blocks
        self._last: tuple[Body, ModelFacts, str, Reading] | None = None  # asked for again, a body is not read again
        self._guesses: dict[int, bytes] = {}  # conversations of bodies that were parsed, until they are read
        self._lock = Lock()

    def parse(self, dialect: Dialect, raw: bytes, *, model: str = "") -> Body | Unreadable:
        """Parse a body, taking over what it shares with an earlier body that began the same."""
        lane = self._find(raw)
        earlier = self._bodies.peek(lane)
        if earlier is None:
            return dialect.parse(raw, model=model)
        body = dialect.parse(raw, model=model, like=earlier.body)
        if len(self._guesses) >= _KEPT_GUESSES:  # not all are read
            self._guesses.clear()
        self._guesses[id(body)] = lane
        return body

    def _find(self, raw: bytes) -> bytes:
        """The conversation of a body that is not parsed yet: one client's bodies begin alike and differ somewhere in
        their messages."""
        at, latest = self._starts.peek(raw[:_START]) or (0, b"")
        if latest:  # the shortest window tells most apart, and comparing what it finds is quicker than hashing more
            lane = self._windows.peek((at, WINDOWS[-1], hash(raw[at : at + WINDOWS[-1]]))) or b""
            earlier, far = self._bodies.peek(lane), at + WINDOWS[0]
            if earlier is not None and earlier.at_length and raw.startswith(memoryview(earlier.body.raw)[at:far], at):
                return lane
        for size in WINDOWS if latest else ():
            lane = self._windows.peek((at, size, hash(raw[at : at + size]))) or b""
            if lane in self._bodies:
                return lane
        return latest

    def read(self, body: Body, model: ModelFacts, *, scope: str = "") -> Reading:
        dialect = DIALECTS[body.dialect]
        last = self._last
        if last is not None and last[0] is body and last[1] == model and last[2] == scope:
            return last[3]
        lane, earlier, grown = self._earlier(body, model, scope)
        current = self._read_blocks(body, dialect, earlier, grown, rules(model).by_token)
        marks, left_out, sent = current.special_parts()
        blocks = current.expanded() if current.referring and left_out else current.blocks
        same = (
            grown and earlier is not None and (current.images, current.citations) == (earlier.images, earlier.citations)
        )
        if same and earlier is not None:
            current.caching, current.settings = earlier.caching, earlier.settings
        else:
            current.caching = cache_parameters.read(body)
            current.settings = cache_parameters.settings(
                body, model, images=current.images, citations=current.citations
            )
        caching = current.caching
        prompt = prompt_of(
            model,
            cast(list[Block], _without(blocks, left_out) if left_out else blocks),
            CacheControls(
                scope=scope,
                settings=current.settings,
                marks=marks,
                automatic=caching.automatic,
                route=_plain(caching.key) if caching.key else "",
                mode=_plain(caching.cached_content if body.dialect == "gemini" else caching.mode or caching.retention),
            ),
            like=None if earlier is None else earlier.prompt,
            same=same,
        )
        if left_out:
            places = _without(range(len(current.blocks)), left_out)
            prompt = replace(
                prompt, origin=tuple([places[index] for index in prompt.origin] if prompt.origin else places)
            )
        sent += caching.automatic is not None
        if sent != len(prompt.marks):
            prompt = replace(prompt, hidden=max(0, sent - len(prompt.marks)))
        current.prompt = prompt
        with self._lock:
            self._remember(lane, model, current)
        reading = Reading(prompt, current.settings, current.fresh)
        self._last = (body, model, scope, reading)
        return reading

    def _earlier(self, body: Body, model: ModelFacts, scope: str) -> tuple[bytes, ReadBody | None, bool]:
        """The conversation, the last body of it (or of any other), and whether only its messages have grown."""
        lane = self._guesses.pop(id(body), b"")
        earlier = self._bodies.peek(lane)
        if (
            earlier is not None
            and earlier.prompt.scope == scope
            and earlier.prompt.model == model.ref
            and continues_body(earlier.body, body, earlier.first)
        ):
            return lane, earlier, has_same_end(earlier.body, body)
        lane = _lane(body, model, scope)
        return lane, self._bodies.peek(lane) or self._latest.get((body.dialect, model.ref)), False

    def previous(self, body: Body, model: ModelFacts, *, scope: str = "") -> Prompt | None:
        """The prompt of the conversation's request before this one, where it is still remembered."""
        earlier = self._bodies.peek(_lane(body, model, scope))
        return None if earlier is None else earlier.prompt

    def _read_blocks(
        self, body: Body, dialect: Dialect, earlier: ReadBody | None, grown: bool, with_ids: bool
    ) -> ReadBody:
        """Every block, taken over from the earlier body where it is unchanged there, else read. With `grown` only
        messages differ."""
        blocks = body.blocks
        current = ReadBody(body, earlier.first if grown and earlier is not None else body.messages_from)
        before: Sequence[BlockSpan] = () if earlier is None else earlier.body.blocks
        if grown and earlier is not None:
            current.take_over(earlier, same_until(blocks, before, earlier.first))
        while (index := len(current.read_blocks)) < len(blocks):
            if earlier is not None and index < len(before):
                if blocks[index] is before[index]:
                    current.take_over(earlier, same_until(blocks, before, index))
                    continue
                if (read := unchanged(earlier, body, index)) is not None:
                    current.add(read)
                    continue
            current.add(self._block(body, dialect, index, is_border(blocks, index), with_ids))
            current.fresh += blocks[index].end - blocks[index].start
        return current

    def _block(self, body: Body, dialect: Dialect, index: int, border: bool, with_ids: bool) -> ReadBlock:
        """A block read anew, unless its bytes are known from elsewhere.

        A marker at the end is cut off first: it moves on with every turn, and the block it leaves is the same block.
        """
        raw, start, end = body.raw, body.blocks[index].start, body.blocks[index].end
        if body.dialect == "anthropic" and raw.endswith(_ENDS, start, end):
            for ending, ttl in ENDINGS:
                if raw.endswith(ending, start, end):
                    plain = raw[start : end - len(ending)] + b"}"
                    read = self._text(body, dialect, index, border, with_ids, plain, True)
                    if read is not None:
                        return ReadBlock(
                            read.block, read.images, read.citations, (ttl,), True, True, read.refers, read.late
                        )
        read = self._text(body, dialect, index, border, with_ids, raw[start:end], False)
        assert read is not None
        return read

    def _text(
        self, body: Body, dialect: Dialect, index: int, border: bool, with_ids: bool, text: bytes, cut: bool
    ) -> ReadBlock | None:
        """A block by its text; None if a marker was `cut` off and the block may have further ones."""
        span = body.blocks[index]
        about = (_about if len(span.role) + len(body.model) > LONGEST_NAME else _usual)(
            body.dialect, body.model, span.section, span.role, span.form, border, with_ids
        )
        whole = b"%b%d|%b" % (about, span.message, text)
        if span.context:
            for start, end in span.context:
                whole += b"\0" + body.raw[start:end]
        key = sha256(whole).digest()[:16]
        block = self._blocks.plain(key)
        read = ReadBlock(block, False, False, (), False) if block is not None else self._blocks.other(key)
        if read is not None:
            return None if cut and may_name(text, "cache_control", 0, len(text)) else read
        read = read_block(body, dialect, index, border, with_ids, text if cut else None)
        if read is not None:
            self.canonicalised += len(text)
            if read.special or read.block is None or not self._blocks.keep(key, read.block):
                self._blocks.keep_other(key, read, _weight(read))
        return read

    def _remember(self, lane: bytes, model: ModelFacts, current: ReadBody) -> None:
        before = self._bodies.peek(lane)
        self._bodies[lane] = current
        self._latest = {(current.body.dialect, model.ref): current}
        self._index(lane, current, before)

    def _index(self, lane: bytes, current: ReadBody, before: ReadBody | None) -> None:
        body, first = current.body, current.first
        if first == len(body.blocks):
            return
        raw, at, last = body.raw, body.blocks[first].start, body.blocks[-1].start  # the last message may still change
        self._starts[raw[:_START]] = at, lane
        if before is not None and body.blocks[first : first + 1] == before.body.blocks[first : first + 1]:
            current.windows = before.windows
        if not current.at_length or at + current.windows > last:
            for size in WINDOWS:
                if size > current.windows and at + size <= last:
                    self._windows[at, size, hash(raw[at : at + size])] = lane
            current.windows = max((size for size in WINDOWS if at + size <= last), default=0)


def _about(dialect: str, model: str, section: str, role: str, form: str, border: bool, with_ids: bool) -> bytes:
    """What reading a block depends on besides its text."""
    return as_bytes(repr((dialect, model, section, role, form, border, with_ids)) + "\0")


_usual = lru_cache(maxsize=256)(_about)


def _weight(read: ReadBlock) -> int:
    """About how many bytes a block takes in memory."""
    block, late = read.block, read.late
    weight = 500 if late is None else 700 + len(late.ids) + len(late.name)
    return weight + (0 if block is None else len(block.ids) + len(block.kind) + len(block.role))


def _plain(text: str | None) -> str:
    """A value a client chose, for rules that expect text."""
    return text.encode("utf-8", "backslashreplace").decode() if text else ""


def _cut(text: bytes) -> bytes:
    """A block without the marker it ends with; as it is where it has none or more than one."""
    for ending, _ in ENDINGS:
        if text.endswith(ending):
            plain = text[: -len(ending)] + b"}"
            return text if may_name(plain, "cache_control", 0, len(plain)) else plain
    return text


def _without(items: Sequence[T], left_out: Sequence[int]) -> list[T]:
    """All but those at these places."""
    rest: list[T] = []
    at = 0
    for index in left_out:
        rest += items[at:index]
        at = index + 1
    rest += items[at:]
    return rest


def _lane(body: Body, model: ModelFacts, scope: str) -> bytes:
    """A guess at the conversation: its first message. A wrong one costs time, never a wrong prompt.

    Some clients begin every conversation with the same block, so the beginnings of the next ones count too.
    """
    at = body.messages_from
    first = body.blocks[at : at + 1]
    texts = [body.raw[span.start : span.end] for span in first]
    for span in body.blocks[at + 1 : at + 4]:
        if span.message == first[0].message:
            texts.append(_cut(body.raw[span.start : span.end])[:_START])
    return sha256(b"\0".join((body.dialect.encode(), scope.encode(), as_bytes(model.ref), *texts))).digest()
