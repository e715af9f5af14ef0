"""What matters of the lines of Codex's rollouts; the rest is passed over without being built."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct

from .providers import Count


class RolloutLine(Struct, gc=False):
    type: str = ""
    timestamp: str | None = None
    payload: Raw = Raw()


class Meta(Struct, gc=False):
    """A thread: `session_id` is that of the thread that was started by the user, in newer versions."""

    id: str = ""
    session_id: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    source: Raw = Raw()
    agent_path: str | None = None
    agent_nickname: str | None = None
    model_provider: str | None = None


class Spawned(Struct, gc=False):
    parent_thread_id: str | None = None
    agent_path: str | None = None
    agent_nickname: str | None = None
    agent_role: str | None = None


class TurnContext(Struct, gc=False):
    model: str = ""


class ResponseItem(Struct, gc=False):
    type: str = ""
    role: str | None = None


class CodexTokens(Struct, gc=False, frozen=True):
    input_tokens: Count = 0
    cached_input_tokens: Count = 0
    cache_write_input_tokens: Count = 0
    output_tokens: Count = 0

    def less(self, other: CodexTokens) -> CodexTokens:
        """What came to it since another total; nothing where that was larger."""
        mine, others = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return CodexTokens(*(max(0, one - another) for one, another in zip(mine, others, strict=True)))


class Info(Struct, gc=False):
    last_token_usage: CodexTokens | None = None
    total_token_usage: CodexTokens | None = None


class PlanLimits(Struct, gc=False):
    """What is left of a plan; there is none with an API key."""

    plan_type: str | None = None


class EventLine(Struct, gc=False):
    type: str = ""
    info: Raw = Raw()
    rate_limits: Raw = Raw()


class UsageRecord(Struct, gc=False):
    usage: CodexTokens
    thread_id: str | None = None
    response_id: str | None = None
    thread_token_usage: CodexTokens | None = None


class CompactedLine(Struct, gc=False):
    compaction_response_id: str | None = None


def spawned_by(source: Raw) -> Spawned | None:
    """How a sub-agent's thread came to be: a word for the client's own kinds, an object for those that models start."""
    try:
        kind = msgspec.json.decode(source or b"null", type=dict[str, Raw]).get("subagent")
        if kind is None:
            return None
    except msgspec.ValidationError:
        return None
    try:
        return msgspec.json.decode(kind, type=dict[str, Spawned]).get("thread_spawn", Spawned())
    except msgspec.ValidationError:
        return Spawned(agent_role=text(kind))


def has_plan(limits: Raw) -> bool:
    """Whether a ChatGPT plan paid."""
    try:
        found = msgspec.json.decode(limits or b"null", type=PlanLimits | None)
    except msgspec.ValidationError:
        return False
    return found is not None and bool(found.plan_type)


def text(raw: Raw) -> str:
    value = msgspec.json.decode(raw)
    return value if isinstance(value, str) else ""


line_of = msgspec.json.Decoder(RolloutLine).decode
meta_of = msgspec.json.Decoder(Meta).decode
turn_of = msgspec.json.Decoder(TurnContext).decode
item_of = msgspec.json.Decoder(ResponseItem).decode
event_of = msgspec.json.Decoder(EventLine).decode
info_of = msgspec.json.Decoder(Info | None).decode
used_of = msgspec.json.Decoder(UsageRecord).decode
compacted_of = msgspec.json.Decoder(CompactedLine).decode
