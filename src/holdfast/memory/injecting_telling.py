"""What is told of memory that was put into a client's request: an event, and when each entry was shown.

Words of a prompt stand in neither, unless bodies are kept."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.engine import Engine
from holdfast.events.tools import MemorySurfaced

from .injecting_deciding import Asked, News
from .knowledge import Knowledge


def tell(engine: Engine, asked: Asked, knowledge: Knowledge, news: Sequence[News]) -> None:
    lane, keep = asked.lane, asked.keep_bodies
    for each in news:
        event = MemorySurfaced(
            entries=tuple(entry for entry, _ in each.entries),
            hashes=tuple(told for _, told in each.entries),
            tokens=each.tokens,
            place=each.place,
            why=each.why,
            text=each.text if keep else "",
        )
        engine.tell(lane, event, now=asked.now)
        knowledge.note_shown(
            each.entries,
            session=lane.session,
            lane=lane.id,
            place=each.place,
            why=each.why,
            query=each.query if keep else "",
        )
