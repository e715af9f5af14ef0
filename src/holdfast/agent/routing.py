"""Which model a turn uses, and which one takes over if it fails. A pure function of the request, the facts of the
models and what is cached for each.

The first of these decides: the message (`@model`), the session, the workspace's file, the user's own, then the fallback
chain. A change of the model has a price, because entries of one model are of no use to another: it is computed before
and recorded after. Sends nothing, waits for nothing, and reads no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Literal

from msgspec import Struct

from holdfast import facts
from holdfast.config import FILE, Config, printable
from holdfast.errors import HoldfastError
from holdfast.records import Capabilities
from holdfast.records.events import ModelRouted
from holdfast.tools import dialect_of_model
from holdfast.wire import DIALECTS, OpenRouter

from .costs import dollars
from .mentions import Mention, known_models, parse_mention

Source = Literal["message", "session", "workspace", "global", "environment", "flag", "settings", "fallback"]
"""The origin of the model's name. `settings`: configured, origin unknown."""

Warm = Callable[[str], int]
"""How many tokens of the conversation are in the cache of a model: it may have been asked before."""

_LATER, _SWITCH = "stands later in the chain", "; a switch: "
_LONGEST = 256  # characters of a name in an event
_NOBODY = "no model is chosen; set agent.model to one, such as anthropic:claude-haiku-4-5, or name it with /model"


class Gate(Struct, frozen=True, kw_only=True):
    """What decides whether OpenRouter is said to cache: `cache.openrouter.caching`, and where a read was seen."""

    openrouter: Literal["never", "seen"] = "seen"
    seen: frozenset[str] = frozenset()


GATE = Gate()
"""What is believed of OpenRouter before anything was seen."""


class Conditions(Struct, frozen=True, kw_only=True):
    """The requirements for every candidate: the conversation's needs besides tools, and the state of its cache."""

    tokens: int = 0
    images: bool = False
    warm: Warm = lambda _model: 0
    gate: Gate = GATE
    at: datetime | None = None
    """The date of the prices; None is today."""


ORDINARY = Conditions()


class ConfiguredModels(Struct, frozen=True, kw_only=True):
    """The models of the configuration."""

    model: str | None = None
    source: Source = "settings"
    fallback: tuple[str, ...] = ()


class ModelRoute(Struct, frozen=True, kw_only=True):
    """A decision. `before` is the previous request's model; `cold_tokens` and `cold_cost` are what a change writes or
    reads again at the new model's price (None: unknown). `passed_over` are the other models with the reasons."""

    model: str
    source: Source
    text: str = ""
    before: str | None = None
    cold_tokens: int = 0
    cold_cost: Decimal | None = None
    caching: bool = True
    passed_over: tuple[tuple[str, str], ...] = ()
    notice: str = ""
    """What the user should know; empty where all is as before."""

    @property
    def changed(self) -> bool:
        return self.before is not None and self.before != self.model

    def event(self) -> ModelRouted:
        return ModelRouted(
            model=self.model[:_LONGEST],
            source=self.source,
            before=None if self.before is None else self.before[:_LONGEST],
            cold_tokens=self.cold_tokens,
            cold_cost=self.cold_cost,
            caching=self.caching,
            passed_over=tuple((model[:_LONGEST], why[:_LONGEST]) for model, why in self.passed_over),
        )


class _Candidate(Struct, frozen=True, kw_only=True):
    model: str
    source: Source
    cold_tokens: int
    cold_cost: Decimal | None
    caching: bool
    lacks: str

    def why_not(self, reason: str) -> tuple[str, str]:
        price = "price unknown" if self.cold_cost is None else dollars(self.cold_cost)
        return self.model, f"{reason}{_SWITCH}{self.cold_tokens:,} tokens, {price}"


