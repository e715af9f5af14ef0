"""Notes of a replay: how it was done, with what, and what to keep in mind."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from holdfast.caches import Noise
from holdfast.facts import ModelFacts, rates
from holdfast.report.logs import Shape, Trace
from holdfast.version import __version__

from . import bounds
from .contenders import OPTIMAL, Contender
from .options import ReplayOptions
from .results import BILLED, Result, SessionResult
from .sessions import is_shape


def gaps(patterns: Collection[str]) -> str:
    return next(iter(patterns)) if len(patterns) == 1 else "real where recorded, else none"


def noise(noise: Noise | None) -> str | None:
    """Format the noise as on the command line."""
    if noise is None:
        return None
    bare = Noise()
    names = [name for name in Noise.__struct_fields__ if name != "seed"]
    return ",".join(f"{name}={getattr(noise, name):g}" for name in names if getattr(noise, name) != getattr(bare, name))


def raises(models: Sequence[ModelFacts]) -> str:
    """How the providers treat a long lifetime behind a short one; `-` where that is no question."""
    return next((model.knobs.ttl_raise for model in models if model.knobs.ttl_raise is not None), "-")


def optimum(models: Sequence[ModelFacts], *, searched: bool) -> str:
    if not searched:
        return "not searched for"
    if all(bounds.why_not(model) for model in models):
        return "none: it is defined for Anthropic's rules only"
    return f"markers and lifetimes with hindsight, ttl_raise {raises(models)}, without pings"


def versions(contenders: Sequence[Contender], models: Sequence[ModelFacts]) -> tuple[tuple[str, str], ...]:
    """What the figures depend on: our own version, the facts' and prices' dates, and which peers were modelled."""
    dates = sorted({model.as_of.isoformat() for model in models})
    prices = sorted({listed.version for model in models if (listed := rates(model.ref)) is not None})
    peers = {each.peer.name: each.peer.version for each in contenders if each.peer is not None and each.peer.version}
    return (
        ("holdfast", __version__),
        ("facts", ", ".join(dates)),
        ("prices", ", ".join(prices) or "unknown"),
        *peers.items(),
    )


def notes(
    traces: Sequence[Trace],
    models: Sequence[ModelFacts],
    options: ReplayOptions,
    contenders: Mapping[str, Contender],
    results: Sequence[Result],
) -> Iterator[str]:
    """What a reader of the figures should know, a sentence each."""
    untimed = [trace.name for trace in traces if not trace.timed]
    if options.gaps is None and untimed:
        yield f"{_some(untimed)} without recorded times: user turns come every 10 s there (--gaps imposes others)."
    if any(is_shape(trace) for trace in traces):
        yield (
            "Of shape traces, and of logs without bodies, sizes and times are real, texts are not; tools and system "
            "text are told by the bills."
        )
    if any(isinstance(step.content, Shape) and step.usage is None for trace in traces for step in trace.steps):
        yield "Where a trace has no bills its sizes are estimated, and tools and system text are missing."
    if len(traces) > 1:
        learned = "forgets at its end" if options.fresh else f"keeps for the author's next one{_authors(traces)}"
        yield f"What the engine learns in a session it {learned}."
    for model in models:
        why = bounds.why_not(model)
        if options.optimum and why is not None:
            yield why
        if len(contenders) > 1 and (alike := _alike(model)):
            yield alike
    if options.optimum and options.noise is not None:
        yield "The optimum knows no noise: it is what would be paid if nothing were lost by chance."
    below = {each.kind for each in results if each.over_optimal is not None and each.over_optimal < 1}
    if "billed" in below:
        yield (
            "Less was billed than the optimum costs: entries were read that the rules do not have, from sessions "
            "beside these or beyond their lifetimes."
        )
    if below - {"billed"}:
        yield "The optimum is that of the requests as the client makes them; who repairs them may pay less."
    if OPTIMAL in contenders and not options.optimum:
        yield "optimal was left out, because the optimum was not searched for."


def starts(sessions: int, warm: int, options: ReplayOptions) -> Iterator[str]:
    """What was in the providers' caches when the sessions began."""
    if warm:
        which = "The session" if sessions == 1 else f"{warm:,} of {sessions:,} sessions"
        yield (
            f"{which} began warm: what the first request of a lane was billed as read is in the cache, for every row "
            "alike (--cold begins with nothing)."
        )
    elif sessions > 1:
        why = "" if options.warm else ", whatever the first request was billed as read"
        yield f"Each session begins with an empty cache{why}."


def bills(sessions: Sequence[SessionResult], results: Sequence[Result]) -> Iterator[str]:
    """Yield notes on the row of bills."""
    groups = dict.fromkeys(each.model for each in results)
    for group in groups:
        played = {(each.trace, each.seed) for each in sessions if each.model == group}
        billed = {(each.trace, each.seed) for each in sessions if each.model == group and each.strategy == BILLED}
        if billed and not any(each.model == group and each.strategy == BILLED for each in results):
            yield (
                f"{group}: {len(billed):,} of {len(played):,} sessions tell what they were billed; these are counted "
                "in DEARER, and there is no row of their sum."
            )


def _authors(traces: Sequence[Trace]) -> str:
    authors = len({trace.author for trace in traces})
    return f" ({authors:,} authors)" if authors > 1 else ""


def _alike(model: ModelFacts) -> str | None:
    """Why it makes no difference who marks, where it makes none."""
    if model.caching == "none":
        return f"{model.ref} has no prompt cache: no strategy makes a difference."
    if model.marker is None:
        return f"{model.ref} takes no markers, its provider caches by itself: no strategy makes a difference."
    if model.marker == "cachedContent":
        return f"{model.ref} takes no markers in a request; a replay makes no cached objects, so all cost the same."
    return None


def _some(names: Sequence[str]) -> str:
    return names[0] + " is" if len(names) == 1 else f"{len(names)} traces are"
