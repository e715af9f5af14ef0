"""The recognisers in their order, and the plain cure of each cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from msgspec.structs import replace

from ..suspects import Cause
from . import skills, structure, texts
from .cure_case import IMPROVE, REPAIR, VALUES, Case, Cure
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

_PLAIN: dict[Cause, tuple[str, str | None]] = {
    "model_changed": (
        "Another model has its own cache: stay with one model in a session, or give the side task a lane of its own.",
        None,
    ),
    "tools_changed": (
        "The definition of a tool changed at {where} and everything behind it was lost: keep descriptions and schemas "
        "fixed for the session.",
        None,
    ),
    "system_prompt_changed": (
        "The system text changed at {where}: keep it fixed for the session and send what changes in the newest user "
        "message.",
        REPAIR,
    ),
    "parameters_changed": (
        "The setting {setting} changed, and what is cached from {where} on depends on it: keep it fixed for the "
        "session.",
        None,
    ),
    "messages_rewritten": (
        "What had been sent at {where} was changed: leave sent messages as they are and append what is new.",
        None,
    ),
    "ttl_expired_5m": (
        "The pause was longer than the entry's {ttl}: choose the longer lifetime where pauses like this are common.",
        None,
    ),
    "ttl_expired_1h": (
        "The pause was longer than the entry's {ttl}: nothing cheap keeps it that long; let the lane go cold and do "
        "what changes the prefix now.",
        None,
    ),
    "lookback_exceeded": (
        "No marker stands where the live entry ends, and only markers are looked up: keep the earlier ones where they "
        "were beside the new one, or leave it to the provider's own (implicit) mode.",
        None,
    ),
    "below_minimum": (
        "All markers stand below the {floor} tokens that {model} needs: set one further down the prompt.",
        IMPROVE,
    ),
    "parallel_race": (
        "The request started before the answer that writes its prefix had begun: start the first one alone and the "
        "others when its answer begins.",
        None,
    ),
    "likely_server_side": (
        "The bytes were the same and the entry should have lived, so the provider most likely dropped it: nothing to "
        "change; if it comes often, ask the provider.",
        None,
    ),
    "unknown": ("What was read contradicts what is known of the prefix: keep the report and compare the bodies.", None),
}

_RESETS: dict[str, Cure] = {
    "compaction": Cure(
        "compaction", "The history was replaced by a summary: compact rarely, and keep the first turns in front of it."
    ),
    "history_trimmed": Cure(
        "history_trimmed", "The oldest turns were left out: send the whole history, or trim rarely and in big steps."
    ),
    "memory_block_changed": Cure(
        "memory_blocks",
        "Memory in front of the conversation changed, and everything behind it was written again: let what is new be "
        "told at the end.",
        'memory.placement = "deltas"',
    ),
    "bypassed": Cure(
        "bypass",
        "A request in the middle of a conversation went past us, or without its memory (`x-holdfast-memory: off`), and "
        "the whole prompt was written again: keep such switches as they are from the first request to the last.",
    ),
    "unmarked": Cure(
        "no_marker",
        "Most conversations of this client ended with their first request, so this one's was not written, and the "
        "second paid for it again: mark the last block of every request.",
    ),
}
"""What can be done about a reset; most are wanted."""

NAMES: tuple[str, ...] = (
    *FAULTS,
    *get_args(Cause),
    *(cure.name for reason, cure in _RESETS.items() if cure.name not in (reason, *FAULTS)),
)
"""Everything there is a cure for, each with a page of the catalogue (docs/cures). A wanted reset has none of its own:
it goes by the name of its reason."""


def reset_cure(reason: str, where: str | None = None) -> Cure:
    """What to do about a reset. Where that is little or nothing, it has the name of its reason."""
    place = "" if where is None else f" at {where}"
    return _RESETS.get(reason) or Cure(reason, f"The prefix was reset on purpose ({reason}){place}: nothing to do.")


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
    cause = case.finding.cause or "unknown"
    sentence, setting = _PLAIN[cause]
    divergence, entry = case.finding.divergence, case.finding.entry
    told = sentence.format(
        where=case.where,
        setting=divergence.setting if divergence is not None else "",
        ttl=entry.ttl if entry is not None else "lifetime",
        floor=f"{case.model.floor:,}",
        model=case.model.name,
    )
    return Cure(cause, told, setting)
