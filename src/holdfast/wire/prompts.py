"""From a body to the prompt a cache sees: blocks with digests and token counts, the settings that matter, the markers.

Reading is incremental: what a body shares with an earlier one of its conversation is recognised by its bytes, so a long
prompt that grew by one turn costs little more than the turn. Knows how things are spelled; the rules are in `caches`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches.providers import prompt as prompt_of
from holdfast.caches.providers import rules
from holdfast.caches.values import Block, Mark, Prompt
from holdfast.facts import ModelFacts

from . import affecting, caching
from .block_reading import Known, as_bytes, read_block
from .body import BlockSpan, Body, Unreadable
from .cache_control import MARKERS
from .dialects import DIALECTS, Dialect
from .remembered import Remembered
from .scan import may_name

KEPT_BODIES = 12_000_000
"""Bytes of earlier bodies kept for comparison, with what is known of their blocks."""
_PER_BLOCK = 400

_KEPT_STARTS = 1_000
_START = 256  # bytes by which a body's client is recognised before it is parsed
_WINDOWS = (16_384, 2_048, 256)  # bytes of its messages by which its conversation is
_KEPT_WINDOWS = 10_000

KEPT_BLOCKS = 100_000
"""Blocks whose digest and token count are remembered."""
_KEPT_OTHERS = 8_000_000  # bytes of those that bring something with them or are matched token by token

_ENDINGS = tuple((b',"cache_control":' + marker + b"}", ttl) for ttl, marker in MARKERS.items())


class Reading(Struct, frozen=True):
    """A body as a cache sees it, and the settings that went into its keys."""

    prompt: Prompt
    settings: Mapping[str, bytes]


class _Seen:
    """A body and what its blocks are; `special` are the places of those that bring something with them."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.known: list[Known] = []
        self.blocks: list[Block | None] = []
        self.special: list[int] = []
        self.prompt: Prompt | None = None
        self.windows = 0
        """The longest beginning of its messages by which it is known."""

    @property
    def weight(self) -> int:
        return len(self.body.raw) + _PER_BLOCK * len(self.body.blocks)

    def add(self, item: Known) -> None:
        if item.special:
            self.special.append(len(self.known))
        self.known.append(item)
        self.blocks.append(item.block)

    def take_over(self, other: _Seen, end: int) -> None:
        """The blocks of an earlier body from here to `end`."""
        start = len(self.known)
        self.known += other.known[start:end]
        self.blocks += other.blocks[start:end]
        first, last = bisect_left(other.special, start), bisect_left(other.special, end)
        self.special += other.special[first:last]

    def specials(self) -> list[tuple[int, Known]]:
        return [(index, self.known[index]) for index in self.special]


