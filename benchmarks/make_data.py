"""Makes the sessions under benchmarks/data, of which docs/results.md speaks: `python -m benchmarks.make_data [FOLDER]`.

Everything is drawn from fixed seeds; no recording is in it. Sizes and gaps follow what coding agents and support desks
look like from outside: many short steps, few large results, a user who is sometimes away.

- coding.jsonl: shape traces of coding sessions, billed as a client with rolling five-minute markers is billed.
- dialogues.jsonl, dialogues-tools.json: short support dialogues with tool calls, in OpenAI's form, without times.
- session.json: one coding session with texts, in Anthropic's form: the base for clients that break their prefix.
"""

from __future__ import annotations

import json
import sys
from math import exp
from pathlib import Path
from random import Random
from statistics import NormalDist
from typing import Any

from holdfast.demo import session as demo_session

DATA = Path(__file__).parent / "data"
CODING, DIALOGUES, TURNS, RULES = 8, 40, 18, 140
HEAD, SIDE_HEAD, SHARED = 19_000, 6_000, 0.8
"""Tokens of tools and system text, of a sub-agent's, and the share of them that the client's sessions share."""
FULL, KEPT = 150_000, 9_000
"""A conversation of so many tokens is summed up in so many."""
PER_CHAR = 0.42
LIFE = 300.0


def made() -> dict[str, bytes]:
    """Every file by its name."""
    tools, dialogues = _dialogues()
    return {
        "coding.jsonl": _lines([line for number in range(CODING) for line in _coding(number)]),
        "dialogues.jsonl": _lines(dialogues),
        "dialogues-tools.json": json.dumps(tools, indent=1).encode() + b"\n",
        "session.json": json.dumps(_session(), indent=1).encode() + b"\n",
    }


