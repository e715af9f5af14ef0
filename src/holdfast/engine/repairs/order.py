"""Order repairs: keys of objects in history, and tools of an unchanged set, are sent in their first order.

Blocks are recognised by the reader's digests; only new tools are parsed, and blocks of history that replace another.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec
from msgspec import Struct

from holdfast.core import DIGEST, FINAL, masked
from holdfast.core.repairs import (
    BlockHistory,
    ChangedLine,
    EarlierBlock,
    HistoryWalk,
    first_order,
    grown,
    recall,
    record,
    set_of,
    settled,
    texts,
    tool_texts,
)
from holdfast.records import common_head
from holdfast.wire import is_border, object_of, rewrite, string_of

from . import first_bytes
from .request import BeginAnewError, Work

MOST_REKEYED = 64
"""Repaired blocks that are known one by one after a restart."""
MOST_COMPARED = 5_000
"""Blocks of one request that are looked at for another order of their keys."""
MOST_VALUES = 200
"""Tools of a lane with stored values."""
_NAME = 32  # bytes of what a text is known by
_OF_TOOLS = (b"d", b"r")
"""The first bytes of slots that belong to a tool: to what it says of itself, and to the rest of it."""
_encode = msgspec.msgpack.Encoder().encode
_REKEYED = "its keys came in another order than when it was first sent"


class _First(Struct, frozen=True, array_like=True):
    """A block of a message as it was first sent. What `place` says is in its digest, but not in its parts."""

    place: bytes
    parts: list[bytes]


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
    """Put the keys of objects in history into their first order. For blocks in their places only digests are compared;
    a block that differs is compared with the one in its place before."""
    if _only_grows(work):
        return
    period = work.memory.period
    state, known = work.state, recall(work.memory, work.state.history)
    before = first_bytes.history(work) if known is None else known
    walk, now, rekeyed = HistoryWalk(before or BlockHistory()), BlockHistory(), b""
    said = range(work.said, len(work.prompt.blocks))
    for number in said[_taken_over(work, said, before, walk, now) :]:
        digest = work.prompt.blocks[number].digest
        first = _first(work, number, walk.match(digest))
        now.add(digest, first)
        if first != digest and len(rekeyed) <= MOST_REKEYED * DIGEST:
            rekeyed += first
    if before is None and state.rekeyed and not _as_first(state.rekeyed, now):
        work.because("repair_forgotten")
    state.history, state.rekeyed = record(work.memory, state.history, known, now), rekeyed
    if now.client != now.first or state.key_orders.blocks:
        first_bytes.keep_blocks(work, now, lambda digest: _parts(work, digest))
    else:
        blocks = work.prompt.blocks
        loose = [place for place in work.memory.missing(now.client) if blocks[said[place]].kind not in FINAL]
        if all(_is_text(work, said[place]) for place in loose):
            work.memory.found_whole(state.history, period, loose)


def _only_grows(work: Work) -> bool:
    """Return whether the request only adds to one in its first form that is completely remembered: nearly always. Then
    only the additions are examined. A text that became a list has to be remembered now."""
    memory, state, start = work.memory, work.state, work.said
    before = settled(memory, state.history)
    if before is None:
        return False
    blocks, count = work.prompt.blocks, len(before.client)
    now = [block.digest for block in blocks[start : start + count]]
    texts = memory.whole[state.history]
    if now != before.client or (texts and not all(_is_text(work, start + place) for place in texts)):
        return False
    now += [block.digest for block in blocks[start + count :]]
    period, whole = memory.period, True
    for place in range(count, len(now)):
        if not remember(work, start + place):
            if _is_text(work, start + place):
                texts.append(place)
            else:
                whole = False
    memory.whole.pop(state.history, None)
    state.history, state.rekeyed = grown(memory, state.history, count, now), b""
    if whole:
        memory.found_whole(state.history, period, texts)
    return True


def _is_text(work: Work, number: int) -> bool:
    """Return whether a block is a plain string, which has no keys."""
    span = work.body.blocks[work.origin[number]]
    return span.form == "string" and not span.context


def _as_first(rekeyed: bytes, now: BlockHistory) -> bool:
    """Return whether the client sends all repaired blocks in their first form; False if there are too many."""
    digests = {rekeyed[at : at + DIGEST] for at in range(0, len(rekeyed), DIGEST)}
    return len(rekeyed) <= MOST_REKEYED * DIGEST and digests <= set(now.client)


def _taken_over(work: Work, said: range, before: BlockHistory | None, walk: HistoryWalk, now: BlockHistory) -> int:
    """Count the leading messages that are unchanged since they were first sent: almost all of them, so this has to be
    cheap. Forgotten parts are remembered again."""
    if before is None or before.client != before.first:
        return 0
    blocks, count = work.prompt.blocks, len(before.client)
    digests = [block.digest for block in blocks[said.start : said.start + count]]
    del digests[common_head(digests, before.client) :]
    for place in work.memory.missing(digests):
        _first(work, said[place], EarlierBlock(digests[place], True))
    walk.skip(len(digests))
    now.client, now.first = digests, digests.copy()
    return len(digests)


def _first(work: Work, number: int, match: EarlierBlock | None) -> bytes:
    """The digest a block was first sent with, if it differs from that in the order of keys alone, else its own."""
    block, index = work.prompt.blocks[number], work.origin[number]
    digest = block.digest
    if match is None or match.first == digest:
        remember(work, number)
        return digest
    if block.kind in FINAL or (_is_text(work, number) and not match.sure):
        return digest  # a text alone has keys only if it was put back as a list
    parts = rewrite.parts(work.body, index)
    if parts is None:
        return digest
    now, first = _First(_place_of(work, index), parts), _remembered(work, match.first)
    again = None
    if first is None:
        again = first_bytes.made_again(work, index, parts, work.orders.get(match.first), match.first)
        if again is not None:
            first = _First(now.place, again)
            work.memory.put(match.first, _encode(first))
    if first is not None and (again is not None or match.sure or _reordered(work, first, now)):
        work.restored[number] = match.first
        if "key-order" not in work.skip:
            _put_back(work, number, first.parts)
        return match.first
    if match.sure or (first is None and work.orders.get(match.first) == b""):
        work.because("repair_forgotten")
    work.memory.put(digest, _encode(now))
    return digest


def remember(work: Work, number: int) -> bool:
    """Keep a block as it is first sent. False if it cannot be now, but perhaps in another form."""
    block, index = work.prompt.blocks[number], work.origin[number]
    if block.kind in FINAL or work.memory.touch(block.digest):
        return True
    span = work.body.blocks[index]
    if span.form == "string" and not span.context:
        return False
    parts: list[bytes] | None = rewrite.as_it_stands(work.body, index)
    if span.form == "string" or work.marked_inside(number):  # else a marker is cut off when the block is needed
        parts = rewrite.parts(work.body, index)
    if parts is None:
        return False
    work.memory.put(block.digest, _encode(_First(_place_of(work, index), parts)))
    return True


def _remembered(work: Work, digest: bytes) -> _First | None:
    kept = work.memory.get(digest)
    if kept is None:
        return None
    first = msgspec.msgpack.decode(kept, type=_First)
    parts = rewrite.movable(work.body.dialect, first.parts)
    return None if parts is None else _First(first.place, parts)


def _parts(work: Work, digest: bytes) -> list[bytes] | None:
    first = _remembered(work, digest)
    return None if first is None else first.parts


def _place_of(work: Work, index: int) -> bytes:
    blocks = work.body.blocks
    role = blocks[index].role
    return (f"{role}|1" if is_border(blocks, index) else f"{role}|0").encode("utf-8", "surrogatepass")


def _put_back(work: Work, number: int, parts: list[bytes]) -> None:
    index = work.origin[number]
    work.splices += rewrite.restored(work.body, index, parts)
    if rewrite.widens(work.body, index, parts):
        work.widened.add(index)
    work.report("key-order", number, _REKEYED)


def _reordered(work: Work, before: _First, after: _First) -> bool:
    """Return whether two blocks differ only in the order of keys; the number of comparisons per request is limited."""
    work.compared += 1
    if work.compared > MOST_COMPARED or before.place != after.place:
        return False
    return rewrite.reordered(before.parts, after.parts)


def _name(raw: bytes) -> bytes | None:
    """Return a block's digest independent of the order of its keys; None for signed blocks."""
    form = None if rewrite.signed(raw) else rewrite.unordered(raw)
    return None if form is None else sha256(form).digest()[:16]


