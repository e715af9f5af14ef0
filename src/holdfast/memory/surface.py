"""Which knowledge reaches a prompt, and when: the stable block, the context block, and deltas.

What was sent stays. The stable block is made once and pinned for an hour: sessions that begin within it begin with the
same bytes, whatever happens to the entries meanwhile. A delta is made only when a session begins, when a search is made
for a turn, when a told entry changes, and after a reset that removed earlier ones; never because a search ranks
differently or a budget moved. The caller stores what it is given.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from holdfast.config.sections import MemorySettings
from holdfast.errors import HoldfastError
from holdfast.facts import estimate
from holdfast.notices import warn_once
from holdfast.store import KnowledgeFilter, Pin
from holdfast.store import operations as op

from .entries import PREFERENCE, Audience, ContextBlock, Delta, KnowledgeEntry, Known, StableBlock
from .knowledge import Knowledge
from .prompt_texts import (
    CATALOGUE,
    CATALOGUE_MORE,
    PREFERENCES_FROM,
    Told,
    catalogue,
    catalogue_line,
    context_text,
    entry_text,
    gone_text,
    notes,
    stable_text,
)
from .selection import budgets, differs, fitting, preferences, shown_order, tokens, with_net

PINNED_US = 3_600_000_000
"""The lifetime of a stable block: that of the cache entry it is written for, one hour."""
CONSIDERED = 50
"""Hits considered for a context block, whose budget alone limits the selection."""
NET = 5
"""Entries of the project itself that are considered although no search finds them."""
TITLES = 100
"""Titles in a catalogue, at most."""
_LISTED = 500
"""Entries of the project, and as many of every project, that a catalogue is chosen from: a store may hold 100,000."""
_CATALOGUE_PART = 4
"""One part in so many of the stable budget is for the catalogue, however many preferences there are."""
_STORE_TIMEOUT_S = 10.0
"""Seconds to wait for the store. A session begins without a pin rather than not at all."""

logger = logging.getLogger(__name__)


class _Piece(Struct, frozen=True):
    """The text of one entry in a delta."""

    id: str
    hash: str
    text: str


class Surfacing:
    """The memory of one session. Reads the store, which blocks: not for an event loop."""

    def __init__(
        self,
        knowledge: Knowledge,
        settings: MemorySettings,
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

    def stable(self, *, now: float) -> StableBlock:
        """The stable block for a session that begins now: the pinned one, or a new one, which is pinned.

        An empty one is not pinned: the first entries of a user reach the next session at once.
        """
        pin = self.pinned(now=now)
        if pin is None:
            store, tenant, key, at = self.knowledge.store, self.knowledge.tenant, self._key(), round(now * 1_000_000)
            block = self.made_stable()
            if not block.text:
                return block
            pin = Pin(tenant=tenant, key=key, text=block.text, entries=block.entries, made_at=at, until=at + PINNED_US)
            try:
                pin = store.write(op.PutPin(pin)).result(
                    self._timeout
                )  # of two that begin at once the first one counts
            except (HoldfastError, TimeoutError) as error:
                warn_once(logger, "a stable memory block could not be pinned: %s", error)
        return StableBlock(text=pin.text, entries=pin.entries)

    def pinned(self, *, now: float) -> Pin | None:
        """The stable block pinned at this time; none is made."""
        return self.knowledge.store.pin(self.knowledge.tenant, self._key(), now=round(now * 1_000_000))

    def context(self, query: str, *, stable: StableBlock) -> ContextBlock:
        """The context block for a query: the hits that fit, and as far as there is room up to five of the project's own
        entries that were not hits."""
        return self._context(with_net(self._search(query, CONSIDERED), self.net()), stable)

    def changed_context(
        self, before: ContextBlock, query: str | None, *, stable: StableBlock, refresh: bool = False
    ) -> ContextBlock | None:
        """The new context block; None where it does not change.

        With `refresh`, and with `retrieve = "every_turn"`, it is selected again for the query; the same selection in
        another order is no change. Otherwise it keeps its entries, each with its current text, without those that are
        forgotten.
        """
        current = [self._current(id_) for id_, _ in before.entries]
        if query is not None and (refresh or self._settings.retrieve == "every_turn"):
            after = self.context(query, stable=stable)
        elif [entry.hash if entry else None for entry in current] == [hash_ for _, hash_ in before.entries]:
            return None  # also where the room is another one by now
        else:
            after = self._context([entry for entry in current if entry is not None], stable)
        if after.text == before.text:
            return None
        if None in current:  # what was forgotten goes, however small its part of the text
            return after
        old, new = (before.text, before.entries), (after.text, after.entries)
        return after if differs(self._settings.change_test, old, new) else None

    def delta(self, told_hashes: Mapping[str, str], query: str | None, *, first: bool, deltas: int) -> Delta | None:
        """Return the next delta: changes of shown entries, followed by the hits for the query, if the session begins or
        every turn is searched. `told_hashes` are the shown entries by id.

        It has at most `retrieve_max` hits. When the session begins, preferences that the pinned stable block lacks come
        first, and the safety net fills the rest of that number. A change that does not fit is found again the next
        time; a hit that does not fit is dropped.
        """
        if deltas >= self._settings.delta_max:
            return None
        room = self._delta_room
        changes = fitting(self._changes(told_hashes), _text, room)
        room -= sum(tokens(piece.text) for piece in changes)
        new: list[_Piece] = []
        every = self._settings.retrieve == "every_turn"
        if query is not None and (first or every):
            later = [entry for entry in self._preferred() if entry.id not in told_hashes] if first else []
            entries = (*later, *self._hits(query, told_hashes, net=first))
            new = fitting(map(self._piece, entries), _text, room, most=self._settings.retrieve_max)
        why = "changed" if not new else "session_start" if first else "every_turn"
        return self._delta((*changes, *new), why)

    def again(self, lost: Iterable[str], told_hashes: Mapping[str, str]) -> Delta | None:
        """Return the delta after a reset: the current text of entries lost from the window, and the changes of the
        rest. The most confident come first, and what does not fit is left out.

        Forgotten entries are included: a summary may still mention them, or the stable block, which stays.
        """
        current: list[KnowledgeEntry] = []
        withdrawn: list[_Piece] = []
        lost_ids = set(lost)
        if not lost_ids:
            return None
        for each in sorted(lost_ids):
            entry = self._entry(each)
            if entry is not None and self._holds(entry):
                current.append(entry)
            elif told_hashes.get(each) != "" or entry is None or entry.category == PREFERENCE:
                withdrawn.append(self._withdrawn(each, entry))
        current.sort(key=lambda entry: (-entry.confidence, -entry.updated_at, entry.id))
        changes = self._changes({each: hash_ for each, hash_ in told_hashes.items() if each not in lost_ids})
        pieces = fitting((*withdrawn, *changes, *map(self._piece, current)), _text, self._delta_room)
        return self._delta(pieces, "reset")

    def _key(self) -> str:
        """A key of all that the stable block depends on, beside the entries."""
        parts = [
            self.audience,
            self._settings.placement,
            self.knowledge.project,
            self.budgets.stable,
            self._delta_room > 0,
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]

    def made_stable(self) -> StableBlock:
        """The stable block as it would be made now; it is not pinned."""
        budget, agent = self.budgets.stable, self.audience == "agent"
        announced = not agent and self._settings.placement == "deltas" and self._delta_room > 0 and bool(self._some(1))
        chosen = self._preferred()
        used = sum(tokens(entry_text(entry)) for entry in chosen) + self._header if chosen else 0
        if not chosen and self._settings.placement == "blocks":
            return (
                StableBlock()
            )  # the three blocks of the seed are there for preferences; without them the host is marked
        others = self._some(_LISTED) if agent and budget else []
        titles = self._titles(others, _hashes(chosen), budget - used)
        text = stable_text(chosen, audience=self.audience, announced=announced, titles=titles)
        return StableBlock(text=text, entries=_hashes(chosen))

    def _preferred(self) -> list[KnowledgeEntry]:
        """The preferences of a stable block that is made now."""
        room = self.budgets.stable - self._header
        if room <= 0:
            return []
        if self.audience == "agent" and self._some(1, exclude_categories=(PREFERENCE,)):
            room -= self.budgets.stable // _CATALOGUE_PART
        return fitting(preferences(self.knowledge.entries(categories=(PREFERENCE,))), entry_text, room)

    def _titles(self, entries: Iterable[KnowledgeEntry], shown: Known, room: int) -> str:
        """Return the catalogue of entries that can be recalled and are not in the block itself."""
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
        own_entries = store.knowledge_entries(tenant, own, limit=most, surest=True) if project is not None else []
        return [*own_entries, *store.knowledge_entries(tenant, every, limit=most, surest=True)]

    def net(self) -> list[KnowledgeEntry]:
        """The surest entries of the project, the latest first. No search takes part, so that they do not depend on its
        ranking."""
        store, tenant, project = self.knowledge.store, self.knowledge.tenant, self.knowledge.project
        if project is None:
            return []
        own = KnowledgeFilter(project=project, projects="project", exclude_categories=(PREFERENCE,))
        return store.knowledge_entries(tenant, own, limit=NET, surest=True)

    def _search(self, query: str, limit: int) -> list[KnowledgeEntry]:
        """The hits for a query; none where it is empty, as for a message that is only a picture."""
        if not query.strip():
            return []
        return [hit.entry for hit in self.knowledge.search(query, limit=limit, exclude_categories=(PREFERENCE,))]

    def _context(self, entries: Sequence[KnowledgeEntry], stable: StableBlock) -> ContextBlock:
        room = self.budgets.context(estimate(stable.text) if stable.text else 0) - self._frame
        chosen = fitting(entries, entry_text, room)
        return ContextBlock(text=context_text(chosen, audience=self.audience), entries=_hashes(chosen))

    def _hits(self, query: str, told_hashes: Mapping[str, str], *, net: bool) -> list[KnowledgeEntry]:
        """Return hits that were not shown yet. Later in a session only the best few hits count, shown or not, so that
        turns do not add ever weaker ones."""
        most = self._settings.retrieve_max
        if most < 1:
            return []
        entries = self._search(query, most + len(told_hashes) if net else most)
        if net and sum(entry.id not in told_hashes for entry in entries) < most:
            entries = with_net(entries, self.net())
        return [entry for entry in entries if entry.id not in told_hashes]

    def _changes(self, told_hashes: Mapping[str, str]) -> list[_Piece]:
        """Return notices about changed entries: first the forgotten ones, then those with a new text."""
        withdrawn, changed = [], []
        for each, before in sorted(told_hashes.items()):
            entry = self._entry(each)
            if entry is None or not self._holds(entry):
                if before:
                    withdrawn.append(self._withdrawn(each, entry))
            elif entry.hash != before:
                changed.append(self._changed(entry))
        return [*withdrawn, *changed]

    def _changed(self, entry: KnowledgeEntry) -> _Piece:
        """An entry too large for any delta is named without its text: otherwise it would never be told."""
        piece = self._piece(entry, "changed")
        return piece if tokens(piece.text) <= self._delta_room else self._piece(entry, "long")

    def _piece(self, entry: KnowledgeEntry, told: Told = "new") -> _Piece:
        return _Piece(entry.id, entry.hash, entry_text(entry, told, self.audience))

    def _withdrawn(self, id: str, entry: KnowledgeEntry | None) -> _Piece:
        """An entry of another project is not shown to this one."""
        text = gone_text(id) if entry is None or not self._ours(entry) else entry_text(entry, "withdrawn")
        return _Piece(id, "", text)

    def _delta(self, pieces: Sequence[_Piece], why: str) -> Delta | None:
        if not pieces:
            return None
        text = notes([piece.text for piece in pieces], audience=self.audience)
        entries = tuple((piece.id, piece.hash) for piece in pieces)
        return Delta(text=text, entries=entries, why=why)

    def _entry(self, id: str) -> KnowledgeEntry | None:
        return self.knowledge.store.knowledge(self.knowledge.tenant, id)

    def _current(self, id: str) -> KnowledgeEntry | None:
        entry = self._entry(id)
        return entry if entry is not None and self._holds(entry) else None

    def _holds(self, entry: KnowledgeEntry) -> bool:
        """Whether it counts here: one that was moved to another project counts as forgotten."""
        return entry.forgotten_at is None and self._ours(entry)

    def _ours(self, entry: KnowledgeEntry) -> bool:
        return entry.project in (None, self.knowledge.project)


def _text(piece: _Piece) -> str:
    return piece.text


def _hashes(entries: Iterable[KnowledgeEntry]) -> Known:
    return tuple((entry.id, entry.hash) for entry in entries)
