"""What the sessions of the mechanisms' benchmark share: a client in front of the engine and the simulator.

Every request goes through the real engine, is billed by the simulated provider and settled with what was billed, on a
virtual clock. Costs are those of the prompts: answers cost the same however a prompt is cached.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast import facts
from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.call import Verdict
from holdfast.engine import EngineCore, Lane, PreparedCall, PrepareOptions
from holdfast.engine.reports import Reports
from holdfast.records import Usage
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.wire import DIALECTS, Body

MODEL = "claude-opus-4-6"
"""Reads at a tenth, five minutes at 1.25, an hour at 2: what the mechanisms were thought for."""
RESPONDING = "gpt-6.1-sol"
START = 1_700_000_000.0
QUICK, PAUSE = 20.0, 1_200.0
"""Seconds between turns, and a pause that five minutes do not outlive but an hour does."""
HEADERS = {"x-api-key": "k", "authorization": "Bearer k", "anthropic-version": "2023-06-01"}
PATHS = {"anthropic": "/v1/messages", "openai_responses": "/v1/responses"}
PROVIDERS = {"anthropic": "anthropic", "openai_responses": "openai"}
WORD = "What was said before still holds and is needed later on. "
TOOLS = [
    {"name": name, "description": f"{name} a file of the workspace.", "input_schema": {"type": "object"}}
    for name in ("read", "write", "list", "grep", "run")
]


class Effect(Struct, frozen=True):
    """One figure of one mechanism, with the sentence that stands on the page. `{}` in it is the figure."""

    name: str
    value: float
    says: str
    unit: str = "x"
    digits: int = 2
    note: str = ""

    @property
    def text(self) -> str:
        return self.says.format(f"{self.value:.{self.digits}f}")


def ratio(name: str, one: Decimal, other: Decimal, says: str) -> Effect:
    return Effect(name, float(one / other), says, note=f"${one:.4f} for ${other:.4f}")


def text(tokens: int, key: str = "") -> str:
    """Words that nothing else begins with, as many tokens as wanted but for a few."""
    return f"{key} " + WORD * max(1, tokens // facts.estimate(WORD))


def said(turns: int, tokens: int) -> list[dict[str, Any]]:
    """A conversation of so many questions, each with its answer but the last."""
    messages = [{"role": "user", "content": text(tokens, "question 0")}]
    for turn in range(1, turns):
        messages += [
            {"role": "assistant", "content": text(tokens // 4, f"answer {turn}")},
            {"role": "user", "content": text(tokens, f"question {turn}")},
        ]
    return messages


def asked(turns: int, *, system: int = 6_000, tokens: int = 800, **members: Any) -> dict[str, Any]:
    """The request with which a client of Anthropic asks for the next answer."""
    base = {"model": MODEL, "max_tokens": 64, "system": text(system, "rules"), "tools": TOOLS}
    return base | {"messages": said(turns, tokens)} | members


class Client:
    """Who sends requests. `paid` is what their prompts cost so far."""

    def __init__(
        self, cache: CacheSettings | None = None, *, dialect: str = "anthropic", reports: Reports | None = None
    ) -> None:
        self.clock = VirtualClock(START)
        self.simulator = Simulator(clock=self.clock)
        self.engine = EngineCore(Settings(cache=cache or CacheSettings()), reports=reports, strict=True)
        self.dialect, self.paid, self.used = dialect, Decimal(0), list[Usage]()

    def body(self, request: Mapping[str, Any]) -> Body:
        found = self.engine.parse(DIALECTS[self.dialect], json.dumps(request).encode())
        assert isinstance(found, Body), found
        return found

    def lane(self, name: str = "main", *, subagent: bool = False) -> Lane:
        parent = "main" if subagent else None
        return Lane(tenant="t", session="s", id=name, client="bench", subagent=subagent, parent=parent)

    def send(
        self, request: Mapping[str, Any] | Body, *, lane: str = "main", subagent: bool = False, **more: Any
    ) -> tuple[PreparedCall, Verdict]:
        now = self.clock.now()
        body = request if isinstance(request, Body) else self.body(request)
        prepared = self.engine.prepare(
            body, lane=self.lane(lane, subagent=subagent), now=now, options=PrepareOptions(**more)
        )
        exchange = self.simulator.bill(HttpRequest("POST", PATHS[self.dialect], HEADERS, {}, prepared.raw))
        exchange.first_token()
        self.engine.first_token(prepared, now=now)
        exchange.finish()
        used = exchange.record.usage
        assert used is not None
        self.paid += prompt_cost(f"{PROVIDERS[self.dialect]}:{body.model}", used)
        self.used.append(used)
        return prepared, self.engine.settle(prepared, used, now=now)

    def talk(self, gaps: Sequence[float], **members: Any) -> Decimal:
        """A conversation that grows turn by turn, with these pauses between them; what it cost."""
        for turns, gap in enumerate((0.0, *gaps), start=1):
            self.clock.advance(gap)
            self.send(asked(turns, **members))
        return self.paid


def prompt_cost(ref: str, used: Usage) -> Decimal:
    return facts.price(replace(used, output=0, cost=None), ref).cost or Decimal(0)


def paid(gaps: Sequence[float], members: Mapping[str, Any] | None = None, **cache: Any) -> Decimal:
    """What a conversation costs under these settings."""
    return Client(CacheSettings(**cache)).talk(gaps, **(members or {}))
