"""Make the small traces that the tests read: one file of each format, every text and number made up here.

    python scripts/make_traces.py tests/fixtures/traces

The same files come out on every run. The usage in the shape traces is that of a client whose every request reads what
the one before it covered, so it follows the cache rules but was billed by nobody.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SYSTEM_TOKENS = 6_000
TOKEN_CHARS = 4


def block(role: str, kind: str, chars: int, **more: Any) -> dict[str, Any]:
    return {"role": role, "type": kind, "chars": chars, **more}


def loop(step: int) -> list[dict[str, Any]]:
    """What one round of a tool loop adds."""
    sizes = [(step * 97 + k * 31) % 800 for k in range(1 + step % 2)]
    calls = [block("assistant", "tool_use", 60 + size // 10, tool="Bash") for size in sizes]
    results = [block("user", "tool_result", size, error=size % 5 == 0) for size in sizes]
    return [block("assistant", "text", 80 + step), *calls, *results]


def user(chars: int) -> list[dict[str, Any]]:
    return [block("assistant", "text", 120), block("user", "text", chars)]


def shape_lines() -> list[dict[str, Any]]:
    """Two sessions: a coding session with a pause, a side call and a compaction; a short one with a side chain."""
    lines: list[dict[str, Any]] = []
    main = {"session": "made-1", "model": "claude-opus-4-6", "sidechain": False}
    covered, now = 0, 3.0
    for number in range(1, 25):
        if number == 5:  # a title request on another model
            lines.append(
                {
                    "session": "made-1",
                    "request": number,
                    "at": now + 1,
                    "first_token_at": now + 1.5,
                    "model": "claude-haiku-4-5",
                    "sidechain": False,
                    "reset": None,
                    "added": [block("user", "text", 300)],
                    "usage": {"input": 75, "read": 0, "write_5m": 0, "write_1h": 0, "output": 9},
                }
            )
            continue
        reset = "compaction" if number == 17 else None
        added = [block("user", "text", 90)] if number == 1 else user(700) if number in (9, 17, 20) else loop(number)
        now += {9: 1_500.0, 17: 45.0, 20: 200.0}.get(number, 7.0 + number % 5)
        tokens = sum(b["chars"] for b in added) // TOKEN_CHARS
        read = 0 if number in (1, 9) else SYSTEM_TOKENS if reset else covered
        whole = SYSTEM_TOKENS + tokens if number == 1 or reset else covered + tokens
        lines.append(
            main
            | {
                "request": number,
                "at": now,
                "first_token_at": now + 2.5,
                "reset": reset,
                "added": added,
                "usage": {"input": 3, "read": read, "write_5m": whole - read, "write_1h": 0, "output": 40 + number},
            }
        )
        covered = whole
    for number, side in enumerate((False, False, True, True, False), 1):
        first = number in (1, 3)
        lines.append(
            {
                "session": "made-2",
                "request": number,
                "at": number * 4.0,
                "first_token_at": number * 4.0 + 3,
                "model": "claude-opus-4-6",
                "sidechain": side,
                "reset": None,
                "added": [block("user", "text", 400)] if first else loop(number),
                "usage": None,
            }
        )
    return lines


def text(topic: str, words: int) -> str:
    return " ".join(f"{topic}{(n * n + 3 * n) % 89}" for n in range(words))


def session() -> dict[str, Any]:
    """A conversation in Anthropic's form: nine turns, some with tool loops, ending with a result nobody answered."""
    messages: list[dict[str, Any]] = []
    for turn in range(9):
        messages.append({"role": "user", "content": [{"type": "text", "text": text(f"ask{turn}-", 12)}]})
        for call in range(turn % 3 if turn < 8 else 2):
            name = f"toolu_{turn}_{call}"
            arguments = {"path": f"src/file{turn}.py", "limit": 10 * call + 10, "content": text("code", 6)}
            use = {"type": "tool_use", "id": name, "name": "edit" if call else "read", "input": arguments}
            result = {"type": "tool_result", "tool_use_id": name, "content": text(f"result{turn}-{call}-", 30)}
            said = {"type": "text", "text": text(f"do{turn}-", 4)}
            messages += [{"role": "assistant", "content": [said, use]}, {"role": "user", "content": [result]}]
        if turn < 8:
            messages.append({"role": "assistant", "content": [{"type": "text", "text": text(f"done{turn}-", 8)}]})
    names = ("bash", "edit", "grep", "list", "read")
    return {
        "about": "Made by scripts/make_traces.py; call k sends the messages before the k-th assistant message.",
        "system": "You are a coding assistant.\n" + "\n".join(f"Rule {n}: {text('rule', 9)}" for n in range(12)),
        "tools": [
            {
                "name": name,
                "description": text(f"{name}-", 10),
                "input_schema": {
                    "type": "object",
                    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
                    "required": ["path"],
                },
            }
            for name in names
        ],
        "messages": messages,
    }


def dialogues() -> list[dict[str, Any]]:
    """Three dialogues in OpenAI's form; the last ends with a tool's answer."""
    found = []
    for number in range(3):
        messages: list[dict[str, Any]] = [{"role": "system", "content": text("policy", 120)}]
        for turn in range(3 + number):
            messages.append({"role": "user", "content": text(f"wish{number}-{turn}-", 10)})
            if turn % 2:
                name = f"call_{number}_{turn}"
                arguments = json.dumps({"user_id": f"user_{number}", "order": turn})
                call = {"id": name, "type": "function", "function": {"name": "look_up", "arguments": arguments}}
                messages.append({"role": "assistant", "tool_calls": [call]})
                answer = {"role": "tool", "tool_call_id": name, "name": "look_up", "content": text("found", 20)}
                messages.append(answer)
                if number == 2 and turn == 3:
                    break
            messages.append({"role": "assistant", "content": text(f"answer{number}-{turn}-", 9)})
        if messages[-1]["role"] == "assistant":
            messages.append({"role": "user", "content": "goodbye"})
        found.append({"session": f"dialogue-{number}", "messages": messages})
    return found


def dialogue_tools() -> list[dict[str, Any]]:
    schema = {
        "type": "object",
        "properties": {"user_id": {"type": "string"}, "order": {"type": "integer"}},
        "required": ["user_id"],
    }
    return [
        {"type": "function", "function": {"name": name, "description": text(f"{name}-", 8), "parameters": schema}}
        for name in ("look_up", "book", "cancel", "transfer")
    ]


def files() -> dict[str, str]:
    """Each file's name and content."""

    def lines(records: list[dict[str, Any]]) -> str:
        return "".join(json.dumps(record) + "\n" for record in records)

    return {
        "shapes.jsonl": lines(shape_lines()),
        "session.json": json.dumps(session(), indent=1) + "\n",
        "dialogues.jsonl": lines(dialogues()),
        "dialogues-tools.json": json.dumps(dialogue_tools(), indent=1) + "\n",
    }


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python scripts/make_traces.py DIRECTORY", file=sys.stderr)
        return 2
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (folder / name).write_text(content, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