def _lines(values: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


class _Chance:
    """Draws from the one method of Random whose sequence Python promises to keep."""

    def __init__(self, name: str) -> None:
        self._rng, self._normal = Random(name), NormalDist()

    def share(self) -> float:
        return self._rng.random()

    def around(self, median: float, sigma: float) -> float:
        return median * exp(sigma * self._normal.inv_cdf(min(max(self.share(), 1e-9), 1 - 1e-9)))

    def between(self, least: int, most: int) -> int:
        return least + int(self.share() * (most - least + 1))


class _Lane:
    """A client's requests, billed under rolling markers for five minutes."""

    def __init__(self, session: str, model: str, sidechain: bool, head: int) -> None:
        self.session, self.model, self.sidechain, self.head = session, model, sidechain, head
        self.covered, self.at, self.started = 0, 0.0, False

    def line(self, number: int, at: float, wait: float, added: list[dict[str, Any]], output: int) -> dict[str, Any]:
        reset = None
        if self.covered > FULL:
            reset, self.covered = "compaction", self.head
            added = [{"role": "user", "type": "text", "chars": int(KEPT / PER_CHAR)}, *added]
        total = max(self.covered, self.head) + int(sum(each["chars"] for each in added) * PER_CHAR)
        live = self.started and at - self.at <= LIFE
        read = self.covered if live else 0 if self.started else int(self.head * SHARED)
        self.covered, self.at, self.started = total, at, True
        return {
            "session": self.session,
            "request": number,
            "at": round(at, 3),
            "first_token_at": round(at + wait, 3),
            "model": self.model,
            "sidechain": self.sidechain,
            "reset": reset,
            "added": added,
            "usage": {"input": 3, "read": read, "write_5m": total - read, "write_1h": 0, "output": output},
        }


def _coding(number: int) -> list[dict[str, Any]]:
    """A session: turns of a user, each with a loop of tool calls; now and then a sub-agent beside it."""
    chance, name = _Chance(f"coding {number}"), f"coding-{number + 1:02}"
    main, side = _Lane(name, "claude-opus-4-6", False, HEAD), _Lane(name, "claude-haiku-4-5", True, SIDE_HEAD)
    lines: list[dict[str, Any]] = []
    at = 0.0
    for turn in range(chance.between(6, 14)):
        if turn:
            at += _pause(chance)
        asked: list[dict[str, Any]] = [{"role": "user", "type": "text", "chars": int(chance.around(120, 1.2))}]
        added = (_answer(chance) if turn else []) + asked
        for _ in range(chance.between(3, 22)):
            lines.append(main.line(len(lines) + 1, at, 1.5 + 4 * chance.share(), added, int(chance.around(150, 1.0))))
            at += 6 + chance.around(6, 1.0)
            if chance.share() < 0.03:
                for _ in range(chance.between(2, 5)):
                    lines.append(side.line(len(lines) + 1, at, 1.0, _step(chance), int(chance.around(90, 0.8))))
                    at += 3 + chance.around(4, 0.8)
            added = _step(chance)
    return lines


def _pause(chance: _Chance) -> float:
    """Between two turns: mostly a minute or two, sometimes a coffee, sometimes a meeting."""
    kind = chance.share()
    if kind < 0.68:
        return 10 + chance.around(70, 0.9)
    return 300 + 2_700 * chance.share() if kind < 0.9 else 3_600 + 14_400 * chance.share()


def _answer(chance: _Chance) -> list[dict[str, Any]]:
    return [{"role": "assistant", "type": "text", "chars": int(chance.around(600, 0.8))}]


def _step(chance: _Chance) -> list[dict[str, Any]]:
    """What a tool loop adds: perhaps thoughts and a sentence, one to three calls, their results."""
    calls = 1 + (chance.share() < 0.15) + (chance.share() < 0.06)
    said: list[dict[str, Any]] = []
    if chance.share() < 0.12:
        said.append({"role": "assistant", "type": "thinking", "chars": int(chance.around(250, 0.9))})
    if chance.share() < 0.6:
        said.append({"role": "assistant", "type": "text", "chars": int(chance.around(75, 0.7))})
    said += [
        {"role": "assistant", "type": "tool_use", "chars": int(chance.around(130, 1.0)), "tool": tool}
        for tool in ("run", "read", "edit")[:calls]
    ]
    results = [
        {"role": "user", "type": "tool_result", "chars": int(chance.around(420, 1.9)) % 40_000, "error": False}
        for _ in range(calls)
    ]
    return said + results


def _session() -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    number = 0
    for turn in demo_session.turns(TURNS):
        messages.append({"role": "user", "content": turn.ask})
        for name, arguments in turn.calls:
            use = {"type": "tool_use", "id": f"toolu_{number:04}", "name": name, "input": arguments}
            result = {"type": "tool_result", "tool_use_id": use["id"], "content": demo_session.result(number, name)}
            messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
            number += 1
        messages.append({"role": "assistant", "content": [{"type": "text", "text": turn.answer}]})
    about = "Made by benchmarks/make_data.py; call k sends the messages before the k-th assistant message."
    return {
        "about": about,
        "system": demo_session.instructions(),
        "tools": demo_session.tools(),
        "messages": messages,
    }


_TOPICS = ("a booking", "a refund", "a lost parcel", "an invoice", "a new address", "a broken device", "a subscription")
_TOOLS = ("find_customer", "find_order", "change_order", "refund_order", "open_ticket", "send_message")


def _dialogues() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    rules = "\n".join(
        f"Rule {n}: for {_TOPICS[n % len(_TOPICS)]}, ask for the number first, look it up, and change nothing that the "
        f"customer has not confirmed in step {n % 9 + 1}."
        for n in range(RULES)
    )
    policy = "You help customers of a shop. Follow these rules to the letter.\n" + rules
    tools = [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": f"{name.replace('_', ' ').capitalize()} in the shop's own records, by its number.",
                "parameters": {
                    "type": "object",
                    "properties": {"number": {"type": "string"}, "reason": {"type": "string"}},
                    "required": ["number"],
                },
            },
        }
        for name in _TOOLS
    ]
    return tools, [
        {"session": f"dialogue-{n + 1:02}", "messages": [{"role": "system", "content": policy}, *_dialogue(n)]}
        for n in range(DIALOGUES)
    ]


def _dialogue(number: int) -> list[dict[str, Any]]:
    chance = _Chance(f"dialogue {number}")
    topic = _TOPICS[number % len(_TOPICS)]
    messages: list[dict[str, Any]] = []
    for turn in range(chance.between(3, 9)):
        case = f"{number:03}-{turn:02}-{chance.between(1000, 9999)}"
        messages.append({"role": "user", "content": f"It is about {topic}, number {case}. Can you look at it?"})
        for call in range(chance.between(0, 2)):
            tool = _TOOLS[(number + turn + call) % len(_TOOLS)]
            made = {"name": tool, "arguments": json.dumps({"number": case})}
            ident = f"call_{number}_{turn}_{call}"
            messages.append(
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": ident, "type": "function", "function": made}],
                }
            )
            rows = "\n".join(f"{case}/{row}: state {row % 4}, amount {chance.between(5, 900)}" for row in range(12))
            messages.append({"role": "tool", "tool_call_id": ident, "content": rows})
        messages.append({"role": "assistant", "content": f"I have looked at {case}: shall I go on with {topic}?"})
    return messages


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DATA
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in made().items():
        (folder / name).write_bytes(content)
        print(f"{folder / name}: {len(content):,} bytes")