def _register(work: Work, name: bytes, digest: bytes, raw: bytes) -> None:
    work.sent.pop(work.state.first.get(name, b""), None)
    work.state.first[name] = digest
    work.sent[digest] = name
    work.memory.put(digest, raw)


def tools(work: Work) -> None:
    """Tools of an unchanged set in their first order; those of the provider and deferred ones stay in place."""
    memory = work.memory
    digests = [work.prompt.blocks[number].digest for number in work.tools]
    name = b"".join(digests)
    told = work.moves and bool(work.state.inserts) and any(slot[:1] in _OF_TOOLS for slot in work.slots())
    if name == work.state.tools_sent and not told:
        if name in memory.whole:
            return
        if memory.touch_all([digest for digest in digests if digest in work.sent]):
            memory.found_whole(name, memory.period)
            return
    blocks = list(zip(work.tools, digests, strict=True))
    found = [tool for number, digest in blocks if (tool := _tool(work, number, digest)) is not None]
    undone = _keep_values(work, found)
    for tool in found:
        if tool.id not in work.state.first:
            _register(work, tool.id, tool.digest, tool.raw)
    order = [tool.id for tool in found]
    if not undone and "tool-order" not in work.skip:
        order = first_order(work.state, order)
    sent = _place(work, found, order)
    if not work.skip:
        work.state.tools_sent = b"".join(sent.get(number, digest) for number, digest in blocks)


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
        first_bytes.keep_tools(work, [tool.id for tool in found])
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
    order = work.state.key_orders.tools.get(tool.id)
    again = None if tool.value else first_bytes.made_again(work, tool.index, [tool.raw], order, first)
    if again is not None:
        work.memory.put(first, again[0])
        return first, again[0]
    work.because("repair_forgotten")
    _register(work, tool.id, tool.digest, tool.raw)
    return tool.digest, tool.raw


