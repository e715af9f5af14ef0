"""What identity gives: whom a request belongs to, and how a name from outside becomes a safe one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import blake2b

from msgspec import Struct

from ..lane import Lane

Headers = Mapping[str, str]
"""Headers by lower-case name; of a repeated one the first."""

_NAME = re.compile(r"[A-Za-z0-9._:@-]{1,128}").fullmatch
_MODEL = re.compile(r"[A-Za-z0-9._:@/~+-]{1,128}").fullmatch


class Identity(Struct, frozen=True):
    """Whom a request belongs to, and by what that was seen.

    A `side` request (a title, a quota check) gets no markers and leaves no trace in a lane. `scope` stands for the
    conversations among which its prefix chain was looked up; empty where its headers name the lane. `project` stands
    for the one it names. `shared` if its lane may be that of another conversation.
    """

    lane: Lane
    side: bool = False
    why: str = ""
    scope: bytes = b""
    project: bytes = b""
    shared: bool = False


def keyed(key: bytes, text: str) -> bytes:
    """A digest that says nothing to anybody without the key. BLAKE2b takes a key by itself; of OpenSSL's HMAC a busy
    process pays for handing over the interpreter too."""
    return blake2b(text.encode("utf-8", "surrogatepass"), key=key[:64], digest_size=32).digest()


def safe_name(key: bytes, text: str) -> str:
    """A session's or agent's name as it came, or a digest where it is too long or holds anything unusual."""
    return text if _NAME(text) else "x-" + keyed(key, text).hex()[:32]


def lane_id(key: bytes, session: str, middle: str, model: str) -> str:
    """The id of a lane. Session and agent hold no slash, so no two lanes are spelled alike."""
    return f"{session}/{middle}/{model if _MODEL(model) else 'x-' + keyed(key, model).hex()[:32]}"
