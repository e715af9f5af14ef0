"""Conversations as a coding agent sends them, for the gateway's benchmark: each request adds a turn to the last one.

Sizes follow recorded sessions: a turn adds a line of text, a call and its result, three blocks of about 1 kB each, and
the client marks its system text and its last message. Texts differ from lane to lane, so that nothing is shared which
real lanes would not share: only tools and system text are.
"""

from __future__ import annotations

import json
import random

MODEL = "claude-opus-4-6"
WORDS = ("kelp", "rock", "tide", "def load(path):", "return None", "src/module/file.py", "42", "é", "while", "anchor")
RESULTS = (500, 8_000, 900, 1_500, 600, 5_000, 1_200, 3_500)
"""Bytes of the results of calls, in turn: most are short, the long ones make the size."""

_MARK = ',"cache_control":{"type":"ephemeral"}'
_LINE = 96  # bytes of a line of text, about


class Texts:
    """What all conversations draw from: a head (tools and system text) and lines of text, JSON already."""

    def __init__(self, seed: int = 7) -> None:
        chance = random.Random(seed)

        def line() -> str:
            words: list[str] = []
            while sum(map(len, words)) + len(words) < _LINE - 2:
                words.append(chance.choice(WORDS))
            return " ".join(words) + "\\n"

        self.lines = [line() for _ in range(1_024)]
        schema = {"type": "object", "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}}}
        tools = [
            {"name": f"tool_{i}", "description": "".join(self.lines[i * 7 : i * 7 + 6]), "input_schema": schema}
            for i in range(16)
        ]
        system = [{"type": "text", "text": "".join(self.lines[:80]), "cache_control": {"type": "ephemeral"}}]
        request = {"model": MODEL, "max_tokens": 500, "tools": tools, "system": system}
        self.head = json.dumps(request, separators=(",", ":"))[:-1].encode()


class Conversation:
    """One lane. `body()` is the request that is due; `grow()` takes its answer in and adds the next turn."""

    def __init__(self, texts: Texts, name: str, size: int, *, stream: bool = False) -> None:
        self.name = name
        self._texts, self._turns = texts, 0
        self._chance = random.Random(name)
        option = b',"stream":true' if stream else b""
        first = f'{{"role":"user","content":[{{"type":"text","text":"{name}: please look at this"}}]}}'
        self._sent = bytearray(texts.head + option + b',"messages":[' + first.encode())
        self._last = self._turn()
        while len(self._sent) + len(self._last[1]) < size:
            self.grow()

    def body(self) -> bytes:
        return b"".join((self._sent, self._last[0], b"]}"))

    def grow(self) -> None:
        self._sent += self._last[1]
        self._last = self._turn()

    def _turn(self) -> tuple[bytes, bytes]:
        """The next turn, as the end of a request with the client's marker and as history without."""
        self._turns += 1
        name, lines = f"{self.name}.{self._turns}", self._texts.lines
        start = self._chance.randrange(len(lines) - 100)
        count = RESULTS[self._turns % len(RESULTS)] // _LINE
        text = f'{{"type":"text","text":"{name} {lines[start]}"}}'
        call = f'{{"type":"tool_use","id":"toolu_{name}","name":"tool_1","input":{{"path":"{name}","depth":2}}}}'
        result = (
            f'{{"type":"tool_result","tool_use_id":"toolu_{name}","content":"{"".join(lines[start : start + count])}"'
        )
        said = f',{{"role":"assistant","content":[{text},{call}]}},{{"role":"user","content":[{result}'
        return f"{said}{_MARK}}}]}}".encode(), f"{said}}}]}}".encode()
