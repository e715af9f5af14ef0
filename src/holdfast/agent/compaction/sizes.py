"""How long a conversation is, when a compaction is due, and when it has paid for itself (CACHE-RULES 5.5).

The provider's counts are exact for what was sent; estimates, corrected by them, give the size of each entry and of what
was added since.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.config.sections import CompactionSettings as Settings
from holdfast.core import edit_cost
from holdfast.facts import IMAGE_TOKENS, estimate, estimate_json, rates
from holdfast.records import (
    Block,
    Document,
    Image,
    Message,
    Opaque,
    RedactedThinking,
    Text,
    Thinking,
    ToolDefinition,
    ToolUse,
)

from ..window.entries import AssistantTurn, Compacted, Entry, Static, Window
from ..window.renderer import entry_messages, render
from ..window.state import Projection, flush

if TYPE_CHECKING:
    from ..session import Session


_MESSAGE = 4
"""Tokens of a message beside its content: its role and its borders."""

_WILDEST = 4.0
"""An estimate is never off by more than this: a larger difference means that usage speaks of something else."""
_SMALLEST = 4
"""No more than this part of a context window is reserved for a summary: small models have little to give."""


class Sizes(Struct, frozen=True, kw_only=True):
    """Tokens of a request: `fixed` before the window (tools, system text), `entries` one number per entry. `ratio` is
    the number of real tokens per estimated one."""

    fixed: int
    entries: tuple[int, ...]
    ratio: float = 1.0

    @property
    def total(self) -> int:
        return self.fixed + sum(self.entries)

    def of(self, text: str) -> int:
        """Return the tokens of a text sent as a message of its own."""
        return scaled(estimate(text) + _MESSAGE, self.ratio)


def scaled(tokens: int, ratio: float) -> int:
    return max(1, round(tokens * ratio)) if tokens else 0


def message_tokens(messages: Iterable[Message]) -> int:
    """Tokens of messages, estimated."""
    return sum(_MESSAGE + sum(_block_tokens(block) for block in message.content) for message in messages)


def _block_tokens(block: Block) -> int:
    match block:
        case Text() | Thinking():
            return estimate(block.text)
        case Document(media_type="text/plain", data=str(text)):
            return estimate(text)
        case Image() | Document():
            return IMAGE_TOKENS
        case ToolUse():
            return _MESSAGE + estimate(block.name) + estimate(block.input.decode("utf-8", "replace"))
        case Opaque():
            return estimate_json(block.raw)
        case RedactedThinking():
            return estimate(block.data)
        case _:
            return _MESSAGE + sum(_block_tokens(inner) for inner in block.content)


def entry_tokens(entry: Entry, static: Static) -> int:
    """Tokens of one entry, estimated from what it renders to."""
    return message_tokens(render(Window(entries=(entry,), borders=(True,)), static))


def sizes(
    entries: Iterable[Entry],
    static: Static,
    *,
    before: Iterable[str] = (),
    used: int = 0,
    pending: Iterable[Message] = (),
) -> Sizes:
    """Return the sizes of a window's entries. `before` are the texts in front of it; `used` is the provider's count of
    everything but the `pending` messages at its end, 0 if there is none."""
    fixed = sum(map(estimate, before))
    estimates = [entry_tokens(entry, static) for entry in entries]
    counted = fixed + sum(estimates) - message_tokens(pending)
    ratio = used / counted if used > 0 and counted > 0 else 1.0
    ratio = min(max(ratio, 1 / _WILDEST), _WILDEST)
    return Sizes(fixed=scaled(fixed, ratio), entries=tuple(scaled(each, ratio) for each in estimates), ratio=ratio)


class Length(Struct, frozen=True, kw_only=True):
    """`used` tokens were counted by the provider, `pending` are estimated for what the next request adds to them."""

    used: int
    pending: int


def length(session: Session) -> Length:
    """How long the next request will be."""
    state, static = session.state, session.static
    fresh = message_tokens(unanswered(state, static))
    used = counted(state) or measured(session).total - fresh
    waiting = [message for entry in flush(state, 0) for message in entry_messages(entry, static)]
    return Length(used=used, pending=fresh + message_tokens(waiting))


def measured(session: Session) -> Sizes:
    """Measure everything that a request contains."""
    state, static = session.state, session.static
    before = ("" if state.composed is None else state.composed.system, state.volatile)
    return sizes(
        state.window.entries,
        static,
        before=(*before, *map(_text, session.box.definitions())),
        used=counted(state),
        pending=unanswered(state, static),
    )


def counted(state: Projection) -> int:
    """Tokens of the last answer and its prompt; 0 if the window has changed since: after a reset, or an answer that was
    cut, there is no count yet."""
    turn, last = _last_turn(state), state.last
    if last is None or turn is None or state.window.sent < turn:
        return 0
    if any(isinstance(entry, Compacted) for entry in state.window.entries[turn:]):
        return 0
    return last.input + last.read + last.written + last.output


def unanswered(state: Projection, static: Static) -> tuple[Message, ...]:
    """The messages that came into the window after the last answer."""
    entries, turn = state.window.entries, _last_turn(state)
    if turn is None:
        return tuple(message for entry in entries for message in entry_messages(entry, static))
    results = entry_messages(entries[turn], static)[1:]
    return (*results, *(message for entry in entries[turn + 1 :] for message in entry_messages(entry, static)))


def _last_turn(state: Projection) -> int | None:
    entries = state.window.entries
    return next((i for i in range(len(entries) - 1, -1, -1) if isinstance(entries[i], AssistantTurn)), None)


def _text(tool: ToolDefinition | Opaque) -> str:
    """A definition as it counts; one that is deferred does not."""
    if isinstance(tool, Opaque):
        return tool.raw.decode("utf-8", "replace")
    if dict(tool.extra).get("defer_loading") == b"true":
        return ""
    return f"{tool.name} {tool.description or ''} {tool.input_schema.decode('utf-8', 'replace')}"


class CompactionDue(Struct, frozen=True, kw_only=True):
    """A compaction is due: so many tokens are in use, and from `limit` on it is time. `must` where the next request
    would not fit at all."""

    tokens: int
    limit: int
    must: bool


def reserve_of(settings: Settings, context_limit: int) -> int:
    """Tokens kept free for the summary."""
    return max(1, min(settings.reserve_tokens, context_limit // _SMALLEST))


def limit_of(settings: Settings, context_limit: int, output_limit: int = 0) -> int:
    """Tokens in use from which on compaction is due: the share of the window or the user's own limit, and never so late
    that the request for a summary, or one with an answer of `output_limit` tokens, would not fit."""
    share = int(context_limit * settings.trigger_at)
    limit = share if settings.limit_tokens is None else min(share, settings.limit_tokens)
    return max(1, min(limit, context_limit - _answer(settings, context_limit, output_limit)))


def _answer(settings: Settings, context_limit: int, output_limit: int) -> int:
    """Tokens to be kept free for whatever is answered next; what is more than half of the window never fits."""
    return max(reserve_of(settings, context_limit), min(output_limit, context_limit // 2))


def due(
    settings: Settings,
    *,
    context_limit: int,
    used: int,
    pending: int = 0,
    output_limit: int = 0,
    turns_since: int | None = None,
) -> CompactionDue | None:
    """Whether it is time. `used` are the tokens of the last answer with its prompt, `pending` those that the next
    request adds, `output_limit` what it may be answered with; `turns_since` counts turns after the last compaction
    (None: there was none). While that is fresh nothing is due, unless the next request would not fit at all."""
    limit = limit_of(settings, context_limit, output_limit)
    must = used + pending + _answer(settings, context_limit, output_limit) > context_limit
    if not must and used < limit:
        return None
    if not must and turns_since is not None and turns_since < settings.cooldown_turns:
        return None
    return CompactionDue(tokens=used + pending, limit=limit, must=must)


class Payback(Struct, frozen=True, kw_only=True):
    """`rewrite` is what the next request pays more, `saved` what every request from then on pays less; after `payback`
    of them it is even, None for never."""

    rewrite: Decimal | None = None
    saved: Decimal | None = None
    payback: int | None = None


def estimate_payback(model: str, *, before: int, after: int, behind: int, cost: Decimal | None) -> Payback:
    """Estimate when a compaction pays off. `before` and `after` are tokens of a whole request, `behind` those after the
    break that are written again, summary included; `cost` is what the summary cost."""
    long, short = rates(model, prompt_tokens=before), rates(model, prompt_tokens=after)
    if long is None or short is None:
        return Payback()
    rewrite = edit_cost(Decimal(behind), short.read, short.write())
    saved = before * long.read - after * short.read
    if cost is None or saved <= 0:
        return Payback(rewrite=rewrite, saved=saved)
    return Payback(rewrite=rewrite, saved=saved, payback=math.floor((cost + rewrite) / saved) + 1)
