"""The scripted model: a script's answer to a request, within the limits of the request.

A pure function of script, request and settings. Knows neither the format of a reply (`replies`) nor when it is sent.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from holdfast.facts import estimate, estimate_json
from holdfast.records import NotJson, Request, canonical_json
from holdfast.wire import DIALECTS, Body

from .messages import Part, Reply, ReplySettings, Stop, Thought, ToolCall, Words
from .request_view import glance, settings
from .script.document import problem
from .script.loader import ask
from .script.offers import any_tools, calls, fill_in, whole
from .script.rules import Scene, Script, ScriptStep, choose, scene, shorten

__all__ = ["ReplySettings", "respond", "respond_to", "settings", "tokens_of"]

# Each of these words is one token after a space, so filler can be measured by counting words.
_SENTENCE = "the work goes on and each part of it is done in order so that what was said before still holds"
_FOREVER = float("inf")
_FILLER = tuple(_SENTENCE.split())


def respond(script: Script, request: Request, reply_settings: ReplySettings = ReplySettings()) -> Reply:  # noqa: B008  a frozen value
    """The model's reply. Thoughts are left out unless thinking is on; text ends before the first stop sequence; what
    is beyond the limit is cut off, and a tool call that does not fit is not made at all."""
    reply, limit = _answer(script, request, reply_settings.thinking), reply_settings.limit
    parts, met = _until_stop(reply.parts, reply_settings.stop_sequences)
    stop: Stop = reply.stop if met is None else "stop_sequence"
    counts = [tokens_of(part) for part in parts]
    total = sum(counts)
    if limit is not None and total > limit:
        parts, counts = _within(parts, counts, limit)
        stop, met, total = "limit", None, limit
    if stop == "tools" and not any(isinstance(part, ToolCall) for part in parts):
        stop = "end"
    thoughts = sum(count for part, count in zip(parts, counts, strict=True) if isinstance(part, Thought))
    return replace(reply, parts=tuple(parts), stop=stop, tokens=total, stop_sequence=met, thought_tokens=thoughts)


def respond_to(script: Script, body: Body, reply_settings: ReplySettings) -> Reply:
    """The reply to a body, decoding no more of it than the script looks at."""
    if script.function is not None or any(rule.times is not None for rule in script.rules):
        return respond(script, DIALECTS[body.dialect].decode(body), reply_settings)
    steps = (*script.turns, *(rule.step for rule in script.rules))
    return respond(script, glance(body, tools=any(step.calls for step in steps)), reply_settings)


def tokens_of(part: Part) -> int:
    """The output tokens of a part."""
    if isinstance(part, ToolCall):
        return estimate(part.name) + estimate_json(part.input)
    return estimate(part.text)


def _answer(script: Script, request: Request, thinking: bool) -> Reply:
    """Return the scripted answer before any limit; `tokens` is not counted yet."""
    if script.function is None:
        at, step = choose(script, request.messages)
        steps: tuple[ScriptStep, ...] = (step,)
    else:
        answer = ask(script, request)
        if isinstance(answer, Reply):
            return _checked(script, answer, thinking)
        at, steps = scene(request.messages), answer
    if not any_tools(request):
        steps = tuple(_without_calls(step, at) for step in steps)
    tool_calls = calls(script, tuple(call for step in steps for call in step.calls), at, request)
    parts: list[Part] = []
    for step in steps:
        step_calls, tool_calls = tool_calls[: len(step.calls)], tool_calls[len(step.calls) :]
        parts += _parts(step, at, step_calls, thinking)
    stop: Stop = "tools" if any(isinstance(part, ToolCall) for part in parts) else "end"
    stop = next((step.stop for step in reversed(steps) if step.stop is not None), stop)
    first = next((step.first_token for step in steps if step.first_token is not None), script.first_token)
    per = next((step.per_token for step in steps if step.per_token is not None), script.per_token)
    return Reply(tuple(parts), stop, 0, first_token_delay=first, token_delay=per)


def _without_calls(step: ScriptStep, at: Scene) -> ScriptStep:
    """Replace a step's calls for a request without tools: clients send such ones on the side, for titles and summaries,
    with the last message that a rule matches."""
    if not step.calls:
        return step
    return replace(step, calls=(), say=shorten(at.last_text) if step.say is None else step.say)


def _checked(script: Script, reply: Reply, thinking: bool) -> Reply:
    """A Reply that a Python script built itself, with inputs in canonical form."""
    try:
        reply = msgspec.convert(msgspec.to_builtins(reply, builtin_types=(bytes,)), Reply, builtin_types=(bytes,))
        if not (0 <= reply.first_token_delay < _FOREVER and 0 <= reply.token_delay < _FOREVER):
            raise ValueError("a delay is no number of seconds")
    except (TypeError, ValueError) as error:
        raise problem(script.name, script.line, f"`reply` returns a Reply that is wrong ({error})") from error
    parts: list[Part] = []
    for part in reply.parts:
        if isinstance(part, ToolCall):
            try:
                text = canonical_json(part.input)
            except NotJson as error:
                sentence = f"the input of the call to {part.name!r} is not JSON ({error})"
                raise problem(script.name, script.line, sentence) from error
            if text[:1] != b"{":
                raise problem(script.name, script.line, f"the input of the call to {part.name!r} must be an object")
            parts.append(replace(part, input=text))
        elif thinking or isinstance(part, Words):
            parts.append(replace(part, text=whole(part.text)))
    return replace(reply, parts=tuple(parts), stop_sequence=None)


def _parts(step: ScriptStep, at: Scene, tool_calls: tuple[ToolCall, ...], thinking: bool) -> Iterable[Part]:
    thought = fill_in(step.think, at) if step.think and thinking else ""
    text = fill_in(step.say or "", at)
    if step.tokens:
        others = sum(map(tokens_of, tool_calls)) + estimate(thought)
        text = padded(text, step.tokens - others)
    if thought:
        yield Thought(thought)
    if text:
        yield Words(text)
    yield from tool_calls


def padded(text: str, tokens: int) -> str:
    """Pad a text with filler to `tokens` tokens; a longer one stays."""
    text = text.rstrip() if tokens > estimate(text) else text  # a space at the end would merge with the filler's
    missing = tokens - estimate(text)
    if missing <= 0:
        return text
    return (text + _filler(missing)) if text else _filler(missing)[1:]


@lru_cache(maxsize=256)
def _filler(words: int) -> str:
    rounds, rest = divmod(words, len(_FILLER))
    return " " + " ".join([*_FILLER * rounds, *_FILLER[:rest]])


def _until_stop(parts: tuple[Part, ...], sequences: tuple[str, ...]) -> tuple[list[Part], str | None]:
    """The parts up to the first stop sequence in a text, and which one it was; the longest of those that begin there
    together."""
    before: list[Part] = []
    for part in parts:
        if isinstance(part, Words):
            met = [(at, -len(word), word) for word in sequences if word and (at := part.text.find(word)) >= 0]
            if met:
                at, _, word = min(met)
                return [*before, *([Words(part.text[:at])] if at else [])], word
        before.append(part)
    return before, None


def _within(parts: Iterable[Part], counts: Iterable[int], limit: int) -> tuple[list[Part], list[int]]:
    """As many parts as fit, the last text cut; nothing follows what did not fit."""
    fitting: list[Part] = []
    fitting_counts: list[int] = []
    for part, count in zip(parts, counts, strict=True):
        if count <= limit:
            fitting.append(part)
            fitting_counts.append(count)
            limit -= count
            continue
        if not isinstance(part, ToolCall) and (text := cut(part.text, limit)):
            fitting.append(replace(part, text=text))
            fitting_counts.append(limit)
        break
    return fitting, fitting_counts


def cut(text: str, tokens: int) -> str:
    """The longest beginning of a text found to have at most so many tokens."""
    if tokens <= 0:
        return ""
    low, high = 0, min(len(text), tokens * 4)
    while high < len(text) and estimate(text[:high]) <= tokens:
        low, high = high, min(len(text), high * 2)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate(text[:middle]) <= tokens:
            low = middle
        else:
            high = middle - 1
    return text[:low]
