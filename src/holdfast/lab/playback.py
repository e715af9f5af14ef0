"""One session played to the engine and to the provider's cache rules side by side, on the trace's own clock.

Two ways, one result: `CoreWay` sends prompts through the engine's core, `EngineWay` sends bodies through the whole
engine. The usage settled is that of the rules. They may differ from what the engine believes (`ttl_raise`): then it has
to learn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from heapq import heappop, heappush
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Protocol

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.caches import Cache as Provider
from holdfast.caches import Mark, Outcome, Prompt, cache
from holdfast.config import Settings
from holdfast.config.sections import CacheSettings
from holdfast.core import Ledger, Plan
from holdfast.core import planner as core
from holdfast.engine import EngineCore, Lane, marked
from holdfast.engine import PreparedCall as Whole
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts
from holdfast.records import Usage
from holdfast.wire import DIALECTS, Body, cache_parameters

from .marker_plans import TimedCall, prices
from .provider_caches import Providers
from .sessions import TimedRequest

TENANT, CLIENT = "replay", "replay"
Marks = Sequence[tuple[Mark, ...]]
"""The markers that the client places, for each request; empty where it places none of its own."""


Believed = Callable[[str], ModelFacts]
"""Returns the engine's facts of a model, by its ref."""
Mode = Callable[[ModelFacts], str]
"""Returns a client's `Prompt.mode` for a model."""


def _believed(model: ModelFacts | Believed) -> Believed:
    return (lambda _: model) if isinstance(model, ModelFacts) else model


def _mode(mode: str | Mode) -> Mode:
    return (lambda _: mode) if isinstance(mode, str) else mode


class ReplayedCall(Struct, frozen=True):
    """A request on its way, by either way: `raw` are the bytes that were sent, where there are any."""

    core: core.PlannedRequest
    whole: Whole | None = None
    lane: str = ""

    @property
    def raw(self) -> bytes:
        return b"" if self.whole is None else self.whole.raw


class PlayedRequest(Struct, frozen=True):
    """A request, by its number in the session, and what became of it: `outcome` is what the provider did."""

    number: int
    turn: TimedRequest
    outcome: Outcome
    billed: Usage
    verdict: core.Verdict


class Way(Protocol):
    """Plans requests and learns from the billed usage."""

    def begin(self) -> None:
        """Start a session with an empty provider cache."""

    def prepare(self, number: int, turn: TimedRequest, marks: tuple[Mark, ...]) -> ReplayedCall: ...
    def first_token(self, prepared: ReplayedCall, now: float) -> None: ...
    def settle(self, prepared: ReplayedCall, usage: Usage, now: float) -> core.Verdict: ...


def play(
    turns: Sequence[TimedRequest],
    way: Way,
    provider: Provider,
    *,
    marks: Marks = (),
    on_sent: Callable[[TimedRequest, ReplayedCall], None] | None = None,
) -> Iterator[PlayedRequest]:
    """Play a session with requests in the order of their start. `marks` are the client's own; `on_sent` is called with
    each request before it is billed. Entries that the session did not write need `Providers`."""
    waiting: list[tuple[float, int, ReplayedCall, Outcome]] = []

    def answered(now: float) -> Iterator[PlayedRequest]:
        """Yield the requests whose answer has begun by now, in that order."""
        while waiting and waiting[0][0] <= now:
            at, number, prepared, outcome = heappop(waiting)
            provider.first_token(outcome, at)
            way.first_token(prepared, at)
            usage = outcome.usage(turns[number].output)
            verdict = way.settle(prepared, usage, at if now == _END else now)
            provider.finish(outcome, (), at)
            yield PlayedRequest(number, turns[number], outcome, usage, verdict)

    way.begin()
    for number, turn in enumerate(turns):
        yield from answered(turn.at)
        prepared = way.prepare(number, turn, marks[number] if marks else ())
        if on_sent is not None:
            on_sent(turn, prepared)
        if turn.warm is not None and isinstance(provider, Providers):
            provider.warm(turn.warm, turn.prompt, prepared.core.prompt, turn.at)
        outcome = provider.begin(prepared.core.prompt, turn.at)
        heappush(waiting, (turn.first_token_at, number, prepared, outcome))
    yield from answered(_END)


_END = float("inf")


class CoreWay:
    """Prompts through the core. `tenant` carries what was learned from earlier sessions."""

    def __init__(
        self,
        settings: CacheSettings,
        model: ModelFacts | Believed,
        *,
        mode: str | Mode = "",
        tenant: core.Tenant | None = None,
        client: str = CLIENT,
        strict: bool = False,
    ) -> None:
        self._settings, self._client, self._strict = settings, client, strict
        self._believed, self._mode = _believed(model), _mode(mode)
        self._tenant = core.Tenant() if tenant is None else tenant
        self._ledgers: dict[str, Ledger] = {}

    def begin(self) -> None:
        self._tenant.cold()
        self._ledgers.clear()

    def prepare(self, number: int, turn: TimedRequest, marks: tuple[Mark, ...]) -> ReplayedCall:
        model = self._believed(turn.prompt.model)
        prompt = with_marks(turn.prompt, marks, self._mode(model))
        plan_request = core.PlanRequest(
            call=str(number),
            prompt=prompt,
            alone=prompt,
            model=model,
            subagent=turn.subagent,
            strict=self._strict,
        )
        ledger = self._ledgers.get(turn.lane)
        if ledger is None:
            ledger = self._ledgers[turn.lane] = Ledger(client=self._client)
        return ReplayedCall(core.prepare(self._tenant, ledger, plan_request, turn.at, self._settings), lane=turn.lane)

    def first_token(self, prepared: ReplayedCall, now: float) -> None:
        core.first_token(self._tenant, prepared.core, now)

    def settle(self, prepared: ReplayedCall, usage: Usage, now: float) -> core.Verdict:
        return core.settle(self._tenant, self._ledgers[prepared.lane], prepared.core, usage, now, self._settings)


