"""A conversation as a request of one dialect, and where in it the blocks stand that the engine plans for: volatile
text, preferences, what sub-agents share, the summary. Pure: the same conversation gives the same bytes.

The `prompt_cache_key` of requests to OpenAI is one for all sessions that begin alike: those of one tenant and workspace
with the same system text and tools, and their sub-agents, which begin with their parent's. It is made when a session
begins and stays with it; sessions that began without one send none. Why not one for each session: from GPT-5.6 on the
key is part of an entry's name (rule B7), so that nothing a session wrote could be read by the next one or by a sub-
agent. Up to GPT-5.5 requests are routed by their first tokens and the key (rule O3), and above about 15 a minute the
rest overflow (rule O4). Without a key all workspaces whose prompts begin with the same persona are one such route; this
key makes a route of each and parts nothing that is worth reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast import facts
from holdfast.facts import ModelFacts
from holdfast.records import Extra, Message, Opaque, Request, Text, ToolDefinition, encode_string
from holdfast.wire import DIALECTS, Body

from .window.entries import Compacted, SessionContext, Window
from .window.renderer import render
from .window.state import Projection

if TYPE_CHECKING:
    from .session import Session


_UNSTORED: Extra = (("store", b"false"),)
_PICTURES_APART = ("openai_chat", "openrouter")
"""Whose results of tools hold no pictures: they go into a message behind them, unless they came in this dialect."""
_SEALED: Extra = (("include", b'["reasoning.encrypted_content"]'),)
"""Thoughts that go back in the next request, where nothing is stored at the provider."""


def named(model: str) -> str:
    """A model as its provider is asked for it: by the name that was chosen. A date or a variant at its end, `:free` for
    instance, makes it another one there, whatever we know of both; only capitals are nobody's."""
    ref = facts.model(model).ref
    return ref if model.lower() == ref else model


class SystemText(Struct, frozen=True, kw_only=True):
    """The parts of a system text, in order: the host's, the stable memory block, the context memory block, the volatile
    text. With `blocks` they are separate, as markers need them; else one text, joined by empty lines."""

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


_DIALECTS = ("openai_responses", "openai_chat")
_CHARS = 40


def cache_key(*, tenant: str, workspace: str, system: str, tools: str) -> str:
    """Return a key for sessions with this head. It does not reveal its parts."""
    digest = sha256()
    for part in (tenant, workspace, system, tools):
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "big") + raw)
    return digest.hexdigest()[:_CHARS]


def key_members(model: ModelFacts, dialect: str, key: str) -> Extra:
    """Return the request's member for the key, empty for a model that is not known to be OpenAI's: a server that only
    uses its dialect may refuse unknown members."""
    takes = model.known and model.provider == "openai" and dialect in _DIALECTS
    if not key or not takes or len(key) > (model.limits.cache_key_chars or 0):
        return ()
    return (("prompt_cache_key", encode_string(key)),)


def volatile_blocks(session: Session, body: Body) -> tuple[str, ...]:
    """The blocks whose text may change: they carry no marker, also where the stable text is in one of them."""
    system = session.system
    if not system.changing or session.dialect not in ("anthropic", "openrouter"):
        return ()
    number = len(system.changing) if system.blocks else 1
    return _system_blocks(body)[-number:]


def pinned_block(session: Session, body: Body) -> dict[str, str]:
    """The block with the preferences, behind the host's: it is cached for an hour."""
    system = session.system
    return {_system_blocks(body)[1]: "1h"} if system.blocks and system.host and system.stable else {}


def _system_blocks(body: Body) -> tuple[str, ...]:
    return tuple(span.path for span in body.blocks if span.section == "system")


def shared_head(session: Session, body: Body) -> str | None:
    """Where the surroundings end: so far an agent and its sub-agents send the same."""
    entries = session.state.window.entries
    if not entries or not isinstance(entries[0], SessionContext) or not entries[0].text.strip():
        return None
    if session.parent is None and not session.settings.agent.delegates.depth:
        return None
    return next((span.path for span in body.blocks if span.section == "messages"), None)


def summary_block(session: Session) -> str | None:
    """The block of the compaction's summary, for the one dialect with zones that begin there."""
    window = session.state.window
    for place, entry in enumerate(window.entries if session.dialect == "anthropic" else ()):
        if isinstance(entry, Compacted):
            messages = render(Window(window.entries[: place + 1], window.borders[: place + 1]), session.static)
            return f"messages[{len(messages) - 1}].content[{len(messages[-1].content) - 1}]"
    return None
