"""The demo's coding session: what the user asks, which tools the model calls, what they return. Made on the spot, the
same every time; nothing here knows of caches.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

from msgspec import Struct

from holdfast.records import Request
from holdfast.simulator import Part, Reply, ToolCall, Words

SEED = 11
MEMORY_EVERY = 3
"""Turns after which something has changed that is to be remembered."""
_AWAY = (11 * 60.0, 24 * 60.0, 15 * 60.0)
PARTS = ("accounts", "billing", "cache", "discounts", "exports", "filters", "gateway", "history", "invoices", "jobs")
VERBS = ("load", "check", "merge", "render", "store", "apply", "expand", "round", "group", "settle")
NOUNS = ("entry", "record", "total", "period", "customer", "line", "amount", "report", "batch", "currency")
ASKS = (
    "The tests of {part} fail since yesterday. Find out why and fix it.",
    "Rename {verb}_{noun} in {part}; keep the old name as an alias that warns once.",
    "{part} is slow with 50,000 rows. Measure first, then make it faster.",
    "Add a command-line switch for {part} and document it.",
    "Read {part} and tell me where an empty {noun} would go wrong.",
)
PERSONA = """You are an engineer who works in a repository with tools. Read before you write. Change what was asked and
nothing else. Run the tests after every change and say plainly what fails. Prefer small functions, names that say what a
thing is, and errors that say what to do. Never print secrets, never leave the workspace, never push."""
_PARAMETERS: dict[str, tuple[str, dict[str, str]]] = {
    "read_file": ("Read a file, or a range of its lines.", {"path": "string", "first": "integer", "last": "integer"}),
    "write_file": ("Create a file, or replace one that has been read before.", {"path": "string", "text": "string"}),
    "patch_file": (
        "Replace one exact passage of a file; it must occur once.",
        {"path": "string", "old": "string", "new": "string"},
    ),
    "list_dir": ("List a directory, folders first.", {"path": "string", "depth": "integer"}),
    "grep_files": ("Search files with a regular expression.", {"pattern": "string", "glob": "string"}),
    "run_command": (
        "Run a command in the workspace; output is cut in the middle if it is long.",
        {"command": "string", "timeout_s": "integer"},
    ),
    "run_tests": ("Run the tests, all or those that match.", {"match": "string", "fail_fast": "boolean"}),
    "git_diff": ("Show what has changed since the last commit.", {"path": "string"}),
    "git_log": ("Show the last commits of a path.", {"path": "string", "count": "integer"}),
    "web_fetch": ("Fetch a page of the project's documentation as text.", {"url": "string"}),
    "ask_user": ("Ask the user one question when nothing else can decide.", {"question": "string"}),
    "finish": ("Say that the task is done, with a summary of the change.", {"summary": "string"}),
}


class DemoTurn(Struct, frozen=True):
    """A turn: the user's message, the model's tool calls and its answer."""

    ask: str
    calls: tuple[tuple[str, dict[str, Any]], ...]
    answer: str


def tools() -> list[dict[str, Any]]:
    """The tool definitions in the client's own order."""
    guide = " Paths are relative to the workspace; a path outside it is refused. Results longer than 8,000 characters "
    guide += "are cut in the middle. An error comes back as text and says what to do next."
    return [
        {
            "name": name,
            "description": text + guide,
            "input_schema": {
                "type": "object",
                "properties": {key: {"type": kind, "description": f"The {key} to use."} for key, kind in keys.items()},
                "required": [next(iter(keys))],
            },
        }
        for name, (text, keys) in _PARAMETERS.items()
    ]


def instructions() -> str:
    """Persona and the project's own rules, as a client puts them into the system text."""
    rng = Random(f"{SEED} rules")
    rules = [
        f"- `{part}.py`: {_sentence(rng)} Its tests are in `tests/test_{part}.py`; {_sentence(rng).lower()}"
        for part in PARTS
        for _ in range(3)
    ]
    return "\n".join((PERSONA, "", "# Project", *rules))


