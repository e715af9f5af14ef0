"""Each fault of the simulator through the gateway: a client sees what it would have seen without."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.simulator.clock import VirtualClock
from holdfast.simulator.provider import Simulator
from holdfast.simulator.script import CallStep, Script, ScriptRule, ScriptStep
from holdfast.simulator.server import running as simulating
from tests.simulator.http_client import ANTHROPIC, GEMINI, OPENAI, Client

from .gate import Gated, Heard, eventually, gated, hear, spoken

pytestmark = pytest.mark.slow

WORDS = "A reply of some length, so that it comes in several pieces and can be cut."
SCRIPT = Script(name="words", rules=(ScriptRule(ScriptStep(say=WORDS, calls=(CallStep("any"),))),))
SAID = [{"role": "user", "content": "Read the file and say what is in it."}]
TOOL = {"type": "object", "properties": {"path": {"type": "string"}}}

CALLS: dict[str, tuple[str, dict[str, str], dict[str, Any]]] = {
    "anthropic": (
        "/v1/messages",
        ANTHROPIC,
        {
            "model": "claude-opus-4-6",
            "max_tokens": 100,
            "messages": SAID,
            "tools": [{"name": "read", "description": "Reads.", "input_schema": TOOL}],
        },
    ),
    "openai_chat": (
        "/v1/chat/completions",
        OPENAI,
        {"model": "gpt-5.5", "messages": SAID, "tools": [{"type": "function", "function": {"name": "read"}}]},
    ),
    "openai_responses": (
        "/v1/responses",
        OPENAI,
        {"model": "gpt-5.5", "input": SAID, "tools": [{"type": "function", "name": "read", "parameters": TOOL}]},
    ),
    "gemini": (
        "/v1beta/models/gemini-2.5-pro:generateContent",
        GEMINI,
        {
            "contents": [{"role": "user", "parts": [{"text": "Read the file and say what is in it."}]}],
            "tools": [{"functionDeclarations": [{"name": "read", "description": "Reads."}]}],
        },
    ),
}
FAULTS: dict[str, dict[str, Any]] = {
    "none": {},
    **{f"status {n}": {"kind": "status", "options": {"status": n}} for n in (400, 401, 403, 404, 429, 500, 503, 529)},
    "status 429 with a time": {"kind": "status", "options": {"status": 429, "retry_after": 3}},
    **{
        f"{kind} {at}": {"kind": kind, "options": {"at": at}}
        for kind in ("cut", "close", "sse_error", "malformed")
        for at in ("early", "mid", "before_last")
    },
    "stall": {"kind": "stall", "options": {"seconds": 0.05}},
    "drip": {"kind": "drip", "options": {"bytes": 40, "seconds": 0.0005}},
    "wrong usage": {"kind": "wrong_usage", "options": {"factor": 3.0}},
}


@contextmanager
def simulated() -> Iterator[str]:
    with simulating(Simulator(clock=VirtualClock(), script=SCRIPT)) as address:
        yield address


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Gated]]:
    """A simulator, another one just like it, and a gateway in front of that."""
    with ExitStack() as stack:
        direct, behind = stack.enter_context(simulated()), stack.enter_context(simulated())
        yield direct, behind, stack.enter_context(gated(tmp_path_factory.mktemp("home"), behind))


def asked(dialect: str, stream: bool) -> bytes:
    path, headers, body = CALLS[dialect]
    if stream and dialect == "gemini":
        path = path.replace(":generate", ":streamGenerate") + "?alt=sse"
    elif stream:
        body = body | {"stream": True}
    return spoken("POST", path, tuple(headers.items()), json.dumps(body).encode())


def seen(heard: Heard) -> tuple[bytes, list[tuple[str, str]], bytes, bool]:
    """What a client makes of an answer: the pieces in which it came and our own headers are not part of it."""
    headers = sorted(heard.headers("date", "x-holdfast"))
    return heard.data.partition(b"\r\n")[0], headers, heard.body, heard.reset


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("dialect", list(CALLS))
@pytest.mark.parametrize("fault", list(FAULTS))
def test_the_same_with_and_without(pair: tuple[str, str, Gated], fault: str, dialect: str, stream: bool) -> None:
    direct, behind, gate = pair
    found = []
    for simulator, address in ((direct, direct), (behind, gate.address)):
        client = Client(simulator)
        assert client.send("POST", "/_sim/reset").status < 300
        if FAULTS[fault]:
            client.fault(**FAULTS[fault])
        found.append(seen(hear(address, asked(dialect, stream))))
        assert client.get("/_sim/requests")["requests"][-1]["fault"] == (_label(fault) if FAULTS[fault] else "")
    assert found[0] == found[1]


def _label(fault: str) -> str:
    name = fault.removesuffix(" with a time").replace("wrong usage", "wrong_usage")
    return "stall mid" if name == "stall" else name


def test_the_tally_is_told(tmp_path: Path) -> None:
    """A stream that ends without its end is no success, though the client saw a polite one."""
    with simulated() as upstream, gated(tmp_path, upstream) as gate:
        Client(upstream).fault("close", options={"at": "mid"})
        for _ in range(2):
            hear(gate.address, asked("anthropic", True))
        eventually(lambda: len(gate.calls) == 2)
        passages = [call.passage for call in gate.calls]
        verdicts = [each.prepared.verdict for each in passages if each is not None and each.prepared is not None]
    assert [verdict is None for verdict in verdicts] == [True, False]
