"""A request reduced to what a script's rules ask about: its end whole, everything earlier by role alone.

Decoding a conversation of 300 blocks takes several milliseconds; a rule looks at the last message and counts turns.
"""

from __future__ import annotations

from typing import get_args

import msgspec
from msgspec import Raw, Struct

from holdfast.records import Message, Request, Role
from holdfast.wire import DIALECTS, Body, Unreadable, arr, obj

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
