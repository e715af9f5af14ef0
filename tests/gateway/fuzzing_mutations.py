"""What can be wrong, odd or merely different about a body and its headers. Every change is drawn from one generator."""

from __future__ import annotations

import copy
import gzip
import json
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import brotli
import zstandard

from .fuzzing_wire import Headers

_RAW = "fuzz-raw:"
"""A string that begins so stands for what follows it, bare."""

_BARE = (
    "1e999",
    "-0",
    "0.10",
    "1E+5",
    "123456789012345678901234567890",
    "1e-400",
    "NaN",
    "-Infinity",
    "01",
    "tru",
    "'x'",
)
_TEXTS = ("", " ", "\ud800", "\udfff x", "\u0000", "é", "😀", "\u2028", "</script>", "a" * 5_000, "{0}", "%s", "/../")
_VALUES: tuple[Any, ...] = (None, True, False, 0, -1, 2**63, 1.5, [], {}, [None], {"type": "text"}, [[]], {"": ""})
_MARKERS: tuple[Any, ...] = (
    {"type": "ephemeral"},
    {"type": "ephemeral", "ttl": "1h"},
    {"type": "ephemeral", "ttl": "5m"},
    {"type": "ephemeral", "ttl": "9d"},
    {"type": "other", "more": {"a": [1]}},
    {},
    None,
    "ephemeral",
)


