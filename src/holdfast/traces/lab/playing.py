"""One session played to the engine and to the provider's cache rules side by side, on the trace's own clock.

Two ways, one result: `Core` puts prompts through the engine's core, `Through` puts bodies through the whole engine.
What the rules bill is what is settled. They may differ from what the engine believes (`ttl_raise`): then it has to
learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from heapq import heappop, heappush
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches.providers import cache
from holdfast.caches.values import Cache as Provider
from holdfast.caches.values import Mark, Outcome, Prompt
from holdfast.canonical import Usage
from holdfast.config.schema import Settings
from holdfast.config.sections.cache import Cache
from holdfast.engine import Engine, Lane
from holdfast.engine import Prepared as Whole
from holdfast.engine.marking import marked
from holdfast.facts import ModelFacts
from holdfast.prefix import core
from holdfast.prefix.ledger import Ledger
from holdfast.prefix.values import Plan
from holdfast.wire import DIALECTS, Body, caching

from ..calls import Call, prices
from .sessions import Turn

TENANT, CLIENT = "replay", "replay"
Marks = Sequence[tuple[Mark, ...]]
"""The markers that the client places, for each request; empty where it places none of its own."""


class Prepared(Struct, frozen=True):
    """A request on its way, by either way: `raw` are the bytes that were sent, where there are any."""

    core: core.Prepared
    whole: Whole | None = None
    lane: str = ""

    @property
    def raw(self) -> bytes:
        return b"" if self.whole is None else self.whole.raw


class Played(Struct, frozen=True):
    """A request, by its number in the session, and what became of it: `outcome` is what the provider did."""

    number: int
    turn: Turn
    outcome: Outcome
    billed: Usage
    verdict: core.Verdict


class Way(Protocol):
    """Plans requests and learns from what was billed."""

    def begin(self) -> None:
        """A session starts; the provider's cache is empty."""

    def prepare(self, number: int, turn: Turn, marks: tuple[Mark, ...]) -> Prepared: ...
    def first_token(self, prepared: Prepared, now: float) -> None: ...
    def settle(self, prepared: Prepared, usage: Usage, now: float) -> core.Verdict: ...


def play(
    turns: Sequence[Turn],
    way: Way,
    provider: Provider,
    *,
    marks: Marks = (),
    sent: Callable[[Turn, Prepared], None] | None = None,
) -> Iterator[Played]:
    """Play a session whose requests are in the order of their start. `marks` are the client's own; `sent` is told of
    each request before it is billed."""
    waiting: list[tuple[float, int, Prepared, Outcome]] = []

    def answered(now: float) -> Iterator[Played]:
        """Requests whose answer has begun by now, in the order in which they did."""
        while waiting and waiting[0][0] <= now:
            at, number, prepared, outcome = heappop(waiting)
            provider.first_token(outcome, at)
            way.first_token(prepared, at)
            usage = outcome.usage(turns[number].output)
            verdict = way.settle(prepared, usage, at if now == _END else now)
            provider.finish(outcome, (), at)
            yield Played(number, turns[number], outcome, usage, verdict)

    way.begin()
    for number, turn in enumerate(turns):
        yield from answered(turn.at)
        prepared = way.prepare(number, turn, marks[number] if marks else ())
        if sent is not None:
            sent(turn, prepared)
        outcome = provider.begin(prepared.core.prompt, turn.at)
        heappush(waiting, (turn.first_token_at, number, prepared, outcome))
    yield from answered(_END)


_END = float("inf")


