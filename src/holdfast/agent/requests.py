"""A conversation as a request of one dialect. Pure: the same conversation gives the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.canonical import Extra, Message, Opaque, Request, ToolDefinition
from holdfast.facts import ModelFacts

_STREAMED: Extra = (("stream", b"true"),)
_MEMBERS: dict[str, Extra] = {
    "anthropic": _STREAMED,
    "openai_chat": (*_STREAMED, ("stream_options", b'{"include_usage":true}')),
    "openrouter": (*_STREAMED, ("stream_options", b'{"include_usage":true}'), ("usage", b'{"include":true}')),
    "openai_responses": (*_STREAMED, ("store", b"false")),
    "gemini": (),
}
_PICTURES_APART = ("openai_chat", "openrouter")
"""Whose results of tools hold no pictures: they go into a message behind them, unless they came in this dialect."""
_SEALED: Extra = (("include", b'["reasoning.encrypted_content"]'),)
"""Thoughts that go back in the next request, where nothing is stored at the provider."""


def request(
    messages: Sequence[Message],
    *,
    model: ModelFacts,
    dialect: str,
    system: str,
    volatile: str = "",
    tools: tuple[ToolDefinition | Opaque, ...] = (),
    choice: Extra = (),
    output_limit: int,
) -> Request:
    """What goes to the model; `choice` are further members that the tools ask for."""
    members = _MEMBERS.get(dialect, _STREAMED)
    if dialect == "openai_responses" and model.flags.thinking:
        members = (*members, *_SEALED)
    return Request(
        model=model.ref,
        messages=tuple(messages),
        tools=tools,
        system_prompt=system or None,
        system_prompt_volatile=volatile or None,
        output_limit=min(output_limit, model.output_limit),
        rest=(*members, *choice),
        dialect=None if dialect in _PICTURES_APART else dialect,
    )