def rendered(value: Any, random: Random) -> bytes:
    """A value as bytes, in one of the spellings that clients have."""
    spacing = random.choice(((",", ":"), (",", ":"), (", ", ": "), (" ,\n", " :\t")))
    text = json.dumps(value, separators=spacing, ensure_ascii=random.random() < 0.5)
    while (at := text.find(f'"{_RAW}')) >= 0:
        end = text.index('"', at + 1)
        text = text[:at] + text[at + 1 + len(_RAW) : end] + text[end + 1 :]
    return text.replace("fuzz-again:", "").encode("utf-8", "surrogatepass")


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, Any]]:
    """Every container with every key or index in it."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict | list):
            keys = list(each) if isinstance(each, dict) else list(range(len(each)))
            found += [(each, key) for key in keys]
            waiting += [each[key] for key in keys]
    return found


def other_type(body: Any, random: Random) -> None:
    where, key = random.choice(_places(body))
    where[key] = copy.deepcopy(random.choice(_VALUES))


def other_text(body: Any, random: Random) -> None:
    where, key = random.choice(_places(body))
    where[key] = random.choice(_TEXTS)


def bare(body: Any, random: Random) -> None:
    where, key = random.choice(_places(body))
    where[key] = _RAW + random.choice(_BARE)


def deep(body: Any, random: Random) -> None:
    where, key = random.choice(_places(body))
    depth = random.choice((20, 200, 900, 3_000, 50_000))
    where[key] = _RAW + ("[" * depth + "]" * depth)


def again(body: Any, random: Random) -> None:
    """A key that stands twice, with the same value or another one."""
    where, key = random.choice([each for each in _places(body) if isinstance(each[0], dict)])
    where[f"fuzz-again:{key}"] = copy.deepcopy(random.choice((where[key], *_VALUES)))


def unknown(body: Any, random: Random) -> None:
    objects = [each for each, _ in _places(body) if isinstance(each, dict)] or [body]
    name = random.choice(("x_new_beta", "content", "text", "type", "é", "", "cache_control", "prompt_cache_key"))
    random.choice(objects)[name] = copy.deepcopy(random.choice((*_VALUES, *_TEXTS)))


def marked(body: Any, random: Random) -> None:
    """Markers, legal and not: on blocks, in them, on the whole, many of them."""
    key = random.choice(("cache_control", "cache_control", "prompt_cache_breakpoint"))
    typed = [each for each, name in _places(body) if isinstance(each, dict) and name in ("type", "text")] or [body]
    for _ in range(random.choice((1, 1, 2, 3, 4, 7))):
        random.choice((*typed, body))[key] = copy.deepcopy(random.choice(_MARKERS))


def dropped(body: Any, random: Random) -> None:
    where, key = random.choice(_places(body))
    del where[key]


def doubled(body: Any, random: Random) -> None:
    where, key = random.choice([each for each in _places(body) if isinstance(each[0], list)] or [([1], 0)])
    where.insert(key, copy.deepcopy(where[key]))


def tools_moved(body: Any, random: Random) -> None:
    """Neutral: the same tools in another order."""
    for tools in _tool_lists(body):
        random.shuffle(tools)


def _tool_lists(body: Any) -> list[list[Any]]:
    tools = body.get("tools") if isinstance(body, dict) else None
    if not isinstance(tools, list):
        return []
    inner = [tool.get("functionDeclarations") for tool in tools if isinstance(tool, dict)]
    return [each for each in (tools, *inner) if isinstance(each, list)]


def keys_moved(body: Any, random: Random) -> None:
    """Neutral: keys of objects in another order."""
    objects = [each for each in {id(o): o for o, _ in _places(body)}.values() if isinstance(each, dict)]
    for each in random.sample(objects, min(len(objects), random.choice((1, 5, 50)))):
        items = list(each.items())
        random.shuffle(items)
        each.clear()
        each.update(items)


def forms_moved(body: Any, random: Random) -> None:
    """Neutral: texts alone as lists of one text, and the other way round."""
    said = body.get("messages", body.get("input")) if isinstance(body, dict) else None
    for message in said if isinstance(said, list) else ():
        if not isinstance(message, dict) or "role" not in message or random.random() < 0.5:
            continue
        content = message.get("content")
        if isinstance(content, str):
            kind = "text" if "messages" in body else "output_text" if message["role"] == "assistant" else "input_text"
            message["content"] = [{"type": kind, "text": content}]
        elif isinstance(content, list) and len(content) == 1 and _is_text(content[0]):
            message["content"] = content[0]["text"]


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.keys() == {"type", "text"} and isinstance(part["text"], str)


def large(body: Any, random: Random) -> None:
    body["fuzz_filler"] = "filling " * random.choice((2_000, 16_000, 130_000))


INSIDE: tuple[Callable[[Any, Random], None], ...] = (
    other_type,
    other_text,
    bare,
    deep,
    again,
    unknown,
    marked,
    dropped,
    doubled,
)
NEUTRAL = (tools_moved, keys_moved, forms_moved)


def torn(raw: bytes, random: Random) -> bytes:
    """A body that is hurt as bytes: most of them are no JSON any more."""
    at = random.randrange(len(raw) + 1)
    what = random.randrange(10)
    if what == 0:
        return b""
    if what == 1:
        return raw[:at]
    if what == 2:
        return b"\xef\xbb\xbf" + raw
    if what == 3:
        return raw[:at] + random.choice((b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\0")) + raw[at:]
    if what == 4:
        return random.choice((b"null", b"[]", b'"text"', b"0", b"model=claude&x=1", b"--boundary\r\n", b" ", b"{}"))
    if what == 5:
        return raw + random.choice((b" \n", b"x", raw, b"\0"))
    if what == 6:
        return raw.decode("utf-8", "replace").encode("utf-16")
    bytes_ = bytearray(raw)
    for _ in range(random.choice((1, 1, 3, 20))):
        if bytes_:
            bytes_[random.randrange(len(bytes_))] ^= 1 << random.randrange(8)
    return bytes(bytes_)


def packed(raw: bytes, random: Random) -> tuple[bytes, bytes, bytes | None]:
    """A compressed body, the encoding it names, and what is in it; None where that cannot be had."""
    name = random.choice(tuple(_PACK))
    what = random.random()
    if what < 0.1:
        return raw, name.encode(), None  # it only says so
    if what < 0.15:
        return _PACK["gzip"](raw), random.choice(("x-none", "gzip, br", "identity;q=0")).encode(), None
    if what < 0.2:
        return _PACK[name](b" " * 30_000_000), name.encode(), None  # more than a body may have
    whole = _PACK[name](raw)
    if what < 0.25:
        return whole[: len(whole) // 2], name.encode(), None
    return whole, random.choice((name, name.upper(), f" {name}")).encode(), raw


_PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda raw: gzip.compress(raw, 1, mtime=0),
    "deflate": lambda raw: zlib.compress(raw, 1),
    "br": lambda raw: brotli.compress(raw, quality=1),
    "zstd": lambda raw: zstandard.compress(raw, 1),
}

_NONSENSE = (
    b"",
    b"x",
    b"caf\xc3\xa9",
    b"caf\xe9",
    b"\xff\x80 caf\xc3\xa9",
    b'a,b;c="d"',
    b"-1",
    b"null",
    b"../..",
    b"%00",
    b"n" * 3_000,
    b"off ",
)
_OURS = (b"x-holdfast", b"x-holdfast-session", b"x-holdfast-agent", b"x-holdfast-skip", b"x-holdfast-reset")
_OURS += (b"X-Holdfast-Preflight", b"x-holdfast-key", b"x-holdfast-unheard-of")
_SESSIONS = (b"x-claude-code-session-id", b"x-claude-code-agent-id", b"session-id", b"thread-id", b"x-session-id")
_SESSIONS += (b"x-session-affinity", b"x-parent-session-id", b"session_id", b"x-client-request-id", b"user-agent")
_OTHERS: Headers = [
    (b"X-CamelCase", b"Yes"),
    (b"accept-encoding", b"gzip, br, zstd"),
    (b"cookie", b"a=b; c=d"),
    (b"cookie", b"e=f"),
    (b"x-forwarded-for", b"10.0.0.1"),
    (b"x-forwarded-host", b"elsewhere.example"),
    (b"forwarded", b"host=elsewhere.example"),
    (b"x_under.score~!", b"1"),
    (b"x-tabs", b"a\tb"),
    (b"x-long", b"v" * 8_000),
    (b"x-empty", b""),
    (b"sec-fetch-mode", b"cors"),
    (b"te", b"trailers"),
    (b"keep-alive", b"300"),
    (b"proxy-connection", b"keep-alive"),
    (b"upgrade", b"h2c"),
    (b"Expect", b"100-continue"),
    (b"range", b"bytes=0-1"),
    (b"if-none-match", b'"x"'),
    (b"anthropic-beta", b"a-2025,b-2026"),
    (b"anthropic-beta", b"c-2027"),
    (b"Connection", b"keep-alive, X-Hop"),
    (b"x-hop", b"1"),
    (b"priority", b"u=1, i"),
]


def odd_headers(random: Random) -> Headers:
    found = random.sample(_OTHERS, random.choice((0, 0, 1, 3, 6)))
    if random.random() < 0.1:
        found += [(random.choice(_OURS), random.choice((*_NONSENSE, b"off", b"all", b"compaction", b"send")))]
    if random.random() < 0.15:
        found += [(random.choice(_SESSIONS), random.choice(_NONSENSE)) for _ in range(random.choice((1, 2)))]
    if random.random() < 0.02:
        found += [(b"x-many-%d" % index, b"value %d" % index) for index in range(60)]
    random.shuffle(found)
    return found
