"""How much a model thinks before it answers: the levels, their form in a request, and the price of a change.

The levels are facts of a model. A change is a reset: the cached prefix of a conversation depends on the level, so its
price is shown before it is made.
"""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast import facts
from holdfast.caches import Section, rules
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts
from holdfast.records import Extra, encode_string
from holdfast.records.events import EffortSet
from holdfast.wire import obj

from . import model_choice
from .compaction.sizes import length

if TYPE_CHECKING:
    from .session import Session

_logger = logging.getLogger(__name__)

DEFAULT = "default"
"""The user's word for the provider's default, for which nothing is sent."""

_LEAST_ANSWER = 1_024
"""Tokens of an answer that a budget for thinking leaves room for."""

_SPELLED = {
    "anthropic": "output_config.effort",
    "openai_responses": "reasoning.effort",
    "openai_chat": "reasoning_effort",
    "openrouter": "reasoning.effort",
}
"""The member that says it, as the rules of the caches name it. Gemini's cache does not depend on it."""


def check_effort(model: str, effort: str) -> None:
    """HoldfastError where a model does not take this level, with those that it takes."""
    model_facts = facts.model(model)
    if not effort or effort in model_facts.efforts:
        return
    if not model_facts.efforts:
        raise HoldfastError(
            f"{model} takes no effort as far as is known; leave agent.effort unset, or describe the model's `efforts` "
            "in a file of facts.overrides."
        )
    raise HoldfastError(f"{model} takes no effort {effort!r}; it takes {', '.join(model_facts.efforts)}.")


def first_effort(model: str, requested: str | None, setting: str | None, *, configured: bool) -> str:
    """Return a session's first effort: the requested one or the setting. One that the model does not support is an
    error. But the setting is meant for the `configured` model; if another one was chosen that does not support it, no
    effort is sent and a warning is logged."""
    effort = requested or setting or ""
    if effort == DEFAULT:
        return ""
    if not requested and not configured and effort not in facts.model(model).efforts:
        if effort:
            _logger.warning("agent.effort is %s, and %s takes no such level: it thinks as by default", effort, model)
        return ""
    check_effort(model, effort)
    return effort


def effort_members(model: ModelFacts, dialect: str, effort: str, output_limit: int) -> Extra:
    """The members of a request that say it; none where the model does not take this level. `output_limit` is the
    session's: a budget is the same in all of its requests."""
    if effort not in model.efforts:
        return ()
    level = encode_string(effort)
    match dialect:
        case "anthropic":
            members: Extra = (("output_config", obj([("effort", level)])),)
            return (*members, ("thinking", b'{"type":"adaptive"}')) if model.adaptive_thinking else members
        case "gemini":
            budget = dict(model.thinking_budgets).get(effort)
            if budget is None:
                config = obj([("thinkingLevel", level)])
            else:
                fitting = max(min(budget, output_limit - _LEAST_ANSWER), min(budget, 0))
                config = obj([("thinkingBudget", str(fitting).encode())])
            return (("generationConfig", obj([("thinkingConfig", config)])),)
        case "openai_chat":
            return (("reasoning_effort", level),)
        case _:
            return (("reasoning", obj([("effort", level)])),)


def lost_section(model: ModelFacts, dialect: str) -> Section | None:
    """The first section of a prompt that a change of the effort loses; None where nothing is."""
    name = _SPELLED.get(dialect)
    section = rules(model).affecting.get(name) if name else None
    if section is not None and model.knobs.effort_invalidates == "all":
        return "tools"
    return section


class EffortChange(Struct, frozen=True, kw_only=True):
    """What another effort costs with the next request: tokens that are cached now and are lost, what writing them again
    costs, and what reading them would. None: the price is not known."""

    tokens: int = 0
    cost: Decimal | None = None
    read_cost: Decimal | None = None

    @property
    def extra(self) -> Decimal | None:
        return None if self.cost is None or self.read_cost is None else self.cost - self.read_cost


def price_of_change(session: Session) -> EffortChange:
    """As the ledger of the lane has it: nothing where nothing is alive."""
    section = lost_section(session.facts, session.dialect)
    warm = model_choice.warm(session, session.model)
    if section is None or not warm or session.state.last is None:
        return EffortChange(cost=Decimal(0), read_cost=Decimal(0))
    before = 0
    if section == "messages":
        before = sum(shown.tokens for shown in session.inspect() if shown.path.startswith(("tools", "system")))
    tokens = max(0, warm - before)
    price = facts.rates(session.model, None, length(session).used)
    if price is None:
        return EffortChange(tokens=tokens)
    return EffortChange(tokens=tokens, cost=tokens * price.write(), read_cost=tokens * price.read)


def set_effort(session: Session, effort: str) -> None:
    """Another effort from the next request on, recorded with what it costs. HoldfastError where the model does not take
    it."""
    effort = "" if effort == DEFAULT else effort
    check_effort(session.model, effort)
    before = session.state.effort
    if effort != before:
        change = price_of_change(session)
        session.log(
            EffortSet(effort=effort, before=before, cold_tokens=change.tokens, cold_cost=change.cost), actor="user"
        )
