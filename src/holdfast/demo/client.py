"""The demo's client: an agent loop over HTTP, as careless as many are.

It writes the time into its system text, sends its tools in another order each time, and keeps its memory in the system
text. It asks for automatic caching, as the provider's documentation shows it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.simulator import VirtualClock
from holdfast.upstream import HttpClient, UpstreamError, parse_address

from . import session as demo_session

_TIMEOUT_S = 60.0
_LARGEST = 10_000_000  # bytes of an answer


async def session(
    address: str,
    clock: VirtualClock,
    model: str,
    turns: Sequence[demo_session.DemoTurn],
    *,
    results: Sequence[str],
    headers: dict[str, str],
    on_turn: Callable[[], None],
) -> None:
    """Send one session, whose tools return `results`; time is the clock's, which passes in no time."""
    messages: list[dict[str, Any]] = []
    rng, calls = Random(demo_session.SEED), 0
    sent = {"x-api-key": "demo", "anthropic-version": "2023-06-01", "content-type": "application/json"}
    sent |= {"user-agent": "python", **headers}
    raw_headers = [(name.encode(), value.encode()) for name, value in sent.items()]
    http = HttpClient(connect_s=_TIMEOUT_S, idle_s=_TIMEOUT_S, use_proxies=False)

    async def ask(body: dict[str, Any]) -> list[dict[str, Any]]:
        to, raw = parse_address("gateway", address), json.dumps(body).encode()
        try:
            response = await http.send(to, "POST", to.path("/v1/messages"), raw_headers, raw)
            answer = json.loads(await response.read(_LARGEST))
        except UpstreamError as error:
            raise HoldfastError(
                f"the demo cannot reach its own gateway at {address} ({error.reason or error}); check the loopback "
                "network."
            ) from error
        if response.status != 200:
            raise HoldfastError(f"the demo's request was answered with {response.status}: {answer}; please report it.")
        return list(answer["content"])

    try:
        for number, turn in enumerate(turns):
            clock.advance(demo_session.pause(number) or 30 + rng.random() * 90)
            messages.append({"role": "user", "content": turn.ask})
            while True:
                content = await ask(_body(model, messages, clock, number, rng))
                messages.append({"role": "assistant", "content": content})
                clock.advance(5 + rng.random() * 10)
                wanted = [block for block in content if block["type"] == "tool_use"]
                if not wanted:
                    break
                messages.append({"role": "user", "content": [_answered(wanted[0], results[calls])]})
                calls += 1
            on_turn()
    finally:
        await http.close()


def _body(model: str, messages: list[dict[str, Any]], clock: VirtualClock, turn: int, rng: Random) -> dict[str, Any]:
    now = datetime.fromtimestamp(clock.now(), UTC).strftime("%Y-%m-%d %H:%M:%S")
    every = demo_session.MEMORY_EVERY
    facts = "\n".join(f"- DemoTurn {n}: the user prefers small commits." for n in range(every, turn + 1, every))
    system = f"Current time: {now}\n\n{demo_session.instructions()}\n\n# Memory\n{facts or '- nothing yet'}"
    tools = demo_session.tools()
    rng.shuffle(tools)
    return {
        "model": model,
        "max_tokens": 4096,
        "cache_control": {"type": "ephemeral"},
        "system": system,
        "tools": tools,
        "messages": messages,
    }


def _answered(block: dict[str, Any], result: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": block["id"], "content": result}
