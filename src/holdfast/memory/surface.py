"""What of the knowledge reaches a prompt, and when: the stable block, the context block, and deltas.

What was sent stays as it is. The stable block is made once and pinned for an hour: sessions that begin within it begin
with the same bytes, whatever happens to the entries meanwhile. A delta is made only when a session begins, when
something is looked up for a turn, when an entry that was told says something else, and after a reset that took earlier
ones away; never because a search ranks otherwise or a budget moved. Whoever asks keeps what he was given.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from holdfast.config.sections import Memory
from holdfast.errors import HoldfastError
from holdfast.facts import estimate
from holdfast.notices import warn_once
from holdfast.store import KnowledgeFilter, Pin

from .entries import PREFERENCE, Audience, Context, Delta, KnowledgeEntry, Known, Stable
from .knowledge import Knowledge
from .prompt_texts import (
    CATALOGUE,
    CATALOGUE_MORE,
    PREFERENCES_FROM,
    Told,
    catalogue,
    catalogue_line,
    context_text,
    delta_text,
    entry_text,
    gone_text,
    notes,
    stable_text,
)
from .selection import budgets, differs, fitting, preferences, shown_order, tokens, with_net

PINNED_US = 3_600_000_000
"""How long a stable block holds: as long as the cache entry it is written for, one hour."""
CONSIDERED = 50
"""Hits that are looked at for a context block, where the budget alone limits what is taken."""
NET = 5
"""Entries of the project itself that are considered although no word of theirs was said."""
TITLES = 100
"""Titles in a catalogue, at most."""
_LISTED = 500
"""Entries of the project, and as many of every project, that a catalogue is chosen from: a store may have 100,000."""
_CATALOGUE_PART = 4
"""One part in so many of the stable budget is for the catalogue, however many preferences there are."""
_STORE_TIMEOUT_S = 10.0
"""How long the store is waited for. A session begins without a pin rather than not at all."""

logger = logging.getLogger(__name__)


class _Piece(Struct, frozen=True):
    """What a delta says of one entry."""

    id: str
    hash: str
    text: str


class Surfacing:
    """What one session is given of this knowledge. Asks the store, and waits for it: not for an event loop."""

    def __init__(
        self,
        knowledge: Knowledge,
        settings: Memory,
        *,
        audience: Audience,
        context_limit: int,
        output_limit: int,
        timeout: float = _STORE_TIMEOUT_S,
    ) -> None:
        self.knowledge, self._timeout = knowledge, timeout
        self.audience: Audience = audience
        self.budgets = budgets(settings, context_limit=context_limit, output_limit=output_limit)
        self._settings = settings
        self._frame = tokens(notes([""], audience=audience))
        self._header = tokens(PREFERENCES_FROM[audience])
        # Beside the largest stable block there may be: the room for a delta must not depend on what stands in this one.
        self._delta_room = self.budgets.context(self.budgets.stable) - self._frame

    def stable(self, *, now: float) -> Stable:
        """The stable block for a session that begins now: the pinned one where one holds, or it is made and pinned.

        One that says nothing is not pinned: the first entries that a user has reach his next session at once.
        """
        pin = self.pinned(now=now)
        if pin is None:
            store, tenant, key, at = self.knowledge.store, self.knowledge.tenant, self._key(), round(now * 1_000_000)
            made = self.made_stable()
            if not made.text:
                return made
            pin = Pin(tenant=tenant, key=key, text=made.text, entries=made.entries, made_at=at, until=at + PINNED_US)
            try:
                pin = store.put_pin(pin).result(self._timeout)  # of two that begin at once the first one counts
            except (HoldfastError, TimeoutError) as error:
                warn_once(logger, "a stable memory block could not be pinned: %s", error)
        return Stable(text=pin.text, entries=pin.entries)

    def pinned(self, *, now: float) -> Pin | None:
        """The stable block that holds at this time, if one is pinned; none is made."""
        return self.knowledge.store.pin(self.knowledge.tenant, self._key(), now=round(now * 1_000_000))

    def context(self, query: str, *, stable: Stable) -> Context:
        """The context block for what was said: what was found for it and has room, and of the project's own entries
        up to five that were not found, where room is left."""
        return self._context(with_net(self._search(query, CONSIDERED), self.net()), stable)

    def changed_context(
        self, before: Context, query: str | None, *, stable: Stable, refresh: bool = False
    ) -> Context | None:
        """The context block as it is from now on; None where it stays as it was.

        With `refresh`, and with `retrieve = "every_turn"`, it is chosen anew for the query; the same choice in another
        order is no change. Otherwise the entries in it are what they were chosen to be, each as it is now, without
        those that hold no more.
        """
        now = [self._standing(known) for known, _ in before.entries]
        if query is not None and (refresh or self._settings.retrieve == "every_turn"):
            after = self.context(query, stable=stable)
        elif [entry.hash if entry else None for entry in now] == [said for _, said in before.entries]:
            return None  # also where the room is another one by now
        else:
            after = self._context([entry for entry in now if entry is not None], stable)
        if after.text == before.text:
            return None
        if None in now:  # what was forgotten goes, however small its part of the text
            return after
        old, new = (before.text, before.entries), (after.text, after.entries)
        return after if differs(self._settings.change_test, old, new) else None

    def delta(self, told: Mapping[str, str], query: str | None, *, first: bool, given: int) -> Delta | None:
        """What the conversation has to be told now: entries it was told that say something else or hold no more, and
        behind them, when it begins or something is looked up for every turn, those found for the query.

        Of those at most `retrieve_max`. When it begins, preferences that its stable block was pinned without and a new
        one would have come first, and the safety net fills what the search has left of that number.
        Something that has no room stays as it was told, and so is found again the next time; of what was found only for
        this query nothing is kept.
        """
        if given >= self._settings.delta_max:
            return None
        room = self._delta_room
        changes = fitting(self._changes(told), _text, room)
        room -= sum(tokens(piece.text) for piece in changes)
        new: list[_Piece] = []
        every = self._settings.retrieve == "every_turn"
        if query is not None and (first or every):
            later = [entry for entry in self._preferred() if entry.id not in told] if first else []
            found = (*later, *self._found(query, told, net=first))
            new = fitting(map(self._piece, found), _text, room, most=self._settings.retrieve_max)
        why = "changed" if not new else "session_start" if first else "every_turn"
        return self._delta((*changes, *new), why)

    def again(self, lost: Iterable[str], told: Mapping[str, str]) -> Delta | None:
        """After a reset: what was told and no longer stands in the window, as it is now, in one delta, with what has
        changed of the rest. The surest come first, and what has no room is left out.

        That an entry holds no more is said as well: a summary may still speak of it, or the stable block, which stays.
        """
        standing: list[KnowledgeEntry] = []
        withdrawn: list[_Piece] = []
        gone = set(lost)
        if not gone:
            return None
        for each in sorted(gone):
            entry = self._entry(each)
            if entry is not None and self._holds(entry):
                standing.append(entry)
            elif told.get(each) != "" or entry is None or entry.category == PREFERENCE:
                withdrawn.append(self._withdrawn(each, entry))
        standing.sort(key=lambda entry: (-entry.confidence, -entry.updated_at, entry.id))
        changes = self._changes({each: said for each, said in told.items() if each not in gone})
        pieces = fitting((*withdrawn, *changes, *map(self._piece, standing)), _text, self._delta_room)
        return self._delta(pieces, "reset")

    def _key(self) -> str:
        """Whatever the stable block depends on, beside the entries."""
        parts = [
            self.audience,
            self._settings.placement,
            self.knowledge.project,
            self.budgets.stable,
            self._delta_room > 0,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def made_stable(self) -> Stable:
        """The stable block as it would be made now; it is not pinned."""
        budget, agent = self.budgets.stable, self.audience == "agent"
        announced = not agent and self._settings.placement == "deltas" and self._delta_room > 0 and bool(self._some(1))
        chosen = self._preferred()
        used = sum(tokens(entry_text(entry)) for entry in chosen) + self._header if chosen else 0
        if not chosen and self._settings.placement == "blocks":
            return Stable()  # the three blocks of the seed are there for preferences; without them the host is marked
        others = self._some(_LISTED) if agent and budget else []
        titles = self._titles(others, _known(chosen), budget - used)
        text = stable_text(chosen, audience=self.audience, announced=announced, titles=titles)
        return Stable(text=text, entries=_known(chosen))

    def _preferred(self) -> list[KnowledgeEntry]:
        """The preferences that stand in a stable block that is made now."""
        room = self.budgets.stable - self._header
        if room <= 0:
            return []
        if self.audience == "agent" and self._some(1, exclude_categories=(PREFERENCE,)):
            room -= self.budgets.stable // _CATALOGUE_PART
        return fitting(preferences(self.knowledge.entries(categories=(PREFERENCE,))), entry_text, room)

    def _titles(self, entries: Iterable[KnowledgeEntry], shown: Known, room: int) -> str:
        """The catalogue of what can be recalled and does not stand in the block itself."""
        there = {known for known, _ in shown}
        others = [entry for entry in entries if entry.id not in there]
        room -= tokens(CATALOGUE) + tokens(CATALOGUE_MORE)
        taken = fitting(others, catalogue_line, room, most=TITLES)
        return catalogue(shown_order(taken), more=len(taken) < len(others))

    def _some(self, most: int, exclude_categories: tuple[str, ...] = ()) -> list[KnowledgeEntry]:
        """Entries of the project, and behind them of every project: so many of each, the surest first."""
        store, tenant, project = self.knowledge.store, self.knowledge.tenant, self.knowledge.project
        own = KnowledgeFilter(project=project, projects="project", exclude_categories=exclude_categories)
        every = KnowledgeFilter(project=project, projects="cross", exclude_categories=exclude_categories)
        found = store.knowledge_entries(tenant, own, limit=most, surest=True) if project is not None else []
        return [*found, *store.knowledge_entries(tenant, every, limit=most, surest=True)]

    def net(self) -> list[KnowledgeEntry]:
        """The project's entries that count whatever is said: the surest, of those the latest. A search has no part in
        it, so that they are the same however it ranks."""
        store, tenant, project = self.knowledge.store, self.knowledge.tenant, self.knowledge.project
        if project is None:
            return []
        own = KnowledgeFilter(project=project, projects="project", exclude_categories=(PREFERENCE,))
        return store.knowledge_entries(tenant, own, limit=NET, surest=True)

    def _search(self, query: str, limit: int) -> list[KnowledgeEntry]:
        """What words find. Where none were said, say with a picture, nothing is found, and the net alone counts."""
        if not query.strip():
            return []
        return [hit.entry for hit in self.knowledge.search(query, limit=limit, exclude_categories=(PREFERENCE,))]

    def _context(self, entries: Sequence[KnowledgeEntry], stable: Stable) -> Context:
        room = self.budgets.context(estimate(stable.text) if stable.text else 0) - self._frame
        chosen = fitting(entries, entry_text, room)
        return Context(text=context_text(chosen, audience=self.audience), entries=_known(chosen))

    def _found(self, query: str, told: Mapping[str, str], *, net: bool) -> list[KnowledgeEntry]:
        """Entries for a query that were not told yet. Later in a session only the best few count, told or not: it is
        not the case that every turn brings up what is a little worse."""
        most = self._settings.retrieve_max
        if most < 1:
            return []
        found = self._search(query, most + len(told) if net else most)
        if net and sum(entry.id not in told for entry in found) < most:
            found = with_net(found, self.net())
        return [entry for entry in found if entry.id not in told]

    def _changes(self, told: Mapping[str, str]) -> list[_Piece]:
        """What was told and is not so any more: first that something holds no more, then what is said now."""
        withdrawn, changed = [], []
        for each, before in sorted(told.items()):
            entry = self._entry(each)
            if entry is None or not self._holds(entry):
                if before:
                    withdrawn.append(self._withdrawn(each, entry))
            elif entry.hash != before:
                changed.append(self._changed(entry))
        return [*withdrawn, *changed]

    def _changed(self, entry: KnowledgeEntry) -> _Piece:
        """One that is larger than any delta would wait for ever, and the conversation go on with what is wrong."""
        piece = self._piece(entry, "changed")
        return piece if tokens(piece.text) <= self._delta_room else self._piece(entry, "long")

    def _piece(self, entry: KnowledgeEntry, told: Told = "new") -> _Piece:
        return _Piece(entry.id, entry.hash, entry_text(entry, told, self.audience))

    def _withdrawn(self, id: str, entry: KnowledgeEntry | None) -> _Piece:
        """What became of an entry in another project is not for this one to know."""
        told = gone_text(id) if entry is None or not self._ours(entry) else entry_text(entry, "withdrawn")
        return _Piece(id, "", told)

    def _delta(self, pieces: Sequence[_Piece], why: str) -> Delta | None:
        if not pieces:
            return None
        text = delta_text([piece.text for piece in pieces], audience=self.audience)
        entries = tuple((piece.id, piece.hash) for piece in pieces)
        return Delta(text=text, entries=entries, why=why)

    def _entry(self, id: str) -> KnowledgeEntry | None:
        return self.knowledge.store.knowledge(self.knowledge.tenant, id)

    def _standing(self, id: str) -> KnowledgeEntry | None:
        entry = self._entry(id)
        return entry if entry is not None and self._holds(entry) else None

    def _holds(self, entry: KnowledgeEntry) -> bool:
        """Whether it counts here: one that was given to another project is to this one as if it were forgotten."""
        return entry.forgotten_at is None and self._ours(entry)

    def _ours(self, entry: KnowledgeEntry) -> bool:
        return entry.project in (None, self.knowledge.project)


def _text(piece: _Piece) -> str:
    return piece.text


def _known(entries: Iterable[KnowledgeEntry]) -> Known:
    return tuple((entry.id, entry.hash) for entry in entries)
