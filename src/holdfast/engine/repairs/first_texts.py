"""First texts that a lane sends in the place of the client's: stored as what differs, never whole.

A text is known by its SHA-256 and stays in memory. What is stored restores it from the client's present one after a
restart; where that would hold what looks like a credential nothing is, and the lane begins anew then.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.repairs import patches

from .request import Work


def recall(work: Work, name: bytes, patch: bytes, present: Iterable[bytes]) -> bytes | None:
    """The first text of this name, restored from one of these if need be; None where it is lost."""
    text = work.memory.get(name)
    if text is not None or not patch:
        return text
    known = _patch(work, patch)
    if known is None:
        return None
    for now in present:
        text = patches.restored(known, now, name)
        if text is not None:
            work.memory.put(name, text)
            return text
    return None


def keep(work: Work, first: bytes, now: bytes, patch: bytes) -> bytes:
    """See that a first text can be restored from the present one; returns what refers to what is stored for that."""
    made = patches.difference(first, now, _patch(work, patch))
    if made is None:
        return patch
    data = patches.encode(made)
    ref = work.memory.keep(data)
    if ref != patch:
        work.new[ref] = data
    return ref


def _patch(work: Work, ref: bytes) -> patches.Patch | None:
    data = work.memory.get(ref) if ref else None
    return None if data is None else patches.decode(data)
