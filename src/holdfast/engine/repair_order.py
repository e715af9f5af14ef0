"""Order repairs: keys of objects in history and tools of an unchanged set go out as they first did.

Blocks are recognised by the digests of the reading; only those are parsed that are new among the tools or stand in
history where another stood.
"""

from __future__ import annotations

from hashlib import sha256
from itertools import takewhile

import msgspec
from msgspec import Struct

from holdfast.prefix.edits import FINAL
from holdfast.prefix.repairs import texts
from holdfast.prefix.repairs.history import History, Match, Walk, recall, record
from holdfast.prefix.repairs.order import first_order, set_of
from holdfast.prefix.strategies.places import head
from holdfast.prefix.values import DIGEST
from holdfast.prefix.volatile import between
from holdfast.wire import rewrite
from holdfast.wire.values import object_of, string_of

from .repair_work import Work

MOST_REKEYED = 64
"""Repaired blocks that are known one by one after a restart."""
MOST_COMPARED = 5_000
"""Blocks of one request that are looked at for another order of their keys."""
MOST_VALUES = 200
"""Tools of a lane whose values are kept."""
_REKEYED = "its keys came in another order than when it was first sent"


class _Tool(Struct):
    """A tool of the client's own: its block in the prompt and in the body, and what it is known by.

    `value` if only values that change by themselves are different in it.
    """

    block: int
    index: int
    digest: bytes
    id: bytes
    raw: bytes
    value: bool = False


def keys(work: Work) -> None:
    """Objects in history with their keys in the first order. Of blocks that stand where they stood only digests are
    compared; a block that departs is compared with the one that stood in its place."""
    state, before = work.state, recall(work.memory, work.state.history)
    walk, now, rekeyed = Walk(before or History()), History(), b""
    said = range(head(work.prompt), len(work.prompt.blocks))
    for number in said[_taken_over(work, said, before, walk, now) :]:
        digest = work.prompt.blocks[number].digest
        first = _first(work, number, walk.match(digest))
        now.add(digest, first)
        if first != digest and len(rekeyed) <= MOST_REKEYED * DIGEST:
            rekeyed += first
    if before is None and state.rekeyed and not _as_first(state.rekeyed, now):
        work.because("repair_forgotten")
    state.history, state.rekeyed = record(work.memory, state.history, before, now), rekeyed


def _as_first(rekeyed: bytes, now: History) -> bool:
    """Whether the client sends all blocks that were repaired as they were first sent; of too many nobody knows."""
    digests = {rekeyed[at : at + DIGEST] for at in range(0, len(rekeyed), DIGEST)}
    return len(rekeyed) <= MOST_REKEYED * DIGEST and digests <= set(now.client)