def _candidate(model: str, source: Source, before: str | None, conditions: Conditions) -> _Candidate:
    can = capabilities(model, conditions.gate)
    in_use = model == before
    prompt, warm = (0, 0) if in_use else (conditions.tokens, conditions.warm(model))
    tokens, cost = cold_switch(model, prompt, warm=warm, at=conditions.at)
    return _Candidate(
        model=model,
        source=source,
        cold_tokens=tokens,
        cold_cost=cost,
        caching=can.supports_prompt_caching,
        lacks=_lacks(model, can, conditions, in_use=in_use),
    )


def route(
    text: str,
    *,
    configured: ConfiguredModels,
    session: str | None = None,
    before: str | None = None,
    conditions: Conditions = ORDINARY,
) -> ModelRoute:
    """Where a message of the user's goes. `session` is the model chosen for the session, `before` that of its last
    request. A model that cannot take the conversation is passed over, unless none can: then the first is asked, which
    says more about the reason than we know."""
    wishes = [session, configured.model, *configured.fallback]
    models = known_models() if text.lstrip().startswith("@") else ()  # takes 20 ms, and most messages name no model
    mention = parse_mention(text, models, [each for each in wishes if each])
    requested: list[tuple[str | None, Source]] = [
        (mention.model, "message"),
        (session, "session"),
        (configured.model, configured.source),
    ]
    sources = _first_of_each((model, source) for model, source in requested if model)
    chain = _first_of_each((model, "fallback") for model in configured.fallback if model not in sources)
    if not sources and not chain:
        raise HoldfastError(_NOBODY)
    own = [_candidate(model, source, before, conditions) for model, source in sources.items()]
    others = [_candidate(model, source, before, conditions) for model, source in chain.items()]
    able = next((each for each in own if not each.lacks), None)
    if able is not None:
        passed = tuple(each.why_not(each.lacks) for each in own[: own.index(able)])
        return _route(able, passed, before, mention)
    chosen, passed = _substitute(others)
    passed = (*(each.why_not(each.lacks) for each in own), *passed)
    if chosen is None:
        chosen = (own or others)[0]
        passed = tuple(each for each in passed if each[0] != chosen.model)
    return _route(chosen, passed, before, mention)


def fallback(
    chain: Sequence[str], *, after: str, why: str, tried: Collection[str] = (), conditions: Conditions = ORDINARY
) -> ModelRoute | None:
    """The next model of the chain after one that did not answer, None where there is none left. `tried` are those that
    failed before it."""
    failed = {after, *tried}
    remaining = _first_of_each((model, "fallback") for model in chain if model not in failed)
    chosen, passed = _substitute([_candidate(model, source, after, conditions) for model, source in remaining.items()])
    if chosen is None:
        return None
    return _route(chosen, ((after, why), *passed), after, None)


def _substitute(candidates: Sequence[_Candidate]) -> tuple[_Candidate | None, tuple[tuple[str, str], ...]]:
    """The first that can take the conversation and caches prompts (statement A28); one that does not, only where no
    other is left: it pays the whole conversation with every request, which no price of a switch makes up for."""
    able = [each for each in candidates if not each.lacks]
    chosen = next((each for each in able if each.caching), able[0] if able else None)
    passed = []
    for each in candidates:
        if each is chosen:
            continue
        if each.lacks:
            passed.append(each.why_not(each.lacks))
        elif chosen is not None and chosen.caching and not each.caching:
            passed.append(each.why_not("caches no prompts"))
        else:
            passed.append(each.why_not(_LATER))
    return chosen, tuple(passed)


