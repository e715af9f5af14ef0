"""Why a prefix was not read: the causes of breaks and the reasons of resets, each with what it means and what helps.

This is the only list. A cause is found by comparing requests and bills; a reason is announced by whoever departs from
the prefix on purpose. Everything that is said of either (reports, cures, checks) is asked from here.
"""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

BreakCause = Literal[
    "model_changed",
    "tools_changed",
    "system_prompt_changed",
    "parameters_changed",
    "messages_rewritten",
    "ttl_expired_5m",
    "ttl_expired_1h",
    "lookback_exceeded",
    "below_minimum",
    "parallel_race",
    "likely_server_side",
    "unknown",
]

ResetReason = Literal[
    "session_start",
    "session_load",
    "compaction",
    "priced_edit",
    "model_switch",
    "effort_changed",
    "tools_changed_by_user",
    "tools_redeclared",
    "volatile_system_changed",
    "memory_block_changed",
    "history_trimmed",
    "repair_forgotten",
    "bypassed",
    "unmarked",
]

Fault = Literal["client", "user", "holdfast", "provider", "nobody"]
"""Who can change it. `client` is the program that makes the requests, `nobody` that there is nothing to change."""

Part = Literal["model", "settings", "tools", "system", "messages"]
"""A part that a cached prefix depends on."""


class Cure(Struct, frozen=True):
    """The cure of a fault."""

    name: str
    """The fault; each has a page in docs/cures."""
    sentence: str
    setting: str | None = None
    """The setting that cures it, if there is one."""
    in_your_code: str | None = None
    """The same for the author of the program that sent the request. Names no setting of ours."""


class Cause(Struct, frozen=True, kw_only=True):
    """A cause of breaks, or a reason of resets."""

    name: BreakCause | ResetReason
    meaning: str
    """One sentence for those who read a report for the first time."""
    fault: Fault
    parts: tuple[Part, ...] = ()
    """Where the prefix parts. Of a reason: where it allows the prefix to part; empty: anywhere."""
    reset: bool = False
    """Whether it is a reason of resets."""
    missed: bool = False
    """Of a reason: whether nobody wanted the reset, so that reports count what it cost."""
    cure: Cure | None = None
    """With places for `where`, `setting`, `ttl`, `floor` and `model`. None: a wanted reset, nothing to do."""