def _taken_over(work: Work, said: range, before: History | None, walk: Walk, now: History) -> int:
    """How many messages stand where they stood, as they were first sent: almost all of them, so that what is done for
    each has to be little. Whose parts were forgotten is remembered again."""
    if before is None or before.client != before.first:
        return 0
    blocks, count = work.prompt.blocks, len(before.client)
    digests = [block.digest for block in blocks[said.start : said.start + count]]
    if digests != before.client:
        pairs = zip(digests, before.client, strict=False)
        digests = [digest for digest, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
    for place in work.memory.missing(digests):
        _first(work, said[place], Match(digests[place], True))
    walk.skip(len(digests))
    now.client, now.first = digests, digests.copy()
    return len(digests)


def _first(work: Work, number: int, match: Match | None) -> bytes:
    """The digest a block was first sent with, if it differs from that in the order of keys alone, else its own."""
    block, index = work.prompt.blocks[number], work.origin[number]
    digest, span = block.digest, work.body.blocks[index]
    other = match is not None and match.first != digest
    if block.kind in FINAL or (span.form == "string" and not span.context) or (not other and work.memory.touch(digest)):
        return digest
    parts = rewrite.parts(work.body, index)
    if parts is None:
        return digest
    if match is not None and other:
        kept = work.memory.get(match.first)
        first = None if kept is None else msgspec.msgpack.decode(kept, type=list[bytes])
        if first is not None and (match.sure or _reordered(work, first, parts)):
            work.restored[number] = match.first
            if "key-order" not in work.skip:
                work.splices += rewrite.restored(work.body, index, first)
                work.report("key-order", number, _REKEYED)
            return match.first
        if match.sure:
            work.because("repair_forgotten")
    work.memory.put(digest, msgspec.msgpack.encode(parts))
    return digest


def _reordered(work: Work, before: list[bytes], after: list[bytes]) -> bool:
    """Whether two blocks differ in the order of keys alone; a request is held up by looking at so many and no more."""
    work.compared += 1
    return work.compared <= MOST_COMPARED and rewrite.reordered(before, after)


def _name(raw: bytes) -> bytes | None:
    """What a block is known by whatever the order of its keys; nothing for what is signed."""
    form = None if rewrite.signed(raw) else rewrite.unordered(raw)
    return None if form is None else sha256(form).digest()[:16]


def _register(work: Work, name: bytes, digest: bytes, raw: bytes) -> None:
    work.sent.pop(work.state.first.get(name, b""), None)
    work.state.first[name] = digest
    work.sent[digest] = name
    work.memory.put(digest, raw)


def tools(work: Work) -> None:
    """Tools of an unchanged set in their first order; those of the provider and deferred ones stay in place."""
    blocks = [(number, block) for number, block in enumerate(work.prompt.blocks) if block.section == "tools"]
    told = any(slot[:1] == b"t" for _, insert in work.present for slot in insert.told)
    unchanged = b"".join(block.digest for _, block in blocks) == work.state.tools_sent
    if unchanged and not told and work.memory.touch_all([b.digest for _, b in blocks if b.digest in work.sent]):
        return
    found = [tool for number, block in blocks if (tool := _tool(work, number, block.digest)) is not None]
    undone = _keep_values(work, found)
    for tool in found:
        if tool.id not in work.state.first:
            _register(work, tool.id, tool.digest, tool.raw)
    order = [tool.id for tool in found]
    if not undone and "tool-order" not in work.skip:
        order = first_order(work.state, order)
    sent = _place(work, found, order)
    if not work.skip:
        work.state.tools_sent = b"".join(sent.get(number, block.digest) for number, block in blocks)


def _tool(work: Work, number: int, digest: bytes) -> _Tool | None:
    """A tool that may be moved; it is parsed only if its digest is new."""
    index = work.origin[number]
    raw = rewrite.plain(work.body, index)
    name = work.sent.get(digest)
    if name is None and rewrite.own_tool(work.body, index):
        name = _name(raw)
    return None if name is None else _Tool(number, index, digest, name, raw)


def _place(work: Work, found: list[_Tool], order: list[bytes]) -> dict[int, bytes]:
    """Each tool in the slot that is its own; returns the digests of the slots as they are sent."""
    waiting: dict[bytes, list[_Tool]] = {}
    for tool in found:
        waiting.setdefault(tool.id, []).append(tool)
    sent: dict[int, bytes] = {}
    moved: list[int] = []
    rekeyed: list[int] = []
    for slot, name in zip(found, order, strict=True):
        tool = waiting[name].pop(0)
        digest, text = _first_bytes(work, tool)
        if digest != tool.digest and not tool.value:
            rekeyed.append(slot.block)
        if slot is not tool:
            moved.append(slot.block)
        sent[slot.block] = digest
        if text != slot.raw:
            work.splices += rewrite.replaced(work.body, slot.index, text)
    if moved:
        work.report("tool-order", moved[0], "the same tools came in another order than when they were first sent")
    if rekeyed:
        work.report("key-order", rekeyed[0], _REKEYED)
    return sent


def _first_bytes(work: Work, tool: _Tool) -> tuple[bytes, bytes]:
    first = work.state.first[tool.id]
    if tool.digest == first:
        work.memory.put(first, tool.raw)
        return first, tool.raw
    if not tool.value and "key-order" in work.skip:
        return tool.digest, tool.raw
    text = work.memory.get(first)
    if text is not None:
        return first, text
    work.because("repair_forgotten")
    _register(work, tool.id, tool.digest, tool.raw)
    return tool.digest, tool.raw


def _keep_values(work: Work, found: list[_Tool]) -> bool:
    """Tools that differ from the first ones only in values that change by themselves keep their first bytes.

    Returns whether this request goes without that: then the lane keeps its set of tools for the next.
    """
    undone = False
    order = work.state.orders.get(work.state.tools, [])
    present = {tool.id for tool in found}
    firsts: dict[str, bytes] = {}
    if order and set_of([tool.id for tool in found]) != work.state.tools:
        for name in order:
            if name not in present and (first := _kept(work, name)) is not None:
                firsts[_title(first)] = name
    for tool in found:
        title = _title(tool.raw) if firsts or work.present else ""
        slot = b"t" + texts.digest(title)
        kept = firsts.get(title)
        if kept is None:
            if work.told(slot):
                work.lines[slot] = (_said(tool.raw), _said(tool.raw))
            continue
        if kept not in work.state.kept_tools and len(work.state.kept_tools) >= MOST_VALUES:
            continue
        raw = _kept(work, kept) or b""
        kinds = between(raw.decode("utf-8", "replace"), tool.raw.decode("utf-8", "replace"))
        if tool.id in order or not kinds:
            continue
        skipped = "volatile-value" in work.skip
        applied = work.on and not skipped
        undone |= skipped
        why = f"the {' and '.join(kinds)} in this tool changes by itself"
        work.report("volatile-value", tool.block, why, applied=applied)
        if applied:
            if kept not in work.state.kept_tools:
                work.state.kept_tools[kept] = ref = work.memory.keep(raw)
                work.new[ref] = raw
            work.lines[slot] = (_said(raw), _said(tool.raw))
            tool.id, tool.value = kept, True
    return undone


def _kept(work: Work, name: bytes) -> bytes | None:
    """The first bytes of a tool; those of one whose values are kept survive a restart."""
    first = work.state.first[name]
    raw = work.memory.get(first)
    if raw is None and (ref := work.state.kept_tools.get(name)) is not None:
        raw = work.memory.get(ref)
        if raw is not None:
            work.memory.put(first, raw)
    return raw


def _title(raw: bytes) -> str:
    members = object_of(raw) or {}
    return string_of((object_of(members.get("function", b"")) or members).get("name")) or ""


def _said(raw: bytes) -> str:
    """What a tool says of itself, or all of it where that is nothing."""
    members = object_of(raw) or {}
    return string_of((object_of(members.get("function", b"")) or members).get("description")) or raw.decode(
        "utf-8", "replace"
    )
