"""What every SDK is put through: the same tools, the same words, and a conversation that does not know who sends it.

A conversation is a generator: it yields the arguments of a request and is sent the response. So one text serves the
synchronous and the asynchronous client, streaming or not.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Generator
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import pytest

BOTH_WAYS = pytest.mark.parametrize("way", ["direct", pytest.param("gateway", marks=pytest.mark.slow)])
"""For tests of what a client sees: it must be the same with a gateway between it and the provider."""

MANUAL = (
    "The station writes down temperature, wind and rain of every hour, and what it does not know it leaves out. " * 300
)
QUESTION = "How is the weather in Paris and in Rome?"
THANKS = "Good, thank you."
ANSWER = "Sunny in Paris, rain in Rome."
FAREWELL = "You are welcome; this was turn 4."
CALLED = [("get_weather", "Paris"), ("get_weather", "Rome"), ("take_note", "sun\nrain")]

TOOLS: dict[str, tuple[str, str]] = {
    "get_weather": ("The weather in a city.", "city"),
    "take_note": ("Keep a text.", "text"),
}
"""Each tool with its description and its one argument."""

Conversation = Generator[dict[str, Any], Any, "Session"]


class Used(NamedTuple):
    """What a request was billed for, in the simulator's words."""

    input: int
    read: int
    written: int
    output: int


class Session(NamedTuple):
    """How a conversation went: the texts said, the tools called with their argument, the usage of every request."""

    texts: list[str]
    calls: list[tuple[str, str]]
    usage: list[Used]


class Workshop:
    """The tools at work; keeps what was called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def use(self, name: str, arguments: Any) -> str:
        given = json.loads(arguments) if isinstance(arguments, str) else arguments
        argument = given[TOOLS[name][1]]
        self.calls.append((name, argument))
        return {"Paris": "sun", "Rome": "rain"}.get(argument, "kept")


def schema(name: str) -> dict[str, Any]:
    """The JSON schema of a tool's input."""
    argument = TOOLS[name][1]
    return {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}


def drive(conversation: Conversation, ask: Callable[[dict[str, Any]], Any]) -> Session:
    """Carry a conversation out with a synchronous client."""
    try:
        request = next(conversation)
        while True:
            request = conversation.send(ask(request))
    except StopIteration as end:
        session: Session = end.value
        return session


async def adrive(conversation: Conversation, ask: Callable[[dict[str, Any]], Awaitable[Any]]) -> Session:
    """Carry a conversation out with an asynchronous client."""
    try:
        request = next(conversation)
        while True:
            request = conversation.send(await ask(request))
    except StopIteration as end:
        session: Session = end.value
        return session


class Control:
    """The paths under `/_sim/` of a served simulator."""

    def __init__(self, address: str) -> None:
        self.address = address

    def _send(self, path: str, body: Any = None) -> Any:
        raw = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.address + path, raw)) as response:
            return json.load(response)

    def requests(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._send("/_sim/requests")["requests"]
        return found

    def used(self) -> list[Used]:
        """The true usage of every request that generated something."""
        found = [request["usage"] for request in self.requests() if request["usage"] is not None]
        return [Used(use["input"], use["read"], sum(use["written"].values()), use["output"]) for use in found]

    def entries(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._send("/_sim/entries")["entries"]
        return found

    def reset(self) -> None:
        self._send("/_sim/reset", {})

    def fault(self, kind: str, times: int = 1, **options: Any) -> None:
        self._send("/_sim/faults", {"kind": kind, "times": times, "options": options})


def completed(session: Session, control: Control) -> None:
    """The conversation ended as scripted, and the client saw what the simulator says it billed."""
    assert session.texts[-2:] == [ANSWER, FAREWELL]
    assert session.calls == CALLED
    assert session.usage == control.used()
    assert len(session.usage) == 4
    assert {request["state"] for request in control.requests()} == {"complete"}


def grows(session: Session) -> None:
    """Every request after the first reads all that the one before had read and written."""
    assert session.usage[0].read == 0
    for earlier, later in pairwise(session.usage):
        assert later.read == earlier.read + earlier.written > earlier.read
