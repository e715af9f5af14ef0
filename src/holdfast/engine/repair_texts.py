"""Repairs of system texts: first values kept, what changed told behind the newest turn and told again ever after."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from holdfast.canonical import encode_string
from holdfast.facts import estimate
from holdfast.prefix.repairs import Insert, Kept, texts
from holdfast.prefix.repairs.values import Name
from holdfast.wire import rewrite
from holdfast.wire.values import string_of

from .repair_work import Work

LONGEST = 300_000
"""Bytes of a system text up to which it is looked at: all other requests wait meanwhile."""


def retire(work: Work) -> None:
    """What was kept and told while repairs were on ends with them."""
    state = work.state
    applied = [kept for kept in state.texts.values() if kept.applied or kept.split]
    if state.inserts or state.kept_tools or applied:
        state.inserts.clear()
        state.texts.clear()
        state.kept_tools.clear()
        work.because("bypassed")


def find_inserts(work: Work) -> None:
    """The inserts whose blocks stand in this request. One whose bytes are lost is forgotten."""
    inserts = work.state.inserts
    heads = {key[:16] for key in inserts}
    counts: dict[bytes, int] = {}
    for number, block in enumerate(work.prompt.blocks):
        digest = work.restored.get(number, block.digest)
        if block.section != "messages" or digest not in heads:
            continue
        counts[digest] = counts.get(digest, 0) + 1
        key = _key(digest, counts[digest])
        kept = [insert for insert in inserts.get(key, ()) if work.memory.get(insert.text) is not None]
        if len(kept) < len(inserts.get(key, ())):
            work.because("repair_forgotten")
            inserts[key] = kept
        work.present += [(work.origin[number], insert) for insert in kept]


def _key(digest: bytes, occurrence: int) -> bytes:
    return digest + min(occurrence, 0xFFFF).to_bytes(2, "big")


def system(work: Work) -> None:
    """Every system text: as it came, as it was first sent, or cut in two."""
    splits = 0
    for place, number in enumerate(work.texts):
        splits += _text(work, place, number, splits)


def _text(work: Work, place: int, number: int, splits: int) -> bool:
    """One system text; whether it was cut in two."""
    kept, digest = work.state.texts.get(place), work.prompt.blocks[number].digest
    if kept is not None and kept.digest == digest and not kept.split and not (work.present and _slots(work, place)):
        return False
    index = work.origin[number]
    span = rewrite.text_span(work.body, index)
    literal = work.body.raw[slice(*span)] if span is not None else b""
    now = string_of(literal)
    if now is None or texts.is_attribution(now):
        return False
    sent = literal
    if kept is None:
        work.state.texts[place] = Kept(digest, work.memory.keep(literal))
    elif kept.digest != digest or _slots(work, place):
        sent = _changed(work, place, number, now, literal)
    if _split(work, place, number, sent, splits):
        return True
    if sent is not literal:
        work.splices += rewrite.with_text(work.body, index, sent)
    return False


def _slots(work: Work, place: int) -> list[bytes]:
    """The values and sections of a system text that were told in this request's history."""
    if not work.present:
        return []
    here = place.to_bytes(2, "big")
    found = dict.fromkeys(slot for _, insert in work.present for slot in insert.told)
    return [slot for slot in found if slot[:1] in (b"v", b"s") and slot[1:3] == here]


def _changed(work: Work, place: int, number: int, now: str, literal: bytes) -> bytes:
    """A text that differs from the one sent before, or of which something was told; returns the literal to send."""
    kept, digest = work.state.texts[place], work.prompt.blocks[number].digest
    before = work.memory.get(kept.text)
    fresh = Kept(digest, work.memory.keep(literal))
    if before is None:
        if kept.applied:
            work.because("repair_forgotten")
        return _begin_anew(work, place, fresh, now, literal)
    if max(len(before), len(literal)) > LONGEST:
        return _begin_anew(work, place, fresh, now, literal)
    diff = texts.compare(first := string_of(before) or "", now, place)
    if diff.repairable:
        if _names(diff) & work.skip:
            return literal
        _report(work, number, diff)
        if work.on:
            if first != now and not kept.applied:
                work.new[kept.text], kept.applied = before, True
            _gather(work, place, first, now, diff)
            return before
    elif diff.splits and _can_split(work, place, number):
        if not work.on:
            work.report("system-split", number, _SPLIT, applied=False, saved=estimate(now[: diff.stable]))
        elif kept.split and _head(now, kept.split) == kept.head:
            fresh.split, fresh.head = kept.split, kept.head
        else:
            fresh.split, fresh.head = diff.stable, _head(now, diff.stable)
    return _begin_anew(work, place, fresh, now, literal)


