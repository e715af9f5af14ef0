"""The same cures for the author of a program: what to change in their own code, whatever stands between it and the
provider. No sentence here names a setting of ours.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.records import CAUSES

from .cure_case import Case, Cure

IN_YOUR_CODE = {
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
    "skill_added": (
        "Your program changes the list of skills at {where} in the middle of a conversation: read it once when "
        "the conversation begins."
    ),
    "skill_removed": (
        "Your program changes the list of skills at {where} in the middle of a conversation: read it once when "
        "the conversation begins."
    ),
    "skill_changed": (
        "Your program changes the list of skills at {where} in the middle of a conversation: read it once when "
        "the conversation begins."
    ),
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
    **{
        cause.cure.name: cause.cure.in_your_code
        for cause in CAUSES.values()
        if cause.cure is not None and cause.cure.in_your_code is not None
    },
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