_CAUSES = (
    Cause(
        name="model_changed",
        meaning="The request went to another model, whose cache is another one.",
        fault="client",
        parts=("model",),
        cure=Cure(
            "model_changed",
            "Another model has its own cache: stay with one model in a session, or give the side task a lane of its "
            "own.",
            in_your_code="Your program changes the model in the middle of a conversation, and another model has its "
            "own cache: stay with one, or begin another conversation for the side task.",
        ),
    ),
    Cause(
        name="tools_changed",
        meaning="The list of tools was not the same; it stands before everything else.",
        fault="client",
        parts=("tools",),
        cure=Cure(
            "tools_changed",
            "The definition of a tool changed at {where} and everything behind it was lost: keep descriptions and "
            "schemas fixed for the session.",
            in_your_code="Your program changes the definition of a tool at {where}: build descriptions and schemas "
            "once for the conversation.",
        ),
    ),
    Cause(
        name="system_prompt_changed",
        meaning="The system prompt was not the same; all messages stand behind it.",
        fault="client",
        parts=("system",),
        cure=Cure(
            "system_prompt_changed",
            "The system text changed at {where}: keep it fixed for the session and send what changes in the newest "
            "user message.",
            'cache.repair = "on"',
            "Your program changes the system text at {where}: build it once for the conversation, and put what "
            "changes into the newest user message.",
        ),
    ),
    Cause(
        name="parameters_changed",
        meaning="A setting changed on which the cached messages depend.",
        fault="client",
        parts=("settings",),
        cure=Cure(
            "parameters_changed",
            "The setting {setting} changed, and what is cached from {where} on depends on it: keep it fixed for the "
            "session.",
            in_your_code="Your program changes the parameter {setting}, and what is cached from {where} on depends on "
            "it: keep it fixed for the conversation.",
        ),
    ),
    Cause(
        name="messages_rewritten",
        meaning="Messages that had been sent before were changed, moved or left out.",
        fault="client",
        parts=("messages",),
        cure=Cure(
            "messages_rewritten",
            "What had been sent at {where} was changed: leave sent messages as they are and append what is new.",
            in_your_code="Your program changes what it had sent at {where}: keep sent messages as they are, and append "
            "what is new.",
        ),
    ),
    Cause(
        name="ttl_expired_5m",
        meaning="The next request came after the five minutes that the cache keeps a prompt.",
        fault="client",
        cure=Cure(
            "ttl_expired_5m",
            "The pause was longer than the entry's {ttl}: choose the longer lifetime where pauses like this are "
            "common.",
            in_your_code="Your program paused longer than the entry lived: ask for the longer `ttl` where such pauses "
            "are common.",
        ),
    ),
    Cause(
        name="ttl_expired_1h",
        meaning="The next request came after the hour that the cache keeps a prompt.",
        fault="nobody",
        cure=Cure(
            "ttl_expired_1h",
            "The pause was longer than the entry's {ttl}: nothing cheap keeps it that long; let the lane go cold and "
            "do what changes the prefix now.",
            in_your_code="Your program paused longer than the longest entry lives: do then what changes the prefix "
            "anyway.",
        ),
    ),
    Cause(
        name="lookback_exceeded",
        meaning="No marker was close enough to what the cache still held.",
        fault="client",
        cure=Cure(
            "lookback_exceeded",
            "No marker stands where the live entry ends, and only markers are looked up: keep the earlier ones where "
            "they were beside the new one, or leave it to the provider's own (implicit) mode.",
            in_your_code="Your program sets no marker where the last one stood: keep `cache_control` there beside the "
            "new one.",
        ),
    ),
    Cause(
        name="below_minimum",
        meaning="What could have been read was shorter than the cache's minimum.",
        fault="client",
        cure=Cure(
            "below_minimum",
            "All markers stand below the {floor} tokens that {model} needs: set one further down the prompt.",
            'cache.client_markers = "improve"',
            "Your program sets its markers below the {floor} tokens that {model} needs: put `cache_control` further "
            "down the prompt.",
        ),
    ),
    Cause(
        name="parallel_race",
        meaning="The request was sent before the answer that fills the cache had begun.",
        fault="client",
        cure=Cure(
            "parallel_race",
            "The request started before the answer that writes its prefix had begun: start the first one alone and "
            "the others when its answer begins.",
            in_your_code="Your program starts requests with the same prefix at once: wait for the first answer to "
            "begin, then start the others.",
        ),
    ),
    Cause(
        name="likely_server_side",
        meaning="Nothing changed on this side; the provider had most likely dropped the entry.",
        fault="provider",
        cure=Cure(
            "likely_server_side",
            "The bytes were the same and the entry should have lived, so the provider most likely dropped it: nothing "
            "to change; if it comes often, ask the provider.",
            in_your_code="Your program sent the same bytes in time, so the provider most likely dropped the entry: "
            "nothing to change.",
        ),
    ),
    Cause(
        name="unknown",
        meaning="Nothing that is known explains it.",
        fault="nobody",
        cure=Cure(
            "unknown",
            "What was read contradicts what is known of the prefix: keep the report and compare the bodies.",
            in_your_code="What was read contradicts what your program sent: compare the bodies of the two requests.",
        ),
    ),
    Cause(name="session_start", meaning="The session began.", fault="user", reset=True),
    Cause(name="session_load", meaning="The session was taken up again.", fault="user", reset=True),
    Cause(
        name="compaction",
        meaning="The client summarised the conversation to make room.",
        fault="client",
        parts=("messages",),
        reset=True,
        cure=Cure(
            "compaction",
            "The history was replaced by a summary: compact rarely, and keep the first turns in front of it.",
        ),
    ),
    Cause(name="priced_edit", meaning="An edit of sent messages that pays for itself.", fault="holdfast", reset=True),
    Cause(
        name="model_switch",
        meaning="The user chose another model.",
        fault="user",
        parts=("model", "settings"),
        reset=True,
    ),
    Cause(
        name="effort_changed",
        meaning="The user chose another effort.",
        fault="user",
        parts=("settings",),
        reset=True,
    ),
    Cause(
        name="tools_changed_by_user", meaning="The user changed the tools.", fault="user", parts=("tools",), reset=True
    ),
    Cause(
        name="tools_redeclared",
        meaning="The tools were declared anew.",
        fault="holdfast",
        parts=("tools",),
        reset=True,
    ),
    Cause(
        name="volatile_system_changed",
        meaning="The part of the system prompt that may change did.",
        fault="client",
        parts=("system",),
        reset=True,
    ),
    Cause(
        name="memory_block_changed",
        meaning="The memory in front of the conversation changed.",
        fault="client",
        parts=("system", "messages"),
        reset=True,
        cure=Cure(
            "memory_blocks",
            "Memory in front of the conversation changed, and everything behind it was written again: let what is new "
            "be told at the end.",
            'memory.placement = "deltas"',
            "Your program changes a memory in front of the conversation: append what is new to the newest user "
            "message.",
        ),
    ),
    Cause(
        name="history_trimmed",
        meaning="Old messages were dropped to make room.",
        fault="client",
        parts=("messages",),
        reset=True,
        cure=Cure(
            "history_trimmed",
            "The oldest turns were left out: send the whole history, or trim rarely and in big steps.",
        ),
    ),
    Cause(
        name="repair_forgotten",
        meaning="A repair of earlier requests was no longer known.",
        fault="holdfast",
        reset=True,
    ),
    Cause(
        name="bypassed",
        meaning="Requests in between went past Holdfast.",
        fault="client",
        reset=True,
        missed=True,
        cure=Cure(
            "bypass",
            "A request in the middle of a conversation went past us, or without its memory (`x-holdfast-memory: "
            "off`), and the whole prompt was written again: keep such switches as they are from the first request to "
            "the last.",
            in_your_code="Your program sends one conversation by two ways: keep to the one it began with.",
        ),
    ),
    Cause(
        name="unmarked",
        meaning="Most conversations ended with their first request, so the request went without cache markers.",
        fault="holdfast",
        reset=True,
        missed=True,
        cure=Cure(
            "no_marker",
            "Most conversations of this client ended with their first request, so this one's was not written, and the "
            "second paid for it again: mark the last block of every request.",
        ),
    ),
)

CAUSES: dict[str, Cause] = {cause.name: cause for cause in _CAUSES}
"""All of them by name: the causes of breaks, then the reasons of resets."""

BREAK_CAUSES: tuple[BreakCause, ...] = get_args(BreakCause)
RESET_REASONS: tuple[ResetReason, ...] = get_args(ResetReason)
MISSED: frozenset[str] = frozenset(cause.name for cause in _CAUSES if cause.missed)
"""The reasons of resets that nobody wanted: turns that went past Holdfast, or without markers because of law 7."""

CHANGES: dict[Part, BreakCause] = {CAUSES[name].parts[0]: name for name in BREAK_CAUSES if CAUSES[name].parts}
"""The cause of a break by the part of the prefix that changed."""
HEAD_CHANGES: frozenset[str] = frozenset({CHANGES["tools"], CHANGES["system"]})
"""What changes in front of the messages."""

_SHORT = 600.0  # seconds: five minutes, and the five to ten of caches in memory


def expiry(lifetime: float) -> BreakCause:
    """Return the cause for an entry that expired after `lifetime` seconds."""
    return "ttl_expired_5m" if lifetime <= _SHORT else "ttl_expired_1h"
