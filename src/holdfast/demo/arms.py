"""The ways in which the demo's agent does the session: with everything, and each time without one mechanism.

What stands in its place is a setting, or what many agents do instead; `instead` names it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

LIMIT_TOKENS, KEEP_TOKENS = 24_000, 8_000
"""A session of the demo is short: its history is summarized at so many tokens, and so many of the newest stay."""

_WIDE = 100_000
COMMON: Mapping[str, object] = {
    "memory.project": "shop",
    "agent.compaction.limit_tokens": LIMIT_TOKENS,
    "agent.compaction.keep_recent_tokens": KEEP_TOKENS,
    "tools.confirm.mode": "allow",
}


class Arm(Struct, frozen=True, kw_only=True):
    """One variant: settings besides the common ones, and manual measures where there is no setting."""

    title: str
    mechanism: str = ""
    instead: str = ""
    flags: Mapping[str, object] = {}
    pasted: bool = False
    """All skills are in the system text."""
    at_once: bool = False
    """Sub-agents are started at the same time."""
    own_prompts: bool = False
    """Sub-agents are sessions with a system text of their own."""
    cold_summary: bool = False
    """The summary is asked for in a request of its own kind."""


WHOLE = Arm(title="with everything")
ARMS = (
    Arm(
        title="all skills in the prompt",
        mechanism="skills loaded on request",
        instead="all in the system text",
        flags={"skills.roots": []},
        pasted=True,
    ),
    Arm(
        title="long results stay",
        mechanism="long results kept in files",
        instead="all in the prompt",
        flags={"tools.offload.max_result_chars": _WIDE},
    ),
    Arm(
        title="memory in a system block",
        mechanism="changed memory appended",
        instead="in the system text",
        flags={"memory.placement": "blocks"},
    ),
    Arm(
        title="sub-agents all at once",
        mechanism="first sub-agent goes ahead",
        instead="all start at once",
        flags={"agent.delegates.hold_s": 0},
        at_once=True,
    ),
    Arm(
        title="sub-agents with own prompts",
        mechanism="sub-agents on one prefix",
        instead="a system text for each",
        at_once=True,
        own_prompts=True,
    ),
    Arm(
        title="five minutes for everything",
        mechanism="lifetimes by expected cost",
        instead="5 minutes for all",
        flags={"cache.strategy": "rolling"},
    ),
    Arm(
        title="summary asked for afresh",
        mechanism="summary asked on cached prefix",
        instead="in a request of its own",
        cold_summary=True,
    ),
    Arm(
        title="no summary",
        mechanism="old history summarized",
        instead="all of it sent each time",
        flags={"agent.compaction.limit_tokens": None},
    ),
)