def _route(
    chosen: _Candidate, passed: tuple[tuple[str, str], ...], before: str | None, mention: Mention | None
) -> ModelRoute:
    notes = [] if mention is None or not mention.notice else [mention.notice]
    for model, why in passed:
        reason, priced, _ = why.partition(_SWITCH)
        if not priced:
            notes.append(f"{model} did not answer: {reason.rstrip('.')}.")
        elif reason != _LATER:
            notes.append(f"{model} was passed over: {reason}.")
    if before is not None and chosen.model != before:
        notes.append(_change(chosen))
    return ModelRoute(
        model=chosen.model,
        source=chosen.source,
        text="" if mention is None else mention.text,
        before=before,
        cold_tokens=chosen.cold_tokens,
        cold_cost=chosen.cold_cost,
        caching=chosen.caching,
        passed_over=passed,
        notice=" ".join(notes),
    )


def _change(chosen: _Candidate) -> str:
    cost = "at an unknown price" if chosen.cold_cost is None else f"for {dollars(chosen.cold_cost)}"
    if (most := dearest(chosen.model, chosen.cold_tokens, chosen.cold_cost)) is not None:
        cost += f" to {dollars(most)}"
    anew = f"{chosen.cold_tokens:,} tokens are not cached there and are sent anew {cost}"
    if not chosen.caching:
        anew += "; it caches no prompts, so every request pays for all of them"
    return f"{chosen.model} answers now: {anew}."


def _first_of_each(pairs: Iterable[tuple[str, Source]]) -> dict[str, Source]:
    sources: dict[str, Source] = {}
    for model, source in pairs:
        sources.setdefault(model, source)
    return sources


def capabilities(model: str, gate: Gate = GATE) -> Capabilities:
    """Return a model's capabilities in the dialect that is used for it."""
    dialect, model_facts = DIALECTS[dialect_of_model(model)], facts.model(model)
    if isinstance(dialect, OpenRouter):
        return dialect.capabilities(model_facts, caching=gate.openrouter, read_seen=model in gate.seen)
    return dialect.capabilities(model_facts)


def _lacks(model: str, can: Capabilities, conditions: Conditions, *, in_use: bool) -> str:
    """Return a missing capability of a model, empty if there is none. Unknown capabilities are no reason to refuse it,
    and a conversation too long for the current model is compacted, not sent elsewhere."""
    model_facts = facts.model(model)
    if not can.tools:
        return "cannot use tools"
    if conditions.images and not can.images and model_facts.known:
        return "cannot see images"
    limit_known = model_facts.known and "context_limit" not in model_facts.conservative
    if limit_known and not in_use and can.context_limit < conditions.tokens:
        return f"holds {can.context_limit:,} tokens, the conversation has {conditions.tokens:,}"
    return ""


def cold_switch(model: str, tokens: int, *, warm: int = 0, at: datetime | None = None) -> tuple[int, Decimal | None]:
    """Return the uncached tokens of a prompt at a model that has `warm` tokens cached, and their cost in dollars. Below
    the model's floor nothing is written; a longer lifetime costs more."""
    cold = max(tokens - warm, 0)
    price = facts.rates(model, at, tokens)
    if price is None:
        return cold, None
    return cold, cold * (price.input if tokens < facts.model(model).floor else price.write())


def dearest(model: str, tokens: int, cost: Decimal | None) -> Decimal | None:
    """Return the highest cost of such a switch, with everything written for the longest lifetime; None if that is no
    more, or nothing is written."""
    price = facts.rates(model, None, tokens)
    if cost is None or price is None or not price.writes or cost <= tokens * price.input:
        return None
    most = tokens * max(each for _, each in price.writes)
    return most if most > cost else None


def configured(config: Config, agent: str | None = None) -> ConfiguredModels:
    """Return the configured models and the origin of the main model's setting."""
    settings = config.for_agent(agent or "")
    origin = config.origin("agent.model", agent)
    source: Source = "settings"
    if origin.kind in ("file", "agent"):
        here = config.workspace is not None and origin.where == printable(config.workspace / FILE)
        source = "workspace" if here else "global"
    elif origin.kind == "environment":
        source = "environment"
    elif origin.kind == "flag":
        source = "flag"
    return ConfiguredModels(model=settings.agent.model, source=source, fallback=settings.agent.fallback)
