"""Repairs of system texts: keep the first values, and announce changes behind the newest turn in every request."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from holdfast.core import FINAL, holds_secret
from holdfast.core.repairs import ChangedLine, FirstText, InsertedText, Name, texts
from holdfast.facts import estimate
from holdfast.records import encode_string
from holdfast.wire import rewrite, string_of

from . import first_bytes
from .request import BeginAnewError, Work

LONGEST = 300_000
"""Bytes of a system text up to which it is looked at: all other requests wait meanwhile."""
MOST_BEHIND = 32
"""Texts behind one turn: a turn that is sent again more often, with other values each time, begins anew."""
MOST_FOLLOWERS = 8
_FOLLOWER = 8  # bytes of a digest
_OF_TEXTS = (b"v", b"s")
"""The first bytes of slots that belong to a system text."""
_OF_TOOLS_BEFORE = b"t"
"""The first byte of slots of tools in ledgers of 0.1.0: which of a tool's values were told is not known of them."""


def forget(work: Work) -> None:
    """Start the lane again with the client's present texts and without inserts."""
    work.state.inserts.clear()
    work.state.texts.clear()
    work.state.kept_tools.clear()


def retire(work: Work) -> None:
    """Drop kept values and announcements when repairs are switched off."""
    state = work.state
    applied = [kept for kept in state.texts.values() if kept.applied or kept.split]
    if state.inserts or state.kept_tools or applied:
        forget(work)
        work.because("bypassed")


def find_inserts(work: Work) -> None:
    """Find the inserts whose blocks are in this request; drop those whose bytes are lost."""
    inserts = work.state.inserts
    heads = {key[:16] for key in inserts}
    counts: dict[bytes, int] = {}
    for number, block in enumerate(work.prompt.blocks):
        if block.section != "messages" or (digest := work.first_digest(number)) not in heads:
            continue
        counts[digest] = counts.get(digest, 0) + 1
        key = _key(digest, counts[digest])
        kept = [insert for insert in inserts.get(key, ()) if work.memory.get(insert.text) is not None]
        if len(kept) < len(inserts.get(key, ())):
            work.because("repair_forgotten")
            inserts[key] = kept
        work.present += [(work.origin[number], insert) for insert in _in_front(work, number, kept)]
    if any(slot[:1] == _OF_TOOLS_BEFORE for slot in work.slots()):
        raise BeginAnewError("repair_forgotten")


def _in_front(work: Work, number: int, inserts: list[InsertedText]) -> list[InsertedText]:
    """Return those of the inserts after a block that precede what follows it here. A turn sent again with other values
    may have two answers, with more inserted before the second."""
    after = next((n for n in range(number + 1, len(work.prompt.blocks)) if _is_content(work, n)), None)
    if after is None or not inserts:
        return inserts
    follower = work.first_digest(after)[:_FOLLOWER]
    for place, insert in enumerate(inserts):
        known = (insert.before[at : at + _FOLLOWER] for at in range(0, len(insert.before), _FOLLOWER))
        if follower in known:
            return inserts[: place + 1]
    if len(inserts[-1].before) < MOST_FOLLOWERS * _FOLLOWER:
        inserts[-1].before += follower
    return inserts


def _is_content(work: Work, number: int) -> bool:
    """Whether a block is neither a thought, which may be gone from the next request, nor a note of the client's."""
    block = work.prompt.blocks[number]
    return block.kind not in FINAL and block.role not in ("system", "developer")


def _key(digest: bytes, occurrence: int) -> bytes:
    return digest + min(occurrence, 0xFFFF).to_bytes(2, "big")


def system(work: Work) -> None:
    """Every system text: as it came, as it was first sent, or cut in two."""
    splits, seen = 0, set[bytes]()
    for place, number in enumerate(work.texts):
        slots = _slots(work, place)
        splits += _text(work, place, number, splits, slots)
        seen.update(slots)
    if work.moves and any(slot[:1] in _OF_TEXTS and slot not in seen for slot in work.slots()):
        raise BeginAnewError(None)  # a text is gone of which something was told


