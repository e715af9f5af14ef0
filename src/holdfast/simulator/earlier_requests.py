"""Requests that name an earlier one: to continue it, or to be compared with it.

Anthropic's message threads and OpenAI's `previous_response_id` continue the provider's stored state. Cache diagnostics
report, in each provider's format, where a prompt differs from an earlier one.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from holdfast.caches import ReportedDivergence, diagnose
from holdfast.facts import ModelFacts
from holdfast.lru import LRU
from holdfast.wire import DIALECTS, Body, Reading, WireError, arr, array_of, obj, object_of, string_of

from .checks import Refusal

MOST_BYTES = 64_000_000
"""Of all conversations that one kind of reference may continue."""

_DIALECT = DIALECTS["anthropic"]
_FIXED = ("system", "tools")
"""What a thread is created with and a continuing request does not send."""


class _Response(Struct):
    content: Raw = Raw(b"[]")


class _Held(Struct, frozen=True):
    """A conversation up to one answer."""

    fixed: dict[str, bytes]
    messages: tuple[bytes, ...]


class MessageThreads:
    """Anthropic's threads (a beta) by the id of their latest answers; the oldest are forgotten.

    A request sends what is new, the provider holds the rest; the Python SDK's own tool loop works this way. What is
    billed is the whole conversation. The markers of earlier messages are not held: each was set for the request that
    sent it, and a request may have four.
    """

    def __init__(self, keep: int) -> None:
        self._held: LRU[str, _Held] = LRU(
            MOST_BYTES, size_of=lambda held: sum(map(len, held.messages)), most_entries=keep, keep_newest=True
        )

    def expanded(self, body: Body) -> bytes | None:
        """The body with what the thread holds put before its own; None if it continues nothing we know."""
        held = self._held.peek(_continued(body.member("thread")) or "")
        if held is None:
            return None
        messages = arr((*held.messages, *(array_of(body.member("messages") or b"") or ())))
        fixed = {name: value for name, value in held.fixed.items() if name not in body.members}
        return body.apply(body.change_members({**fixed, "messages": messages}))

    def missing(self, body: Body) -> WireError | None:
        """Return the error for an unknown thread: clients handle the code and send everything again."""
        previous = _continued(body.member("thread"))
        if previous is None or self._held.peek(previous) is not None:
            return None
        return Refusal(404, "not_found_error", f"thread: no thread ends at {previous}", code="thread_not_found")

    def keep(self, body: Body, id: str, rendered: bytes) -> None:
        """Store the conversation with its answer, if the request is part of a thread."""
        if object_of(body.member("thread") or b"") is None:
            return
        members = object_of(_unmarked(body)) or {}
        content = bytes(msgspec.json.decode(rendered, type=_Response).content)
        answer = obj((("role", b'"assistant"'), ("content", content)))
        fixed = {name: members[name] for name in _FIXED if name in members}
        self._held[id] = _Held(fixed, (*(array_of(members.get("messages", b"")) or ()), answer))


def _continued(thread: bytes | None) -> str | None:
    """The id of the answer a request continues."""
    members = object_of(thread or b"") or {}
    return string_of(members.get("previous_message_id")) if string_of(members.get("type")) == "continue" else None


def _unmarked(body: Body) -> bytes:
    splices = []
    for marker in _DIALECT.markers(body):
        if marker.block is not None and body.blocks[marker.block].section == "messages":
            splices += _DIALECT.remove(body, marker)
    return body.apply(splices)


class _Output(Struct):
    output: list[Raw] = []


class StoredResponses:
    """Input and output items of OpenAI's earlier responses, by id; the oldest are forgotten."""

    def __init__(self, keep: int) -> None:
        self._items: LRU[str, tuple[bytes, ...]] = LRU(
            MOST_BYTES, size_of=lambda items: sum(map(len, items)), most_entries=keep, keep_newest=True
        )

    def expanded(self, body: Body) -> bytes | None:
        """The body with the earlier items put before its own; None if it continues nothing we know."""
        earlier = self._items.peek(string_of(body.member("previous_response_id")) or "")
        if earlier is None:
            return None
        return body.apply(body.set_member("input", arr((*earlier, *_input_items(body.member("input") or b"[]")))))

    def missing(self, body: Body) -> WireError | None:
        """Return the error for an unknown response."""
        previous = string_of(body.member("previous_response_id"))
        if previous is None or self._items.peek(previous) is not None:
            return None
        return WireError(400, "invalid_request_error", f"Previous response with id '{previous}' not found.")

    def keep(self, body: Body, id: str, rendered: bytes) -> None:
        """Store the items of a request and its answer, unless the client asked not to."""
        if body.dialect == "openai_responses" and body.member("store") != b"false":
            output = msgspec.json.decode(rendered, type=_Output).output
            self._items[id] = (*_input_items(body.member("input") or b"[]"), *(bytes(item) for item in output))


