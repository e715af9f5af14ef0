"""Small pieces every dialect needs to turn raw members into canonical values and back. Nothing here raises on odd
input: what is not of the expected shape comes back as None and ends up in an Opaque block or in `extra`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import msgspec

from holdfast import facts
from holdfast.facts import ModelFacts
from holdfast.records import Block, Extra, NotJson, Opaque, Text, canonical_json, decode_string, encode_string

from . import scan

_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def canon(raw: bytes) -> bytes:
    """The canonical text, or the bytes themselves where there is none (duplicate keys)."""
    try:
        return canonical_json(raw)
    except NotJson:
        return raw


def object_of(raw: bytes) -> dict[str, bytes] | None:
    """The members of an object by key, raw; None if it is not one or names a key twice."""
    try:
        members = {key: bytes(value) for key, value in _members(raw).items()}
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return object_at(raw, 0)
    # Written again they give the same text only where it is compact and no key stands twice.
    return members if obj(members.items()) == raw else object_at(raw, 0)


def object_at(raw: bytes, start: int) -> dict[str, bytes] | None:
    """The members of the object that begins at `start`."""
    try:
        members, _ = scan.walk_object(raw, start)
    except scan.Misfit:
        return None
    return {member.key: raw[member.start : member.end] for member in members}


def array_of(raw: bytes) -> list[bytes] | None:
    if raw[:1] != b"[":
        return None
    spans, complete = scan.walk_values(raw, 0)
    return [raw[start:end] for start, end in spans] if complete else None


def string_of(raw: bytes | None) -> str | None:
    if raw is None or raw[:1] != b'"':
        return None
    try:
        return decode_string(raw)
    except ValueError:
        return None


def int_of(raw: bytes | None) -> int | None:
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw, type=int)
    except msgspec.DecodeError:
        return None


def limit_of(members: Mapping[str, bytes], *names: str) -> tuple[int | None, tuple[str, ...]]:
    """The first readable output limit, and the names it settles; what cannot be read at all stays with the rest."""
    limit = next((value for name in names if (value := int_of(members.get(name))) is not None), None)
    return limit, () if limit is None else names


def is_text_or_none(raw: bytes | None) -> bool:
    """Whether an optional member is a string, null or absent."""
    return raw is None or raw == b"null" or string_of(raw) is not None


def extra_of(members: Mapping[str, bytes], named: Collection[str]) -> Extra:
    """The members beyond the known ones, in order, as canonical text."""
    return tuple((key, canon(raw)) for key, raw in members.items() if key not in named)


def opaque(kind: str | None, raw: bytes, call_id: str | None = None) -> Opaque:
    return Opaque(kind or "unknown", canon(raw), call_id)


def obj(pairs: Iterable[tuple[str, bytes]]) -> bytes:
    return b"{" + b",".join(encode_string(key) + b":" + value for key, value in pairs) + b"}"


def arr(items: Iterable[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def as_blocks(system: str | tuple[Block, ...] | None) -> tuple[Block, ...]:
    """A system segment as blocks; an empty text is none."""
    if isinstance(system, str):
        return (Text(system),) if system else ()
    return system or ()


def as_segment(blocks: tuple[Block, ...]) -> str | tuple[Block, ...] | None:
    """The simplest form of a system segment: a text where one plain block says it all, nothing for an empty one."""
    if len(blocks) == 1 and isinstance(blocks[0], Text) and not blocks[0].extra:
        return blocks[0].text or None
    return blocks or None


def texts_of(blocks: Iterable[Block]) -> str:
    """The texts of blocks joined by an empty line, for dialects whose system prompt is one string."""
    return "\n\n".join(block.text for block in blocks if isinstance(block, Text))


def facts_at(provider: str, model: str) -> ModelFacts:
    """What is known of a provider's model by the name a body gives it, which may begin with `models/`."""
    return facts.model(f"{provider}:{model.removeprefix('models/')}")


def wire_model(model: str) -> str:
    """`provider:name` as the provider spells it."""
    return model.partition(":")[2] if ":" in model else model
