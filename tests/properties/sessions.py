"""Generated sessions in every dialect: mostly they grow, sometimes they are edited, trimmed or set otherwise."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

from msgspec import Struct

from holdfast.simulator import HttpRequest

PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/{model}:generateContent",
}
_IMAGE = "aGVsbG8="


class Talk(Struct):
    """A conversation in no dialect. Turns are (kind, number, texts): user, picture, assistant, calls, results."""

    system: list[str]
    tools: list[str]
    turns: list[tuple[str, int, list[str]]]
    deferred: list[int] = []
    settings: dict[str, Any] = {}
    marks: list[tuple[str, str]] = []


class Sent(Struct, frozen=True):
    """A request at a time, in a workspace."""

    at: float
    workspace: str
    dialect: str
    model: str
    body: bytes

    @property
    def call(self) -> HttpRequest:
        headers = {"x-api-key": self.workspace, "authorization": f"Bearer {self.workspace}"}
        return HttpRequest("POST", PATHS[self.dialect].format(model=self.model), headers, {}, self.body)


def words(random: Random, name: object, most: int = 120) -> str:
    return f"{name} " + "all that was said is kept " * random.randrange(1, most)


def talk(random: Random) -> Talk:
    system = [words(random, f"system {random.randrange(3)}.{i}", 250) for i in range(random.choice([1, 2]))]
    return Talk(system, ["bash", "read"], [("user", 0, [words(random, "start")])])


def _turn(random: Random, number: int) -> list[tuple[str, int, list[str]]]:
    if random.random() < 0.5:
        calls = [f"call {number}.{i}" for i in range(random.choice([1, 1, 2, 12]))]
        return [("calls", number, calls), ("results", number, [words(random, each, 20) for each in calls])]
    said = ("picture" if random.random() < 0.1 else "user", number, [words(random, number)])
    return [("assistant", number, [words(random, number)]), said]


def changed(before: Talk, random: Random, number: int) -> Talk:
    after = copy.deepcopy(before)
    for step in range(random.choice([0, 1, 1, 1, 2, 9])):
        after.turns += _turn(random, number * 100 + step)
    what = random.choice(["nothing"] * 8 + ["edit", "trim", "tools", "deferred", "system", "settings"])
    if what == "edit":
        kind, turn, texts = random.choice(after.turns)
        after.turns[after.turns.index((kind, turn, texts))] = (kind, turn, [f"edited {number}" for _ in texts])
    elif what == "trim":
        after.turns = after.turns[:1] + after.turns[random.randrange(1, len(after.turns) + 1) :]
    elif what == "tools":
        after.tools = random.sample(["bash", "read", "write", "grep"], random.choice([2, 3]))
    elif what == "deferred":
        after.deferred = random.sample(range(3), random.choice([0, 1, 2]))
    elif what == "system":
        after.system[-1] = words(random, f"other {number}", 250)
    elif what == "settings":
        after.settings = random.choice([{}, {"thinking": True}, {"choice": True}, {"effort": "low"}])
    lifetimes = sorted((random.choice(["5m", "1h"]) for _ in range(2)), reverse=random.random() < 0.5)
    lifetimes = ["1h", "5m"] if lifetimes == ["5m", "1h"] else lifetimes  # a longer one must not follow a shorter one
    after.marks = list(zip(("system", "last"), lifetimes, strict=True))[random.choice([0, 0, 0, 1, 2]) :]
    return after


def session(
    random: Random, dialect: str, model: str, length: int, *, workspace: str = "w", pauses: tuple[float, ...] = ()
) -> list[Sent]:
    """Requests of one conversation, one after the other, with pauses below and above the lifetimes."""
    said, at, sent = talk(random), 0.0, []
    for number in range(length):
        at += random.choice(pauses or (0.0, 1.0, 20.0, 299.0, 301.0, 3_700.0))
        said = changed(said, random, number)
        spacing = random.choice([(",", ":"), (", ", ": ")])
        body = json.dumps(RENDER[dialect](said, model), separators=spacing, ensure_ascii=random.random() < 0.5)
        sent.append(Sent(at, workspace, dialect, model, body.encode()))
    return sent


def _marker(ttl: str) -> dict[str, Any]:
    return {"cache_control": {"type": "ephemeral"} | ({"ttl": ttl} if ttl == "1h" else {})}


def anthropic(said: Talk, model: str) -> dict[str, Any]:
    tools: list[dict[str, Any]] = [{"name": name, "input_schema": {"type": "object"}} for name in said.tools]
    for place in said.deferred:
        late = {"name": f"late{place}", "description": f"comes late {place} " * 20, "input_schema": {}}
        tools.insert(place, {**late, "defer_loading": True})
    messages: list[dict[str, Any]] = []
    for kind, number, texts in said.turns:
        if kind == "calls":
            uses = [
                {"type": "tool_use", "id": f"{number}.{i}", "name": "bash", "input": {"x": t}} for i, t in _each(texts)
            ]
            messages.append({"role": "assistant", "content": uses})
        elif kind == "results":
            results = [
                {"type": "tool_result", "tool_use_id": f"{number}.{i}", "content": _found(said, number, t)}
                for i, t in _each(texts)
            ]
            messages.append({"role": "user", "content": results})
        else:
            messages.append({"role": "assistant" if kind == "assistant" else "user", "content": texts[0]})
        if kind == "picture":
            source = {"type": "base64", "media_type": "image/png", "data": _IMAGE}
            messages[-1]["content"] = [{"type": "text", "text": texts[0]}, {"type": "image", "source": source}]
    system = [{"type": "text", "text": text} for text in said.system]
    for place, ttl in said.marks:
        if place == "system":
            system[-1] |= _marker(ttl)
        elif isinstance(messages[-1]["content"], str):
            messages[-1]["content"] = [{"type": "text", "text": messages[-1]["content"]} | _marker(ttl)]
        else:
            messages[-1]["content"][-1] |= _marker(ttl)
    body = {"model": model, "max_tokens": 9, "system": system, "tools": tools, "messages": messages}
    if said.settings.get("thinking"):
        body["thinking"] = {"type": "adaptive"}
    if said.settings.get("choice"):
        body["tool_choice"] = {"type": "any"}
    return body


def _found(said: Talk, number: int, text: str) -> Any:
    """A result; some name the tools that are deferred now."""
    if number % 3 or not said.deferred:
        return text
    return [{"type": "tool_reference", "tool_name": f"late{place}"} for place in said.deferred]


def _each(texts: list[str]) -> list[tuple[int, str]]:
    return list(enumerate(texts))


def _functions(said: Talk) -> list[dict[str, Any]]:
    return [{"name": name, "parameters": {"type": "object"}} for name in said.tools]


def openai_chat(said: Talk, model: str) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": text} for text in said.system]
    for kind, number, texts in said.turns:
        if kind == "calls":
            calls = [
                {"id": f"{number}.{i}", "type": "function", "function": {"name": "bash", "arguments": json.dumps(t)}}
                for i, t in _each(texts)
            ]
            messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        elif kind == "results":
            messages += [{"role": "tool", "tool_call_id": f"{number}.{i}", "content": t} for i, t in _each(texts)]
        else:
            messages.append({"role": "assistant" if kind == "assistant" else "user", "content": texts[0]})
        if kind == "picture":
            url = {"url": f"data:image/png;base64,{_IMAGE}"}
            messages[-1]["content"] = [{"type": "text", "text": texts[0]}, {"type": "image_url", "image_url": url}]
    tools = [{"type": "function", "function": function} for function in _functions(said)]
    body: dict[str, Any] = {"model": model, "messages": messages, "tools": tools}
    return body | ({"reasoning_effort": said.settings["effort"]} if "effort" in said.settings else {})


def openai_responses(said: Talk, model: str) -> dict[str, Any]:
    items: list[dict[str, Any]] = []
    for kind, number, texts in said.turns:
        for i, text in _each(texts):
            call = f"{number}.{i}"
            if kind == "calls":
                items.append({"type": "function_call", "call_id": call, "name": "bash", "arguments": json.dumps(text)})
            elif kind == "results":
                items.append({"type": "function_call_output", "call_id": call, "output": text})
            elif kind == "picture":
                image = {"type": "input_image", "image_url": f"data:image/png;base64,{_IMAGE}"}
                items.append({"role": "user", "content": [{"type": "input_text", "text": text}, image]})
            else:
                items.append({"role": kind, "content": text})
    tools = [{"type": "function", **function} for function in _functions(said)]
    body: dict[str, Any] = {"model": model, "instructions": said.system[0], "input": items, "tools": tools}
    return body | ({"reasoning": {"effort": said.settings["effort"]}} if "effort" in said.settings else {})


def gemini(said: Talk, model: str) -> dict[str, Any]:
    contents: list[dict[str, Any]] = []
    for kind, _, texts in said.turns:
        if kind == "calls":
            parts: list[dict[str, Any]] = [{"functionCall": {"name": "bash", "args": {"x": text}}} for text in texts]
        elif kind == "results":
            parts = [{"functionResponse": {"name": "bash", "response": {"output": text}}} for text in texts]
        else:
            parts = [{"text": texts[0]}]
        if kind == "picture":
            parts.append({"inlineData": {"mimeType": "image/png", "data": _IMAGE}})
        contents.append({"role": "model" if kind in ("assistant", "calls") else "user", "parts": parts})
    system = {"parts": [{"text": text} for text in said.system]}
    return {"systemInstruction": system, "tools": [{"functionDeclarations": _functions(said)}], "contents": contents}


RENDER = {
    "anthropic": anthropic,
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
}
