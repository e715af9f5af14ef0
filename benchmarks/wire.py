"""A 1 MB Anthropic body through the wire, against a bare msgspec round trip that keeps every value raw."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator

import msgspec
from msgspec import Raw

from benchmarks import Result, interleaved
from holdfast.wire import DIALECTS, Body

WORDS = ("kelp", "rock", "tide", "def load(path):", "return None", "\n", '"quoted"', "src/module/file.py", "42", "é")


def body(size: int = 1_000_000, seed: int = 7) -> bytes:
    """A coding session of our own making: tools, a system prompt, turns of text, tool calls and tool results."""
    chance = random.Random(seed)

    def prose(low: int, high: int) -> str:
        return " ".join(chance.choices(WORDS, k=chance.randint(low, high)))

    schema = {"type": "object", "properties": {"path": {"type": "string", "description": prose(5, 20)}}}
    tools = [{"name": f"tool_{i}", "description": prose(40, 120), "input_schema": schema} for i in range(25)]
    system = [{"type": "text", "text": prose(800, 1200), "cache_control": {"type": "ephemeral"}}]
    messages: list[dict[str, object]] = [{"role": "user", "content": prose(10, 60)}]
    used, turn = 0, 0
    while used < size:
        turn += 1
        call = {"type": "tool_use", "id": f"toolu_{turn:06}", "name": "tool_1", "input": {"path": prose(2, 40)}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{turn:06}", "content": prose(50, 700)}
        pair: list[dict[str, object]] = [
            {"role": "assistant", "content": [{"type": "text", "text": prose(5, 60)}, call]},
            {"role": "user", "content": [result]},
        ]
        messages += pair
        used += len(json.dumps(pair))
    request = {"model": "claude-opus-5-5", "max_tokens": 8192, "stream": True, "system": system, "tools": tools}
    return json.dumps({**request, "messages": messages}, separators=(",", ":"), ensure_ascii=False).encode()


def run(*, quick: bool) -> Iterator[Result]:
    raw = body()
    dialect = DIALECTS["anthropic"]
    decoder, encoder = msgspec.json.Decoder(dict[str, Raw]), msgspec.json.Encoder()

    def bare() -> bytes:
        return encoder.encode(decoder.decode(raw))

    def parsed() -> Body:
        result = dialect.parse(raw)
        assert isinstance(result, Body)
        return result

    def untouched() -> bytes:
        return parsed().apply([])

    def marked() -> bytes:
        found = parsed()
        return found.apply(dialect.place(found, len(found.blocks) - 1, "5m"))

    assert untouched() == raw
    assert marked() != raw
    blocks = len(parsed().blocks)
    candidates = {"bare": bare, "untouched": untouched, "marked": marked}
    seconds = interleaved(candidates, 40 if quick else 200)
    note = f"{len(raw) / 1e6:.2f} MB, {blocks} blocks addressed; bare takes {seconds['bare'] * 1e3:.2f} ms"
    yield Result(
        "wire round trip, no plan, against bare msgspec Raw",
        seconds["untouched"] / seconds["bare"],
        "x",
        2.0,
        "lower",
        note,
    )
    yield Result(
        "wire round trip, one marker, against bare msgspec Raw", seconds["marked"] / seconds["bare"], "x", 2.0, "lower"
    )
    addressed = parsed()
    every = interleaved({"content": lambda: [dialect.content(addressed, i) for i in range(blocks)]}, 3 if quick else 10)
    note = "a lane's first request pays this for all its blocks, later ones for what is new"
    yield Result("canonical content of every block", every["content"] * 1e3, "ms", None, "lower", note)
