"""A lane that sends requests through the repairs and to the provider's checks, and a small conversation to send."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Self

import msgspec
from msgspec.structs import replace

from holdfast import facts
from holdfast.caches.chain import parting
from holdfast.caches.prompts import Prompt
from holdfast.core.repairs import ByteMemory, Mode, RepairState
from holdfast.engine.repairs.pipeline import Repaired, repair
from holdfast.lab import SEEDS, Trace, with_gaps
from holdfast.records import Request
from holdfast.simulator import HttpRequest, checks
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader
from tests.lab.recordings import own
from tests.properties.sessions import PATHS

MODELS = {
    "anthropic": "anthropic:claude-opus-4-6",
    "openai_chat": "openai:gpt-6.1-sol",
    "openai_responses": "openai:gpt-6.1-sol",
    "gemini": "gemini:gemini-3-pro",
}
assert {*MODELS} == {*DIALECTS} - {"openrouter"}, "a dialect without a model"
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01", "authorization": "Bearer k", "x-goog-api-key": "k"}


class Lane:
    """A lane with its state, a memory, and a disk that holds what had to be durable."""

    def __init__(self, dialect: str = "anthropic", mode: Mode = "on", *, memory: ByteMemory | None = None) -> None:
        self.dialect, self.mode = DIALECTS[dialect], mode
        self.model = facts.model(MODELS[dialect])
        self.disk: dict[bytes, bytes] = {}
        self.memory = memory or ByteMemory(load=self.disk.get)
        self.state = RepairState()
        self.reader, self.sent = PromptReader(), PromptReader()
        self.prompts: list[Prompt] = []

    def parse(self, raw: bytes) -> Body:
        body = self.dialect.parse(raw, model=self.model.ref.partition(":")[2])
        assert isinstance(body, Body)
        return body

    def send(self, request: dict[str, Any] | bytes, *, skip: frozenset[str] = frozenset()) -> Repaired:
        raw = request if isinstance(request, bytes) else json.dumps(request).encode()
        body = self.parse(raw)
        done = repair(
            body,
            self.reader.read(body, self.model).prompt,
            self.state,
            self.memory,
            mode=self.mode,
            skip=skip,
        )
        self.disk |= done.new
        after = self.parse(done.raw)
        assert self.refusal(after) == self.refusal(body)
        self.prompts.append(self.sent.read(after, self.model).prompt)
        return done

    def after(self, *requests: dict[str, Any] | bytes) -> Self:
        """The lane once these were sent."""
        for request in requests:
            self.send(request)
        return self

    def refusal(self, body: Body) -> object:
        """What the provider has against a body; nothing against most."""
        call = HttpRequest("POST", PATHS[self.dialect.name].format(model=body.model), HEADERS, {}, body.raw)
        return checks.check(self.dialect.name, body, self.model, call)

    def restart(self, *, durable: bool = True) -> None:
        """The process ends: the ledger is read back, the memory is empty."""
        self.state = msgspec.msgpack.decode(msgspec.msgpack.encode(self.state), type=RepairState)
        self.memory = ByteMemory(load=self.disk.get if durable else None)

    def breaks(self) -> list[int]:
        """The numbers of the requests that do not begin with the one before."""
        return [n for n, (a, b) in enumerate(pairwise(self.prompts), 1) if not extends(a, b)]


def extends(before: Prompt, after: Prompt) -> bool:
    return parting(before, after) is None and len(after.keys) >= len(before.keys)


def bodies(trace: Trace) -> Iterator[bytes]:
    for step in trace.steps:
        assert isinstance(step.content, Request)
        yield DIALECTS["anthropic"].encode(replace(step.content, output_limit=9))


def run(trace: Trace, mode: Mode = "on") -> tuple[Lane, list[Repaired]]:
    lane = Lane(mode=mode)
    return lane, [lane.send(raw) for raw in bodies(trace)]


def timed(name: str = "session") -> Trace:
    return with_gaps(own(name), "none", SEEDS[0])


# A small conversation to change at will

TOOLS = [{"name": n, "description": f"does {n}", "input_schema": {"type": "object"}} for n in ("bash", "edit", "read")]


def talk(turns: int, system: Any = "Be brief.", tools: Any = TOOLS, **more: Any) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    for turn in range(turns):
        messages += [
            {"role": "user", "content": f"question {turn}"},
            {
                "role": "assistant",
                "content": [
                    {"type": "tool_use", "id": f"t{turn}", "name": "bash", "input": {"a": 1, "b": {"x": 1.50}}}
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"t{turn}", "content": "done"}]},
            {"role": "assistant", "content": [{"type": "text", "text": f"answer {turn}"}]},
        ]
    messages.append({"role": "user", "content": f"question {turns}"})
    body = {"model": "claude-opus-4-6", "max_tokens": 9, "system": system, "tools": tools, "messages": messages}
    return body | more


def said(done: Repaired, message: int = -1) -> list[str]:
    content = json.loads(done.raw)["messages"][message]["content"]
    return [content] if isinstance(content, str) else [block.get("text", block["type"]) for block in content]


def clock(minute: int) -> str:
    return f"Current time: 2026-11-02T09:{minute:02}:00.000+00:00\n\nBe brief."


def names(done: Repaired) -> list[str]:
    return [tool["name"] for tool in json.loads(done.raw)["tools"]]


def turned(request: dict[str, Any]) -> dict[str, Any]:
    other = copy.deepcopy(request)
    for message in other["messages"]:
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                block["input"] = dict(reversed(block["input"].items()))
    return other
