"""Pre-flight: what a request will cost in input, and what it would cost with a cold cache.

Dollars from a predicted outcome and the model's rates; the answer is not known yet and not counted. Both figures belong
to the same prompt, so both are on the same side of a price cliff.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal

from msgspec import Struct, structs

from holdfast.caches import AnthropicCache, Mark, Outcome, cache, cold_writes, rules
from holdfast.facts import Calibration, ModelFacts, Rates, rates

RatesFor = Callable[[int], Rates | None]
"""The rates of a request by its prompt tokens, None where no price is known."""

Writes = Sequence[tuple[str, int]]


class Preflight(Struct, frozen=True, kw_only=True):
    """Predicted cost of this turn and of a cold one, and the tokens of this turn; None where no price is known."""

    this: Decimal | None
    cold: Decimal | None
    read: int
    written: int
    input: int


def preflight(outcome: Outcome, marks: Sequence[Mark], model: ModelFacts, rates_for: RatesFor) -> Preflight:
    """Return the cost of a predicted outcome with the plan's markers, in the current cache and in a cold one."""
    written = 0
    for _, tokens in outcome.writes:
        written += tokens
    whole = outcome.read + written + outcome.input
    price = rates_for(whole)
    this = cold = None
    if price is not None:
        this, plain, cold = outcome.input * price.input + outcome.read * price.read, whole, Decimal(0)
        for ttl, tokens in outcome.writes:
            this += tokens * price.write(ttl)
        for ttl, tokens in _cold_writes(outcome, marks, model):
            plain -= tokens
            cold += tokens * price.write(ttl)
        cold += plain * price.input
    return Preflight(this=this, cold=cold, read=outcome.read, written=written, input=outcome.input)


def calibrated(outcome: Outcome, marks: Sequence[Mark], model: ModelFacts, calibration: Calibration) -> Preflight:
    """The same in the tokens that the provider is known to count, at the prices of a prompt of that size."""
    tokens = calibration.counter(model.ref)
    price = rates(model.ref, prompt_tokens=tokens(outcome.prompt.tokens))
    return scaled(preflight(outcome, marks, model, lambda _size: price), tokens)


def scaled(estimate: Preflight, tokens: Callable[[int], int]) -> Preflight:
    """The same in another count of tokens: what the provider makes of our estimates."""
    whole = estimate.read + estimate.written + estimate.input
    counted = tokens(whole) if whole else whole
    if counted == whole:
        return estimate
    factor = Decimal(counted) / whole
    return Preflight(
        this=None if estimate.this is None else estimate.this * factor,
        cold=None if estimate.cold is None else estimate.cold * factor,
        read=tokens(estimate.read),
        written=tokens(estimate.written),
        input=tokens(estimate.input),
    )


def _cold_writes(outcome: Outcome, marks: Sequence[Mark], model: ModelFacts) -> Writes:
    """What the same request writes where nothing is alive, by the provider's own rules.

    Caches that match token by token write for nothing, and an object that a Gemini request names is plain input there.
    """
    provider, prompt = rules(model), outcome.prompt
    if provider.by_token:
        return ()
    if prompt.marks != tuple(marks):
        prompt = structs.replace(prompt, marks=tuple(marks))
    if provider.make is AnthropicCache:
        return cold_writes(prompt, model)
    return cache(model).begin(prompt, outcome.at).writes
