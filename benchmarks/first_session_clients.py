"""Requests of real clients at the sizes they really have, made from their recorded shapes.

In a shape every text is filler and cut short, so it has no size to speak of. Here long texts grow again, always to the
same filler: tools and system text to what the client really sends, results of tools and files to a usual length. All
else stays the client's own. Where fewer requests were recorded than are wanted, the last one goes on by turns like its
own.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.facts import estimate_json
from holdfast.lab.shape_blocks import words
from tests.shapes import Shape, conversations

CUT = 200
"""Characters at which texts of shapes are cut."""
RESULT, ANSWER, QUESTION = 600, 60, 40
"""Tokens of a tool's result, of an answer and of a question."""

Request = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """One request as it leaves its client."""

    headers: Mapping[str, str]
    query: str
    raw: bytes


@dataclass(frozen=True)
class Recorded:
    """A client's conversation: which recorded requests it consists of, and the tokens of its tools and system text. One
    that `reminds` puts a reminder behind the newest question, and takes it away again when that is answered."""

    name: str
    client: str
    requests: tuple[tuple[str, int], ...]
    head: int
    reminds: bool = False

    def session(self, length: int, *, grown: bool = True) -> list[Sent]:
        """Its first requests, fewer where the last one recorded is a sub-agent's first. Without `grown` texts stay as
        short as they were recorded."""
        shapes = [_shape(self.client, run, number) for run, number in self.requests][:length]
        bodies = [json.loads(shape.body or b"") for shape in shapes]
        while len(bodies) < length and len(bodies[-1]["messages"]) > 1:
            bodies.append(_continued(bodies[-1], len(bodies), reminds=self.reminds))
            shapes.append(shapes[-1])
        if grown:
            bodies = list(_grown(bodies, self.head))
        return [_sent(shape, body) for shape, body in zip(shapes, bodies, strict=True)]


def _run(run: str, *numbers: int) -> tuple[tuple[str, int], ...]:
    return tuple((run, number) for number in numbers)


JUDGED = (
    Recorded("Claude Code", "claude-code-2.1.325", (*_run("basic", 1, 2, 3, 4), ("continue", 1)), 21_460),
    Recorded("opencode", "opencode-1.18", (*_run("anthropic", 2, 3, 4), *_run("anthropic-continue", 1, 2)), 11_000),
    Recorded("aider with markers", "aider-0.86", _run("multi-anthropic", 1, 2, 3), 2_500, reminds=True),
    Recorded("aider without markers", "aider-0.86", _run("anthropic", 1), 2_500, reminds=True),
)
OTHERS = (
    Recorded("Claude Code, interactive", "claude-code-tui", _run("", 2, 3, 4, 5, 6, 7), 21_460),
    Recorded("Claude Code on Sonnet", "claude-code-2.1.325", _run("sonnet", 1, 2), 21_460),
    Recorded("Claude Code for an hour", "claude-code-2.1.325", _run("cache1h", 1, 2), 21_460),
    Recorded("Claude Code with a sub-agent", "claude-code-2.1.325", _run("agent", 1, 2, 3, 4, 5), 21_460),
    Recorded("Claude Agent SDK", "claude-agent-sdk", _run("basic", 1, 2, 3, 4), 21_460),
    Recorded("opencode with its title", "opencode-1.18", _run("anthropic", 1, 2, 3, 4, 5), 11_000),
    Recorded("Continue", "continue-cn", _run("long", 1, 2, 3, 4, 5), 6_000),
    Recorded("deepagents", "deepagents-0.7", _run("anthropic", 1, 2, 3, 4), 8_000),
    Recorded("deepagents with a sub-agent", "deepagents-0.7", _run("anthropic-agent", 1, 2, 3, 4), 8_000),
    Recorded("pi", "pi-0.73", (*_run("anthropic", 1, 2, 3, 4), ("anthropic-c", 1)), 3_000),
    Recorded("pydantic-ai with markers", "pydantic-ai-2.66", _run("anthropic-cache", 1, 2, 3, 4), 3_000),
)


def one_shots(count: int, tokens: int, *, marked: bool) -> list[Sent]:
    """aider asked so many times with `--read FILE`: each is a conversation of one request.

    aider puts what it was given to read behind its examples: a message with the file and an answer to it. Its marker of
    files, where it places any, stands on that answer. What is asked comes last, with its reminder.
    """
    shape = _shape("aider-0.86", "multi-anthropic" if marked else "anthropic", 1)
    (base,) = _grown([json.loads(shape.body or b"")], 2_500)
    base["messages"][6]["content"][0]["text"] = "the file\n" + words("file", tokens)
    found = []
    for number in range(count):
        body = copy.deepcopy(base)
        body["messages"][-1]["content"][0]["text"] = f"question {number}\n" + words(f"question {number}", 400)
        found.append(_sent(shape, body))
    return found