class EngineWay:
    """Bodies through the engine, which has no store. `automatic` says that the client's marker is Anthropic's automatic
    one."""

    def __init__(
        self, settings: CacheSettings, model: ModelFacts | Believed, *, mode: str | Mode = "", automatic: bool = False
    ) -> None:
        self._engine = EngineCore(Settings(cache=settings))
        self._believed, self._mode = _believed(model), _mode(mode)
        self._automatic = automatic
        self._session = 0

    def begin(self) -> None:
        self._engine.cold(TENANT)
        self._session += 1

    def prepare(self, number: int, turn: TimedRequest, marks: tuple[Mark, ...]) -> ReplayedCall:
        model = self._believed(turn.prompt.model)
        body = self._engine.parse(DIALECTS[self._client(turn).dialect], self._raw(turn, marks, model), model=model.name)
        assert isinstance(body, Body)
        name = f"{self._session}/{turn.lane}"
        lane = Lane(tenant=TENANT, session=str(self._session), id=name, client=CLIENT, subagent=turn.subagent)
        whole = self._engine.prepare(body, lane=lane, now=turn.at)
        return ReplayedCall(whole.core, whole, turn.lane)

    def first_token(self, prepared: ReplayedCall, now: float) -> None:
        assert prepared.whole is not None
        self._engine.first_token(prepared.whole, now=now)

    def settle(self, prepared: ReplayedCall, usage: Usage, now: float) -> core.Verdict:
        assert prepared.whole is not None
        return self._engine.settle(prepared.whole, usage, now=now)

    def _client(self, turn: TimedRequest) -> Body:
        assert turn.body is not None
        return turn.body

    def _raw(self, turn: TimedRequest, marks: tuple[Mark, ...], model: ModelFacts) -> bytes:
        """Return the client's bytes, with its markers."""
        body = self._client(turn)
        if self._automatic and model.automatic_field and marks:
            return body.apply(cache_parameters.set_automatic(body, "1h" if marks[-1].ttl == "1h" else "5m", model))
        plan = Plan(strategy="passthrough", marks=marks, mode=self._mode(model))
        return marked(body, DIALECTS[body.dialect], turn.prompt, plan, model)


def replay(
    calls: Sequence[TimedCall],
    model: ModelFacts,
    settings: CacheSettings,
    *,
    tenant: core.Tenant | None = None,
    client: str = "",
    believed: ModelFacts | None = None,
) -> list[Outcome]:
    """Return the provider's outcomes for the calls of one lane with their own markers. `tenant` carries what was
    learned from earlier lanes; the caches are empty at the start. `believed` are the core's facts of the model."""
    way = CoreWay(settings, believed or model, tenant=tenant, client=client, strict=True)
    turns = [
        TimedRequest(at=call.at, first_token_at=call.first_token_at, lane="", prompt=call.prompt) for call in calls
    ]
    found = sorted(play(turns, way, cache(model)), key=lambda played: played.number)
    return [played.outcome for played in found]


def billed(outcomes: Sequence[Outcome], model: ModelFacts) -> Decimal:
    """The input of all calls, in plain input tokens."""
    price = prices(model)
    return price.tokens(sum(price.of(outcome) for outcome in outcomes))


def with_marks(prompt: Prompt, marks: tuple[Mark, ...], mode: str = "") -> Prompt:
    """A prompt as a client sends it that places these markers."""
    return replace(prompt, marks=marks, mode=mode or prompt.mode) if marks or mode else prompt


DAY = 86_400.0
_LINES = bytes.maketrans(b"\r\n", b"  ")


class Dump:
    """A file that is being written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file: BinaryIO = path.open("wb")
        except OSError as error:
            raise HoldfastError(f"{path} cannot be written ({error.strerror or error}); name another file.") from error
        self._last: float | None = None
        self._shift: float | None = 0.0
        self._about: dict[str, object] = {}

    def __enter__(self) -> Dump:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._file.close()

    def begin(self, **about: object) -> None:
        """Start a session; `about` is added to each of its lines."""
        self._about = about
        self._shift = 0.0 if self._last is None else None

    def sent(self, turn: TimedRequest, prepared: ReplayedCall) -> None:
        """Write a sent request with its prediction."""
        if self._shift is None:  # the session's first request, a day or two after the last
            self._shift = ((self._last or 0.0) // DAY + 2) * DAY - turn.at
        self._last = turn.at + self._shift
        foreseen = prepared.core.outcome
        counts = {"input": foreseen.input, "read": foreseen.read, "write_5m": 0, "write_1h": 0}
        counts |= {f"write_{ttl}": tokens for ttl, tokens in foreseen.writes}
        line = {
            "at": round(self._last, 3),
            "first_token_at": round(turn.first_token_at + self._shift, 3),
            **self._about,
            "model": turn.prompt.model,
            "lane": turn.lane,
            "predicted": counts | {"output": turn.output},
            "body": Raw(prepared.raw.translate(_LINES)),
        }
        try:
            self._file.write(msgspec.json.encode(line) + b"\n")
        except OSError as error:
            raise HoldfastError(f"{self._path} cannot be written ({error.strerror or error}); make room.") from error
