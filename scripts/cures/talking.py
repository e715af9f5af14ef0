"""The conversation that the examples change: a coding session with house rules, tools, and files that are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .playing import Ask

MODEL = "claude-opus-5-5"
_SUBJECTS = ("a file", "a test", "a commit", "a name", "an error", "a setting", "a migration", "a log line")
_RULES = (
    "say in a sentence what changes before {} is touched",
    "read all of it first, because half of {} is worse than none",
    "keep {} as small as it can be and no smaller",
    "leave {} better than it was, and nothing around it",
    "ask when {} could mean two things, and show both of them",
)
HOUSE = "You are an engineer who works in a repository.\n\n# House rules\n" + "\n".join(
    f"- {rule.format(subject)}; in {area} this holds without exception"
    for area in ("the engine", "the gateway", "the store", "the command line", "the documentation")
    for rule in _RULES
    for subject in _SUBJECTS
)
"""Some thousand tokens that never change by themselves."""


def tool(name: str, told: str) -> dict[str, Any]:
    about = f"{told} Paths are relative to the workspace; an error comes back as text and says what to do next."
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "lines": {"type": "string"}}}
    return {"name": name, "description": about, "input_schema": schema}


TOOLS = [
    tool("read_file", "Read a file, or a range of its lines."),
    tool("edit_file", "Replace one passage of a file."),
    tool("run_tests", "Run the tests, all or those that match."),
]


def text(words: str, ttl: str | None = None) -> dict[str, Any]:
    return {"type": "text", "text": words} | marker(ttl)


def marker(ttl: str | None) -> dict[str, Any]:
    if ttl is None:
        return {}
    return {"cache_control": {"type": "ephemeral"} | ({"ttl": ttl} if ttl != "5m" else {})}


def source(number: int) -> str:
    """A file as a tool returns it."""
    lines = (f"    total_{number}_{line} = settle(batch[{line}], rounding=HALF_EVEN)" for line in range(60))
    return f"def settle_{number}(batch):\n" + "\n".join(lines)


def turn(number: int) -> list[dict[str, Any]]:
    """A question, a tool call, its result and an answer."""
    call = f"toolu_{number:02}"
    asked = {"path": f"src/settle_{number}.py", "lines": "1-60"}
    return [
        {"role": "user", "content": [text(f"Does src/settle_{number}.py round as the rules say?")]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": "read_file", "input": asked}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": source(number)}]},
        {"role": "assistant", "content": [text(f"settle_{number} rounds half to even, as the rules say.")]},
    ]


def conversation(turns: int) -> list[dict[str, Any]]:
    """So many turns, and the question of the next."""
    said = [message for number in range(turns) for message in turn(number)]
    return [*said, {"role": "user", "content": [text(f"Does src/settle_{turns}.py round as the rules say?")]}]


def talk(
    turns: int,
    *,
    system: str = HOUSE,
    tools: list[dict[str, Any]] = TOOLS,
    messages: list[dict[str, Any]] | None = None,
    ttl: str | None = "5m",
    **more: Any,
) -> dict[str, Any]:
    """A request with a marker at the end of the system text and one at its own end."""
    said = conversation(turns) if messages is None else list(messages)
    *before, last = said[-1]["content"]
    said[-1] = said[-1] | {"content": [*before, last | marker(ttl)]}
    body = {"model": MODEL, "max_tokens": 512, "tools": tools, "system": [text(system, ttl)], "messages": said}
    return body | more


def grown(change: Callable[[int], dict[str, Any]], count: int = 4) -> tuple[Ask, ...]:
    """A conversation that goes on, one request for each number of turns from 1."""
    return tuple(Ask(body=change(number)) for number in range(1, count + 1))


def from_third(change: Callable[[int, bool], dict[str, Any]]) -> tuple[Ask, ...]:
    """The same, with something that is otherwise from the third request on."""
    return grown(lambda number: change(number, number > 2))
