"""Requests sent through `Identities` as the gateway sends them: parsed, found, sent, without an engine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from holdfast.engine.identity import Care, Identities, Identity, RequestSource
from holdfast.engine.state import facts_of
from holdfast.store import Store
from holdfast.wire import DIALECTS, Body, dialect_of
from holdfast.wire.prompts import PromptReader, Reading
from tests.shapes import Shape, conversations

KEY = b"a key of the tests, 32 bytes long"
NOW = 1_800_000_000.0


class Desk:
    """Somebody who asks whom requests belong to. `reads` counts how often a body had to be read for that."""

    def __init__(self, store: Store | None = None, *, key: bytes = KEY, care: Care = "none") -> None:
        self.care = care
        self.identities = Identities(key, store=store)
        self.reader = PromptReader()
        self.reads = 0
        self.now = NOW

    def body(self, dialect: str, content: Mapping[str, Any] | bytes, model: str = "") -> Body:
        raw = content if isinstance(content, bytes) else json.dumps(content, separators=(",", ":")).encode()
        body = self.reader.parse(DIALECTS[dialect], raw, model=model)
        assert isinstance(body, Body)
        return body

    def find(self, headers: Mapping[str, str], body: Body, query: str = "", project: str = "") -> Identity:
        source = RequestSource(
            headers, query, body, lambda: self.read(body), project=project, care=lambda _agent: self.care
        )
        return self.identities.find(source, self.now)

    def send(self, headers: Mapping[str, str], body: Body, query: str = "", project: str = "") -> Identity:
        found = self.find(headers, body, query, project)
        self.identities.sent(found, body, lambda: self.read(body), self.now)
        self.now += 1
        return found

    def replay(self, shape: Shape, **more: str) -> Identity | None:
        """A recorded request, with other headers where they are given; None where it is no model call."""
        known = dialect_of(shape.path)
        if known is None or shape.body is None:
            return None
        body = self.body(known[0].name, shape.body, known[1])
        return self.send({**headers_of(shape), **more}, body, shape.path.partition("?")[2])

    def read(self, body: Body) -> Reading:
        self.reads += 1
        return self.reader.read(body, facts_of(body))


def headers_of(shape: Shape) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in shape.headers:
        headers.setdefault(name.lower(), value)
    return headers


def run_of(client: str, run: str) -> list[Shape]:
    return conversations()[client, run]


def words(*texts: str, system: str = "You help.", model: str = "claude-sonnet-4-5", **more: Any) -> dict[str, Any]:
    """An Anthropic body whose messages alternate, the user's first."""
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    return {"model": model, "max_tokens": 1000, "system": system, "messages": messages, **more}