def _input_items(raw: bytes) -> list[bytes]:
    if raw[:1] == b'"':
        return [b'{"role":"user","content":' + raw + b"}"]
    return array_of(raw) or []


_SETTINGS = {
    "text.format": "text_format_changed",
    "response_format": "text_format_changed",
    "reasoning.effort": "reasoning_effort_changed",
    "reasoning_effort": "reasoning_effort_changed",
    "text.verbosity": "verbosity_changed",
    "verbosity": "verbosity_changed",
    "service_tier": "service_tier_changed",
}


class Fingerprints:
    """Earlier requests by the id of their response; only those that asked for it are kept."""

    def __init__(self, keep: int) -> None:
        self._kept: LRU[str, Reading] = LRU(keep)

    def compare(self, body: Body, reading: Reading, model: ModelFacts, id: str) -> dict[str, bytes]:
        """Members to add to the response."""
        if not model.diagnostics:
            return {}
        if body.dialect == "anthropic" and (options := object_of(body.member("diagnostics") or b"")) is not None:
            previous = string_of(options.get("previous_message_id"))
            divergence = self._divergence(reading, previous) if previous is not None else None
            self._kept[id] = reading
            return {"diagnostics": b"null" if divergence is None else _anthropic(divergence)}
        if body.dialect == "openai_responses":
            self._kept[id] = reading
            options = object_of(body.member("prompt_cache_options") or b"") or {}
            if (previous := string_of(options.get("comparison_response_id"))) is not None:
                return {"prompt_cache_diagnostics": self._openai(reading, previous)}
        return {}

    def _divergence(self, reading: Reading, previous: str) -> ReportedDivergence | None:
        earlier = self._kept.peek(previous)
        divergence = diagnose(None if earlier is None else earlier.prompt, reading.prompt)
        if earlier is not None and earlier.settings.get("speed") != reading.settings.get("speed"):
            return ReportedDivergence("model_changed", earlier.prompt.tokens)
        return divergence

    def _openai(self, reading: Reading, previous: str) -> bytes:
        earlier = self._kept.peek(previous)
        if earlier is None:
            return b'{"type":"comparison_response_not_found"}'
        reason = _openai_reason(earlier, reading)
        if reason is None:
            return b'{"type":"cache_hit"}'
        divergence = diagnose(earlier.prompt, reading.prompt)
        missed = earlier.prompt.tokens if divergence is None or not divergence.missed else divergence.missed
        members = {
            "type": "cache_miss",
            "reason": reason,
            "cache_missed_tokens": missed,
            "comparison_reusable_tokens": earlier.prompt.tokens - missed,
        }
        return msgspec.json.encode(members)


def _anthropic(divergence: ReportedDivergence) -> bytes:
    reason: dict[str, str | int] = {"type": divergence.reason}
    if divergence.reason.endswith("_changed"):
        reason["cache_missed_input_tokens"] = divergence.missed
    return msgspec.json.encode({"cache_miss_reason": reason})


def _openai_reason(earlier: Reading, now: Reading) -> str | None:
    """The first of the provider's reasons that applies; None if the earlier prompt could be reused whole."""
    if earlier.prompt.model != now.prompt.model:
        return "model_changed"
    if earlier.prompt.route != now.prompt.route:
        return "prompt_cache_key_changed"
    for name, reason in _SETTINGS.items():
        if earlier.settings.get(name) != now.settings.get(name):
            return reason
    divergence = diagnose(earlier.prompt, now.prompt)
    if divergence is None:
        return None
    return "tools_changed" if divergence.reason == "tools_changed" else "input_changed"
