"""Traces under every strategy, on the models they were recorded with or on others: what each would have cost.

Sessions of one author are replayed in the order in which they began, each with nothing in the provider's cache but what
its first requests were billed as read; what the engine has learned from one it keeps for the author's next, unless it
is `fresh`. All contenders see the same requests at the same times and the same noise. A session counts once all of them
have played it, so that a run that is broken off still compares like with like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from time import perf_counter

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import AnthropicCache, Mark, rules
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts
from holdfast.records import UNSPLIT, Usage
from holdfast.report.logs import Trace, by_author

from . import bounds, notes
from .client_faults import FAULTS
from .contenders import OPTIMAL, Contender, contenders
from .gaps import with_gaps
from .models import Course, facts_of, recorded
from .options import ReplayOptions
from .playback import CoreWay, Dump, EngineWay, Way, play
from .provider_caches import Providers
from .results import BILLED, Kind, ReplayReport, SessionResult, price_of
from .sessions import (
    TimedRequest,
    answered,
    dialect_of,
    filled,
    has_texts,
    is_shape,
    retimed,
    turns,
    with_bills,
    with_warmth,
)
from .tally import ContenderTally, with_spread

Progress = Callable[[int], None]
"""Called with the number of further requests played."""


def run(
    traces: Sequence[Trace],
    strategies: Sequence[str],
    models: Sequence[str] = (),
    options: ReplayOptions | None = None,
    *,
    progress: Progress | None = None,
) -> ReplayReport:
    """Replay traces under strategies, which are names of `STRATEGY_NAMES`. Models are given as `provider:name` or by
    their bare names; without any, every lane is replayed on the one it was recorded with."""
    lab = Lab(traces, strategies, models, options or ReplayOptions())
    lab.play(progress)
    return lab.report()


class Lab:
    """One run: `play` it, and `report` what has been played so far."""

    def __init__(
        self, traces: Sequence[Trace], strategies: Sequence[str], models: Sequence[str], options: ReplayOptions
    ) -> None:
        self.options = options
        self._authors = by_author(traces)
        self.traces = tuple(trace for sessions in self._authors.values() for trace in sessions)
        self.contenders = contenders(strategies, client=options.client, repair=options.repair)
        courses = [Course(facts_of(name)) for name in models] if models else [recorded(self.traces)]
        worlds = {course.name: _world(course, options.ttl_raise) for course in courses}
        self.courses = tuple(worlds.values())
        self.models = tuple({ref: model for course in self.courses for ref, model in course.models.items()}.values())
        self.seeds = self._seeds()
        for trace in self.traces:  # what is wrong is told before anything is played
            with_gaps(trace, options.pattern(trace), self.seeds[0])
        for course in self.courses:
            for sessions in self._authors.values():
                if self._bodies(sessions, course):
                    for model in _models(sessions, course).values():
                        dialect_of(model)
        self._totals: dict[tuple[str, str], ContenderTally] = {}
        self._sessions: list[SessionResult] = []
        self.finished = 0
        """Sessions that all contenders have played."""
        self._warm = 0
        self._played = 0
        self._seconds = self._searching = 0.0
        self._problems: dict[str, None] = {}

    @property
    def total(self) -> int:
        """Requests that `play` will play."""
        each = sum(
            len(trace.steps)
            for course in self.courses
            for trace in self.traces
            for one in self.contenders
            if self._plays(one, _models([trace], course).values())
        )
        return each * len(self.seeds)

    @property
    def sessions(self) -> int:
        """Sessions that are played, each under every contender."""
        return len(self.traces) * len(self.seeds) * len(self.courses)

    def play(self, progress: Progress | None = None) -> None:
        """Replay everything; an interrupted run keeps what was finished."""
        with ExitStack() as stack:
            dump = None if self.options.dump is None else stack.enter_context(Dump(self.options.dump))
            for course in self.courses:
                prompts: dict[int, list[TimedRequest]] = {}
                for seed in self.seeds:
                    number = 0
                    for sessions in self._authors.values():
                        ways: dict[str, Way] = {}
                        bodies = self._bodies(sessions, course)
                        for trace in sessions:
                            session = self._turns(number, trace, course, seed, prompts, bodies=bodies)
                            play = _Play(trace, session, course, seed, bodies)
                            self._session(play, ways, dump, progress or (lambda _: None))
                            number += 1

    def report(self) -> ReplayReport:
        """What has been played so far, strategies by their cost."""
        kinds: dict[str, Kind] = {each.name: each.kind for each in self.contenders} | {BILLED: "billed"}
        results = [tally.result(name, kinds[name]) for (_, name), tally in self._whole()]
        order = {name: place for place, name in enumerate(self._groups())}
        results.sort(key=lambda each: (order[each.model], price_of(each)))
        options = self.options
        by_name = {contender.name: contender for contender in self.contenders}
        return ReplayReport(
            traces=tuple(trace.name for trace in self.traces),
            models=tuple(model.ref for model in self.models),
            gaps=notes.gaps({options.pattern(trace) for trace in self.traces}),
            seeds=self.seeds,
            fault=options.fault,
            noise=notes.noise(options.noise),
            ttl_raise=notes.raises(self.models),
            optimum=notes.optimum(self.models, searched=options.optimum),
            results=tuple(with_spread(results, self._sessions)),
            sessions=tuple(self._sessions),
            requests=self._played,
            seconds=self._seconds,
            optimum_seconds=self._searching,
            versions=notes.versions(self.contenders, self.models),
            notes=(
                *notes.notes(self.traces, self.models, options, by_name, results),
                *notes.starts(self.finished, self._warm, options),
                *notes.bills(self._sessions, results),
                *self._problems,
            ),
            authors=len(self._authors),
            warm=self._warm,
        )

    def _groups(self) -> list[str]:
        """What results are given for: each course, and each model of one that has several."""
        groups: dict[str, None] = {}
        for course in self.courses:
            groups |= dict.fromkeys((course.name, *course.models))
        return list(groups)

    def _whole(self) -> list[tuple[tuple[str, str], ContenderTally]]:
        """Return the sums of the contenders that played every session; the optimum cannot always be found, and not
        every session has a bill."""
        most: dict[str, int] = {}
        for (group, _), tally in self._totals.items():
            most[group] = max(most.get(group, 0), tally.requests)
        return [(key, tally) for key, tally in self._totals.items() if tally.requests == most[key[0]]]

    def _session(self, play_: _Play, ways: dict[str, Way], dump: Dump | None, progress: Progress) -> None:
        """One session under every contender; nothing of it counts before the last of them is through."""
        tallies: dict[str, dict[str, ContenderTally]] = {}
        session, models = play_.turns, play_.models
        best = {ref: self._best_on(play_, model) for ref, model in play_.models.items()}
        for contender in self.contenders:
            if not self._plays(contender, models.values()):
                continue
            marks = _optimal(session, best) if contender.name == OPTIMAL else _own(contender, session)
            if marks is None:
                continue
            started = perf_counter()
            tallies[contender.name] = parts = {ref: ContenderTally(model) for ref, model in models.items()}
            if contender.name not in ways or self.options.fresh:
                ways[contender.name] = _way(contender, bodies=play_.bodies)
            if dump is not None:
                about = {"session": play_.trace.name, "strategy": contender.name, "model": play_.course.name}
                dump.begin(**about, seed=play_.seed)
            noise = None if contender.kind == "bound" else self.options.noise
            provider = Providers(models, noise, f"{play_.seed} {play_.trace.name}")
            on_sent = None if dump is None else dump.sent
            for played in play(session, ways[contender.name], provider, marks=marks, on_sent=on_sent):
                parts[played.turn.prompt.model].add(played)
            progress(len(session))
            self._seconds += perf_counter() - started
            self._played += len(session)
        billed = self._billed(play_)
        if billed is not None:
            tallies[BILLED] = billed
        self._count(play_, tallies, {ref: _ideal(session, ref, models, marks) for ref, marks in best.items()})

    def _count(
        self, play_: _Play, tallies: dict[str, dict[str, ContenderTally]], ideal: dict[str, ContenderTally | None]
    ) -> None:
        """Add a session up: on each of its models, and on all of them where its course has several."""
        totals, sessions = dict(self._totals), list(self._sessions)
        several = len(play_.course.models) > 1
        billed = tallies.get(BILLED)
        for name, parts in tallies.items():
            for ref, part in parts.items():
                part.compare(ideal[ref])
            groups = [(ref, part, billed and billed[ref]) for ref, part in parts.items()]
            if several:
                whole = None if billed is None else ContenderTally(None).joined(*billed.values())
                groups.insert(0, (play_.course.name, ContenderTally(None).joined(*parts.values()), whole))
            for group, tally, bill in groups:
                start = ContenderTally(None if several and group == play_.course.name else play_.models[group])
                totals[group, name] = start.joined(totals.get((group, name)), tally)
                sessions.append(
                    SessionResult(
                        trace=play_.trace.name,
                        seed=play_.seed,
                        model=group,
                        strategy=name,
                        requests=tally.requests,
                        cost_tokens=tally.cost,
                        over_optimal=tally.over_optimal,
                        author=play_.trace.author,
                        cost_usd=tally.dollars,
                        over_billed=tally.over(bill) if bill else None,
                    )
                )
        warm = self._warm + any(turn.warm is not None for turn in play_.turns)
        # at once: Ctrl-C may come at any moment
        self._totals, self._sessions, self.finished, self._warm = totals, sessions, self.finished + 1, warm

    def _billed(self, play_: _Play) -> dict[str, ContenderTally] | None:
        """What the session was billed, by its models, where that was recorded for all of it and has a price."""
        if not self.options.billed(play_.trace):
            return None
        parts = {ref: ContenderTally(model) for ref, model in play_.models.items()}
        for turn in play_.turns:
            ref = turn.prompt.model
            bill = None if turn.bill is None else _priced(turn.bill, play_.models[ref])
            if bill is None:
                return None
            parts[ref].pay(bill)
        return parts

    def _best_on(self, play_: _Play, model: ModelFacts) -> list[tuple[Mark, ...]] | None:
        if not self.options.optimum or bounds.why_not(model) is not None:
            return None
        started = perf_counter()
        best = bounds.best_marks([turn for turn in play_.turns if turn.prompt.model == model.ref], model)
        self._searching += perf_counter() - started
        if isinstance(best, HoldfastError):
            self._problems[f"{play_.trace.name} has no optimum on {model.ref}: {best}"] = None
            return None
        return best

    def _turns(
        self,
        number: int,
        trace: Trace,
        course: Course,
        seed: int,
        by_session: dict[int, list[TimedRequest]],
        *,
        bodies: bool,
    ) -> list[TimedRequest]:
        """A trace's requests on its models. Prompts that depend on no text are kept for the next seed."""
        timed, options = with_gaps(trace, self.options.pattern(trace), seed), self.options
        if number in by_session:
            return retimed(by_session[number], timed)
        answers = answered(timed)  # a fault may hide them
        if options.fault is not None:
            timed = FAULTS[options.fault](filled(timed, course.of) if is_shape(timed) else timed, seed)
        played = turns(timed, course.of, bodies=bodies, answers=answers)
        if options.billed(trace):
            played = with_bills(played, timed)
        if options.warm:
            played = with_warmth(played, timed, course.of)
        if not bodies:
            by_session[number] = played
        return played

    def _bodies(self, sessions: Sequence[Trace], course: Course) -> bool:
        """Return whether whole requests are replayed: all of an author or none, since the engine learns from each."""
        spoken = any(has_texts(trace) for trace in sessions)
        others = any(rules(model).make is not AnthropicCache for model in _models(sessions, course).values())
        return spoken or self.options.whole_engine or others

    def _plays(self, contender: Contender, models: Iterable[ModelFacts]) -> bool:
        if contender.name != OPTIMAL:
            return True
        return self.options.optimum and all(bounds.why_not(model) is None for model in models)

    def _seeds(self) -> tuple[int, ...]:
        """Where nothing is left to chance, one of them."""
        seeds = tuple(dict.fromkeys(self.options.seeds))
        if not seeds:
            raise HoldfastError("there is no seed; give at least one.")
        options = self.options
        calm = all(options.pattern(trace) in ("real", "none") for trace in self.traces)
        return seeds[:1] if calm and options.noise is None and options.fault is None else seeds