class PromptReader:
    """Turns bodies into prompts and remembers what it has read; one for each process is enough."""

    def __init__(self, *, kept_bodies: int = KEPT_BODIES, kept_blocks: int = KEPT_BLOCKS) -> None:
        self.canonicalised = 0  # bytes of blocks that were not recognised and had to be read
        self._kept_bodies = kept_bodies
        self._bytes = 0
        self._seen: OrderedDict[bytes, _Seen] = OrderedDict()
        self._latest: dict[tuple[str, str], _Seen] = {}  # of one dialect and model: conversations begin alike
        self._starts: OrderedDict[bytes, tuple[int, bytes]] = OrderedDict()
        self._windows: OrderedDict[tuple[int, int, int], bytes] = OrderedDict()
        self._blocks = Remembered[Known](kept_blocks, heavy=_KEPT_OTHERS)
        self._last: tuple[Body, ModelFacts, str, Reading] | None = None  # asked for again, a body is not read again

    def parse(self, dialect: Dialect, raw: bytes, *, model: str = "") -> Body | Unreadable:
        """The dialect's parse, with an earlier body that began the same to lean on."""
        like = self._seen.get(self._find(raw))
        return dialect.parse(raw, model=model, like=None if like is None else like.body)

    def _find(self, raw: bytes) -> bytes:
        """The conversation of a body that is not parsed yet. Those of one client begin alike; where their messages
        begin, they part sooner or later."""
        at, latest = self._starts.get(raw[:_START], (0, b""))
        for size in _WINDOWS if latest else ():
            lane = self._windows.get((at, size, hash(raw[at : at + size])))
            if lane is not None and lane in self._seen:
                return lane
        return latest

    def read(self, body: Body, model: ModelFacts, *, scope: str = "") -> Reading:
        dialect = DIALECTS[body.dialect]
        if self._last is not None and self._last[0] is body and self._last[1:3] == (model, scope):
            return self._last[3]
        lane = _lane(body, model, scope)
        like = self._seen.get(lane) or self._latest.get((body.dialect, model.ref))
        seen = self._read_blocks(body, dialect, like, rules(model).by_token)
        special = seen.specials()
        asked = caching.read(body)
        images, citations = any(item.images for _, item in special), any(item.citations for _, item in special)
        settings = affecting.settings(body, model, images=images, citations=citations)
        left_out = [index for index, item in special if item.block is None]
        prompt = prompt_of(
            model,
            [block for block in seen.blocks if block is not None] if left_out else cast(list[Block], seen.blocks),
            scope=scope,
            settings=settings,
            marks=_marks(special, left_out),
            automatic=asked.automatic,
            route=_plain(asked.key),
            mode=_plain(asked.cached_content if body.dialect == "gemini" else asked.mode or asked.retention),
            like=None if like is None else like.prompt,
        )
        if left_out:
            kept = [index for index, block in enumerate(seen.blocks) if block is not None]
            prompt = replace(prompt, origin=tuple(kept[index] for index in prompt.origin or range(len(kept))))
        sent = sum(len(item.marks) for _, item in special) + (asked.automatic is not None)
        if sent != len(prompt.marks):
            prompt = replace(prompt, hidden=max(0, sent - len(prompt.marks)))
        seen.prompt = prompt
        self._remember(lane, model, seen)
        reading = Reading(prompt, settings)
        self._last = (body, model, scope, reading)
        return reading

    def previous(self, body: Body, model: ModelFacts, *, scope: str = "") -> Prompt | None:
        """The prompt of the conversation's request before this one, where it is still remembered."""
        seen = self._seen.get(_lane(body, model, scope))
        return None if seen is None else seen.prompt

    def _read_blocks(self, body: Body, dialect: Dialect, like: _Seen | None, with_ids: bool) -> _Seen:
        """Every block: taken over from the earlier body where it stands there unchanged, else read."""
        seen = _Seen(body)
        before: Sequence[BlockSpan] = () if like is None else like.body.blocks
        while (index := len(seen.known)) < len(body.blocks):
            span = body.blocks[index]
            if like is not None and index < len(before):
                if span is before[index]:
                    seen.take_over(like, _same_until(body.blocks, before, index))
                    continue
                if _unchanged(like.body, body, index):
                    seen.add(like.known[index])
                    continue
            seen.add(self._block(body, dialect, index, _border(body.blocks, index), with_ids))
        return seen

    def _block(self, body: Body, dialect: Dialect, index: int, border: bool, with_ids: bool) -> Known:
        """A block read anew, unless its bytes are known from elsewhere.

        A marker at the end is cut off first: it moves on with every turn, and the block it leaves is the same block.
        """
        span = body.blocks[index]
        about = f"{body.dialect}|{body.model}|{span.section}|{span.role}|{span.form}|{span.message}|{border}|{with_ids}"
        texts = [body.raw[start:end] for start, end in ((span.start, span.end), *span.context)]
        plain, ttl = _cut(texts[0]) if body.dialect == "anthropic" else (texts[0], None)
        key = sha256(b"\0".join([as_bytes(about), plain, *texts[1:]])).digest()[:16]
        block = self._blocks.plain(key)
        known = Known(block, special=False) if block is not None else self._blocks.other(key)
        if known is None:
            if ttl is not None:
                body, index = _alone(body, span, plain), 0
            self.canonicalised += len(plain)
            known = read_block(body, dialect, index, border, with_ids)
            if known.special or known.block is None or not self._blocks.keep(key, known.block):
                self._blocks.keep_other(key, known, _weight(known))
        return known if ttl is None else replace(known, marks=(ttl,), special=True)

    def _remember(self, lane: bytes, model: ModelFacts, seen: _Seen) -> None:
        before = self._seen.pop(lane, None)
        self._bytes += seen.weight - (0 if before is None else before.weight)
        self._seen[lane] = seen
        self._latest = {(seen.body.dialect, model.ref): seen}
        self._index(lane, seen, before)
        while self._bytes > self._kept_bodies and len(self._seen) > 1:
            _, dropped = self._seen.popitem(last=False)
            self._bytes -= dropped.weight

    def _index(self, lane: bytes, seen: _Seen, before: _Seen | None) -> None:
        body = seen.body
        first = body.messages_from
        if first == len(body.blocks):
            return
        raw, at = body.raw, body.blocks[first].start
        self._starts[raw[:_START]] = at, lane
        if before is not None and body.blocks[first : first + 1] == before.body.blocks[first : first + 1]:
            seen.windows = before.windows
        for size in _WINDOWS:
            if size > seen.windows and at + size <= body.blocks[-1].start:  # the last message may still change
                self._windows[at, size, hash(raw[at : at + size])] = lane
        seen.windows = max((size for size in _WINDOWS if at + size <= body.blocks[-1].start), default=0)
        for known, most in ((self._starts, _KEPT_STARTS), (self._windows, _KEPT_WINDOWS)):
            while len(known) > most:
                known.popitem(last=False)


