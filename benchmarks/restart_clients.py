"""Clients of the restart benchmark: each request of a conversation is made from its number alone, never from an answer.

A conversation grows by a call and its result at every request, to about a megabyte in sixty of them, and places no
markers. What a client does wrong, it does anew at every request: the order of tools and of keys, the time, a memory.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

MODEL = "claude-opus-4-6"
RESULTS = (8_000, 900, 4_000, 500)
"""Bytes of the results of a turn's calls: most are short, the long ones make the size."""
_DAY = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
_SYLLABLES = ("ke", "lp", "rock", "ti", "de", "an", "chor", "lo", "ad", "mo", "du", "le", "ret", "urn", "par", "se")
_SIGNS = (" ", " = ", "(", "): ", ".", ", ", "_", "\n    ", " # ", " -> ")


@dataclass(frozen=True)
class Client:
    """What a client does to its requests; `repair` is the gateway's setting for it. One that is not `named` does not
    say which conversation a request belongs to: it is known by its beginning."""

    name: str
    named: bool = False
    tools_shuffled: bool = False
    keys_shuffled: bool = False
    clock: bool = False
    memory: bool = False
    repair: str = "suggest"

    def body(self, number: int) -> bytes:
        """The request of this number, beginning with 0."""
        chance = random.Random(f"{self.name} {number}")
        tools = [_tool(each) for each in range(12)]
        if self.tools_shuffled:
            tools.sort(key=lambda _: chance.random())
        request: dict[str, Any] = {
            "model": MODEL,
            "max_tokens": 200,
            "tools": tools,
            "system": [{"type": "text", "text": self._system(number)}],
            "messages": list(_messages(number)),
        }
        if self.keys_shuffled:
            request |= {name: _shuffled(request[name], chance) for name in ("tools", "messages")}
        return json.dumps(request, separators=(",", ":")).encode()

    def _system(self, number: int) -> str:
        parts = ["You look after a loader.", _text("system", 6_000)]
        if self.clock:
            parts.insert(0, f"Current time: {(_DAY + timedelta(seconds=41 * number)).isoformat()}")
        if self.memory:
            parts.append("# Memory\n" + "\n".join(f"- fact {each} of the loader" for each in range(number // 3 + 1)))
        return "\n\n".join(parts)


CLIENTS = (
    Client("plain"),
    Client("shuffled + re-serialised", named=True, tools_shuffled=True, keys_shuffled=True),
    Client("clock + memory + shuffled", tools_shuffled=True, clock=True, memory=True, repair="on"),
)


def _messages(number: int) -> Iterator[dict[str, Any]]:
    yield {"role": "user", "content": [{"type": "text", "text": "Please look at the loader. " + _text("task", 500)}]}
    for turn in range(number):
        said: list[dict[str, Any]] = [{"type": "text", "text": f"Now part {turn}. {_text(f'a{turn}', 200)}"}]
        results = []
        for place, size in enumerate(RESULTS):
            name = f"{turn:03}{place}"
            given = {
                "path": f"src/{name}.py",
                "depth": turn,
                "lines": {"first": 1, "last": 400},
                "why": _text(name, 60),
            }
            said.append({"type": "tool_use", "id": f"toolu_{name}", "name": f"tool_{turn % 12}", "input": given})
            content = [{"type": "text", "text": _text(f"f{name}", size)}]
            results.append({"type": "tool_result", "tool_use_id": f"toolu_{name}", "content": content})
        yield {"role": "assistant", "content": said}
        yield {"role": "user", "content": results}


def _tool(number: int) -> dict[str, Any]:
    properties = {"path": {"type": "string", "description": "where"}, "depth": {"type": "integer", "minimum": 0}}
    schema = {"type": "object", "properties": properties, "required": ["path"]}
    return {"name": f"tool_{number}", "description": _text(f"t{number}", 400), "input_schema": schema}


@cache
def _text(name: str, size: int) -> str:
    """A text like code: made-up names and signs, so that reading it costs what reading code does."""
    chance, parts, length = random.Random(name), [], 0
    while length < size:
        word = "".join(chance.choices(_SYLLABLES, k=chance.randint(1, 3))) + chance.choice(_SIGNS)
        parts.append(word)
        length += len(word)
    return "".join(parts)


def _shuffled(value: Any, chance: random.Random) -> Any:
    """The same value with the keys of all objects in another order."""
    if isinstance(value, list):
        return [_shuffled(each, chance) for each in value]
    if isinstance(value, dict):
        keys = sorted(value, key=lambda _: chance.random())
        return {key: _shuffled(value[key], chance) for key in keys}
    return value