class _Play(Struct, frozen=True):
    """A session that is being played: its requests on the models of a course, as bodies or not."""

    trace: Trace
    turns: list[TimedRequest]
    course: Course
    seed: int
    bodies: bool

    @property
    def models(self) -> dict[str, ModelFacts]:
        return _models([self.trace], self.course)


def _models(traces: Sequence[Trace], course: Course) -> dict[str, ModelFacts]:
    """The models that the requests of some sessions go to, by their refs."""
    return {model.ref: model for trace in traces for step in trace.steps for model in (course.of(step),)}


def _way(contender: Contender, *, bodies: bool) -> Way:
    """Return a new engine before its first session, with the facts as its beliefs about models."""
    peer = contender.peer
    mode = "" if peer is None else peer.mode_for
    if bodies:
        automatic = peer is not None and peer.name == "automatic"
        return EngineWay(contender.settings, facts_of, mode=mode, automatic=automatic)
    return CoreWay(contender.settings, facts_of, mode=mode)


def _own(contender: Contender, session: Sequence[TimedRequest]) -> list[tuple[Mark, ...]]:
    """The markers that the client places itself."""
    return [] if contender.peer is None else [contender.peer.place(turn.prompt) for turn in session]


def _optimal(
    session: Sequence[TimedRequest], best: dict[str, list[tuple[Mark, ...]] | None]
) -> list[tuple[Mark, ...]] | None:
    """The markers of the optimum in the order of the requests, where every model of a session has one."""
    left = {}
    for ref, marks in best.items():
        if marks is None:
            return None
        left[ref] = iter(marks)
    return [next(left[turn.prompt.model]) for turn in session]


