"""What padding a short prefix costs or saves on short workloads of an agent, in dollars of input on haiku-4-5.

The agent has a short system text and five tools, far below the model's floor. `always` pads as its document says,
`economic` only where rule 5.6 pays; markers as `two-point` and as `economic` place them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from benchmarks import Result
from holdfast.config.schema import Settings
from holdfast.config.sections.cache import Cache
from holdfast.engine import Engine, Lane
from holdfast.facts import model
from holdfast.prefix.costs import costs
from holdfast.prefix.padding import SkillBody, pad
from holdfast.simulator import Call, Simulator, VirtualClock
from holdfast.wire import DIALECTS, Body

MODEL = "claude-haiku-4-5"
WORKLOADS = {"fix-a-bug-small": (4, 300), "write-a-doc-from-notes": (3, 900), "multi-turn-refactor": (14, 700)}
"""By name: calls, and about how many tokens each adds."""
PERSONA = (
    "You are a coding agent. Work in small steps, run the tests, and say plainly what you did and what is left. " * 6
)
TOOLS = [
    {"name": name, "description": f"{name} a file or directory of the workspace.", "input_schema": {"type": "object"}}
    for name in ("read", "write", "list", "grep", "run")
]
SKILL = SkillBody(
    "release-notes", "workspace", "Collect what changed, group it by reader, and write one line for each. " * 60
)
Mode = Literal["off", "economic", "always"]
Strategy = Literal["two-point", "economic"]
MODES: tuple[Mode, ...] = ("off", "economic", "always")
STRATEGIES: tuple[Strategy, ...] = ("two-point", "economic")


def run(*, quick: bool) -> Iterator[Result]:
    for name, (calls, added) in WORKLOADS.items():
        plain = _paid(calls, added, "off", "two-point")
        for strategy in STRATEGIES:
            for mode in MODES:
                paid = _paid(calls, added, mode, strategy)
                note = f"${paid:.5f} of input"
                yield Result(f"{name}, padding {mode}, {strategy}", paid / plain, "x", None, "lower", note)


def _paid(calls: int, added: int, mode: Mode, strategy: Strategy) -> float:
    facts = model(f"anthropic:{MODEL}")
    texts = [json.dumps(tool) for tool in TOOLS]
    stable = pad(texts, PERSONA, [SKILL], mode=mode, models=[facts], calls=calls).text
    clock = VirtualClock(1_700_000_000.0)
    simulator, engine = Simulator(clock=clock), Engine(Settings(cache=Cache(strategy=strategy)), strict=True)
    lane, paid = Lane(tenant="t", session="s", id="l", client="bench"), 0.0
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Please begin. " * (added // 3)}]
    for number in range(calls):
        request = {"model": MODEL, "max_tokens": 1, "system": stable, "tools": TOOLS, "messages": messages}
        body = engine.parse(DIALECTS["anthropic"], json.dumps(request).encode())
        assert isinstance(body, Body)
        prepared = engine.prepare(body, lane=lane, now=clock.now())
        exchange = simulator.bill(Call("POST", "/v1/messages", {"x-api-key": "k"}, {}, prepared.raw))
        exchange.first_token()
        exchange.finish()
        usage = exchange.record.usage
        assert usage is not None
        engine.settle(prepared, usage, now=clock.now())
        paid += costs(facts, usage.prompt).of(usage)
        messages += [
            {"role": "assistant", "content": f"step {number} " * (added // 6)},
            {"role": "user", "content": f"result {number} " * (added // 6)},
        ]
        clock.advance(20)
    return paid
