"""A body's cache parameters besides markers: keys, options, retention, automatic caching, objects, and the settings
that a cached prefix depends on."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.caches import rules
from holdfast.facts import ModelFacts
from holdfast.records import encode_string

from .body import Body, Splice
from .cache_control import MARKERS
from .raw_json import array_of, canon, obj, object_of, string_of

_BY_VALUE = {"thinking": ("type", "budget_tokens"), "tool_choice": ("type", "name", "disable_parallel_tool_use")}
"""Settings that count by these members alone, in whatever order they stand."""


class Caching(Struct, frozen=True, kw_only=True):
    """A client's cache parameters besides markers; None where it sets none."""

    automatic: str | None = None
    key: str | None = None
    mode: str | None = None
    retention: str | None = None
    cached_content: str | None = None


def read(body: Body) -> Caching:
    """The parameters a body carries, in any dialect."""
    automatic = object_of(body.member("cache_control") or b"")
    options = object_of(body.member("prompt_cache_options") or b"") or {}
    return Caching(
        automatic=None if automatic is None else string_of(automatic.get("ttl")) or "5m",
        key=string_of(body.member("prompt_cache_key")),
        mode=string_of(options.get("mode")),
        retention=string_of(body.member("prompt_cache_retention")),
        cached_content=string_of(body.member("cachedContent") or body.member("cached_content")),
    )


def set_automatic(body: Body, ttl: Literal["5m", "1h"], facts: ModelFacts) -> list[Splice]:
    """Anthropic's automatic caching: the provider puts the marker on the last block that can carry it."""
    return body.set_member("cache_control", MARKERS[ttl]) if facts.automatic_field else []


def set_mode(body: Body, mode: Literal["implicit", "explicit"], facts: ModelFacts) -> list[Splice]:
    """`prompt_cache_options.mode`, only from GPT-5.6 on: earlier models answer it with an error."""
    if not facts.breakpoints:
        return []
    options = object_of(body.member("prompt_cache_options") or b"") or {}
    options["mode"] = encode_string(mode)
    return body.set_member("prompt_cache_options", obj(options.items()))


def set_stored(body: Body) -> list[Splice]:
    """`store: true`, so that OpenAI keeps the completion; a client's own choice is left alone."""
    return [] if "store" in body.members else body.set_member("store", b"true")


def settings(body: Body, model: ModelFacts, *, images: bool, citations: bool) -> dict[str, bytes]:
    """The members that a cached prefix depends on, in canonical text, by the names the rules know them by."""
    affecting: dict[str, bytes] = {}
    for name in rules(model).affecting:
        member, _, inner = name.partition(".")
        value = body.member(member)
        if value is not None and inner:
            value = (object_of(value) or {}).get(inner)
        if value is not None and value != b"null":
            affecting[name] = _canonical(name, value)
    if images:
        affecting["images"] = b"true"
    if citations:
        affecting["citations"] = b"true"
    if "thinking" in affecting and _keeps_thinking(body):
        affecting["thinking.keep"] = b"all"
    return affecting


def _canonical(name: str, value: bytes) -> bytes:
    members = object_of(value) if name in _BY_VALUE else None
    if members is None:
        return canon(value)
    return obj((key, canon(members[key])) for key in _BY_VALUE[name] if key in members)


def _keeps_thinking(body: Body) -> bool:
    """Whether the client asks the provider to keep the thinking that older models would drop at a new turn."""
    raw = (object_of(body.member("context_management") or b"") or {}).get("edits", b"")
    edits = [object_of(edit) or {} for edit in array_of(raw) or ()]
    return any(
        (string_of(edit.get("type")) or "").startswith("clear_thinking_") and string_of(edit.get("keep")) == "all"
        for edit in edits
    )
