"""Generated sessions of clients whose prompts have values that change: a clock, a meter, a memory, a clock in a tool.

`Client` says what it says now and makes requests of it, in every dialect; `heard` reads a request as a model does, from
its beginning to its end, and gives what is believed in the end of everything that changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

from msgspec import Struct

from tests.properties.sessions import RENDER, Talk

MODELS = {
    "anthropic": "claude-opus-4-6",
    "openai_chat": "gpt-6.1-sol",
    "openai_responses": "gpt-6.1-sol",
    "gemini": "gemini-3-pro",
}
RULES = "Read every record of the file and check each of its fields. " * 8
_VALUES = {
    "clock": re.compile(r"Now: 2026-11-02T(\d\d:\d\d):00Z"),
    "here": re.compile(r"It is (\d\d:\d\d) here"),
    "there": re.compile(r"It is (\d\d:\d\d) there"),
    "meter": re.compile(r"Usage: (\d+) tokens used"),
    "tool": re.compile(r"The shell says (\d\d:\d\d) now"),
    "schema": re.compile(r"The argument says (\d\d:\d\d) now"),
}
_MEMORY = re.compile(
    r"(?P<all># Memory\n(?P<facts>(?:- [^\n]+(?:\n|$))*))|Added to “Memory”:\n(?P<more>(?:- [^\n]+(?:\n|$))+)"
    r"|“Memory” is now (?P<empty>empty)"
)


class Present(Struct, frozen=True):
    """What a client says now; None of what it does not say."""

    values: dict[str, str | None]
    memory: frozenset[str] = frozenset()


class Client:
    """A client and its conversation. `name` makes its facts its own."""

    def __init__(self, random: Random, dialect: str, name: str = "fact") -> None:
        self.random, self.dialect, self.name = random, dialect, name
        self.values: dict[str, str | None] = {key: self._value(key) for key in _VALUES}
        for key in random.sample(sorted(_VALUES), random.randrange(4)):
            self.values[key] = None
        self.memory: list[str] | None = [f"{name} 0"] if random.random() < 0.8 else None
        self.facts = 1
        self.numbers = 0

    def _value(self, key: str) -> str:
        number = self.random.randrange(60)
        return str(number * 100) if key == "meter" else f"{10 + number % 3}:{number:02}"

    def change(self) -> None:
        """Some of what it says is something else from now on."""
        for key, value in self.values.items():
            if value is not None and self.random.random() < 0.4:
                self.values[key] = self._value(key)
        memory = self.memory
        if memory is not None and self.random.random() < 0.5:
            how = self.random.choice(["add", "add", "drop", "turn", "empty"])
            if how == "add":
                memory.append(f"{self.name} {self.facts}")
                self.facts += 1
            elif how == "turn":
                memory.reverse()
            elif memory:
                del memory[: 1 if how == "drop" else None]
        if self.random.random() < 0.04:  # an operator changes the prompt
            key = self.random.choice(sorted(self.values))
            self.values[key] = self._value(key) if self.values[key] is None else None
        if self.random.random() < 0.03:
            self.memory = None if memory is not None else [f"{self.name} {self.facts}"]

    @property
    def present(self) -> Present:
        return Present(dict(self.values), frozenset(self.memory or ()))

    def request(self, turns: list[tuple[str, int, list[str]]]) -> dict[str, Any]:
        """A request with what it says now, in a conversation of these turns."""
        said = self.values
        first = ["Be brief."] + ([f"Now: 2026-11-02T{said['clock']}:00Z"] if said["clock"] else []) + [RULES]
        long = [f"It is {said[key]} {key}. {RULES}" for key in ("here", "there") if said[key]]
        first += ["".join(long)] if long else []
        first += ["", "# Memory", *(f"- {fact}" for fact in self.memory)] if self.memory is not None else []
        second = [RULES] + ([f"Usage: {said['meter']} tokens used."] if said["meter"] else [])
        system = ["\n".join(first), "\n".join(second)]
        if self.dialect == "openai_responses":
            system = ["\n".join(second + first)]
        body: dict[str, Any] = RENDER[self.dialect](Talk(system, ["bash", "read"], turns), MODELS[self.dialect])
        self._describe(body)
        return body

    def _describe(self, body: dict[str, Any]) -> None:
        tool = body["tools"][0]
        tool = tool["functionDeclarations"][0] if self.dialect == "gemini" else tool.get("function", tool)
        if self.values["tool"]:
            tool["description"] = f"Runs a command. The shell says {self.values['tool']} now."
        if self.values["schema"]:
            schema = tool["input_schema" if self.dialect == "anthropic" else "parameters"]
            schema["description"] = f"The argument says {self.values['schema']} now."

    def turn(self) -> list[tuple[str, int, list[str]]]:
        """An answer or calls, and what follows."""
        self.numbers += 1
        number = self.numbers
        if self.random.random() < 0.3:
            return [("calls", number, [f"call {number}"]), ("results", number, [f"result {number}"])]
        word = self.random.choice([f"and {number}?", "go on"])
        return [("assistant", number, [f"answer {number}"]), ("user", number, [word])]


def strings(value: Any) -> Iterator[str]:
    """All strings of a value, in their order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, each in value.items():
            if key != "cache_control":
                yield from strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from strings(each)


def sections(raw: bytes) -> tuple[list[str], list[str]]:
    """What stands in front of the conversation, and what is said in it."""
    body = json.loads(raw)
    head = [*strings(body.get("tools")), *strings([body.get(name) for name in ("system", "instructions")])]
    head += strings(body.get("systemInstruction"))
    said = next(body[name] for name in ("messages", "input", "contents") if name in body)
    leading = [message for message in said if message.get("role") == "system"]
    return [*head, *strings(leading)], [*strings([each for each in said if each.get("role") != "system"])]


def heard(raw: bytes) -> Present:
    """What a model that reads all of it takes for the present values."""
    head, said = sections(raw)
    values: dict[str, str | None] = dict.fromkeys(_VALUES)
    memory: set[str] = set()
    for text in [*head, *said]:
        for key, pattern in _VALUES.items():
            for found in pattern.findall(text):
                values[key] = found
        for match in _MEMORY.finditer(text):
            memory = memory if match["more"] else set()
            facts = match["facts"] or match["more"] or ""
            memory |= {fact.removeprefix("- ") for fact in facts.splitlines()}
    return Present(values, frozenset(memory))


def stands_in(part: list[str], whole: list[str]) -> bool:
    """Whether all of a list stands in another one, in its order."""
    rest = iter(whole)
    return all(each in rest for each in part)
