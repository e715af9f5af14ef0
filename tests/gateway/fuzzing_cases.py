"""Requests to send: recorded ones, conversations that grow, side calls, strange paths; each perhaps changed on the way.

An author writes the requests of one connection, all from one seed. It says with each what has to become of it.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

from msgspec import Struct

from tests import shapes
from tests.properties.sessions import RENDER, Talk, changed, talk

from . import fuzzing_mutations as mutations
from .fuzzing_answers import answer
from .fuzzing_wire import NUMBER, Headers, Said

BASES = {"anthropic": "/A", "openai": "/O", "gemini": "/G", "openrouter": "/R/api"}
"""The path of each upstream: what comes to a wrong one is seen."""

MOST_BYTES = 2_000_000
_MODELS = {
    "anthropic": ("claude-sonnet-5-5", "claude-opus-4-6", "claude-haiku-4-5", "some-model"),
    "openai_chat": ("gpt-6.1-sol", "gpt-5.5", "llama-x"),
    "openai_responses": ("gpt-6.1-sol", "gpt-5.6", "gpt-4.1"),
    "openrouter": ("anthropic/claude-sonnet-4.5", "openai/gpt-5.6", "x/y"),
    "gemini": ("gemini-2.5-pro", "gemini-3-flash", "a%20b"),
}
_OF = {"openai_chat": "openai", "openai_responses": "openai", "gemini": "gemini", "openrouter": "openrouter"}
_DROPPED = (b"host", b"content-length", b"connection", b"transfer-encoding", b"content-encoding")
_CREDENTIALS = (b"authorization", b"x-api-key", b"x-goog-api-key")


class Case(Struct):
    """A request and what has to become of it: `expects` is a status of ours, 0 where it reaches the upstream at
    `arrives`. `plain` is its body in plain, None where it has none that can be read."""

    number: bytes
    method: str
    target: str
    headers: Headers
    body: bytes
    said: Said
    arrives: str = ""
    expects: int = 0
    plain: bytes | None = None
    dialect: str | None = None
    model: str = ""
    manner: str = "whole"

    def pieces(self) -> Iterator[bytes]:
        """What goes over the socket."""
        head = [f"{self.method} {self.target} HTTP/1.1".encode("latin-1"), b"Host: localhost"]
        head += [name + b": " + value for name, value in self.headers]
        if self.manner == "chunked":
            head += [b"Transfer-Encoding: chunked"]
        elif self.body or self.method in ("POST", "PUT", "PATCH"):
            head += [b"Content-Length: %d" % len(self.body)]
        start = b"\r\n".join(head) + b"\r\n\r\n"
        if self.manner == "chunked":
            size = max(1, len(self.body) // 3)
            chunks = [self.body[at : at + size] for at in range(0, len(self.body), size)]
            yield start
            for chunk in chunks:
                yield b"%x\r\n%b\r\n" % (len(chunk), chunk)
            yield b"0\r\n\r\n"
        elif self.manner == "pieces":
            half = len(self.body) // 2
            yield from (start[:20], start[20:] + self.body[:half], self.body[half:])
        else:
            yield start + self.body


class Conversation:
    """One that goes on: `next` is its next request, as its client would send it."""

    def __init__(self, random: Random, dialect: str, key: bytes) -> None:
        self.random, self.dialect, self.key = random, dialect, key
        self.model = random.choice(_MODELS[dialect])
        self.said: Talk = talk(random)
        self.count = 0
        self.headers: Headers = [(b"content-type", b"application/json")]
        if random.random() < 0.5:
            self.headers += [(b"x-holdfast-session", b"s-%d" % random.randrange(10**6))]
        if random.random() < 0.3:
            self.said.system[0] = "Today is {clock}. You have used {count} tokens.\n" + self.said.system[0]

    def next(self) -> tuple[Any, Headers]:
        random = self.random
        self.count += 1
        self.said = changed(self.said, random, self.count)
        said = copy.deepcopy(self.said)
        clock = f"2026-11-15T12:{random.randrange(60):02}:{random.randrange(60):02}Z"
        said.system = [t.replace("{clock}", clock).replace("{count}", str(self.count * 517)) for t in said.system]
        render = RENDER["openai_chat" if self.dialect == "openrouter" else self.dialect]
        return render(said, self.model), [*self.headers, *_credential(self.dialect, self.key)]


def _credential(dialect: str, key: bytes) -> Headers:
    if dialect == "anthropic":
        return [(b"x-api-key", key), (b"anthropic-version", b"2023-06-01")]
    return [(b"x-goog-api-key", key)] if dialect == "gemini" else [(b"authorization", b"Bearer " + key)]


class Author:
    """Writes requests. `name` sets the tenants of authors apart, apart from one that all share."""

    def __init__(self, seed: str, name: str) -> None:
        self.random, self.name, self.count = Random(f"{seed}/{name}"), name, 0
        self._talks: list[Conversation] = []
        self._runs = [[s for s in run if s.body and s.dialect] for run in shapes.conversations().values()]
        self._run: Iterator[shapes.Shape] = iter(())

    def next(self) -> Case:
        self.count += 1
        number = f"{self.name}.{self.count}".encode()
        kind = self.random.choices(("talk", "recorded", "side", "nowhere"), (60, 25, 10, 5))[0]
        case: Case = {"talk": self._talk, "recorded": self._recorded, "side": self._side, "nowhere": self._nowhere}[
            kind
        ](number)
        case.headers.insert(self.random.randrange(len(case.headers) + 1), (NUMBER, number))
        return case

    def _key(self) -> bytes:
        random = self.random
        return b"sk-shared" if random.random() < 0.1 else b"sk-%b-%d" % (self.name.encode(), random.randrange(4))

    def _talk(self, number: bytes) -> Case:
        random = self.random
        if len(self._talks) < 6 or random.random() < 0.05:
            self._talks.append(Conversation(random, random.choice(tuple(_MODELS)), self._key()))
            self._talks = self._talks[-8:]
        chosen = random.choice(self._talks)
        if len(chosen.said.turns) > 60:
            chosen.said = talk(random)
        body, headers = chosen.next()
        return self._call(number, body, headers, chosen.dialect, chosen.model)

    def _recorded(self, number: bytes) -> Case:
        shape = next(self._run, None)
        while shape is None:
            self._run = iter(self.random.choice(self._runs))
            shape = next(self._run, None)
        named = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in shape.headers]
        headers = [each for each in named if each[0].lower() not in (*_DROPPED, *_CREDENTIALS)]
        assert shape.dialect is not None
        assert shape.body is not None
        headers += _credential(shape.dialect, self._key())
        model = shape.path.rpartition("/")[2].partition(":")[0] if shape.dialect == "gemini" else ""
        try:
            body: Any = json.loads(shape.body)
        except ValueError:
            body = {"model": "x"}
        return self._call(number, body, headers, shape.dialect, model, raw=shape.body)

    def _call(
        self, number: bytes, body: Any, headers: Headers, dialect: str, model: str, raw: bytes | None = None
    ) -> Case:
        """A call of a model, perhaps changed inside, as bytes, in its headers, in how it is sent."""
        random, plain = self.random, raw
        if random.random() < 0.45:
            body, plain = copy.deepcopy(body), None
            several = random.choice((1, 1, 2, 4))
            chosen = mutations.NEUTRAL if random.random() < 0.4 else mutations.INSIDE
            for change in random.choices(chosen, k=several):
                change(body, random)
        if random.random() < 0.01:
            body, plain = copy.deepcopy(body), None
            mutations.large(body, random)
        plain = mutations.rendered(body, random) if plain is None else plain
        if random.random() < 0.12:
            plain = mutations.torn(plain, random)
        sent, found = plain, plain
        if random.random() < 0.08:
            sent, encoding, unpacked = mutations.packed(plain, random)
            headers, found = [*headers, (b"Content-Encoding", encoding)], unpacked  # type: ignore[assignment]
        headers = [*headers, *mutations.odd_headers(random)]
        target, arrives = _target(random, dialect, model)
        case = Case(number, "POST", target, headers, sent, answer(random, dialect, model, number), arrives)
        case.plain, case.dialect, case.model = found, dialect, model
        if len(sent) > MOST_BYTES:
            case.expects = 413
        case.manner = random.choices(("whole", "chunked", "pieces", "leaves"), (90, 5, 3, 2))[0]
        return _websocket(case, random)

    def _side(self, number: bytes) -> Case:
        random = self.random
        upstream, path = random.choice(_SIDES)
        headers = [*_SIDE_HEADERS[upstream], *mutations.odd_headers(random)]
        method = random.choice(("GET", "GET", "HEAD", "DELETE", "OPTIONS", "PUT", "PATCH", "POST"))
        body = (
            b"" if method in ("GET", "HEAD", "OPTIONS") else random.choice((b"", b'{"a": 1}', b"\xff\0", b"x" * 9_000))
        )
        query = random.choice(_QUERIES)
        case = Case(number, method, path + query, headers, body, answer(random, None, "", number))
        case.arrives = BASES[upstream] + path + query
        if upstream == "openrouter":
            case.target = "/api" + case.target
        for prefix in (f"/{upstream}", "/run/r-1", "/k/key.x~1"):
            if random.random() < 0.1:
                case.target = prefix + case.target
        return _websocket(case, random)

    def _nowhere(self, number: bytes) -> Case:
        random = self.random
        path = random.choice(_NOWHERE) + random.choice(("", "?x=1", "?key=k"))
        headers = [*_SIDE_HEADERS[random.choice(("anthropic", "openai"))], *mutations.odd_headers(random)]
        body = random.choice((b"", b'{"model":"x"}'))
        method = random.choice(("POST", "PUT", "DELETE"))
        return Case(number, method, path, headers, body, answer(random, None, "", number), expects=404)


def _websocket(case: Case, random: Random) -> Case:
    if not case.expects and not case.body and random.random() < 0.02:
        case.headers = [each for each in case.headers if each[0].lower() not in (b"connection", b"upgrade")]
        case.headers += [(b"Connection", b"Upgrade"), (b"Upgrade", b"websocket")]
    if next((value for name, value in case.headers if name.lower() == b"upgrade"), b"").lower() == b"websocket":
        case.expects = 426
    return case


def _target(random: Random, dialect: str, model: str) -> tuple[str, str]:
    """A path of the dialect, and where it arrives."""
    upstream = _OF.get(dialect, "anthropic")
    verb = random.choice(("generateContent", "streamGenerateContent"))
    path = {
        "anthropic": "/v1/messages",
        "openai_chat": "/v1/chat/completions",
        "openai_responses": "/v1/responses",
        "openrouter": "/v1/chat/completions",
        "gemini": f"/v1beta/models/{model}:{verb}",
    }[dialect]
    query = random.choice(_QUERIES)
    prefix = "/api" if dialect == "openrouter" else ""
    if random.random() < 0.1:
        prefix = f"/{upstream}"
    if random.random() < 0.1:
        prefix = random.choice(("/run/r-1", "/k/key", "/run/a/k/b", "/k/b/run/a")) + prefix
    return prefix + path + query, BASES[upstream] + path + query


_QUERIES = ("", "", "", "?", "?beta=true", "?alt=sse", "?a=%zz&b=%20+%2F", "?x=1&x=2&&=", "?q=a?b/c:d@e", "?%C3%A9=%FF")
_SIDE_HEADERS: dict[str, Headers] = {
    "anthropic": [(b"x-api-key", b"sk-side"), (b"anthropic-version", b"2023-06-01")],
    "openai": [(b"authorization", b"Bearer sk-side")],
    "gemini": [(b"x-goog-api-key", b"side")],
    "openrouter": [(b"authorization", b"Bearer sk-or")],
}
_SIDES = (
    ("anthropic", "/v1/messages/count_tokens"),
    ("anthropic", "/v1/messages/batches/msgbatch_1%2F2/results"),
    ("anthropic", "/v1/models"),
    ("anthropic", "/v1/messages/"),
    ("anthropic", "/v1/files//double"),
    ("openai", "/v1/models/gpt%20x"),
    ("openai", "/v1/files/a;b=c,d/content"),
    ("openai", "/v1/responses/resp_1/input_items"),
    ("openai", "/v1/%E2%82%AC/~tilde'(x)*!$&"),
    ("openai", "/v1/chat/completions/"),
    ("gemini", "/v1beta/models"),
    ("gemini", "/v1beta/cachedContents/abc:x@y"),
    ("gemini", "/v1beta/models/m:countTokens"),
    ("gemini", "/v1/models/m:embedContent"),
    ("openrouter", "/v1/models/user"),
    ("openrouter", "/v1/chat/completions/x"),
)
_NOWHERE = (
    "/favicon.ico",
    "/.env",
    "/v2/messages",
    "/v10/messages",
    "/admin",
    "/v1/../secrets",
    "/v1/%2e%2e/secrets",
    "/v1/%252e%252e/secrets",
    "/v1/messages/..%5C..",
    "/v1/./messages",
    "//evil.example/v1/messages",
    "/k/",
    "/run//v1/messages",
    "/k/a b/v1".replace(" ", "%20"),
    "/anthropicx/v1/messages",
    "/metrics",
)
