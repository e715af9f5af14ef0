"""The recognisers in their order; where none recognises anything, a cause has the cure of the list of causes."""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.records import BREAK_CAUSES, CAUSES, RESET_REASONS, BreakCause

from . import skills, structure, texts
from .cure_case import REPAIR, VALUES, Case, Cure
from .in_your_code import for_program
from .repairable import repaired_by

Recogniser = Callable[[Case], Cure | None]

RECOGNISERS: tuple[Recogniser, ...] = (
    structure.tool_order,
    structure.tool_added,
    structure.tool_removed,
    structure.sliding_window,
    structure.compaction,
    structure.no_marker,
    structure.lookback,
    structure.mixed_ttl,
    skills.change,
    texts.thinking,
    texts.key_order,
    texts.whitespace,
    texts.uuid,
    texts.clock,
    texts.date,
    texts.memory,
    texts.git_state,
    texts.meter,
    texts.counter,
    texts.reminder,
    texts.pruned,
    skills.last_body,
)
"""From the specific to the general: what happened to whole blocks says more than a number in one of them."""

FAULTS: tuple[str, ...] = (
    "tool_order",
    "tool_added",
    "tool_removed",
    "sliding_window",
    "compaction",
    "no_marker",
    "marker_beyond_lookback",
    "mixed_ttl",
    "skill_added",
    "skill_removed",
    "skill_changed",
    "preloaded_skill_changed",
    "stripped_thinking",
    "key_order",
    "whitespace",
    "uuid",
    "clock",
    "date",
    "memory_in_prefix",
    "git_state",
    "usage_meter",
    "counter",
    "moved_reminder",
    "old_result_replaced",
)
"""The names that recognisers give, in their order."""

NAMES: tuple[str, ...] = (
    *FAULTS,
    *BREAK_CAUSES,
    *(
        cure.name
        for reason in RESET_REASONS
        if (cure := CAUSES[reason].cure) is not None and cure.name not in (reason, *FAULTS)
    ),
)
"""Everything there is a cure for, each with a page of the catalogue (docs/cures). A wanted reset has none of its own:
it goes by the name of its reason."""


def reset_cure(reason: str, where: str | None = None) -> Cure:
    """What to do about a reset. Where that is little or nothing, it has the name of its reason."""
    cure = CAUSES[reason].cure if reason in CAUSES else None
    if cure is not None:
        return Cure(cure.name, cure.sentence, cure.setting)
    place = "" if where is None else f" at {where}"
    return Cure(reason, f"The prefix was reset on purpose ({reason}){place}: nothing to do.")


def cure_for(case: Case) -> Cure:
    """The cure of the first fault that is recognised, or the plain one of the cause. Repairs are named only where they
    would act, and the least level that does."""
    cure = for_program(_cure(case), case)
    if cure.setting != REPAIR:
        return cure
    return replace(cure, setting={"values": VALUES, "on": REPAIR, None: None}[repaired_by(case)])


def _cure(case: Case) -> Cure:
    if case.finding.reason is not None:
        return reset_cure(case.finding.reason, case.where)
    for recognise in RECOGNISERS:
        cure = recognise(case)
        if cure is not None:
            return cure
    return _plain(case.finding.cause or "unknown", case)


def _plain(cause: BreakCause, case: Case) -> Cure:
    """The cure of a cause where nothing more is recognised."""
    cure = CAUSES[cause].cure or Cure(cause, CAUSES[cause].meaning)
    divergence, entry = case.finding.divergence, case.finding.entry
    sentence = cure.sentence.format(
        where=case.where,
        setting=divergence.setting if divergence is not None else "",
        ttl=entry.ttl if entry is not None else "lifetime",
        floor=f"{case.model.floor:,}",
        model=case.model.name,
    )
    return Cure(cause, sentence, cure.setting)