def _begin_anew(work: Work, place: int, fresh: Kept, now: str, literal: bytes) -> bytes:
    """The client's text becomes the first one. What history says of it may not be true any more."""
    work.state.texts[place] = fresh
    if work.on:
        _gather(work, place, now, now, texts.Difference({}))
    return literal


_SPLIT = "only its end changes, so that its beginning can be read from the cache if it stands alone"


def _names(diff: texts.Difference) -> set[str]:
    return ({"volatile-value"} if diff.values else set()) | ({"memory-to-tail"} if diff.section else set())


def _report(work: Work, number: int, diff: texts.Difference) -> None:
    if diff.values:
        why = f"the {' and '.join(diff.kinds)} in this text changes by itself"
        work.report("volatile-value", number, why, applied=work.on)
    if diff.section is not None:
        why = f"“{diff.section.title}” changes in front of the whole conversation"
        work.report("memory-to-tail", number, why, applied=work.on)


def _gather(work: Work, place: int, first: str, now: str, diff: texts.Difference) -> None:
    """What the model may have to be told: what differs, and what was told before and may have changed back."""
    work.lines |= diff.values
    slots = _slots(work, place)
    others = [slot for slot in slots if slot[:1] == b"v" and slot not in diff.values]
    work.lines |= {slot: (line, line) for slot, line in texts.value_lines(now, place, others).items()}
    lines = now.split("\n")
    if diff.section is not None:
        _section(work, diff.section, lines, diff.first_section)
    for slot in slots:
        if slot[:1] != b"s" or (diff.section is not None and slot == diff.section.slot):
            continue
        section, old = texts.section_of(now, place, slot), texts.section_of(first, place, slot)
        if section is not None:
            _section(work, section, lines, first.split("\n")[old.start : old.end] if old is not None else ())
        elif work.told(slot)[-1] != b"=":
            title = old.title if old is not None else "What was added"
            work.sections.append((f"“{title}” is now empty.", slot, b"="))


def _section(work: Work, section: texts.Section, lines: Sequence[str], first: Sequence[str]) -> None:
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
    """Put the news behind the newest turn, once: a request that is sent again says what it said."""
    told = {slot: said[-1] for slot in work.lines if (said := work.told(slot))}
    line, values = texts.tell_values(told, work.lines)
    news = "\n\n".join(text for text, _, _ in work.sections)
    _insert(work, "volatile-value", line, values)
    _insert(work, "memory-to-tail", news, {slot: told for _, slot, told in work.sections})


def _insert(work: Work, name: Name, text: str, told: dict[bytes, bytes]) -> None:
    index = rewrite.newest(work.body) if text else None
    if index is None or index not in work.origin:
        return
    number = work.origin.index(index)
    digests = [work.restored.get(n, block.digest) for n, block in enumerate(work.prompt.blocks)]
    first = next(n for n, block in enumerate(work.prompt.blocks) if block.section == "messages")
    key = _key(digests[number], digests[first : number + 1].count(digests[number]))
    inserts = work.state.inserts.setdefault(key, [])
    if any(insert.name == name for insert in inserts):
        return
    literal = encode_string(text)
    insert = Insert(name, work.memory.keep(literal), told)
    work.new[insert.text] = literal
    inserts.append(insert)
    work.present.append((index, insert))


def replay(work: Work) -> None:
    """Every text of ours in its place, byte for byte."""
    behind: dict[int, list[bytes]] = {}
    reported = {item.name for item in work.repairs}
    for index, insert in work.present:
        literal = work.memory.get(insert.text)
        if literal is None or insert.name in work.skip:
            continue
        behind.setdefault(index, []).append(literal)
        if insert.name not in reported:
            reported.add(insert.name)
            number = work.origin.index(index)
            work.report(insert.name, number, "what was told before is sent again", saved=0)
    work.splices += rewrite.appended(work.body, behind, work.widened)
