"""What a request of a gateway's client is given of memory: all its lane was given before, and what is new.

Decides; who asks makes it durable, and falls back to what was before where that does not succeed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.caches import Block
from holdfast.config.sections import Memory
from holdfast.core import DIGEST, Sent
from holdfast.engine import Lane
from holdfast.engine.identity import previous_response
from holdfast.facts import estimate
from holdfast.records.events import MemorySurfaced
from holdfast.wire import Body, Reading, UserText, continued, injected, said, words

from .entries import Context, Delta, Known, Stable
from .injection_state import Given, Standing, standing, with_delta
from .knowledge import Knowledge
from .surface import Surfacing

START = "session_start"
QUERY = 4_000
"""Characters of what was said that are looked up."""


class Asked(Struct, frozen=True, kw_only=True):
    """A request: the client's body and its reading, what counts for its lane, and what is known of the one before.
    `earlier` are the digests of the messages that the client sent last, where that is known."""

    body: Body
    reading: Reading
    lane: Lane
    now: float
    memory: Memory
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
        """What stands at the provider already, by its name."""
        return continued(self.body)

    @property
    def messages(self) -> bytes:
        """The digests of the messages' blocks."""
        return b"".join([block.digest for block in self.blocks if block.section == "messages"])

    def standing(self, given: Given) -> Standing:
        """What the lane was told, where it stands in this request."""
        return standing_in(self.body, self.reading, given)


def standing_in(body: Body, reading: Reading, given: Given) -> Standing:
    """What a lane was told, where it stands in a request of its own. Of a response several may go on; of a
    conversation that the provider keeps there is one end."""
    forks = previous_response(body) is not None
    return standing(given, reading.prompt.blocks, continued(body), forks=forks)


class Decision(Struct, frozen=True, kw_only=True):
    """What a request is given; `before` is what it is given if the news cannot be kept. `news` is what is put into a
    prompt for the first time."""

    given: Given
    before: Given = Given()
    news: tuple[MemorySurfaced, ...] = ()
    write: bool = False

    @property
    def without_news(self) -> Decision:
        """The same where nothing new could be kept."""
        return Decision(given=self.before, before=self.before)

    @property
    def block_changed(self) -> bool:
        return self.given.context.text != self.before.context.text


def begin(asked: Asked) -> Decision:
    """The first request of a lane; or of one that has sent something without memory: its system text stays, and what
    was not announced there does not come."""
    nothing = Given(
        started=True, late=True, project=asked.project, placement=asked.memory.placement, joined=asked.joined
    )
    if asked.last is not None:
        return Decision(given=nothing, before=nothing)
    surfacing, query = asked.surfacing(asked.project), words(asked.body)[:QUERY]
    stable, context, news = surfacing.stable(now=asked.now), Context(), list[MemorySurfaced]()
    if asked.memory.placement == "blocks":
        context = surfacing.context(query, stable=stable)
    late = injected(asked.body, stable.text or context.text or "-", joined=asked.joined) is None
    if late:
        stable, context = Stable(), Context()
    given = replace(nothing, stable=stable, context=context, started=False, late=late)
    if stable.text:
        news.append(_news("stable", START, stable.entries, stable.text))
    if context.text:
        news.append(_news("context", START, context.entries, context.text))
    further = _further(asked, given, surfacing)
    write = not further.given.is_empty
    return Decision(given=further.given, before=nothing, news=(*news, *further.news), write=write)


def again(asked: Asked, given: Given, *, inherited: bool = False) -> Decision:
    """A later request of a lane, or the first of one that goes on with what another was given."""
    further = _further(asked, given, asked.surfacing(given.project))
    before = Given(started=True, late=True, project=given.project, placement=given.placement) if inherited else given
    return replace(further, before=before, write=further.write or inherited)


