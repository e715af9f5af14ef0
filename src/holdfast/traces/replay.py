"""A recorded lane put through the core, call by call, against the provider's cache rules: what it would have cost.

`replay` runs timed prompts under any settings and takes what the rules bill for the provider's usage. The rules may
differ from what the core believes (`ttl_raise`): then it has to learn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from msgspec.structs import replace

from holdfast.caches.providers import cache
from holdfast.caches.values import Outcome
from holdfast.canonical import Request
from holdfast.config.sections.cache import Cache
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts
from holdfast.prefix import core
from holdfast.prefix.ledger import Ledger
from holdfast.wire import DIALECTS, Unreadable
from holdfast.wire.prompts import PromptReader

from .calls import Call, prices
from .values import Trace


def replay(
    calls: Sequence[Call],
    model: ModelFacts,
    settings: Cache,
    *,
    tenant: core.Tenant | None = None,
    client: str = "",
    believed: ModelFacts | None = None,
) -> list[Outcome]:
    """What the provider makes of one lane's calls. `tenant` carries what was learned from earlier lanes; the caches
    are empty at the start."""
    tenant = core.Tenant() if tenant is None else tenant
    tenant.pools.clear()
    tenant.alone.clear()
    provider, ledger = cache(model), Ledger(client=client)
    waiting: list[tuple[float, core.Prepared, Outcome]] = []
    billed: list[Outcome] = []
    for number, call in enumerate(calls):
        for at, prepared, outcome in _begun(waiting, call.at):
            provider.first_token(outcome, at)
            core.first_token(tenant, prepared, at)
            core.settle(tenant, ledger, prepared, outcome.usage(), max(at, call.at), settings)
        asked = core.Asked(
            call=str(number), prompt=call.prompt, alone=call.prompt, model=believed or model, strict=True
        )
        prepared = core.prepare(tenant, ledger, asked, call.at, settings)
        outcome = provider.begin(prepared.prompt, call.at)
        billed.append(outcome)
        waiting.append((call.first_token_at, prepared, outcome))
    for at, prepared, outcome in _begun(waiting, float("inf")):
        core.settle(tenant, ledger, prepared, outcome.usage(), at, settings)
    return billed


def _begun(
    waiting: list[tuple[float, core.Prepared, Outcome]], now: float
) -> Iterator[tuple[float, core.Prepared, Outcome]]:
    """Calls whose answer has begun by now, in the order in which they did."""
    waiting.sort(key=lambda item: item[0])
    while waiting and waiting[0][0] <= now:
        yield waiting.pop(0)


def billed(outcomes: Sequence[Outcome], model: ModelFacts) -> Decimal:
    """The input of all calls, in plain input tokens."""
    price = prices(model)
    return price.tokens(sum(price.of(outcome) for outcome in outcomes))


def calls_of(trace: Trace, model: ModelFacts) -> list[Call]:
    """The prompts of a session with texts, as a client without markers would send them to this model."""
    dialect = DIALECTS["anthropic" if model.provider == "anthropic" else "openai_chat"]
    reader = PromptReader()
    calls = []
    for step in trace.steps:
        if not isinstance(step.content, Request) or step.at is None or step.first_token_at is None:
            raise HoldfastError(f"{trace.name} has no texts or no times; give a session with both.")
        body = reader.parse(dialect, dialect.encode(replace(step.content, model=model.name)), model=model.name)
        if isinstance(body, Unreadable):
            raise HoldfastError(f"{trace.name}, call {step.number}: {body.reason}; correct the session.")
        prompt = reader.read(body, model).prompt
        calls.append(Call(step.at, step.first_token_at, replace(prompt, marks=())))
    return calls