def documents(model: str, document: str, length: int, *, conversation: bool) -> list[Sent]:
    """A program that marks nothing and asks about a document: in one conversation, or from the start each time."""
    headers = {"user-agent": "Anthropic/Python 0.120.0", "x-api-key": "dummy", "anthropic-version": "2023-06-01"}
    shown: list[Any] = [{"type": "text", "text": document}]
    found = []
    for number in range(length):
        asked = [range(number + 1), (number,)][not conversation]
        messages: list[Any] = []
        for turn in asked:
            question = {"type": "text", "text": f"question {turn}\n" + words(f"question {turn}", QUESTION)}
            messages.append({"role": "user", "content": [question] if messages else [*shown, question]})
            if turn != asked[-1]:
                messages.append({"role": "assistant", "content": words(f"answer {turn}", ANSWER)})
        system = "You answer questions about a document."
        body = {"model": model, "max_tokens": 1_000, "system": system, "messages": messages}
        found.append(Sent(headers, "", json.dumps(body).encode()))
    return found


def _shape(client: str, run: str, number: int) -> Shape:
    return next(shape for shape in conversations()[client, run] if shape.n == number)


def _sent(shape: Shape, body: Request) -> Sent:
    headers: dict[str, str] = {}
    for name, value in shape.headers:
        headers.setdefault(name.lower(), value)
    raw = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    return Sent(headers, shape.path.partition("?")[2], raw)


# Growing


def _grown(bodies: Sequence[Request], head: int) -> Iterator[Request]:
    """The same requests with long texts. Equal texts stay equal, and tools and system text of the longest request come
    to so many tokens."""
    longest = max(bodies, key=_head_tokens)
    cut = list(_cut_texts(longest))
    each = max(0, head - _head_tokens(longest)) // max(1, len(cut))
    for body in bodies:
        yield {name: _longer(name, value, each) for name, value in body.items()}


def _head_tokens(body: Request) -> int:
    return estimate_json(json.dumps([body.get("tools"), body.get("system")]).encode())


def _cut_texts(body: Request) -> Iterator[str]:
    def seen(text: str) -> str:
        found.append(text)
        return text

    found: list[str] = []
    _each_text([body.get("tools"), body.get("system")], seen)
    yield from (text for text in found if len(text) >= CUT)


def _longer(name: str, value: Any, tokens: int) -> Any:
    if name in ("tools", "system"):
        return _each_text(value, lambda text: _more(text, tokens) if len(text) >= CUT else text)
    return [_longer_message(message) for message in value] if name == "messages" else value


def _longer_message(message: Request) -> Request:
    content = message["content"]
    if isinstance(content, str):
        return message | {"content": _more(content, RESULT) if len(content) >= CUT else content}
    return message | {"content": [_longer_block(block) for block in content]}


def _longer_block(block: Request) -> Request:
    if block["type"] == "tool_result":
        return block | {"content": _each_text(block["content"], lambda text: _more(text, RESULT))}
    if block["type"] == "text":
        return block | {"text": _more(block["text"], RESULT if len(block["text"]) >= CUT else QUESTION)}
    return block


def _more(text: str, tokens: int) -> str:
    return f"{text} {words(text, tokens)}"


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    """A value with its texts changed; names of keys, types and ids are none."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_each_text(each, change) for each in value]
    if isinstance(value, dict):
        return {
            key: each if key in ("type", "id", "tool_use_id", "name", "cache_control") else _each_text(each, change)
            for key, each in value.items()
        }
    return value


# Going on


def _continued(body: Request, number: int, *, reminds: bool) -> Request:
    """The request that follows: an answer like the last one, what comes back for it, and a marker on that where the
    client's own moves along."""
    following = copy.deepcopy(body)
    messages = following["messages"]
    *_, answer, question = copy.deepcopy(messages)
    moving = isinstance(question["content"], list) and "cache_control" in question["content"][-1]
    if moving:
        del messages[-1]["content"][-1]["cache_control"]
    if reminds:
        messages[-1]["content"][-1]["text"] = words(f"question {number}", QUESTION)
    messages += [_renamed(answer, number), _renamed(question, number)]
    return following


def _renamed(message: Request, number: int) -> Request:
    """A message of another turn: other texts, other ids."""
    content = message["content"]
    if isinstance(content, str):
        return message | {"content": f"{number} {content}"}
    blocks = []
    for block in content:
        new = dict(block)
        for key in {"id", "tool_use_id"} & block.keys():
            new[key] = f"{block[key][:-3]}{number:03}"
        if block["type"] == "text":
            new["text"] = f"{number} {block['text']}"
        elif block["type"] == "tool_result":
            new["content"] = _each_text(block["content"], lambda text: f"{number} {text}")
        blocks.append(new)
    return message | {"content": blocks}