def _further(asked: Asked, given: Given, surfacing: Surfacing) -> Decision:
    """What is new for a lane that was given so much."""
    spoken, here = said(asked.body), asked.standing(given)
    place = None if spoken is None else _place(asked, spoken)
    new = place is not None and place not in here.told and _is_new(asked, given, here, place)
    if given.placement == "blocks":
        return _block(asked, given, surfacing, spoken) if new or asked.refresh else Decision(given=given, before=given)
    if place is None or spoken is None or not new or here.is_full or not given.stable.text:  # they are announced there
        return Decision(given=given, before=given)
    query, first = spoken.words[:QUERY], not given.started
    delta = _delta(asked, given, surfacing, here, query, first)
    started = replace(given, started=True) if first else given
    if delta is None:
        return Decision(given=started, before=given, write=first and not given.is_empty)
    news = _news("delta", delta.why, delta.entries, delta.text)
    told = with_delta(started, delta, asked.blocks, place, here, asked.after)
    return Decision(given=told, before=given, news=(news,), write=True)


def _delta(asked: Asked, given: Given, surfacing: Surfacing, here: Standing, query: str, first: bool) -> Delta | None:
    """What is to be told now: all that is gone with a part of the history in one, or else what is new."""
    told, lost = here.hashes(given.stable), here.lost(given)
    if lost and here.count < asked.memory.delta_max:
        delta = surfacing.again(lost, {**lost, **told})
        if delta is not None:
            return delta
    looks = first or asked.memory.retrieve == "every_turn"
    return surfacing.delta(told, query if looks else None, first=first, given=here.count)


def _block(asked: Asked, given: Given, surfacing: Surfacing, spoken: UserText | None) -> Decision:
    """The context block where it is another from now on; the stable one never is."""
    same = Decision(given=given, before=given)
    if given.late or (asked.last is None and not asked.refresh):  # a first request has just been given its own
        return same
    looks = asked.refresh or asked.memory.retrieve == "every_turn"
    query = (words(asked.body) if spoken is None else spoken.words)[:QUERY] if looks else None
    context = surfacing.changed_context(given.context, query, stable=given.stable, refresh=asked.refresh)
    if context is None:
        return same
    why = "refresh" if asked.refresh else "every_turn" if looks else "changed"
    news = (_news("context", why, context.entries, context.text),) if context.text else ()
    return Decision(given=replace(given, context=context), before=given, news=news, write=True)


def _place(asked: Asked, spoken: UserText) -> int | None:
    """The block of the prompt that a block of the body is."""
    origin = asked.reading.prompt.origin
    if not origin:
        return spoken.block
    return next((index for index, place in enumerate(origin) if place == spoken.block), None)


def _is_new(asked: Asked, given: Given, here: Standing, place: int) -> bool:
    """Whether nothing was sent yet from this block on. In front of what was sent nothing is put any more."""
    if asked.last is None:
        return True
    if asked.earlier is None:  # not known here: only what lies behind all that the lane has sent is surely new
        texts = texts_of(asked.reading, here)
        made = injected(asked.body, given.stable.text, given.context.text, texts, joined=given.joined)
        added = 0 if made is None else made.blocks - len(asked.body.blocks)
        return place + added >= len(asked.last)
    messages, digest = asked.messages, asked.blocks[place].digest
    first = len(asked.blocks) * DIGEST - len(messages)
    same = 0
    while messages[same : same + DIGEST] and messages[same : same + DIGEST] == asked.earlier[same : same + DIGEST]:
        same += DIGEST
    if place * DIGEST - first < same:
        return False
    occurrence = sum(1 for block in asked.blocks[: place + 1] if block.digest == digest)
    sent = sum(asked.earlier[at : at + DIGEST] == digest for at in range(0, len(asked.earlier), DIGEST))
    return occurrence > sent


def texts_of(reading: Reading, here: Standing) -> dict[int, list[str]]:
    """What stands in front of the blocks of the body."""
    return {reading.prompt.place(index): [each.text for each in told] for index, told in here.told.items()}


def _news(place: str, why: str, known: Known, text: str) -> MemorySurfaced:
    entries, hashes = tuple(entry for entry, _ in known), tuple(said for _, said in known)
    return MemorySurfaced(entries=entries, hashes=hashes, tokens=estimate(text), place=place, why=why, text=text)
