"""What a provider may answer: whole responses and streams of every dialect, errors, nothing, and oddities."""

from __future__ import annotations

import gzip
import zlib
from random import Random

from holdfast.records import usage
from holdfast.simulator import replies
from holdfast.simulator.messages import Reply, ReplyEnvelope, ReplySettings, Thought, ToolCall, Words

from .fuzzing_wire import Headers, Said

_CALL = ToolCall("call_1", "bash", b'{"x":"S\\u00e3o \\"Paulo\\"","n":[1,2.5,null]}')
_PARTS = (Thought("Let me think."), Words('Ünïcode 😀 and "quotes"\nand a tail'), _CALL)
_ERRORS = (400, 401, 403, 404, 408, 409, 413, 422, 426, 428, 429, 500, 502, 503, 504, 529)
_EXTRA: Headers = [
    (b"Request-Id", b"req_1"),
    (b"retry-after", b"7"),
    (b"Set-Cookie", b"a=1; Path=/"),
    (b"Set-Cookie", b"b=2; Path=/"),
    (b"anthropic-ratelimit-tokens-remaining", b"12"),
    (b"X-Empty", b""),
    (b"x_under.score", b"\xc3\xa9"),
    (b"X-Latin", b"caf\xe9"),
    (b"Server", b"other/1.0"),
    (b"Date", b"Tue, 01 Jan 2030 00:00:00 GMT"),
    (b"Connection", b"keep-alive, X-Hop"),
    (b"X-Hop", b"for this hop only"),
    (b"Keep-Alive", b"timeout=5"),
    (b"Location", b"http://127.0.0.1:1/elsewhere"),
    (b"Access-Control-Allow-Origin", b"https://example.com"),
    (b"X-Long", b"l" * 6_000),
    (b"Content-Language", b"de, en;q=0.5"),
]


def answer(random: Random, dialect: str | None, model: str, number: bytes) -> Said:
    """Mostly what the dialect's provider would say, sometimes something else."""
    kind = random.choices(
        ("json", "stream", "error", "empty", "odd", "redirect", "packed", "broken"), (40, 30, 10, 3, 5, 2, 6, 4)
    )[0]
    status, headers, pieces = _ANSWERS[kind](random, dialect or "anthropic", model, number.decode())
    headers = [*headers, *random.sample(_EXTRA, random.choice((0, 0, 1, 2, 4)))]
    framing = random.choices(("length", "chunked", "close"), (4, 5, 1))[0]
    said = Said(
        status, headers, tuple(pieces), framing, pause=0.001 if random.random() < 0.02 and len(pieces) < 99 else 0.0
    )
    return said if framing == "chunked" else Said(status, headers, (said.body,), framing)


def _reply(random: Random, dialect: str, model: str, number: str, *, stream: bool) -> list[bytes]:
    counts = {"anthropic": {"5m": 40}, "gemini": {}}.get(dialect, {"30m": 300})
    used = usage(input=random.randrange(50), read=random.randrange(5_000), writes=counts, output=20)
    reply = Reply(_PARTS if random.random() < 0.5 else _PARTS[1:2], "end", 20)
    sse = dialect != "gemini" or random.random() < 0.7
    envelope = ReplyEnvelope(
        f"resp_{number}", model or "m", 1_790_000_000, used, stream, {}, ReplySettings(stream=stream, sse=sse)
    )
    found = replies.answer(dialect, reply, envelope)
    return [found.body] if found.chunks is None else list(found.chunks)


Made = tuple[int, Headers, list[bytes]]


def _json(random: Random, dialect: str, model: str, number: str) -> Made:
    pieces = _reply(random, dialect, model, number, stream=False)
    if random.random() < 0.02:
        pieces += [b" " * 1_000_000]
    return 200, [(b"Content-Type", b"application/json")], pieces


def _stream(random: Random, dialect: str, model: str, number: str) -> Made:
    pieces = _reply(random, dialect, model, number, stream=True)
    if random.random() < 0.2:
        whole = b"".join(pieces)
        size = random.choice((1, 7, 100)) if len(whole) < 3_000 else 100
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    elif random.random() < 0.2:
        pieces = [piece.replace(b"\n", b"\r\n") for piece in pieces]
    return 200, [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")], pieces


def _error(random: Random, dialect: str, model: str, number: str) -> Made:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"cachedContent not found"}}'
    return random.choice(_ERRORS), [(b"content-type", b"application/json"), (b"x-should-retry", b"true")], [body]


def _empty(random: Random, dialect: str, model: str, number: str) -> Made:
    status = random.choice((200, 204, 304, 500))
    return status, [(b"etag", b'"1"')], []


def _odd(random: Random, dialect: str, model: str, number: str) -> Made:
    texts = [b"null", b"[]", b"{", b"\xff\xfe", b"data: {\n\n", b"data: [DONE]\n\n", b'{"usage":' + b"[" * 2_000, b"\0"]
    texts += [b'{"usage":{"input_tokens":-1,"output_tokens":1e400,"cache_read_input_tokens":"x"}}', b"event: x\n" * 400]
    texts += [b'data: {"type":"message_start","message":{"usage":{"input_tokens":99999999999999999999}}}\n\n']
    types = (b"application/json", b"text/event-stream", b"text/html; charset=latin-1", b"")
    status = random.choice((200, 200, 200, 201, 206, 299, 599))
    return (
        status,
        [(b"content-type", random.choice(types))],
        [random.choice(texts) for _ in range(random.choice((1, 3)))],
    )


def _redirect(random: Random, dialect: str, model: str, number: str) -> Made:
    return random.choice((301, 302, 307, 308)), [(b"location", b"/v1/elsewhere?key=1")], [b"moved"]


def _packed(random: Random, dialect: str, model: str, number: str) -> Made:
    """A compressed answer; sometimes one that only says so."""
    status, headers, pieces = random.choice((_json, _stream))(random, dialect, model, number)
    name = random.choice((b"gzip", b"deflate", b"gzip", b"br", b"zstd", b"x-unknown"))
    whole = b"".join(pieces)
    packed = {b"gzip": gzip.compress(whole, 1, mtime=0), b"deflate": zlib.compress(whole, 1)}.get(name, whole)
    if random.random() < 0.2:
        packed = packed[: len(packed) // 2]
    return status, [*headers, (b"Content-Encoding", name)], [packed]


def _broken(random: Random, dialect: str, model: str, number: str) -> Made:
    """A stream that ends politely before its time."""
    status, headers, pieces = _stream(random, dialect, model, number)
    return status, headers, pieces[: random.randrange(len(pieces) + 1)]


_ANSWERS = {
    "json": _json,
    "stream": _stream,
    "error": _error,
    "empty": _empty,
    "odd": _odd,
    "redirect": _redirect,
    "packed": _packed,
    "broken": _broken,
}
