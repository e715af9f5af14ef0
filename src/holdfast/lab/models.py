"""Which model a replay is on: by its name, or by what its traces were recorded with."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts, default
from holdfast.report.logs import Trace, TraceStep, lanes

from .results import RECORDED

log = logging.getLogger("holdfast.facts")


class Used(Struct, frozen=True):
    """Models of recorded sessions with their requests, most used first: those that are known, by their refs, and those
    of which nothing is known, by the names they were recorded with."""

    known: tuple[tuple[str, int], ...]
    unknown: tuple[tuple[str, int], ...]


class Course(Struct, frozen=True):
    """The models that requests are replayed on: `own` by the names they were recorded with, `model` for all others."""

    model: ModelFacts
    own: dict[str, ModelFacts] = {}

    @property
    def name(self) -> str:
        return RECORDED if len(self.models) > 1 else self.model.ref

    @property
    def models(self) -> dict[str, ModelFacts]:
        """All of them by their refs, the most used first."""
        return {self.model.ref: self.model} | {each.ref: each for each in self.own.values()}

    def of(self, step: TraceStep) -> ModelFacts:
        return self.own.get(step.model, self.model)


def facts_of(name: str) -> ModelFacts:
    """What is known of a model; an unknown one is refused, since nothing would be true of it."""
    log.addFilter(_silent)  # what is not known is said below
    try:
        model_facts = default().model(name)
    finally:
        log.removeFilter(_silent)
    if model_facts.known and name:
        return model_facts
    names = [model.ref for model in default().models()]
    close = get_close_matches(name, [*names, *(ref.partition(":")[2] for ref in names)], n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else "`holdfast models` lists those that are known."
    raise HoldfastError(f"nothing is known of the model {name!r}; {hint}")


def _silent(record: logging.LogRecord) -> bool:
    return False


def used_models(traces: Sequence[Trace]) -> Used:
    """The models that sessions were recorded with."""
    counts: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for name, requests in _named(traces).items():
        try:
            counts[facts_of(name).ref] += requests
        except HoldfastError:
            unknown[name] += requests
    return Used(tuple(counts.most_common()), tuple(unknown.most_common()))


def recorded(traces: Sequence[Trace]) -> Course:
    """Every request on the model it was recorded with; where nothing is known of that, on the one most requests of main
    lanes were recorded with, of those that are known."""
    used = used_models(traces)
    refs = {name for name, _ in used.known}
    if not refs:
        facts_of(own_model(traces))  # says what is wrong
    main: Counter[str] = Counter()
    for name, requests in _main_lanes(traces).items():
        if (ref := _ref(name)) in refs:
            main[ref] += requests
    first = main.most_common(1)[0][0] if main else used.known[0][0]
    own = {name: facts_of(name) for name in _named(traces) if _ref(name) in refs}
    order = {ref: place for place, (ref, _) in enumerate(used.known)}
    return Course(facts_of(first), dict(sorted(own.items(), key=lambda each: order[each[1].ref])))


def _named(traces: Sequence[Trace]) -> Counter[str]:
    return Counter(step.model for trace in traces for step in trace.steps if step.model)


def _main_lanes(traces: Sequence[Trace]) -> Counter[str]:
    """Requests of the traces' main lanes by the names of their models."""
    requests: Counter[str] = Counter()
    for trace in traces:
        main = max(lanes(trace).values(), key=len)
        if main[0].model:
            requests[main[0].model] += len(main)
    return requests


def _ref(name: str) -> str | None:
    try:
        return facts_of(name).ref
    except HoldfastError:
        return None


def own_model(traces: Sequence[Trace]) -> str:
    """The model most requests of the traces' main lanes were recorded with, as far as the traces name one."""
    requests = _main_lanes(traces)
    if not requests:
        raise HoldfastError(
            "these sessions name no model; name one with --model, `holdfast models` lists those that are known"
        )
    return requests.most_common(1)[0][0]
