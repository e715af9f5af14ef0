"""The recognisers in their order; if none matches, a cause has the cure of the list of causes.

`for_program` gives the same cures to the author of a program: what to change in their own code, whatever is between it
and the provider. None of its sentences names a setting of ours.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from holdfast.records import BREAK_CAUSES, CAUSES, RESET_REASONS, BreakCause

from . import faults, skills
from .cure_case import REPAIR, VALUES, Case, Cure, repaired_by

_LIST_CHANGED = (
    "Your program changes the list of skills at {where} in the middle of a conversation: read it once when the "
    "conversation begins."
)
_FAULTS = {
    "tool_order": (
        "Your program declares the same tools in another order from {where} on: sort them by name, or keep them "
        "in a list instead of a set."
    ),
    "tool_added": (
        "Your program adds a tool at {where} in the middle of a conversation: declare all tools with the first request."
    ),
    "tool_removed": (
        "Your program takes a tool out at {where} in the middle of a conversation: keep declaring it, and answer "
        "its calls with an error."
    ),
    "sliding_window": (
        "Your program drops the oldest messages at {where}: send the whole history, or drop many at once and rarely."
    ),
    "compaction": (
        "Your program replaces the history by a summary from {where} on: keep the first turns in front of it, and "
        "summarise rarely."
    ),
    "no_marker": "Your program sends no cache marker: put `cache_control` on the last block of every request.",
    "marker_beyond_lookback": (
        "Your program appends more blocks in one turn than a marker looks back: put a further `cache_control` "
        "half way in long turns."
    ),
    "mixed_ttl": (
        "Your program gives its markers different lifetimes: give all of a conversation the same `ttl` from the "
        "first request on."
    ),
    "skill_added": _LIST_CHANGED,
    "skill_removed": _LIST_CHANGED,
    "skill_changed": _LIST_CHANGED,
    "preloaded_skill_changed": (
        "Your program puts the body of a skill into {where} and reads it anew: read it once when the conversation "
        "begins."
    ),
    "stripped_thinking": (
        "Your program leaves out thinking in front of {where} that it sent before: send every block of an answer "
        "back as it came."
    ),
    "key_order": (
        "Your program writes the keys of an object at {where} in another order: serialise it once and keep the "
        "bytes, or sort the keys."
    ),
    "whitespace": (
        "Your program writes {where} with other spaces or line ends: keep the text as it was first sent, without "
        "trimming or wrapping it anew."
    ),
    "uuid": (
        "Your program puts a new identifier into {where} with every request: make it once for the conversation, "
        "or put it into the newest user message."
    ),
    "clock": (
        "Your program puts a clock into {where}: build that text once for the conversation, and put the time into "
        "the newest user message."
    ),
    "date": (
        "Your program puts today's date into {where}: read it once when the conversation begins, and say a new "
        "day in the newest user message."
    ),
    "memory_in_prefix": (
        "Your program changes a memory at {where}, in front of the conversation: leave what was sent as it is, "
        "and append what is new to the newest user message."
    ),
    "git_state": (
        "Your program reads the state of the repository anew into {where}: keep the one from the beginning of the "
        "conversation, and put the current one into the newest user message."
    ),
    "usage_meter": (
        "Your program counts tokens or dollars at {where}: put the figure into the newest user message, or leave "
        "it out."
    ),
    "counter": "Your program counts on at {where}: put the number into the newest user message, or leave it out.",
    "moved_reminder": (
        "Your program moves what stood at {where} on to the newest message: leave it where it was sent, and "
        "append a further one or none."
    ),
    "old_result_replaced": (
        "Your program shortens the tool result at {where} after it was sent: shorten results before they are sent "
        "for the first time."
    ),
}
FAULTS: tuple[str, ...] = tuple(_FAULTS)
"""The names that recognisers give, in their order."""

IN_YOUR_CODE = _FAULTS | {
    cause.cure.name: cause.cure.in_your_code
    for cause in CAUSES.values()
    if cause.cure is not None and cause.cure.in_your_code is not None
}
"""By the name of the cure. Texts at the divergence are told by the report around it."""


def for_program(cure: Cure, case: Case) -> Cure:
    """The cure with what its reader changes in their own program; a recogniser that knows more says it itself."""
    if cure.in_your_code is not None:
        return cure
    divergence = case.finding.divergence
    sentence = IN_YOUR_CODE.get(cure.name, cure.sentence).format(
        where=case.where,
        setting=(divergence.setting if divergence is not None else None) or "of the request",
        floor=f"{case.model.floor:,}",
        model=case.model.name,
    )
    return replace(cure, in_your_code=sentence)


Recogniser = Callable[[Case], Cure | None]

RECOGNISERS: tuple[Recogniser, ...] = (
    faults.tool_order,
    faults.tool_added,
    faults.tool_removed,
    faults.sliding_window,
    faults.compaction,
    faults.no_marker,
    faults.lookback,
    faults.mixed_ttl,
    skills.change,
    faults.thinking,
    faults.key_order,
    faults.whitespace,
    faults.uuid,
    faults.clock,
    faults.date,
    faults.memory,
    faults.git_state,
    faults.meter,
    faults.counter,
    faults.reminder,
    faults.pruned,
    skills.last_body,
)
"""From the specific to the general: what happened to whole blocks says more than a number in one of them."""

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