def _text(work: Work, place: int, number: int, splits: int, slots: list[bytes]) -> bool:
    """One system text; whether it was cut in two."""
    kept, digest = work.state.texts.get(place), work.prompt.blocks[number].digest
    if kept is not None and kept.digest == digest and not kept.split and not slots:
        return False
    index = work.origin[number]
    span = rewrite.text_span(work.body, index)
    literal = work.body.raw[slice(*span)] if span is not None else b""
    now = string_of(literal)
    if now is None or texts.is_attribution(now):
        if slots:
            raise BeginAnewError(None)
        return False
    sent = literal
    if kept is None:
        if slots:
            raise BeginAnewError(None)
        work.state.texts[place] = FirstText(digest, work.memory.keep(literal))
    elif work.moves or not work.on:
        sent = _changed(work, place, number, now, literal, slots)
    if _split(work, place, number, sent, splits):
        return True
    if sent is not literal:
        work.splices += rewrite.with_text(work.body, index, sent)
    return False


def _slots(work: Work, place: int) -> list[bytes]:
    """The values and sections of a system text that were told in this request's history."""
    if not work.moves or not work.state.inserts:
        return []
    here = place.to_bytes(2, "big")
    return [slot for slot in work.slots() if slot[:1] in _OF_TEXTS and slot[1:3] == here]


def _changed(work: Work, place: int, number: int, now: str, literal: bytes, slots: list[bytes]) -> bytes:
    """Handle a text that was changed or has announcements; returns the literal to send."""
    kept, digest = work.state.texts[place], work.prompt.blocks[number].digest
    if kept.digest == digest and not slots:
        return literal
    before = first_bytes.recall(work, kept.text, kept.patch, (literal,))
    fresh = FirstText(digest, work.memory.keep(literal))
    if before is None:
        return _start_again(work, place, fresh, literal, slots, "repair_forgotten" if kept.applied or slots else None)
    if max(len(before), len(literal)) > LONGEST:
        return _start_again(work, place, fresh, literal, slots)
    above, below = _neighbours(work, place)
    diff = texts.compare(first := string_of(before) or "", now, place, above, below)
    if diff.repairable:
        applied = work.on and (diff.exact or not work.narrow)
        _report(work, number, diff, applied)
        if applied:
            if first != now:
                kept.patch, kept.applied = first_bytes.keep(work, before, literal, kept.patch), True
            _gather(work, place, [first, *above, *below], [now, *above, *below], diff, slots)
            return before
    elif diff.splits and _can_split(work, place, number):
        if not work.on or work.narrow:
            work.report("system-split", number, _SPLIT, applied=False, saved=estimate(now[: diff.stable]))
        elif kept.split and _head(now, kept.split) == kept.head:
            fresh.split, fresh.head = kept.split, kept.head
        else:
            fresh.split, fresh.head = diff.stable, _head(now, diff.stable)
    ours = kept.applied and diff.only_values  # the client's text is as repairable as it was, but for what we allow
    return _start_again(work, place, fresh, literal, slots, "volatile_system_changed" if ours else None)


def _neighbours(work: Work, place: int) -> tuple[list[str], list[str]]:
    """Return the client's system texts before and after one."""
    spans = [rewrite.text_span(work.body, work.origin[number]) for number in work.texts]
    texts_ = ["" if span is None else string_of(work.body.raw[slice(*span)]) or "" for span in spans]
    return texts_[:place], texts_[place + 1 :]


def _start_again(
    work: Work, place: int, fresh: FirstText, literal: bytes, slots: list[bytes], reason: str | None = None
) -> bytes:
    """The client's text becomes the first one. What history says of it may not be true any more."""
    if slots:
        raise BeginAnewError(reason)
    if reason is not None:
        work.because(reason)
    work.state.texts[place] = fresh
    return literal


_SPLIT = "only its end changes, so that its beginning can be read from the cache if it stands alone"


def _report(work: Work, number: int, diff: texts.Difference, applied: bool) -> None:
    if diff.values:
        why = f"the {' and '.join(diff.kinds)} in this text changes by itself"
        work.report("volatile-value", number, why, applied=applied, exact=diff.exact)
    if diff.section is not None:
        why = f"“{diff.section.title}” changes in front of the whole conversation"
        work.report("memory-to-tail", number, why, applied=applied)


