"""Traces under every strategy on every model: what each would have cost.

Sessions are replayed in their order, each with an empty cache at the provider; what the engine has learned from one it
keeps for the next, unless it is `fresh`. All contenders see the same requests at the same times and the same noise. A
session counts once all of them have played it, so that a run that is broken off still compares like with like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter

from msgspec.structs import replace

from holdfast.caches.anthropic import AnthropicCache
from holdfast.caches.noise import Noise, Noisy
from holdfast.caches.providers import cache, rules
from holdfast.caches.values import Cache as Provider
from holdfast.caches.values import Mark
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts

from ..client_faults import FAULTS
from ..gaps import SEEDS, with_gaps
from ..values import Trace
from . import bounds, telling
from .contenders import OPTIMAL, Contender, Repair, contenders
from .dump import Dump
from .models import facts_of
from .options import Options
from .playing import Core, Through, Way, play
from .sessions import Turn, answered, dialect_of, filled, has_texts, is_shape, retimed, turns
from .tally import Tally
from .values import Replayed, Result, SessionResult

Progress = Callable[[int], None]
"""Told how many more requests have been played."""


def run(
    traces: Sequence[Trace],
    strategies: Sequence[str],
    models: Sequence[str],
    *,
    gaps: str | None = None,
    seeds: Sequence[int] = SEEDS[:1],
    fault: str | None = None,
    noise: Noise | None = None,
    ttl_raise: str | None = None,
    repair: Repair = "suggest",
    client: str | None = None,
    fresh: bool = False,
    optimum: bool = True,
    dump: Path | None = None,
    progress: Progress | None = None,
) -> Replayed:
    """Replay traces; `strategies` are names of `STRATEGY_NAMES`, models as `provider:name` or by their bare names."""
    options = Options(
        gaps=gaps,
        seeds=tuple(seeds),
        fault=fault,
        noise=noise,
        ttl_raise=ttl_raise,
        repair=repair,
        client=client,
        fresh=fresh,
        optimum=optimum,
        dump=dump,
    )
    lab = Lab(traces, strategies, models, options)
    lab.play(progress)
    return lab.report()


class Lab:
    """One run: `play` it, and `report` what has been played so far."""

    def __init__(
        self, traces: Sequence[Trace], strategies: Sequence[str], models: Sequence[str], options: Options
    ) -> None:
        self.options = options
        self.traces = tuple(traces)
        self.contenders = contenders(strategies, client=options.client, repair=options.repair)
        known = dict.fromkeys(facts_of(name) for name in models)
        self.models = tuple(_world(model, options.ttl_raise) for model in known)
        self.seeds = self._seeds()
        for trace in self.traces:  # what is wrong is told before anything is played
            with_gaps(trace, options.pattern(trace), self.seeds[0])
        for model in self.models:
            if self._bodies(model):
                dialect_of(model)
        self._totals: dict[tuple[str, str], Tally] = {}
        self._sessions: list[SessionResult] = []
        self._played = 0
        self._seconds = self._searching = 0.0
        self._problems: dict[str, None] = {}

    @property
    def total(self) -> int:
        """Requests that `play` will play."""
        each = sum(len(trace.steps) for trace in self.traces) * len(self.seeds)
        return each * sum(1 for model in self.models for one in self.contenders if self._plays(one, model))

    @property
    def sessions(self) -> int:
        """Sessions that are played, each under every contender."""
        return len(self.traces) * len(self.seeds) * len(self.models)

    def play(self, progress: Progress | None = None) -> None:
        """Play everything; a run that is broken off leaves what was finished."""
        with ExitStack() as stack:
            dump = None if self.options.dump is None else stack.enter_context(Dump(self.options.dump))
            for world in self.models:
                prompts: dict[int, list[Turn]] = {}
                for seed in self.seeds:
                    ways: dict[str, Way] = {}
                    for number, trace in enumerate(self.traces):
                        session = self._turns(number, trace, world, seed, prompts)
                        self._session(trace, session, world, seed, ways, dump, progress or (lambda _: None))

    def report(self) -> Replayed:
        """What has been played so far, strategies by their cost."""
        order = {model.ref: number for number, model in enumerate(self.models)}
        by_name = {contender.name: contender for contender in self.contenders}
        results: list[Result] = [tally.result(by_name[name]) for (_, name), tally in self._whole()]
        results.sort(key=lambda result: (order[result.model], result.cost_tokens))
        options = self.options
        return Replayed(
            traces=tuple(trace.name for trace in self.traces),
            models=tuple(model.ref for model in self.models),
            gaps=telling.gaps({options.pattern(trace) for trace in self.traces}),
            seeds=self.seeds,
            fault=options.fault,
            noise=telling.noise(options.noise),
            ttl_raise=telling.raises(self.models),
            optimum=telling.optimum(self.models, searched=options.optimum),
            results=tuple(results),
            sessions=tuple(self._sessions),
            requests=self._played,
            seconds=self._seconds,
            optimum_seconds=self._searching,
            versions=telling.versions(self.contenders, self.models),
            notes=(*telling.notes(self.traces, self.models, options, by_name, results), *self._problems),
        )

    def _whole(self) -> list[tuple[tuple[str, str], Tally]]:
        """The sums of those that played every session that was played; the optimum cannot always be found."""
        most = {ref: tally.requests for (ref, _), tally in self._totals.items()}
        for (ref, _), tally in self._totals.items():
            most[ref] = max(most[ref], tally.requests)
        return [(key, tally) for key, tally in self._totals.items() if tally.requests == most[key[0]]]

    def _session(
        self,
        trace: Trace,
        session: list[Turn],
        world: ModelFacts,
        seed: int,
        ways: dict[str, Way],
        dump: Dump | None,
        progress: Progress,
    ) -> None:
        """One session under every contender; nothing of it counts before the last of them is through."""
        tallies: dict[str, Tally] = {}
        best = self._best(trace, session, world)
        for contender in self.contenders:
            if not self._plays(contender, world) or (contender.name == OPTIMAL and best is None):
                continue
            started = perf_counter()
            tallies[contender.name] = tally = Tally(world)
            marks = best if contender.name == OPTIMAL else _own(contender, session)
            if contender.name not in ways or self.options.fresh:
                ways[contender.name] = self._way(contender, facts_of(world.ref), bodies=self._bodies(world))
            if dump is not None:
                dump.begin(session=trace.name, strategy=contender.name, model=world.ref, seed=seed)
            noise = None if contender.kind == "bound" else self.options.noise
            provider = _provider(world, noise, f"{seed} {trace.name}")
            for played in play(
                session, ways[contender.name], provider, marks=marks or (), sent=None if dump is None else dump.sent
            ):
                tally.add(played)
            progress(len(session))
            self._seconds += perf_counter() - started
            self._played += len(session)
        self._count(trace, seed, world, tallies, self._least(session, best, world, tallies))

    def _count(self, trace: Trace, seed: int, world: ModelFacts, tallies: dict[str, Tally], least: int | None) -> None:
        totals, sessions = dict(self._totals), list(self._sessions)
        for name, tally in tallies.items():
            tally.least = least
            totals[world.ref, name] = Tally(world).joined(totals.get((world.ref, name)), tally)
            sessions.append(
                SessionResult(
                    trace=trace.name,
                    seed=seed,
                    model=world.ref,
                    strategy=name,
                    requests=tally.requests,
                    cost_tokens=tally.cost,
                    over_optimal=tally.over_optimal,
                )
            )
        self._totals, self._sessions = totals, sessions  # at once: Ctrl-C may come at any moment

    def _best(self, trace: Trace, session: list[Turn], world: ModelFacts) -> list[tuple[Mark, ...]] | None:
        """The markers of the optimum, where it is wanted and there is one."""
        if not self.options.optimum or bounds.why_not(world) is not None:
            return None
        started = perf_counter()
        found = bounds.best_marks(session, world)
        self._searching += perf_counter() - started
        if isinstance(found, HoldfastError):
            self._problems[f"{trace.name} has no optimum on {world.ref}: {found}"] = None
            return None
        return found

    def _least(
        self,
        session: list[Turn],
        best: list[tuple[Mark, ...]] | None,
        world: ModelFacts,
        tallies: dict[str, Tally],
    ) -> int | None:
        """What the optimum costs: as it was played, or as its plan says."""
        if best is None:
            return None
        if OPTIMAL in tallies:
            return tallies[OPTIMAL].units
        return bounds.spent(session, best, world)

    def _turns(
        self, number: int, trace: Trace, world: ModelFacts, seed: int, known: dict[int, list[Turn]]
    ) -> list[Turn]:
        """A trace's requests on a model. Prompts that depend on no text are kept for the next seed."""
        timed, options = with_gaps(trace, self.options.pattern(trace), seed), self.options
        if number in known:
            return retimed(known[number], timed)
        answers = answered(timed)  # a fault may hide them
        if options.fault is not None:
            timed = FAULTS[options.fault](filled(timed, world) if is_shape(timed) else timed, seed)
        bodies = self._bodies(world)
        found = turns(timed, world, bodies=bodies, answers=answers)
        if not bodies:
            known[number] = found
        return found

    def _bodies(self, world: ModelFacts) -> bool:
        """Whether whole requests go through the whole engine: all of them or none, since it learns from each."""
        spoken = any(has_texts(trace) for trace in self.traces)
        return spoken or self.options.whole_engine or rules(world).make is not AnthropicCache

    def _way(self, contender: Contender, believed: ModelFacts, *, bodies: bool) -> Way:
        peer = contender.peer
        mode = "" if peer is None else peer.mode_for(believed)
        if bodies:
            automatic = peer is not None and peer.name == "automatic"
            return Through(contender.settings, believed, mode=mode, automatic=automatic)
        return Core(contender.settings, believed, mode=mode)

    def _plays(self, contender: Contender, world: ModelFacts) -> bool:
        return contender.name != OPTIMAL or (self.options.optimum and bounds.why_not(world) is None)

    def _seeds(self) -> tuple[int, ...]:
        """Where nothing is left to chance, one of them."""
        seeds = tuple(dict.fromkeys(self.options.seeds))
        if not seeds:
            raise HoldfastError("there is no seed; give at least one.")
        options = self.options
        calm = all(options.pattern(trace) in ("real", "none") for trace in self.traces)
        return seeds[:1] if calm and options.noise is None and options.fault is None else seeds


def _own(contender: Contender, session: Sequence[Turn]) -> list[tuple[Mark, ...]]:
    """The markers that the client places itself."""
    return [] if contender.peer is None else [contender.peer.place(turn.prompt) for turn in session]


def _world(model: ModelFacts, ttl_raise: str | None) -> ModelFacts:
    """The model as its provider treats it."""
    if model.knobs.ttl_raise is None or ttl_raise is None:
        return model
    return replace(model, knobs=replace(model.knobs, ttl_raise="yes" if ttl_raise == "yes" else "no"))


def _provider(world: ModelFacts, noise: Noise | None, name: str) -> Provider:
    """An empty cache. Chance depends on the seed and the session, so that all contenders meet the same."""
    seed = telling.number(name)
    if noise is None:
        return cache(world, seed=seed)
    return Noisy(lambda: cache(world, seed=seed), replace(noise, seed=seed))
