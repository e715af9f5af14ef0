"""Which model a replay is on: by its name, or by what its traces were recorded with."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches

from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts, default

from ..values import Trace, lanes

log = logging.getLogger("holdfast.facts")

MOST = 3
"""Models of logs that are replayed on where none is named."""


class Used(Struct, frozen=True):
    """Models of logs with the requests of the sessions' main lanes, most used first: those that are replayed on, those
    that are known too, and those of which nothing is known."""

    chosen: tuple[tuple[str, int], ...]
    others: tuple[tuple[str, int], ...]
    unknown: tuple[tuple[str, int], ...]


def facts_of(name: str) -> ModelFacts:
    """What is known of a model; an unknown one is refused, since nothing would be true of it."""
    log.addFilter(_silent)  # what is not known is said below
    try:
        found = default().model(name)
    finally:
        log.removeFilter(_silent)
    if found.known and name:
        return found
    names = [model.ref for model in default().models()]
    close = get_close_matches(name, [*names, *(ref.partition(":")[2] for ref in names)], n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else "`holdfast models` lists those that are known."
    raise HoldfastError(f"nothing is known of the model {name!r}; {hint}")


def _silent(record: logging.LogRecord) -> bool:
    return False


def used_models(traces: Sequence[Trace], most: int = MOST) -> Used:
    """The models that sessions from logs were recorded with."""
    known: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for trace in traces:
        main = max(lanes(trace).values(), key=len)
        try:
            known[facts_of(main[0].model).ref] += len(main)
        except HoldfastError:
            unknown[main[0].model] += len(main)
    every = tuple(known.most_common())
    return Used(every[:most], every[most:], tuple(unknown.most_common()))


def own_model(traces: Sequence[Trace]) -> str:
    """The model most requests of the traces' main lanes were recorded with, as far as the traces name one."""
    requests: Counter[str] = Counter()
    for trace in traces:
        main = max(lanes(trace).values(), key=len)
        if main[0].model:
            requests[main[0].model] += len(main)
    if not requests:
        raise HoldfastError(
            "these sessions name no model; name one with --model, `holdfast models` lists those that are known"
        )
    return requests.most_common(1)[0][0]
