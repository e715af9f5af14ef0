"""Gemini's cached contents on the wire: commands as calls, answers as values, and requests that name an object.

What to do is decided in `core.gemini_contents`. All of this works on the client's own bytes: an object is made of the
members as they were sent, and a request loses exactly what the object holds. Sends nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from holdfast.caches import Prompt
from holdfast.core import AgentContents, Create, Delete, Offer, Refresh, Use, identity
from holdfast.records import encode_string
from holdfast.wire import Body, Gemini, arr, array_of, cache_parameters, canon, obj, object_of, string_of

BASE = "/v1beta"
_DIALECT = Gemini()
_MEMBERS = {
    "systemInstruction": ("systemInstruction", "system_instruction"),
    "tools": ("tools",),
    "toolConfig": ("toolConfig", "tool_config"),
}
"""What an object holds besides contents, by the spellings that a request may use for it."""

_RESPONSES = {"functionResponse", "function_response"}


class Send(Struct, frozen=True):
    """A call to the provider, to be sent with the client's own credentials."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes = b""


class Answered(Struct, frozen=True):
    """The provider's answer about an object: name, expiry and token count."""

    name: str
    expires: float
    tokens: int


def freezable(body: Body) -> int:
    """How many contents an object may hold: all before the last thing a user said.

    What follows an object then begins with a user's turn, and no call is parted from its response.
    """
    items = _contents(body)
    for index in range(len(items) - 1, -1, -1):
        members = object_of(items[index]) or {}
        role = string_of(members.get("role")) or "user"
        parts = array_of(members.get("parts", b"")) or []
        if role == "user" and not any(_RESPONSES & (object_of(part) or {}).keys() for part in parts):
            return index
    return 0


def offers(body: Body, prompt: Prompt, objects: AgentContents) -> tuple[Offer, ...]:
    """What this request could leave to an object: as much as it may, and as much as each object there is holds.

    A request that names an object of its client's own offers nothing.
    """
    if body.dialect != "gemini" or cache_parameters.read(body).cached_content is not None:
        return ()
    most = freezable(body)
    lengths = {most, *(held.contents for held in objects.held.values() if held.contents <= most)}
    return tuple(_offer(body, prompt, length) for length in sorted(lengths))


def rewrite(body: Body, use: Use | None) -> bytes:
    """The request as it goes out: naming the object in place of what that holds, or as it came."""
    return body.raw if use is None else body.apply(_DIALECT.use_cached(body, use.name, use.contents))


def call(command: Create | Refresh | Delete, body: Body | None = None) -> Send:
    """A command as a call. Only a creation needs the body: the object is made of its parts."""
    if isinstance(command, Create):
        if body is None:
            raise ValueError("an object is created from a request; none was given")
        return Send("POST", f"{BASE}/cachedContents", {}, _creation(body, command))
    if isinstance(command, Refresh):
        ttl = obj([("ttl", _seconds(command.ttl_s))])
        return Send("PATCH", f"{BASE}/{command.name}", {"updateMask": "ttl"}, ttl)
    return Send("DELETE", f"{BASE}/{command.name}")


_Moment = Annotated[datetime, Meta(tz=True)]
_Name = Annotated[str, Meta(pattern=r"^([\w-]+/)*cachedContents/[\w-]+$", max_length=512)]
_Tokens = Annotated[int, Meta(ge=0, le=2**31)]


class _Counts(Struct, rename="camel"):
    total_token_count: _Tokens


class _Object(Struct, rename="camel"):
    name: _Name
    expire_time: _Moment
    usage_metadata: _Counts


def answered(status: int, raw: bytes) -> Answered | None:
    """The object that the answer to a creation or a refresh describes; None for an error and what is unreadable."""
    if status != 200:
        return None
    try:
        stored = msgspec.json.decode(raw, type=_Object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return Answered(stored.name, stored.expire_time.timestamp(), stored.usage_metadata.total_token_count)


def is_lost(status: int, raw: bytes) -> bool:
    """Return whether the error is that the named object is gone: the original request is sent then."""
    return status in (403, 404) and "CachedContent not found" in _DIALECT.read_error(status, raw).message


def _offer(body: Body, prompt: Prompt, contents: int) -> Offer:
    parts = {name: _member(body, name) for name in _MEMBERS}
    held = identity(
        _model(body),
        _canonical(parts["systemInstruction"]),
        _canonical(parts["tools"]),
        _canonical(parts["toolConfig"]),
        [canon(item) for item in _contents(body)[:contents]],
    )
    tokens = sum(block.tokens for block in prompt.blocks if block.section != "messages" or block.message < contents)
    return Offer(held, contents, tokens)


def _creation(body: Body, command: Create) -> bytes:
    held = [(name, value) for name in _MEMBERS if (value := _member(body, name)) is not None]
    if command.offer.contents:
        held.append(("contents", arr(_contents(body)[: command.offer.contents])))
    return obj(
        [
            ("model", encode_string(f"models/{_model(body)}")),
            ("displayName", encode_string(f"holdfast-{command.offer.identity[:16]}")),
            ("ttl", _seconds(command.ttl_s)),
            *held,
        ]
    )


def _contents(body: Body) -> Sequence[bytes]:
    return array_of(body.member("contents") or b"") or ()


def _member(body: Body, name: str) -> bytes | None:
    values = (body.member(spelling) for spelling in _MEMBERS[name])
    return next((value for value in values if value not in (None, b"null")), None)


def _canonical(value: bytes | None) -> bytes | None:
    return None if value is None else canon(value)


def _model(body: Body) -> str:
    return body.model.removeprefix("models/")


def _seconds(ttl: int) -> bytes:
    return encode_string(f"{ttl}s")