def _ideal(
    session: Sequence[TimedRequest], ref: str, models: dict[str, ModelFacts], marks: list[tuple[Mark, ...]] | None
) -> ContenderTally | None:
    """Return the cost of one model's optimum."""
    if marks is None:
        return None
    tally = ContenderTally(models[ref])
    for usage in bounds.billed([turn for turn in session if turn.prompt.model == ref], marks, models[ref]):
        tally.pay(usage)
    return tally


def _priced(bill: Usage, model: ModelFacts) -> Usage | None:
    """A bill with the lifetimes that a model has; those that were not told apart are its usual one. None where a
    lifetime has no price there."""
    lifetimes = {ttl for ttl, _ in model.writes}
    writes: dict[str, int] = {}
    for ttl, tokens in bill.writes:
        name = model.default_ttl or "" if ttl == UNSPLIT else ttl
        if name not in lifetimes:
            return None
        writes[name] = writes.get(name, 0) + tokens
    return replace(bill, writes=tuple(writes.items()))


def _world(course: Course, ttl_raise: str | None) -> Course:
    """The models as their providers treat them."""
    own = {name: _treated(model, ttl_raise) for name, model in course.own.items()}
    return Course(_treated(course.model, ttl_raise), own)


def _treated(model: ModelFacts, ttl_raise: str | None) -> ModelFacts:
    if model.knobs.ttl_raise is None or ttl_raise is None:
        return model
    return replace(model, knobs=replace(model.knobs, ttl_raise="yes" if ttl_raise == "yes" else "no"))
