"""The requests that users pass: bytes, texts, dicts, recorded requests, request objects of HTTP libraries.

A body does not name its dialect; its members show it. Knows nothing of caches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.facts import model as facts_of
from holdfast.facts import nearest
from holdfast.wire import COUNTING, DIALECTS, array_of, dialect_of, object_of, string_of

_HISTORY = ("messages", "contents", "input")
_SECRET = ("auth", "key", "token", "cookie", "secret", "credential")
_LEFT_OPEN = ("NotGiven", "Omit")  # what the official SDKs put where an argument was not given
_ANTHROPIC_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "document", "image")
_CHAT_ROLES = ("system", "developer", "tool", "function")


class RecordedRequest(Struct, frozen=True, kw_only=True):
    """One request. `body` are its bytes; `whole` is what the provider makes of them, if it stores a part of the
    conversation itself (`previous_response_id`, threads). `headers` are without credentials, names in lower case.
    `model` is the one in the path, if any. `status` is that of the answer, 0 if unknown."""

    number: int
    body: bytes
    dialect: str
    path: str = ""
    model: str = ""
    headers: Mapping[str, str] = {}
    at: float = 0.0
    status: int = 0
    error: str = ""
    whole: bytes | None = None

    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)

    @property
    def refused(self) -> bool:
        return self.status >= 400


def recorded(items: Iterable[object], *, dialect: str | None = None) -> list[RecordedRequest]:
    """The requests in these items, numbered from 1. Those of an HTTP library that are no model calls are left out."""
    if isinstance(items, str | bytes | bytearray | Mapping) or not isinstance(items, Iterable):
        raise HoldfastError("requests must be a sequence of request bodies, in the order they were sent; give a list.")
    if dialect is not None and dialect not in DIALECTS:
        raise HoldfastError(f"there is no dialect {dialect!r}; {nearest(dialect, DIALECTS)}.")
    records: list[RecordedRequest] = []
    histories: dict[int, tuple[int, object]] = {}
    for item in items:
        number = len(records) + 1
        if isinstance(item, Mapping):
            _by_value(item, number, histories)
        one = _recorded(item, number, dialect)
        if one is not None:
            records.append(one)
    return records


def without_credentials(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Headers that may be kept and shown; of a repeated one the first."""
    safe: dict[str, str] = {}
    for name, value in headers:
        name = name.lower()
        if not any(word in name for word in _SECRET):
            safe.setdefault(name, value)
    return safe


def encoded(body: object, number: int) -> bytes:
    """A body's bytes: as they are, or a value as JSON, its members in their order."""
    if isinstance(body, str):
        return body.encode("utf-8", "surrogatepass")
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    if isinstance(body, Mapping):
        members = {name: value for name, value in body.items() if type(value).__name__ not in _LEFT_OPEN}
        try:
            return msgspec.json.encode(members, enc_hook=_plain)
        except (TypeError, ValueError, RecursionError) as error:
            raise HoldfastError(f"request {number} has no form in JSON ({error}); give it as it was sent.") from error
    kind = type(body).__name__
    raise HoldfastError(f"request {number} is of type {kind}; give bytes, a text, a dict or a recorded request.")


def dialect_by_body(raw: bytes) -> str | None:
    """The dialect that a body is written in, by its members; None where they do not tell."""
    members = object_of(raw)
    if members is None:
        return None
    if "contents" in members:
        return "gemini"
    if "messages" not in members:
        return "openai_responses" if members.keys() & {"input", "previous_response_id", "conversation"} else None
    messages = [object_of(message) or {} for message in array_of(members["messages"]) or ()]
    tools = [object_of(tool) or {} for tool in array_of(members.get("tools", b"")) or ()]
    if "system" in members or any("input_schema" in tool for tool in tools):
        return "anthropic"
    if any("function" in tool for tool in tools) or any("tool_calls" in message for message in messages):
        return "openai_chat"
    if any(string_of(message.get("role")) in _CHAT_ROLES for message in messages):
        return "openai_chat"
    if _has_blocks(messages):
        return "anthropic"
    provider = facts_of(string_of(members.get("model")) or "").provider
    return "anthropic" if provider == "anthropic" else "openai_chat"


def _recorded(item: object, number: int, dialect: str | None) -> RecordedRequest | None:
    if isinstance(item, RecordedRequest):
        return msgspec.structs.replace(item, number=number, dialect=dialect or item.dialect)
    path, headers, body = "", {}, item
    url = next((value for name in ("url", "uri") if (value := getattr(item, name, None)) is not None), None)
    if url is not None:
        path, headers, body = urlsplit(str(url)).path, _headers(item), _content(item, number)
        if dialect is None and (dialect_of(path) is None or path.endswith(COUNTING)):
            return None
    raw = encoded(body, number)
    match = dialect_of(path)
    name = dialect or (match[0].name if match is not None else dialect_by_body(raw))
    if name is None:
        why = "has none of the members that a model call has" if object_of(raw) is not None else "is not a JSON object"
        raise HoldfastError(f"request {number} {why}; name its dialect or leave it out.")
    return RecordedRequest(
        number=number, body=raw, dialect=name, path=path, model=match[1] if match is not None else "", headers=headers
    )


def _content(item: object, number: int) -> object:
    """The body of a request object of httpx, requests or their like."""
    for name in ("content", "body"):
        try:
            body = getattr(item, name, None)
        except Exception as error:  # a stream that was not read, in the words of whatever library
            raise HoldfastError(f"the body of request {number} cannot be read ({error}); record its bytes.") from error
        if isinstance(body, str | bytes | bytearray):
            return body
    return b""


def _headers(item: object) -> dict[str, str]:
    headers = getattr(item, "headers", None)
    if headers is None or not hasattr(headers, "items"):
        return {}
    return without_credentials((str(name), str(value)) for name, value in headers.items())


def _by_value(body: Mapping[Any, Any], number: int, seen: dict[int, tuple[int, object]]) -> None:
    """A list that two requests share shows both of them as it is now: whatever was rewritten cannot be seen. Lists are
    `seen` as long as they are held: a generator's would leave their place to others."""
    for name in _HISTORY:
        history = body.get(name)
        if not isinstance(history, list):
            continue
        first, _ = seen.setdefault(id(history), (number, history))
        if first != number:
            raise HoldfastError(
                f"requests {first} and {number} hold the same list as `{name}`, so both show what it became later; "
                "record a copy at the time of sending (copy.deepcopy, json.dumps or the fixture prefix_recorder)."
            )


def _plain(value: object) -> object:
    """Convert the SDKs' own values into their sent form."""
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return cast(object, dump(mode="json", exclude_unset=True))
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _has_blocks(messages: Iterable[Mapping[str, bytes]]) -> bool:
    """Return whether a message has content in Anthropic's own format."""
    for message in messages:
        for block in array_of(message.get("content", b"")) or ():
            members = object_of(block) or {}
            if "cache_control" in members or string_of(members.get("type")) in _ANTHROPIC_BLOCKS:
                return True
    return False
