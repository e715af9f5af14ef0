"""A lane driven against the simulator: bodies go out, usage comes back, and each call is judged as an engine would."""

from __future__ import annotations

import json
from array import array
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import anthropic
from holdfast.caches.anthropic import AnthropicCache
from holdfast.caches.entries import Entries
from holdfast.caches.prompts import Outcome, Prompt
from holdfast.config.sections.cache import BreaksSettings
from holdfast.core.breaks import Expectation, Finding, agrees, expect, judge
from holdfast.core.cures import Cure, case, cure_for
from holdfast.core.divergence import Place, compare, place
from holdfast.core.plan import SECTIONS, Sent
from holdfast.facts import model as facts_of
from holdfast.facts.prices import rates
from holdfast.lab import Trace
from holdfast.records import Request, Text, ToolResult, Usage
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader
from tests.wire.marked_bodies import marked as both_marked

DIALECT = DIALECTS["anthropic"]
KEYS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}


def digests(settings: dict[str, bytes]) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, sha256(value).digest()[:8]) for name, value in sorted(settings.items()))


def sent(
    prompt: Prompt,
    *,
    at: float = 0.0,
    covered: int | None = None,
    settings: tuple[tuple[str, bytes], ...] = (),
    first_token: float | None = 0.0,
) -> Sent:
    """What a lane keeps of a request; covered to its last marker unless told otherwise."""
    last = max((mark.block for mark in prompt.marks), default=len(prompt.blocks) - 1)
    return Sent(
        call="call",
        at=at,
        model=prompt.model,
        digests=b"".join(block.digest for block in prompt.blocks),
        tokens=array("I", [block.tokens for block in prompt.blocks]).tobytes(),
        sections=bytes(SECTIONS.index(block.section) for block in prompt.blocks),
        entries=tuple((number, key) for number, key in enumerate(prompt.keys) if number <= last),
        settings=settings,
        marks=prompt.marks,
        first_token=first_token,
        covered=prompt.ends[last] if covered is None else covered,
    )


class Judged(Struct, frozen=True):
    """A call with everything that was found out about it."""

    body: Body
    prompt: Prompt
    expectation: Expectation
    usage: Usage
    explained: bool
    finding: Finding | None
    path: str | None = None
    place: Place | None = None
    cure: Cure | None = None
    before: bytes | None = None
    after: bytes | None = None


class Lane:
    """One conversation: what it believes of the cache is its own, what is billed is the simulator's."""

    def __init__(self, model: str = "claude-opus-4-6", thresholds: BreaksSettings | None = None) -> None:
        self.clock = VirtualClock()
        self.simulator = Simulator(clock=self.clock)
        self.model = facts_of(f"anthropic:{model}")
        self.entries = Entries()
        self.belief = AnthropicCache(self.model, self.entries)
        self.reader = PromptReader()
        self.thresholds = thresholds or BreaksSettings()
        self.last: tuple[Sent, Body, Prompt] | None = None

    def send(self, body: dict[str, Any] | bytes, *, after: float = 1.0, reset: str | None = None) -> Judged:
        self.clock.advance(after)
        now = self.clock.now()
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        parsed = DIALECT.parse(raw)
        model = facts_of(f"anthropic:{parsed.model}")
        reading = self.reader.read(parsed, model)
        settings = digests(dict(reading.settings))
        outcome = anthropic.decide(reading.prompt, self.entries, now, model)
        before = self.last[0] if self.last else None
        comparison = None if before is None else compare(before, reading.prompt, settings, model)
        expectation = expect(before, comparison, outcome, self.entries, model, reset=reset)
        usage = self.billed(raw)
        self.believe(outcome, now)
        found = judge(expectation, usage, rates(model.ref, prompt_tokens=usage.prompt), self.thresholds)
        explained = agrees(expectation, usage, self.thresholds)
        judged = Judged(parsed, reading.prompt, expectation, usage, explained, found)
        if found is not None:
            judged = self.explained(judged, found)
        kept = sent(reading.prompt, at=now, covered=usage.read + usage.written, settings=settings, first_token=now)
        self.last = (kept, parsed, reading.prompt)
        return judged

    def billed(self, raw: bytes) -> Usage:
        exchange = self.simulator.bill(HttpRequest("POST", "/v1/messages", KEYS, {}, raw))
        exchange.first_token(self.simulator.clock.now())
        exchange.finish()
        assert exchange.record.usage is not None
        return exchange.record.usage

    def believe(self, outcome: Outcome, now: float) -> None:
        begun = self.belief.begin(outcome.prompt, now)
        self.belief.first_token(begun, now)

    def explained(self, judged: Judged, found: Finding) -> Judged:
        path = old = new = spot = None
        if found.divergence is not None and self.last is not None:
            path, new = self._block(judged.body, judged.prompt, found.divergence.block)
            _, old = self._block(self.last[1], self.last[2], found.divergence.block)
            spot = place(old, new)
        marks = judged.prompt.marks
        cure = cure_for(case(found, self.model, path=path, before=old, after=new, marks=marks))
        return replace(judged, path=path, place=spot, cure=cure, before=old, after=new)

    @staticmethod
    def _block(body: Body, prompt: Prompt, index: int) -> tuple[str | None, bytes | None]:
        if index >= len(prompt.blocks):
            return None, None
        at = prompt.origin[index] if prompt.origin else index
        return body.blocks[at].path, DIALECT.content(body, at)


def enlarged(trace: Trace, times: int = 12) -> Trace:
    """A session whose texts are long enough for breaks to matter."""

    def block(item: Any) -> Any:
        if isinstance(item, Text):
            return replace(item, text=item.text * times)
        if isinstance(item, ToolResult) and not isinstance(item.content, str):
            return replace(item, content=tuple(block(inner) for inner in item.content))
        return item

    steps = []
    for step in trace.steps:
        assert isinstance(step.content, Request)
        messages = tuple(
            replace(message, content=tuple(block(item) for item in message.content))
            for message in step.content.messages
        )
        system = step.content.system_prompt
        assert isinstance(system, str)
        long = "\n".join(f"{line} {line}" for line in (system * times).split("\n"))
        steps.append(replace(step, content=replace(step.content, messages=messages, system_prompt=long)))
    return replace(trace, steps=tuple(steps))


def marked(request: Request, model: str, ttl: str = "5m") -> bytes:
    """A client's body with markers at the last tool, the end of the system text and the last block."""
    body = DIALECT.parse(both_marked(replace(request, model=f"anthropic:{model}", output_limit=16)))
    last = next(i for i in range(len(body.blocks) - 1, -1, -1) if DIALECT.markable(body, i))
    return body.apply(DIALECT.place(body, last, "5m" if ttl == "5m" else "1h"))


def text(words: str, ttl: str | None = None) -> dict[str, Any]:
    mark = {} if ttl is None else {"cache_control": {"type": "ephemeral"} | ({"ttl": ttl} if ttl == "1h" else {})}
    return {"type": "text", "text": words, **mark}
