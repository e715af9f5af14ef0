"""Sessions ready to be replayed on a model: each request as the model's cache sees it, and its body if one is needed.

A trace that has sizes only becomes prompts at once; with `bodies` it gets filler texts first. Times and faults are
imposed before that, so a fault may look at the time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Prompt
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts, estimate_json
from holdfast.records import Request, Usage
from holdfast.report.logs import SIDECHAIN, Content, Shape, Trace, TraceStep, lanes
from holdfast.wire import DIALECTS, Body, Dialect, PromptReader, Unreadable
from holdfast.wording import listed

from . import shape_blocks
from .gaps import FIRST_TOKEN
from .marker_plans import TimedCall
from .provider_caches import Warm, warm_starts

Models = Callable[[TraceStep], ModelFacts]
"""The model that a request goes to, the same for all of a lane."""

_SPOKEN = {"deepseek": DIALECTS["openai_chat"], **{each.provider: each for each in reversed(DIALECTS.values())}}
"""How each provider is asked: in its own dialect, in the first one where it has two."""


class TimedRequest(Struct, frozen=True, kw_only=True):
    """One request of a session: its start, the start of its answer, and what a client without markers sends. `bill` is
    its billed usage, in the tokens of the prompt; `warm` are entries found that the session did not write."""

    at: float
    first_token_at: float
    lane: str
    prompt: Prompt
    body: Body | None = None
    reset: str | None = None
    output: int = 0
    bill: Usage | None = None
    warm: Warm | None = None

    @property
    def subagent(self) -> bool:
        return self.lane.endswith(SIDECHAIN)


def turns(
    trace: Trace, model: ModelFacts | Models, *, bodies: bool = False, answers: Sequence[int] | None = None
) -> list[TimedRequest]:
    """The requests of a timed trace as they would have gone to this model, or each to its own. `answers` are the tokens
    of their answers, where the trace itself tells them no more."""
    outputs = answered(trace) if answers is None else answers
    models = on(model)
    prompts: list[tuple[Prompt, Body | None]]
    if bodies or has_texts(trace):
        prompts = list(_read(filled(trace, models) if is_shape(trace) else trace, models))
    else:
        by_step: dict[int, Prompt] = {}
        for steps in lanes(trace).values():
            of_lane = shape_blocks.prompts(shape_blocks.laid_out(steps), models(steps[0]))
            by_step.update(zip([s.number for s in steps], of_lane, strict=True))
        prompts = [(by_step[step.number], None) for step in trace.steps]
    return [
        TimedRequest(
            at=at,
            first_token_at=begins,
            lane=step.lane,
            prompt=prompt,
            body=body,
            reset=step.reset,
            output=output,
        )
        for step, (at, begins), (prompt, body), output in zip(trace.steps, times(trace), prompts, outputs, strict=True)
    ]


def on(model: ModelFacts | Models) -> Models:
    """Every request to one model, or each to its own."""
    return (lambda _: model) if isinstance(model, ModelFacts) else model


def with_bills(turns: Sequence[TimedRequest], trace: Trace) -> list[TimedRequest]:
    """The same requests with what was billed for them, as far as that was recorded. Where tokens are estimated, so is
    the bill, in proportion; plain input that a replay leaves out is left out here."""
    return [replace(turn, bill=_bill(step, turn.prompt.tokens)) for turn, step in zip(turns, trace.steps, strict=True)]


def with_warmth(turns: Sequence[TimedRequest], trace: Trace, model: ModelFacts | Models) -> list[TimedRequest]:
    """The same requests with what the first one of each lane finds, by its bill."""
    models = on(model)
    prompts = {step.number: turn.prompt for step, turn in zip(trace.steps, turns, strict=True)}
    starts = warm_starts(trace, prompts, {models(step).ref: models(step) for step in trace.steps})
    return [replace(turn, warm=starts.get(step.number)) for turn, step in zip(turns, trace.steps, strict=True)]


def _bill(step: TraceStep, tokens: int) -> Usage | None:
    billed = step.billed
    if billed is None or not billed.prompt:
        return None
    read, writes = billed.read, billed.writes
    if isinstance(step.content, Request):
        read = read * tokens // billed.prompt
        writes = tuple((ttl, count * tokens // billed.prompt) for ttl, count in writes)
    plain = max(0, tokens - read - sum(count for _, count in writes))
    return Usage(input=plain, read=read, writes=writes, output=billed.output)


def retimed(turns: Sequence[TimedRequest], trace: Trace) -> list[TimedRequest]:
    """The same requests at the times of another pattern."""
    return [replace(turn, at=at, first_token_at=begins) for turn, (at, begins) in zip(turns, times(trace), strict=True)]


def is_shape(trace: Trace) -> bool:
    """Return whether a trace, or a lane of it, has sizes only."""
    return any(isinstance(step.content, Shape) for step in trace.steps)


def has_texts(trace: Trace) -> bool:
    """Return whether a trace, or a lane of it, has texts."""
    return any(isinstance(step.content, Request) for step in trace.steps)


def times(trace: Trace) -> list[tuple[float, float]]:
    """When each request starts and its answer begins: before the lane's next request, where that was not recorded."""
    following: dict[str, float] = {}
    pairs: list[tuple[float, float]] = []
    for step in reversed(trace.steps):
        if step.at is None:
            raise HoldfastError(f"{trace.name} has no times; give it a gap pattern.")
        begins = step.first_token_at
        if begins is None:
            begins = min(step.at + FIRST_TOKEN, following.get(step.lane, step.at + FIRST_TOKEN))
        pairs.append((step.at, begins))
        following[step.lane] = step.at
    return pairs[::-1]


