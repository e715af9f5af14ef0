"""A conversation as a request of one dialect. Pure: the same conversation gives the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast import facts
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


def named(model: str) -> str:
    """A model as its provider is asked for it: by the name that was chosen. A date or a variant at its end, `:free` for
    instance, makes it another one there, whatever we know of both; only capitals are nobody's."""
    known = facts.model(model).ref
    return known if model.lower() == known else model


def request(
    messages: Sequence[Message],
    *,
    model: ModelFacts,
    name: str | None = None,
    dialect: str,
    system: str,
    volatile: str = "",
    tools: tuple[ToolDefinition | Opaque, ...] = (),
    choice: Extra = (),
    output_limit: int,
) -> Request:
    """What goes to the model, by its `name` if it has another one than in the facts; `choice` are further members that
    the tools ask for."""
    members = _MEMBERS.get(dialect, _STREAMED)
    if dialect == "openai_responses" and model.flags.thinking:
        members = (*members, *_SEALED)
    return Request(
        model=name or model.ref,
        messages=tuple(messages),
        tools=tools,
        system_prompt=system or None,
        system_prompt_volatile=volatile or None,
        output_limit=min(output_limit, model.output_limit),
        rest=(*members, *choice),
        dialect=None if dialect in _PICTURES_APART else dialect,
    )