class Core:
    """Prompts through the core. `tenant` carries what was learned from earlier sessions."""

    def __init__(
        self,
        settings: Cache,
        model: ModelFacts,
        *,
        mode: str = "",
        tenant: core.Tenant | None = None,
        client: str = CLIENT,
        strict: bool = False,
    ) -> None:
        self._settings, self._model, self._mode, self._client, self._strict = settings, model, mode, client, strict
        self._tenant = core.Tenant() if tenant is None else tenant
        self._ledgers: dict[str, Ledger] = {}

    def begin(self) -> None:
        self._tenant.cold()
        self._ledgers.clear()

    def prepare(self, number: int, turn: Turn, marks: tuple[Mark, ...]) -> Prepared:
        prompt = with_marks(turn.prompt, marks, self._mode)
        asked = core.Asked(
            call=str(number),
            prompt=prompt,
            alone=prompt,
            model=self._model,
            subagent=turn.subagent,
            strict=self._strict,
        )
        ledger = self._ledgers.get(turn.lane)
        if ledger is None:
            ledger = self._ledgers[turn.lane] = Ledger(client=self._client)
        return Prepared(core.prepare(self._tenant, ledger, asked, turn.at, self._settings), lane=turn.lane)

    def first_token(self, prepared: Prepared, now: float) -> None:
        core.first_token(self._tenant, prepared.core, now)

    def settle(self, prepared: Prepared, usage: Usage, now: float) -> core.Verdict:
        return core.settle(self._tenant, self._ledgers[prepared.lane], prepared.core, usage, now, self._settings)


class Through:
    """Bodies through the engine, which has no store. `automatic` says that the client's marker is Anthropic's automatic
    one."""

    def __init__(self, settings: Cache, model: ModelFacts, *, mode: str = "", automatic: bool = False) -> None:
        self._engine = Engine(Settings(cache=settings))
        self._model, self._mode = model, mode
        self._automatic = automatic and model.automatic_field
        self._session = 0

    def begin(self) -> None:
        self._engine.cold(TENANT)
        self._session += 1

    def prepare(self, number: int, turn: Turn, marks: tuple[Mark, ...]) -> Prepared:
        body = self._engine.parse(DIALECTS[self._client(turn).dialect], self._raw(turn, marks), model=self._model.name)
        assert isinstance(body, Body)
        name = f"{self._session}/{turn.lane}"
        lane = Lane(tenant=TENANT, session=str(self._session), id=name, client=CLIENT, subagent=turn.subagent)
        whole = self._engine.prepare(body, lane=lane, now=turn.at)
        return Prepared(whole.core, whole, turn.lane)

    def first_token(self, prepared: Prepared, now: float) -> None:
        assert prepared.whole is not None
        self._engine.first_token(prepared.whole, now=now)

    def settle(self, prepared: Prepared, usage: Usage, now: float) -> core.Verdict:
        assert prepared.whole is not None
        return self._engine.settle(prepared.whole, usage, now=now)

    def _client(self, turn: Turn) -> Body:
        assert turn.body is not None
        return turn.body

    def _raw(self, turn: Turn, marks: tuple[Mark, ...]) -> bytes:
        """What the client sends, with its markers."""
        body = self._client(turn)
        if self._automatic and marks:
            return body.apply(caching.set_automatic(body, "1h" if marks[-1].ttl == "1h" else "5m", self._model))
        plan = Plan(strategy="passthrough", marks=marks, mode=self._mode)
        return marked(body, DIALECTS[body.dialect], turn.prompt, plan, self._model)


def replay(
    calls: Sequence[Call],
    model: ModelFacts,
    settings: Cache,
    *,
    tenant: core.Tenant | None = None,
    client: str = "",
    believed: ModelFacts | None = None,
) -> list[Outcome]:
    """What the provider makes of one lane's calls, which keep the markers they have. `tenant` carries what was learned
    from earlier lanes; the caches are empty at the start. `believed` is what the core is told of the model."""
    way = Core(settings, believed or model, tenant=tenant, client=client, strict=True)
    turns = [Turn(at=call.at, first_token_at=call.first_token_at, lane="", prompt=call.prompt) for call in calls]
    found = sorted(play(turns, way, cache(model)), key=lambda played: played.number)
    return [played.outcome for played in found]


def billed(outcomes: Sequence[Outcome], model: ModelFacts) -> Decimal:
    """The input of all calls, in plain input tokens."""
    price = prices(model)
    return price.tokens(sum(price.of(outcome) for outcome in outcomes))


def with_marks(prompt: Prompt, marks: tuple[Mark, ...], mode: str = "") -> Prompt:
    """A prompt as a client sends it that places these markers."""
    return replace(prompt, marks=marks, mode=mode or prompt.mode) if marks or mode else prompt