def filled(trace: Trace, model: ModelFacts | Models) -> Trace:
    """A trace of sizes with texts of our own making in them; lanes with texts keep theirs."""
    models = on(model)
    contents: dict[int, Content] = {step.number: step.content for step in trace.steps}
    for steps in lanes(trace).values():
        if isinstance(steps[0].content, Shape):
            texts = shape_blocks.filler_requests(shape_blocks.laid_out(steps), models(steps[0]).name)
            contents.update(zip([step.number for step in steps], texts, strict=True))
    return replace(trace, steps=tuple(replace(step, content=contents[step.number]) for step in trace.steps))


def calls_of(trace: Trace, model: ModelFacts) -> list[TimedCall]:
    """The prompts of a session as timed calls, all of them one lane."""
    return [TimedCall(turn.at, turn.first_token_at, turn.prompt) for turn in turns(trace, model)]


def dialect_of(model: ModelFacts) -> Dialect:
    """Return the dialect of requests to a model."""
    if (dialect := _SPOKEN.get(model.provider)) is not None:
        return dialect
    raise HoldfastError(f"requests to {model.ref} cannot be spelled; choose one of {listed(sorted(_SPOKEN), 'or')}.")


def _read(trace: Trace, models: Models) -> Iterator[tuple[Prompt, Body]]:
    reader = PromptReader()
    for step in trace.steps:
        assert isinstance(step.content, Request)
        model = models(step)
        dialect = dialect_of(model)
        raw = dialect.encode(replace(step.content, model=_named(model, dialect)))
        body = reader.parse(dialect, raw, model=model.name)
        if isinstance(body, Unreadable):
            raise HoldfastError(f"{trace.name}, request {step.number}: {body.reason}; correct the session.")
        yield replace(reader.read(body, model).prompt, marks=()), body


def _named(model: ModelFacts, dialect: Dialect) -> str:
    """Return the model's name in a body; OpenAI's dialect adds the provider if it is another one."""
    return model.ref if dialect.name == "openai_chat" and model.provider != "openai" else model.name


def answered(trace: Trace) -> list[int]:
    """Tokens of each answer: as billed, or as the lane's next request repeats it; of the last one nothing is known."""
    following: dict[str, TraceStep] = {}
    steps = []
    for step in reversed(trace.steps):
        after = following.get(step.lane)
        if step.usage is not None:
            steps.append(step.usage.output)
        else:
            steps.append(0 if after is None else _answer(step.content, after.content))
        following[step.lane] = step
    return steps[::-1]


def _answer(request: Content, after: Content) -> int:
    """Estimate the tokens of the model's answer between two requests of a lane."""
    if isinstance(after, Shape):
        return sum(block.chars for block in after.added if block.role == "assistant") // shape_blocks.CHARS
    before = len(request.messages) if isinstance(request, Request) else 0
    new = [message for message in after.messages[before:] if message.role == "assistant"][:1]
    return estimate_json(DIALECTS["anthropic"].encode(Request(model="", messages=tuple(new)))) if new else 0
