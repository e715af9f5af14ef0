"""Edits on the wire: recorded before they are first sent, put in place on every later request.

Whether one is made is decided in `core.edits`; the bytes are the store's. Edits come before markers: their splices
are applied, the body is parsed again, and markers are planned on what will be sent. Nothing here raises on what a
client sends or a disk has lost: the client's own bytes then go out, and the request says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from hashlib import sha256
from threading import Lock
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Prompt
from holdfast.core import FINAL, EditRef, Ledger, Proposal, Situation, propose
from holdfast.errors import HoldfastError
from holdfast.lru import LRU
from holdfast.records import NotJson, canonical_json, validate
from holdfast.store import Edit
from holdfast.store import operations as op
from holdfast.wire import DIALECTS, MARKERS, BlockSpan, Body, Dialect, Splice, Ttl, object_of, rewrite

from .fallible_store import FallibleStore

FORGOTTEN = "repair_forgotten"
LATE = "priced_edit"

Load = Callable[[bytes], bytes | None]
"""The replacement bytes with this SHA-256, None where they are lost."""

KEPT = 16_000_000
"""Replacement bytes kept in memory, of all lanes together."""

_SIGNED = ("signature", "thoughtSignature", "thought_signature", "encrypted_content", "encrypted_index")
_signed = re.compile(rb'"(?:%b)"\s*:' % b"|".join(name.encode() for name in _SIGNED)).search


class Replay(Struct, frozen=True):
    """What puts a lane's edits in place: the splices, the blocks of the body they change, the edits that are lost."""

    splices: tuple[Splice, ...] = ()
    edited: tuple[int, ...] = ()
    forgotten: tuple[bytes, ...] = ()

    @property
    def reset(self) -> str | None:
        """The reason for which the request departs from the one before: an edit that went out then does not now."""
        return FORGOTTEN if self.forgotten else None


def replay(body: Body, dialect: Dialect, prompt: Prompt, edits: Mapping[bytes, EditRef], load: Load) -> Replay:
    """Return the splices that apply recorded edits. `prompt` is this body, as the client sent it, read by a reader.

    Every block with the digest of an edit gets it, at any place and any number of times.
    """
    splices: list[Splice] = []
    edited: list[int] = []
    forgotten: dict[bytes, None] = {}
    for place, block in zip(prompt.origin or range(len(prompt.blocks)), prompt.blocks, strict=True):
        ref = edits.get(block.digest) if edits else None
        if ref is None or is_signed(dialect, body, place):
            continue
        data = load(ref.replacement)
        new = None if data is None else _replacement_at(dialect, body, place, data)
        if new is None:
            forgotten[ref.block] = None
        else:
            edited.append(place)
            splices.append(Splice(body.blocks[place].start, body.blocks[place].end, new))
    return Replay(tuple(splices), tuple(edited), tuple(forgotten))


def consider(
    body: Body,
    situation: Situation,
    wanted: Mapping[bytes, bytes],
    load: Load,
    read: Callable[[Body], Prompt],
    *,
    further: float,
    frozen: int = 0,
) -> tuple[Proposal, tuple[EditRef, ...]]:
    """Decide on edits of a body as the client sent it: replacement bytes by the digests of blocks, all or none.

    `situation` has the prompt with the recorded edits made, `read` gives the prompt of any body. Answers the decision
    and, if it is to make them, what must be recorded before the request goes out.
    """
    dialect, known = DIALECTS[body.dialect], situation.ledger.edits
    refs = tuple(EditRef(block, sha256(data).digest(), situation.now) for block, data in wanted.items())
    refs = tuple(ref for ref in refs if ref.block not in known or known[ref.block].replacement != ref.replacement)
    if not refs:
        return Proposal(made=False, why="these edits are recorded already and are replayed on every request"), ()
    fresh = {ref.block: wanted[ref.block] for ref in refs}
    client = read(body)
    places = dict(
        zip((block.digest for block in client.blocks), client.origin or range(len(client.blocks)), strict=True)
    )
    signed = {block for block in fresh if block in places and is_signed(dialect, body, places[block])}
    fit = {places[block]: data for block, data in fresh.items() if block in places and block not in signed}
    if (why := unfit(dialect, body, fit)) is not None:
        return Proposal(made=False, why=why), ()
    new = {ref.replacement: fresh[ref.block] for ref in refs}
    edits = {**{ref.block: ref for ref in refs}, **known}
    trial = replay(body, dialect, client, edits, lambda name: new[name] if name in new else load(name))
    after = dialect.parse(body.apply(trial.splices), model=body.model)
    if not isinstance(after, Body):
        return Proposal(made=False, why=f"the edited request cannot be read: {after.reason}"), ()
    proposal = propose(situation, read(after), refs, further=further, signed=signed, frozen=frozen)
    return proposal, refs if proposal.made else ()


def unfit(dialect: Dialect, body: Body, wanted: Mapping[int, bytes]) -> str | None:
    """Why these bytes cannot replace these blocks of the body; None if they can."""
    splices = []
    for index, data in wanted.items():
        span = body.blocks[index]
        if is_signed(dialect, body, index):
            return f"{span.path} is signed or checked by the provider and must come back as it was"
        new = _replacement_at(dialect, body, index, data)
        if new is None:
            return f"the replacement of {span.path} is no JSON value that can stand there"
        if any(marker.block is not None for marker in dialect.markers(_single_block_body(body, span, data), (0,))):
            return f"the replacement of {span.path} carries a cache marker; leave markers to the plan"
        splices.append(Splice(span.start, span.end, new))
    after = dialect.parse(body.apply(splices), model=body.model)
    if not isinstance(after, Body) or len(after.blocks) != len(body.blocks):
        return "a replacement is not one block, as what it replaces is"
    for index in wanted:
        if dialect.markable(body, index) and not dialect.markable(after, index):
            return f"the replacement of {body.blocks[index].path} could not carry a cache marker, as the block can"
    broken = set(validate(dialect.decode(after))) - set(validate(dialect.decode(body)))
    return min(violation.message for violation in broken) if broken else None