def _keep_values(work: Work, found: list[_Tool]) -> bool:
    """Tools that differ from the first ones only in values that change by themselves, in what they say in prose, keep
    their first bytes.

    Returns whether this request goes without that: then the lane keeps its set of tools for the next.
    """
    undone, told = False, set[bytes]()
    order = work.state.orders.get(work.state.tools, [])
    present = {tool.id for tool in found}
    firsts: dict[str, bytes] = {}
    if order and set_of([tool.id for tool in found]) != work.state.tools:
        for name in order:
            if name not in present and (first := _first_tool(work, name, found)) is not None:
                firsts[_title(first)] = name
    for tool in found:
        title = _title(tool.raw) if firsts or work.moves else ""
        kept = firsts.get(title)
        if kept is None:
            told |= _record_change(work, title, tool.raw, tool.raw)
            continue
        if kept not in work.state.kept_tools and len(work.state.kept_tools) >= MOST_VALUES:
            continue
        raw = _first_tool(work, kept, found) or b""
        diff = tool_texts.compare(raw, tool.raw)
        if tool.id in order or diff is None or not title:
            continue
        skipped = "volatile-value" in work.skip
        applied = work.on and not skipped and (diff.exact or not work.narrow)
        undone |= skipped
        why = f"the {' and '.join(diff.kinds)} in this tool changes by itself"
        work.report("volatile-value", tool.block, why, applied=applied, exact=diff.exact)
        if applied:
            known = work.state.kept_tools.get(kept, b"")
            name = known[:_NAME] or work.memory.keep(raw)
            work.state.kept_tools[kept] = name + first_bytes.keep(work, raw, tool.raw, known[_NAME:])
            told |= _record_change(work, title, raw, tool.raw)
            tool.id, tool.value = kept, True
    if work.moves and any(slot[:1] in _OF_TOOLS and slot not in told for slot in work.slots()):
        raise BeginAnewError(None)  # a tool is gone, or another one, of which something was told
    return undone


def _record_change(work: Work, title: str, first: bytes, now: bytes) -> set[bytes]:
    """Record a tool's description and rest if they changed or were announced before; return their slots."""
    if not work.moves or (first == now and not work.state.inserts):
        return set()
    (one, rest), (other, others) = _description_and_rest(first), _description_and_rest(now)
    slots = set()
    for kind, said in ((b"d", ChangedLine(one, other)), (b"r", ChangedLine(f"{title}: {rest}", f"{title}: {others}"))):
        slots.add(slot := kind + texts.digest(f"{title}: {masked(said.now)}"))
        if said.first != said.now or work.told(slot):
            prose = tool_texts.in_schema(now) if kind == b"r" else ""
            work.lines[slot] = said._replace(of=f"tool {title}", told=prose)
    return slots


def _first_tool(work: Work, name: bytes, found: list[_Tool]) -> bytes | None:
    """Return the first bytes of a tool. They survive a restart for tools whose values are kept."""
    first = work.state.first[name]
    raw = work.memory.get(first)
    if raw is None and (known := work.state.kept_tools.get(name)) is not None:
        raw = first_bytes.recall(work, known[:_NAME], known[_NAME:], (tool.raw for tool in found))
        if raw is not None:
            work.memory.put(first, raw)
    return raw


def _title(raw: bytes) -> str:
    members = object_of(raw) or {}
    return string_of((object_of(members.get("function", b"")) or members).get("name")) or ""


def _description_and_rest(raw: bytes) -> tuple[str, str]:
    """Split a tool into its description and the rest."""
    members = object_of(raw) or {}
    literal = (object_of(members.get("function", b"")) or members).get("description", b"")
    said = string_of(literal)
    return said or "", (raw if said is None else raw.replace(literal, b"", 1)).decode("utf-8", "replace")