def _gather(
    work: Work, place: int, before: Sequence[str], after: Sequence[str], diff: texts.Difference, slots: list[bytes]
) -> None:
    """Collect what the model may have to learn: what differs, and what was announced before and may have changed back.
    The first of the texts before and after is the changed one; no other may look like it."""
    first, now = before[0], after[0]
    work.lines |= diff.values
    others = [slot for slot in slots if slot[:1] == b"v" and slot not in diff.values]
    for slot, found in texts.value_lines(after, place, others).items():
        if len(found) != 1:  # it is gone, or one of several that look alike
            raise BeginAnewError("volatile_system_changed")
        work.lines[slot] = ChangedLine(found[0], found[0])
    lines = now.split("\n")
    if diff.section is not None:
        _section(work, diff.section, lines, diff.first_section)
    for slot in slots:
        if slot[:1] != b"s" or (diff.section is not None and slot == diff.section.slot):
            continue
        if max(texts.headings(after, place, slot), texts.headings(before, place, slot)) > 1:
            raise BeginAnewError("memory_block_changed")
        section, old = texts.section_of(now, place, slot), texts.section_of(first, place, slot)
        if section is not None:
            _section(work, section, lines, first.split("\n")[old.start : old.end] if old is not None else ())
        elif old is None:  # what was added is gone, and nobody knows any more what it was called
            raise BeginAnewError("memory_block_changed")
        elif work.told(slot)[-1] != b"=":
            work.sections.append((f"“{old.title}” is now empty.", slot, b"="))


def _section(work: Work, section: texts.TextSection, lines: Sequence[str], first: Sequence[str]) -> None:
    known = texts.known_entries(first, work.told(section.slot))
    text, told = texts.tell_section(section, lines[section.start : section.end], known)
    if text:
        work.sections.append((text, section.slot, told))


def _can_split(work: Work, place: int, number: int) -> bool:
    """Only where a marker can stand on the first part, and never the first text: clients are recognised by it."""
    block = work.body.blocks[work.origin[number]]
    return place > 0 and work.body.dialect == "anthropic" and block.form == "object" and "system-split" not in work.skip


def _head(text: str, at: int) -> bytes:
    return sha256(text[:at].encode("utf-8", "surrogatepass")).digest()[:16] if at else b""


def _split(work: Work, place: int, number: int, literal: bytes, splits: int) -> bool:
    kept, text = work.state.texts[place], string_of(literal) or ""
    if not kept.split or not _can_split(work, place, number) or _head(text, kept.split) != kept.head:
        return False
    if not text[kept.split :].strip():
        return False
    index = work.origin[number]
    work.splices += rewrite.split(work.body, index, text, kept.split)
    work.volatile.append(f"system[{work.body.blocks[index].item + splits + 1}]")
    work.report("system-split", number, _SPLIT, saved=estimate(text[: kept.split]))
    return True


def tell(work: Work) -> None:
    """Insert the announcements behind the newest turn. A retried request repeats its own ones and adds later changes
    behind them, so that the client's current text comes last."""
    told = {slot: said for slot in work.lines if (said := work.told(slot))}
    line, values = texts.tell_values(told, work.lines)
    news = "\n\n".join(text for text, _, _ in work.sections)
    _insert(work, "volatile-value", line, values)
    _insert(work, "memory-to-tail", news, {slot: told for _, slot, told in work.sections})


def _insert(work: Work, name: Name, text: str, told: dict[bytes, bytes]) -> None:
    if not text:
        return
    index = rewrite.newest(work.body)
    if index is None or index not in work.origin:
        work.untold = True
        return
    number = work.origin.index(index)
    digests = [work.first_digest(n) for n in range(work.said, number + 1)]
    key = _key(digests[-1], digests.count(digests[-1]))
    inserts = work.state.inserts.setdefault(key, [])
    if len(inserts) >= MOST_BEHIND:
        raise BeginAnewError("repair_forgotten")
    literal = encode_string(text)
    insert = InsertedText(name, work.memory.keep(literal), told)
    if not holds_secret(text) and b" PRIVATE KEY-----" not in work.body.raw:  # of which a part does not say what it is
        work.new[insert.text] = literal
    inserts.append(insert)
    work.present.append((index, insert))


def replay(work: Work) -> None:
    """Every text of ours in its place, byte for byte."""
    behind: dict[int, list[bytes]] = {}
    reported = {item.name for item in work.repairs}
    for index, insert in work.present if work.moves else ():
        literal = work.memory.get(insert.text)
        if literal is None:
            continue
        behind.setdefault(index, []).append(literal)
        if insert.name not in reported:
            reported.add(insert.name)
            number = work.origin.index(index)
            work.report(insert.name, number, "what was told before is sent again", saved=0)
    work.splices += rewrite.appended(work.body, behind, work.widened)
