"""Situations for the tests of strategies, and a lane that talks to the real cache rules turn by turn."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import CacheControls
from holdfast.caches.anthropic import AnthropicCache
from holdfast.caches.entries import Entries
from holdfast.caches.prompts import Block, Entry, Mark, Outcome, Prompt
from holdfast.caches.providers import prompt as prompt_of
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.experience import Client, Experience, Gaps, RouteExperience
from holdfast.core.ledger import Ledger
from holdfast.core.plan import Kind, Plan, SettledCall, baseline
from holdfast.core.retention import Retention, RetentionChange, changes, observe
from holdfast.core.situation import Situation
from holdfast.core.strategies import STRATEGIES
from holdfast.core.strategies.places import checked
from holdfast.facts import ModelFacts, model
from tests.caches.prompts import OPUS, SMALL, block

SOL = model("openai:gpt-6.1-sol")
TOOLS, SYSTEM, MESSAGES = "tools", "system", "messages"


def tool(name: str, tokens: int = 1_000, **more: object) -> Block:
    return block(name, tokens, section=TOOLS, kind=str(more.pop("kind", "tool")), role="", message=-1, **more)


def system(name: str, tokens: int = 5_000, **more: object) -> Block:
    return block(name, tokens, section=SYSTEM, message=-1, **more)


def said(number: int, tokens: int = 1_000, name: str = "said", **more: object) -> Block:
    """A message's block: even numbers are the user's, odd ones the assistant's."""
    role = str(more.pop("role", "assistant" if number % 2 else "user"))
    return block(f"{name} {number}", tokens, role=role, message=number, **more)


def situation(
    blocks: Sequence[Block],
    *marks: tuple[int, str],
    facts: ModelFacts = SMALL,
    settings: CacheSettings | None = None,
    retention: Retention | None = None,
    mode: str = "",
    **more: object,
) -> Situation:
    placed = [Mark(at % len(blocks), ttl) for at, ttl in marks]
    return Situation(
        prompt=prompt_of(facts, list(blocks), CacheControls(marks=placed, mode=mode)),
        model=facts,
        now=0.0,
        pool=Entries(),
        ledger=Ledger(retention=retention or Retention()),
        settings=settings or CacheSettings(),
        **more,  # type: ignore[arg-type]
    )


def places(plan: Plan) -> list[tuple[int, str]]:
    return [(mark.block, mark.ttl) for mark in plan.marks]


class Settled(Struct, frozen=True):
    """One turn: what was planned, what the cache made of it, what retention changed after it."""

    plan: Plan
    outcome: Outcome
    prompt: Prompt
    changes: tuple[RetentionChange, ...]

    @property
    def ttls(self) -> list[str]:
        return [mark.ttl for mark in self.plan.marks]

    @property
    def older(self) -> str:
        """The lifetime of the first marker: tools and system text."""
        return self.ttls[0]

    @property
    def written(self) -> dict[str, int]:
        return dict(self.outcome.writes)


class Lane:
    """A conversation under one strategy against Anthropic's rules. What it learns is only what a usage tells."""

    def __init__(
        self,
        settings: CacheSettings | None = None,
        *,
        facts: ModelFacts = OPUS,
        head: int = 5_000,
        subagent: bool = False,
    ) -> None:
        self.settings = settings or CacheSettings(strategy="zones")
        self.facts, self.head, self.subagent = facts, head, subagent
        self.cache = AnthropicCache(facts)
        self.state, self.now, self.covered, self.messages = Retention(), 0.0, 0, 0
        self.last: Prompt | None = None

    def turn(
        self, gap: float = 60, *, clock: str = "", talk: str = "", kind: Kind = "user", evicted: bool = False
    ) -> Settled:
        """The next request, `gap` seconds after the one before. `clock` is a text at the head of the system prompt,
        another `talk` rewrites all messages. `evicted`: the provider has lost everything without telling.
        """
        first = self.last is None
        self.now += 0 if first else gap
        if evicted:
            self.cache = AnthropicCache(self.facts)
        self.messages += 1 if first else 2
        blocks = [tool("bash", 500), tool("read", 500), system(f"host {clock}", self.head)]
        blocks += [said(number, name=talk) for number in range(self.messages)]
        asked = situation(
            blocks, facts=self.facts, settings=self.settings, retention=self.state, subagent=self.subagent
        )
        plan = checked(STRATEGIES[self.settings.strategy](asked), asked, strict=True)
        prompt = replace(asked.prompt, marks=plan.marks)
        outcome = self.cache.begin(prompt, self.now)
        self.cache.first_token(outcome, self.now + 1)
        before, self.state = self.state, self._observed(outcome, None if first else gap, kind, evicted)
        self.last, self.covered = prompt, outcome.read + sum(tokens for _, tokens in outcome.writes)
        news = changes(before, self.state, self.settings, self.facts, subagent=self.subagent)
        return Settled(plan, outcome, prompt, news)

    def turns(self, count: int, **how: object) -> list[Settled]:
        return [self.turn(**how) for _ in range(count)]  # type: ignore[arg-type]

    def _observed(self, outcome: Outcome, gap: float | None, kind: Kind, evicted: bool) -> Retention:
        turn = SettledCall(
            at=self.now,
            kind=kind,
            gap=gap,
            read=outcome.read,
            written=sum(tokens for _, tokens in outcome.writes),
            input=outcome.input,
            expected=self.covered,
            baseline=baseline(outcome.prompt),
            evicted=evicted,
        )
        return observe(self.state, turn, self.settings, self.facts)


FAST = Gaps(user=[4_000.0, 0.0, 0.0], after_user=[4_000.0, 0.0])
SLOW = Gaps(user=[1_000.0, 3_000.0, 0.0], after_user=[4_000.0, 0.0])


def knowing(
    gaps: Gaps = FAST, *, lanes: int = 400, requests: int = 4_000, route: RouteExperience | None = None
) -> Experience:
    """A client whose sessions have ten requests, with these gaps."""
    routes = {} if route is None else {SMALL.ref: route}
    lived = [float(lanes)] * 4 + [float(requests - 4 * lanes)]
    followed = [*lived[:4], lived[4] - lanes]
    client = Client(gaps=gaps, lanes=lanes, asked=lived, followed=followed, conversations=float(lanes))
    return Experience(clients={"c": client}, routes=routes)


def warm(found: Situation, block: int, *, seconds: float = 300.0, ttl: str = "5m") -> Situation:
    """The same with a live entry at the end of a block."""
    key, tokens = found.prompt.keys[block], found.prompt.ends[block]
    found.pool.put([Entry(key, tokens, ttl, seconds, -1.0, seconds, -1.0)], 0.0)  # type: ignore[attr-defined]
    return found
