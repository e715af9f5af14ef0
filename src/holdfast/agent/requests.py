"""A conversation as a request of one dialect. Pure: the same conversation gives the same bytes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast import facts
from holdfast.facts import ModelFacts
from holdfast.records import Extra, Message, Opaque, Request, Text, ToolDefinition
from holdfast.wire import DIALECTS

from .window.state import Projection

_UNSTORED: Extra = (("store", b"false"),)
_PICTURES_APART = ("openai_chat", "openrouter")
"""Whose results of tools hold no pictures: they go into a message behind them, unless they came in this dialect."""
_SEALED: Extra = (("include", b'["reasoning.encrypted_content"]'),)
"""Thoughts that go back in the next request, where nothing is stored at the provider."""


def named(model: str) -> str:
    """A model as its provider is asked for it: by the name that was chosen. A date or a variant at its end, `:free` for
    instance, makes it another one there, whatever we know of both; only capitals are nobody's."""
    known = facts.model(model).ref
    return known if model.lower() == known else model


class SystemText(Struct, frozen=True, kw_only=True):
    """The parts of a system text, in order: what the host says, the stable memory block, the context memory block, the
    volatile text. In `blocks` each stands alone, as markers need it; else they are one text, joined by empty lines."""

    host: str
    stable: str = ""
    context: str = ""
    volatile: str = ""
    blocks: bool = False

    @property
    def changing(self) -> tuple[str, ...]:
        return tuple(text for text in (self.context, self.volatile) if text)

    def segments(self) -> tuple[str | tuple[Text, ...] | None, str | tuple[Text, ...] | None]:
        """The stable and the volatile segment of a request."""
        lasting = tuple(text for text in (self.host, self.stable) if text)
        if self.blocks:
            # Two plain texts would become one in OpenRouter's form, and its end could not be told from its middle.
            apart = bool(self.changing)
            return _blocks(lasting, apart=apart), _blocks(self.changing, apart=apart)
        if self.stable or self.context:
            return "\n\n".join((*lasting, *self.changing)) or None, None
        return self.host or None, self.volatile or None


def system_of(state: Projection, *, marked: bool) -> SystemText:
    """The system text of a session; in blocks where they can be `marked`, unless it began as one text."""
    composed = state.composed
    if composed is None:
        return SystemText(host="", context=state.context, volatile=state.volatile, blocks=marked)
    return SystemText(
        host=composed.system,
        stable=composed.preferences,
        context=state.context,
        volatile=state.volatile,
        blocks=marked and not composed.joined,
    )


def _blocks(texts: tuple[str, ...], *, apart: bool) -> str | tuple[Text, ...] | None:
    return tuple(map(Text, texts)) if len(texts) > 1 or (apart and texts) else next(iter(texts), None)


class Target(Struct, frozen=True, kw_only=True):
    """The model that a request goes to."""

    facts: ModelFacts
    name: str | None = None
    """What its provider is asked for, if that is not its name in the facts."""
    dialect: str


def request(
    messages: Sequence[Message],
    *,
    target: Target,
    system: SystemText,
    tools: tuple[ToolDefinition | Opaque, ...] = (),
    members: Extra = (),
    output_limit: int,
    stored: bool = False,
) -> Request:
    """What goes to the model. `members` are further ones: the cache's key, what the tools ask for, how much to think.
    Where answers may be `stored` at the provider, whether they are is left to the engine."""
    model, dialect = target.facts, target.dialect
    own = DIALECTS[dialect].streamed
    if dialect == "openai_responses":
        own = (*own, *(() if stored else _UNSTORED), *(_SEALED if model.flags.thinking else ()))
    stable, volatile = system.segments()
    return Request(
        model=target.name or model.ref,
        messages=tuple(messages),
        tools=tools,
        system_prompt=stable,
        system_prompt_volatile=volatile,
        output_limit=min(output_limit, model.output_limit),
        rest=(*own, *members),
        dialect=None if dialect in _PICTURES_APART else dialect,
    )