def _weight(known: Known) -> int:
    """About how many bytes a block takes in memory."""
    return 500 + (len(known.block.ids) if known.block is not None else 0)


def _plain(text: str | None) -> str:
    """A value a client chose, for rules that expect text."""
    return (text or "").encode("utf-8", "backslashreplace").decode()


def _cut(text: bytes) -> tuple[bytes, str | None]:
    """A block without the marker it ends with, and that marker's TTL; as it is where it has none or more than one."""
    for ending, ttl in _ENDINGS:
        if text.endswith(ending):
            plain = text[: -len(ending)] + b"}"
            return (text, None) if may_name(plain, "cache_control", 0, len(plain)) else (plain, ttl)
    return text, None


def _alone(body: Body, span: BlockSpan, text: bytes) -> Body:
    """A body of which only this one block is asked about."""
    context, raw = [], text
    for start, end in span.context:
        context.append((len(raw), len(raw) + end - start))
        raw += body.raw[start:end]
    return replace(body, raw=raw, blocks=(replace(span, start=0, end=len(text), context=tuple(context)),))


def _lane(body: Body, model: ModelFacts, scope: str) -> bytes:
    """A guess at the conversation: its first message. A wrong one costs time, never a wrong prompt.

    Some clients begin every conversation with the same block, so the beginnings of the next ones count too.
    """
    at = body.messages_from
    first = body.blocks[at : at + 1]
    texts = [body.raw[span.start : span.end] for span in first]
    for span in body.blocks[at + 1 : at + 4]:
        if span.message == first[0].message:
            texts.append(_cut(body.raw[span.start : span.end])[0][:_START])
    return sha256(b"\0".join((body.dialect.encode(), scope.encode(), as_bytes(model.ref), *texts))).digest()


def _same_until(blocks: Sequence[BlockSpan], before: Sequence[BlockSpan], index: int) -> int:
    """Where the run of spans ends that the parse took over from the earlier body: they are the same objects there."""
    low, high = index, min(len(blocks), len(before)) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if blocks[middle] is before[middle]:
            low = middle
        else:
            high = middle - 1
    return low + 1


def _border(blocks: Sequence[BlockSpan], index: int) -> bool:
    """Whether a message, or the system text, begins with this block. Tools have no borders: some of them are no part of
    the prefix, and what comes after those is the same with and without them."""
    span, before = blocks[index], blocks[index - 1] if index else None
    if span.section == "tools":
        return False
    return before is None or before.section != span.section or before.message != span.message


def _unchanged(before: Body, body: Body, index: int) -> bool:
    """Whether the block at this place says the same in both bodies, wherever it stands in the text."""
    old, new = before.blocks[index], body.blocks[index]
    if old.context or new.context or old.end - old.start != new.end - new.start or old.message != new.message:
        return False
    if old.role != new.role or old.section != new.section or old.form != new.form:
        return False
    last, following = before.blocks[index - 1], body.blocks[index - 1]  # with the same neighbour it has the same border
    moved = last.message != following.message or last.section != following.section
    if moved and _border(before.blocks, index) != _border(body.blocks, index):
        return False
    return before.raw[old.start : old.end] == body.raw[new.start : new.end]


def _marks(special: Sequence[tuple[int, Known]], left_out: Sequence[int]) -> list[Mark]:
    """The body's explicit markers as places among the blocks that count."""
    return [
        Mark(index - bisect_left(left_out, index), ttl) for index, item in special if item.block for ttl in item.marks
    ]
