"""Which memory a request of a client is given: all that its lane was given before, and what is new.

Pure decisions. The caller stores them, and falls back to the memory before where that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Block
from holdfast.config.sections import MemorySettings
from holdfast.core import DIGEST, Sent
from holdfast.engine import Lane
from holdfast.engine.identity import previous_response
from holdfast.facts import estimate
from holdfast.records.events import MemorySurfaced
from holdfast.wire import Body, Reading, UserText, continued_id, inject, last_words, newest_user_text

from .entries import ContextBlock, Delta, Known, StableBlock
from .injection_state import LaneMemory, PresentDeltas, present_deltas, with_delta
from .knowledge import Knowledge
from .surface import Surfacing

START = "session_start"
QUERY = 4_000
"""Characters of the user's text that are used as a query."""


class InjectionRequest(Struct, frozen=True, kw_only=True):
    """A request: the client's body and its reading, the settings of its lane, and the request before. `earlier` are the
    digests of the messages that the client sent last, where they are known."""

    body: Body
    reading: Reading
    lane: Lane
    now: float
    settings: MemorySettings
    keep_bodies: bool
    project: str | None
    joined: bool
    knowledge: Callable[[str | None], Knowledge]
    surfacing: Callable[[str | None], Surfacing]
    earlier: bytes | None
    last: Sent | None
    refresh: bool

    @property
    def blocks(self) -> Sequence[Block]:
        return self.reading.prompt.blocks

    @property
    def after(self) -> str:
        """The name of what the request continues at the provider."""
        return continued_id(self.body)

    @property
    def messages(self) -> bytes:
        """The digests of the messages' blocks."""
        return b"".join([block.digest for block in self.blocks if block.section == "messages"])

    def present_deltas(self, memory: LaneMemory) -> PresentDeltas:
        """The deltas of the lane that are present in this request."""
        return present_in(self.body, self.reading, memory)


def present_in(body: Body, reading: Reading, memory: LaneMemory) -> PresentDeltas:
    """The deltas of a lane that are present in a request of its own. Several requests may continue one response; a
    conversation that the provider keeps has one end."""
    forks = previous_response(body) is not None
    return present_deltas(memory, reading.prompt.blocks, continued_id(body), forks=forks)


class InjectionDecision(Struct, frozen=True, kw_only=True):
    """The memory of a request. `before` is the memory if the news cannot be stored; `news` is what enters a prompt for
    the first time."""

    memory: LaneMemory
    before: LaneMemory = LaneMemory()
    news: tuple[MemorySurfaced, ...] = ()
    write: bool = False

    @property
    def without_news(self) -> InjectionDecision:
        """The same where nothing new can be stored."""
        return InjectionDecision(memory=self.before, before=self.before)

    @property
    def block_changed(self) -> bool:
        return self.memory.context.text != self.before.context.text


def begin(request: InjectionRequest) -> InjectionDecision:
    """The first request of a lane, or of one that has sent a request without memory: its system text stays, and without
    an announcement there no memory follows."""
    nothing = LaneMemory(
        started=True, late=True, project=request.project, placement=request.settings.placement, joined=request.joined
    )
    if request.last is not None:
        return InjectionDecision(memory=nothing, before=nothing)
    surfacing, query = request.surfacing(request.project), last_words(request.body)[:QUERY]
    stable, context, news = surfacing.stable(now=request.now), ContextBlock(), list[MemorySurfaced]()
    if request.settings.placement == "blocks":
        context = surfacing.context(query, stable=stable)
    late = inject(request.body, stable.text or context.text or "-", joined=request.joined) is None
    if late:
        stable, context = StableBlock(), ContextBlock()
    memory = replace(nothing, stable=stable, context=context, started=False, late=late)
    if stable.text:
        news.append(_news("stable", START, stable.entries, stable.text))
    if context.text:
        news.append(_news("context", START, context.entries, context.text))
    later = _later(request, memory, surfacing)
    write = not later.memory.is_empty
    return InjectionDecision(memory=later.memory, before=nothing, news=(*news, *later.news), write=write)


def again(request: InjectionRequest, memory: LaneMemory, *, inherited: bool = False) -> InjectionDecision:
    """A later request of a lane, or the first of one that inherits the memory of another."""
    later = _later(request, memory, request.surfacing(memory.project))
    before = (
        LaneMemory(started=True, late=True, project=memory.project, placement=memory.placement) if inherited else memory
    )
    return replace(later, before=before, write=later.write or inherited)


