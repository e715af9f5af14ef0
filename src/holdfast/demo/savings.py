"""What each mechanism saves: the session done again with something else instead of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from . import session
from .arms import ARMS, WHOLE
from .runs import CarelessClient, DemoRun, progress

if TYPE_CHECKING:
    from .agent import AgentRun


CLIENT_RUNS: dict[str, tuple[str, Mapping[str, object]]] = {
    "AS SENT": ("as the client sends it", {"cache.strategy": "passthrough", "cache.repair": "off"}),
    "DEFAULTS": ("with Holdfast, its defaults", {}),
    "REPAIRS ON": ('with Holdfast, repair = "on"', {"cache.repair": "on"}),
}
"""The careless client's runs by the title of their column: what each is, and its settings."""

REPAIRS = {
    "tool-order": ("tools in one order", "in the order they come"),
    "key-order": ("keys in one order", "in the order they come"),
    "volatile-value": ("the clock moved to the end", "in the system text"),
    "memory-to-tail": ("news of memory appended", "in the system text"),
    "system-split": ("what changes in its own block", "in one text"),
}
"""By the name of a repair: what it does, and what the client did instead."""


class MechanismSaving(Struct, frozen=True):
    """One mechanism: its replacement, and the session's cost with and without it."""

    mechanism: str
    instead: str
    cost: Decimal
    without: Decimal

    @property
    def saved(self) -> Decimal:
        return self.without - self.cost


def client_savings(careless: CarelessClient, whole: DemoRun) -> list[MechanismSaving]:
    """The savings of every repair that was made, and of the lifetimes: the careless session without one at a time."""
    flags = CLIENT_RUNS["REPAIRS ON"][1]
    cost = whole.sums.cost or Decimal(0)
    savings = []
    for name in sorted(whole.repairs):
        run = careless.run(f"all but {name}", flags, skip=name)
        mechanism, instead = REPAIRS.get(name, (name, "not done"))
        savings.append(MechanismSaving(mechanism, instead, cost, run.sums.cost or Decimal(0)))
    run = careless.run("all but chosen lifetimes", {**flags, "cache.strategy": "rolling"})
    savings.append(
        MechanismSaving("lifetimes by expected cost", "5 minutes for all", cost, run.sums.cost or Decimal(0))
    )
    return savings


def agent_savings(
    folder: Path, model: str, turns: Sequence[session.DemoTurn]
) -> tuple[AgentRun, list[MechanismSaving]]:
    """The agent's session, and what each mechanism saved in it: the session with one thing in another way each time."""
    from . import agent as demo_agent  # takes a second to import

    played = []
    for number, arm in enumerate((WHOLE, *ARMS)):
        with progress(arm.title, len(turns)) as on_turn:
            played.append(demo_agent.play(arm, folder / f"agent-{number:02}", model, turns, on_turn))
    whole, *others = played
    savings = [
        MechanismSaving(arm.mechanism, arm.instead, whole.cost, each.cost)
        for arm, each in zip(ARMS, others, strict=True)
    ]
    return whole, savings
