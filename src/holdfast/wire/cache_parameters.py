"""The caching parameters of a body that are not markers: keys, options, retention, automatic caching, objects."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.facts import ModelFacts
from holdfast.records import encode_string

from .body import Body, Splice
from .cache_control import MARKERS
from .raw_json import obj, object_of, string_of


class Caching(Struct, frozen=True, kw_only=True):
    """What a client asks of the cache beyond its markers; None where it says nothing."""

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