def _later(request: InjectionRequest, memory: LaneMemory, surfacing: Surfacing) -> InjectionDecision:
    """Decide what is new for a lane with this memory."""
    user_text, present = newest_user_text(request.body), request.present_deltas(memory)
    place = None if user_text is None else _place(request, user_text)
    new = place is not None and place not in present.told and _is_new(request, memory, present, place)
    if memory.placement == "blocks":
        return (
            _block(request, memory, surfacing, user_text)
            if new or request.refresh
            else InjectionDecision(memory=memory, before=memory)
        )
    if (
        place is None or user_text is None or not new or present.is_full or not memory.stable.text
    ):  # they are announced there
        return InjectionDecision(memory=memory, before=memory)
    query, first = user_text.words[:QUERY], not memory.started
    delta = _delta(request, memory, surfacing, present, query, first)
    started = replace(memory, started=True) if first else memory
    if delta is None:
        return InjectionDecision(memory=started, before=memory, write=first and not memory.is_empty)
    news = _news("delta", delta.why, delta.entries, delta.text)
    updated = with_delta(started, delta, request.blocks, place, present, request.after)
    return InjectionDecision(memory=updated, before=memory, news=(news,), write=True)


def _delta(
    request: InjectionRequest, memory: LaneMemory, surfacing: Surfacing, present: PresentDeltas, query: str, first: bool
) -> Delta | None:
    """The next delta: all that was lost with a part of the history at once, or else what is new."""
    hashes, lost = present.hashes(memory.stable), present.lost(memory)
    if lost and present.count < request.settings.delta_max:
        delta = surfacing.again(lost, {**lost, **hashes})
        if delta is not None:
            return delta
    looks = first or request.settings.retrieve == "every_turn"
    return surfacing.delta(hashes, query if looks else None, first=first, deltas=present.count)


def _block(
    request: InjectionRequest, memory: LaneMemory, surfacing: Surfacing, user_text: UserText | None
) -> InjectionDecision:
    """The context block if it changes now; the stable one never does."""
    same = InjectionDecision(memory=memory, before=memory)
    if memory.late or (request.last is None and not request.refresh):  # a first request has just been given its own
        return same
    looks = request.refresh or request.settings.retrieve == "every_turn"
    query = (last_words(request.body) if user_text is None else user_text.words)[:QUERY] if looks else None
    context = surfacing.changed_context(memory.context, query, stable=memory.stable, refresh=request.refresh)
    if context is None:
        return same
    why = "refresh" if request.refresh else "every_turn" if looks else "changed"
    news = (_news("context", why, context.entries, context.text),) if context.text else ()
    return InjectionDecision(memory=replace(memory, context=context), before=memory, news=news, write=True)


def _place(request: InjectionRequest, user_text: UserText) -> int | None:
    """Return the prompt's index of a block of the body."""
    origin = request.reading.prompt.origin
    if not origin:
        return user_text.block
    return next((index for index, place in enumerate(origin) if place == user_text.block), None)


def _is_new(request: InjectionRequest, memory: LaneMemory, present: PresentDeltas, place: int) -> bool:
    """Return whether nothing was sent yet from this block on. Nothing is inserted before what was sent."""
    if request.last is None:
        return True
    if request.earlier is None:  # not known here: only what lies behind all that the lane has sent is surely new
        texts = texts_of(request.reading, present)
        injection = inject(request.body, memory.stable.text, memory.context.text, texts, joined=memory.joined)
        added = 0 if injection is None else injection.blocks - len(request.body.blocks)
        return place + added >= len(request.last)
    messages, digest = request.messages, request.blocks[place].digest
    first = len(request.blocks) * DIGEST - len(messages)
    same = 0
    while messages[same : same + DIGEST] and messages[same : same + DIGEST] == request.earlier[same : same + DIGEST]:
        same += DIGEST
    if place * DIGEST - first < same:
        return False
    occurrence = sum(1 for block in request.blocks[: place + 1] if block.digest == digest)
    sent = sum(request.earlier[at : at + DIGEST] == digest for at in range(0, len(request.earlier), DIGEST))
    return occurrence > sent


def texts_of(reading: Reading, present: PresentDeltas) -> dict[int, list[str]]:
    """The texts in front of blocks of the body."""
    return {reading.prompt.place(index): [each.text for each in told] for index, told in present.told.items()}


def _news(place: str, why: str, known: Known, text: str) -> MemorySurfaced:
    entries, hashes = tuple(entry for entry, _ in known), tuple(said for _, said in known)
    return MemorySurfaced(entries=entries, hashes=hashes, tokens=estimate(text), place=place, why=why, text=text)