def turns(count: int) -> list[DemoTurn]:
    """Return `count` turns, each with one to four calls."""
    rng = Random(f"{SEED} turns")
    planned = []
    for number in range(count):
        part = PARTS[number % len(PARTS)]
        ask = rng.choice(ASKS).format(part=part, verb=rng.choice(VERBS), noun=rng.choice(NOUNS))
        calls = [_call(part, step, rng) for step in range(1 + int(rng.random() * 4))]
        planned.append(DemoTurn(ask, tuple(calls), " ".join(_sentence(rng) for _ in range(3))))
    return planned


def pause(number: int) -> float | None:
    """Seconds that the user is away before this turn, longer than five minutes and shorter than an hour: before every
    third."""
    return _AWAY[number // 3 % len(_AWAY)] if number % 3 == 2 else None


def result(number: int, name: str) -> str:
    """Return a tool's result for the call with this number."""
    rng = Random(f"{SEED} result {number}")
    if name == "run_tests":
        lines = [f"tests/test_{part}.py {'.' * (5 + int(rng.random() * 30))} ok" for part in PARTS]
        return "\n".join((*lines, f"{80 + int(rng.random() * 60)} passed"))
    if name == "grep_files":
        return "\n".join(f"{rng.choice(PARTS)}.py:{i * 7}: {_code(rng)[1].strip()}" for i in range(20))
    return "\n".join(line for _ in range(8 + int(rng.random() * 25)) for line in _code(rng))


def model(planned: list[DemoTurn]) -> Any:
    """A script for the simulator: the reply that the plan has at this place of the conversation."""
    replies: list[Reply] = []
    for turn in planned:
        for name, arguments in turn.calls:
            call = ToolCall(f"toolu_{len(replies):04}", name, json.dumps(arguments).encode())
            replies.append(_reply((Words(f"I look at {arguments.get('path', name)} first."), call)))
        replies.append(_reply((Words(turn.answer),)))

    def reply(request: Request) -> Reply:
        answers = sum(message.role == "assistant" for message in request.messages)
        return replies[min(answers, len(replies) - 1)]

    return reply


def _reply(parts: tuple[Part, ...]) -> Reply:
    return Reply(parts, "tools" if isinstance(parts[-1], ToolCall) else "end", 0)


def _call(part: str, step: int, rng: Random) -> tuple[str, dict[str, Any]]:
    if step == 0:
        return "read_file", {"path": f"{part}.py", "first": 1, "last": 200 + int(rng.random() * 200)}
    name = rng.choice(("grep_files", "run_tests", "patch_file", "read_file"))
    if name == "grep_files":
        return name, {"pattern": f"{rng.choice(VERBS)}_{rng.choice(NOUNS)}", "glob": "**/*.py"}
    if name == "run_tests":
        return name, {"match": part, "fail_fast": True}
    if name == "patch_file":
        return name, {"path": f"{part}.py", "old": "\n".join(_code(rng)), "new": "\n".join(_code(rng))}
    return name, {"path": f"tests/test_{part}.py", "first": 1, "last": 120}


def _code(rng: Random) -> tuple[str, str, str, str]:
    verb, noun, other = rng.choice(VERBS), rng.choice(NOUNS), rng.choice(NOUNS)
    return (
        f"def {verb}_{noun}({other}s, *, limit={int(rng.random() * 900)}):",
        f'    """Give every {noun} of these {other}s, the newest first."""',
        f"    found = [each for each in {other}s if each.{noun} and each.{noun} < limit]",
        f"    return sorted(found, key=lambda each: each.{noun}, reverse=True)",
    )


def _sentence(rng: Random) -> str:
    verb, noun, other = rng.choice(VERBS), rng.choice(NOUNS), rng.choice(NOUNS)
    return f"It has to {verb} each {noun} before the {other} is closed, and to say so if it cannot."
