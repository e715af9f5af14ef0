"""Responses that continue an earlier one: `previous_response_id` stands for everything said up to it."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from holdfast.wire import Body, WireError, arr, array_of, string_of

from .journal import Recent


class _Output(Struct):
    output: list[Raw] = []


class Conversations:
    """Input and output items of earlier responses, by id; the oldest are forgotten."""

    def __init__(self, keep: int) -> None:
        self._items: Recent[tuple[bytes, ...]] = Recent(keep, size=lambda items: sum(map(len, items)))

    def expanded(self, body: Body) -> bytes | None:
        """The body with the earlier items put before its own; None if it continues nothing we know."""
        earlier = self._items.get(string_of(body.member("previous_response_id")) or "")
        if earlier is None:
            return None
        return body.apply(body.set_member("input", arr((*earlier, *_input_items(body.member("input") or b"[]")))))

    def missing(self, body: Body) -> WireError | None:
        """A response nobody knows (any more)."""
        previous = string_of(body.member("previous_response_id"))
        if previous is None or self._items.get(previous) is not None:
            return None
        return WireError(400, "invalid_request_error", f"Previous response with id '{previous}' not found.")

    def keep(self, body: Body, id: str, rendered: bytes) -> None:
        """Remember what was said, unless the client asked not to store it."""
        if body.dialect == "openai_responses" and body.member("store") != b"false":
            output = msgspec.json.decode(rendered, type=_Output).output
            self._items.put(id, (*_input_items(body.member("input") or b"[]"), *(bytes(item) for item in output)))


def _input_items(raw: bytes) -> list[bytes]:
    if raw[:1] == b'"':
        return [b'{"role":"user","content":' + raw + b"}"]
    return array_of(raw) or []
