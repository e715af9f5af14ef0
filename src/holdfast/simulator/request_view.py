"""What the scripted model reads of a request: the end of its conversation, and the settings of its answer.

Decoding a conversation of 300 blocks takes several milliseconds; a rule looks at the last message and counts turns, so
everything earlier is reduced to its roles. Settings are read from the members each dialect keeps them in and never fail
on odd values: whether they are allowed is for the checks to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from holdfast.facts import model as facts_of
from holdfast.records import Message, Request, Role
from holdfast.wire import DIALECTS, Body, Unreadable, arr, obj

from .messages import HttpRequest, ReplySettings

_LISTS = {"openai_responses": "input", "gemini": "contents"}
_LEADING = ("openai_chat", "openai_responses", "openrouter")
"""Dialects whose first system messages are the system prompt and no messages of the conversation."""

_LATE = {
    "anthropic": (b'"tool_reference"',),
    "openai_responses": (b'"additional_tools"', b'"tool_search_output"'),
}
"""How an earlier message is known that makes tools known; without one of these words there is none."""

_ROLES: dict[str | None, Role] = {"assistant": "assistant", "model": "assistant", "tool": "tool", "function": "tool"}
_ROLES |= {"system": "system", "developer": "system"}
_EMPTY: dict[Role, Message] = {role: Message(role, ()) for role in get_args(Role)}


class _Head(Struct):
    role: str | None = None
    type: str | None = None


_heads = msgspec.json.Decoder(list[_Head])
_items = msgspec.json.Decoder(list[Raw])


def glance(body: Body, *, tools: bool = True) -> Request:
    """The request with the messages before the assistant's last turn empty, and without its tools unless `tools`."""
    dialect, name = DIALECTS[body.dialect], _LISTS.get(body.dialect, "messages")
    raw = body.member(name) or b""
    if tools and any(word in raw for word in _LATE.get(body.dialect, ())):  # tools may be found anywhere in it
        return dialect.decode(body)
    try:
        roles = [_role(head, body.dialect) for head in _heads.decode(raw)]
        items = _items.decode(raw)
    except (msgspec.MsgspecError, RecursionError):  # a bare string, or something only the codec understands
        return dialect.decode(body)
    begin = _last_turn(roles)
    members = [(name, arr(bytes(item) for item in items[begin:]))]
    for member in ("tools", "tool_choice") if tools else ():
        if (offered := body.member(member)) is not None:
            members.append((member, offered))
    end = dialect.parse(obj(members), model=body.model)
    if begin == 0 or isinstance(end, Unreadable):
        return dialect.decode(body)
    request = dialect.decode(end)
    earlier = tuple(map(_EMPTY.__getitem__, _grouped(roles[:begin], body.dialect)))
    return msgspec.structs.replace(request, messages=(*earlier, *request.messages))


def _role(head: _Head, dialect: str) -> Role:
    if head.role is None and dialect == "openai_responses":
        return "tool" if (head.type or "").endswith("_output") else "assistant"
    return _ROLES.get(head.role, "user")


def _last_turn(roles: list[Role]) -> int:
    """Where the assistant's last turn begins; zero if it has not spoken."""
    last = next((index for index in range(len(roles) - 1, -1, -1) if roles[index] == "assistant"), 0)
    while last > 0 and roles[last - 1] == "assistant":
        last -= 1
    return last


def _grouped(roles: list[Role], dialect: str) -> list[Role]:
    """The roles of messages: no leading system prompt, and in Responses the items of one turn are one message."""
    begin = 0
    while dialect in _LEADING and begin < len(roles) and roles[begin] == "system":
        begin += 1
    if dialect != "openai_responses":
        return roles[begin:]
    grouped: list[Role] = []
    for role in roles[begin:]:
        if not grouped or grouped[-1] != role or role not in ("assistant", "tool"):
            grouped.append(role)
    return grouped


def settings(dialect: str, body: Body, call: HttpRequest | None = None) -> ReplySettings:
    """The settings in a body of this dialect; Gemini says in the call's path and query whether to stream, and how."""
    reply_settings = _READERS[dialect](body)
    if dialect == "gemini" and call is not None and call.path.endswith(":streamGenerateContent"):
        reply_settings = replace(reply_settings, stream=True, sse=call.query.get("alt") == "sse")
    return reply_settings


def _anthropic(body: Body) -> ReplySettings:
    thinking = _mapping(body, "thinking")
    return ReplySettings(
        thinking=thinking.get("type") in ("enabled", "adaptive"),
        limit=_whole(_member(body, "max_tokens")),
        stop_sequences=_texts(_member(body, "stop_sequences")),
        stream=_member(body, "stream") is True,
        show_thoughts=thinking.get("display") != "omitted",
    )


def _chat(body: Body) -> ReplySettings:
    """DeepSeek shows its thoughts; OpenAI only counts them."""
    facts = facts_of(body.model)
    deepseek = facts.provider == "deepseek"
    effort = _member(body, "reasoning_effort")
    thinking = effort not in (None, "none") or _mapping(body, "thinking").get("type") in ("enabled", "adaptive")
    reasoner = deepseek and facts.name == "deepseek-reasoner"
    limit = _whole(_member(body, "max_completion_tokens"))
    return ReplySettings(
        thinking=thinking or reasoner,
        limit=_whole(_member(body, "max_tokens")) if limit is None else limit,
        stop_sequences=_texts(_member(body, "stop")),
        stream=_member(body, "stream") is True,
        include_usage=_mapping(body, "stream_options").get("include_usage") is True,
        show_thoughts=deepseek,
    )


def _responses(body: Body) -> ReplySettings:
    reasoning = _mapping(body, "reasoning")
    return ReplySettings(
        thinking=bool(reasoning) and reasoning.get("effort") != "none",
        limit=_whole(_member(body, "max_output_tokens")),
        stream=_member(body, "stream") is True,
        show_thoughts=reasoning.get("summary") is not None,
        encrypted_thoughts="reasoning.encrypted_content" in _texts(_member(body, "include")),
    )


def _gemini(body: Body) -> ReplySettings:
    """Clients spell the members in camel case or with underscores; the API takes both."""
    config = _mapping(body, "generationConfig") or _mapping(body, "generation_config")
    thinking = config.get("thinkingConfig", config.get("thinking_config"))
    thinking = thinking if isinstance(thinking, dict) else {}
    show = thinking.get("includeThoughts", thinking.get("include_thoughts"))
    budget = thinking.get("thinkingBudget", thinking.get("thinking_budget"))
    return ReplySettings(
        thinking=bool(thinking) and budget != 0,
        limit=_whole(config.get("maxOutputTokens", config.get("max_output_tokens"))),
        stop_sequences=_texts(config.get("stopSequences", config.get("stop_sequences"))),
        show_thoughts=show is True,
    )


_READERS: dict[str, Callable[[Body], ReplySettings]] = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openrouter": _chat,
    "openai_responses": _responses,
    "gemini": _gemini,
}


def _member(body: Body, name: str) -> Any:
    raw = body.member(name)
    if raw is None:
        return None
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _mapping(body: Body, name: str) -> dict[str, Any]:
    value = _member(body, name)
    return value if isinstance(value, dict) else {}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _texts(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(item for item in items if isinstance(item, str))