def is_signed(dialect: Dialect, body: Body, index: int) -> bool:
    """Return whether a block must stay unchanged: thinking, or content with a signature or encryption."""
    text = body.text(body.blocks[index])
    return dialect.kind(body, index) in FINAL or _signed(text) is not None


def record(store: FallibleStore, tenant: str, lane: str, digest: bytes, replacement: bytes, at: float) -> Future[Edit]:
    """Keep an edit; the future is resolved when it may be sent. The same again changes nothing, other bytes fail."""
    return store.write(op.PutEdit(tenant, lane, digest.hex(), replacement, at=round(at * 1_000_000)))


def recorded(store: FallibleStore, tenant: str, lane: str) -> dict[bytes, EditRef]:
    """A lane's edits as they are stored. They are durable before the ledger that names them, so these count."""
    refs = (ref_of(edit) for edit in store.read([], store.store.edits, tenant, lane))
    return {ref.block: ref for ref in refs if ref is not None}


def take_in(store: FallibleStore, tenant: str, lane: str, ledger: Ledger) -> None:
    """Edits that were recorded after their request had gone out without them count from now on. Where other requests
    went out since, they are why the next one parts from those."""
    known = recorded(store, tenant, lane)
    if known.keys() - ledger.edits.keys() and ledger.last is not None and ledger.last.call:
        ledger.reset = ledger.reset or LATE
    ledger.edits.update(known)


def ref_of(edit: Edit) -> EditRef | None:
    """A stored edit by reference; None for one whose block is named otherwise than by a digest."""
    try:
        return EditRef(bytes.fromhex(edit.block), bytes.fromhex(edit.blob), edit.made_at / 1_000_000)
    except ValueError:
        return None


def inherit(
    store: FallibleStore, tenant: str, parent: str, lane: str, load: Load, at: float
) -> dict[bytes, Future[Edit]]:
    """Record a lane's edits for one that was forked from it: the fork sends the same originals, and its bytes must
    outlive the lane they came from. What is lost is left out, and goes out as the client sends it."""
    copies = {ref.block: load(ref.replacement) for ref in recorded(store, tenant, parent).values()}
    return {block: record(store, tenant, lane, block, data, at) for block, data in copies.items() if data is not None}


class Replacements:
    """The stored replacement bytes, the most recently used ones kept in memory."""

    def __init__(self, store: FallibleStore, *, kept: int = KEPT) -> None:
        self._store, self._lock = store, Lock()
        self._loaded: LRU[tuple[str, bytes], bytes] = LRU(kept, size_of=len)

    def of(self, tenant: str) -> Load:
        """What loads one tenant's bytes."""
        return lambda name: self._load(tenant, name)

    def _load(self, tenant: str, name: bytes) -> bytes | None:
        with self._lock:
            data = self._loaded.get((tenant, name))
        if data is not None:
            return data
        try:
            data = self._store.store.read_blob(tenant, name.hex())  # verified against its digest
        except HoldfastError:
            return None
        with self._lock:
            self._loaded[tenant, name] = data
        return data


def _replacement_at(dialect: Dialect, body: Body, index: int, data: bytes) -> bytes | None:
    """The replacement as it stands in the place of a block; None if it cannot.

    Clients switch between a string and a list of one text block from turn to turn. It is the same block, so it gets the
    same replacement in whatever form it came; in the form it was recorded in, to the byte. A marker that the client put
    on the block stays on it.
    """
    try:
        canonical_json(data)
    except NotJson:
        return None
    span = body.blocks[index]
    if span.form == "string":
        return data if data[:1] == b'"' else _as_content(body, span, data)
    if data[:1] == b'"':
        data = _as_block(body, span, data)
    if data[:1] != b"{":
        return None
    ttl = next((marker.ttl for marker in dialect.markers(body, (index,)) if marker.block is not None), None)
    alone = _single_block_body(body, span, data)
    if ttl is None or not dialect.markable(alone, 0):
        return data
    return alone.apply(dialect.place(alone, 0, cast(Ttl, ttl if ttl in MARKERS else "5m")))


def _as_block(body: Body, span: BlockSpan, text: bytes) -> bytes:
    """A text as a block of its own; empty where no text can stand."""
    if body.dialect == "gemini":
        if ".parts[" not in span.where:
            return b""
    elif span.section != "system" and ".content[" not in span.where:
        return b""
    return rewrite.text_block(body, span, text)


def _as_content(body: Body, span: BlockSpan, block: bytes) -> bytes | None:
    """A block in the place of a bare string: its text if it is nothing more, else a list of one."""
    if object_of(block) is None:
        return None
    if (text := rewrite.text_alone(body, span, block)) is not None:
        return text
    if span.where == "instructions":  # has to be a string
        return None
    if "input" in body.members and body.members["input"].start == span.start:  # the whole input is one string
        return b'[{"type":"message","role":"user","content":[' + block + b"]}]"
    return b"[" + block + b"]"


def _single_block_body(body: Body, span: BlockSpan, data: bytes) -> Body:
    """Return a body with only this block."""
    return replace(body, raw=data, blocks=(replace(span, start=0, end=len(data), form="object", context=()),))
