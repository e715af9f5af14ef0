"""Whether an entry would be given to a session that begins now, and why: asked of what a session itself would ask."""

from __future__ import annotations

import time
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli import tables
from holdfast.engine.identity import LOCAL
from holdfast.facts import default
from holdfast.memory import CONSIDERED, NET, PREFERENCE, KnowledgeEntry, Stable, Surfacing, is_named
from holdfast.store import Pin

from .access import MemoryView, moment, place

_USUAL = (200_000, 16_384)
"""A window, and the longest answer in it, where no model is configured."""


class Judgement(Struct, frozen=True, kw_only=True):
    """`given` is null where it depends on what the session is about. `why` is a word for programs."""

    given: bool | None
    why: str
    text: str


def judged(view: MemoryView, entry: KnowledgeEntry, query: str | None) -> Judgement:
    """Of a session here that began now, with `query` as the first thing its user says. Of the own tenant it is one of
    the agent: clients of the gateway that get the same memory have other pins."""
    judgement, memory = _judged(view, entry, query), view.config.settings.memory
    shared = view.knowledge.tenant == LOCAL and memory.inject and memory.inject_as == "local"
    if not shared or entry.category != PREFERENCE:
        return judgement
    clients = "That is so for `holdfast chat`; clients of the gateway begin with stable blocks of their own."
    return replace(judgement, text=f"{judgement.text} {clients}")


def _judged(view: MemoryView, entry: KnowledgeEntry, query: str | None) -> Judgement:
    """What is pinned counts first: it stands at the head whatever became of the entry since."""
    refusal = _not_injected(view)
    begins = None if refusal else _beginning(view, entry)
    if begins is not None and entry.id in dict(begins.pin.entries):
        return _pinned(view, entry, begins)
    if entry.forgotten_at is not None:
        when, title = tables.instant(moment(entry.forgotten_at)), ""
        if begins is not None and entry.id in begins.pin.text:
            title = f" Its title stands in {begins.block}."
        return _no("forgotten", f"it was forgotten {when}. `holdfast memory restore {entry.id}` takes it back.{title}")
    if refusal:
        return _no("not_injected", refusal)
    if entry.project is not None and entry.project != view.project:
        here = "no project" if view.project is None else place(view.project)
        return _no("other_project", f"it belongs to {place(entry.project)}, and this is {here}.")
    if entry.category == PREFERENCE:
        return _preference(view, entry, begins)
    return _unasked(view, entry) if query is None else _asked(view, entry, query, begins)


def _not_injected(view: MemoryView) -> str:
    """Why clients of the gateway get nothing of this tenant; empty where they do, or it is no client."""
    tenant, memory = view.knowledge.tenant, view.config.settings.memory
    if tenant == LOCAL:
        return ""
    if not memory.inject:
        return "clients of the gateway are given memory only with memory.inject = true."
    if memory.inject_as == "local":
        return f"memory.inject_as says that clients of the gateway get the memory of {LOCAL}."
    if memory.inject_tenants and not is_named(tenant, memory.inject_tenants):
        return "memory.inject_tenants names other tenants."
    return ""


def _no(why: str, text: str) -> Judgement:
    return Judgement(given=False, why=why, text=f"A session that began now would not be given it: {text}")


def _yes(why: str, text: str) -> Judgement:
    return Judgement(given=True, why=why, text=text)


class _Beginning(Struct, frozen=True):
    """The stable block that is pinned here, and what chooses for the sessions that begin with it."""

    chooser: Surfacing
    pin: Pin

    @property
    def block(self) -> str:
        return f"the stable block that sessions here begin with until {tables.instant(moment(self.pin.until))}"

    def tells(self, entry: KnowledgeEntry) -> bool:
        """Whether the first note of such a session speaks of the entry, whatever its user says."""
        note = self.chooser.delta(dict(self.pin.entries), "", first=True, given=0)
        return note is not None and entry.id in dict(note.entries)


def _beginning(view: MemoryView, entry: KnowledgeEntry) -> _Beginning | None:
    """Where several blocks are pinned, for models with other budgets, the first one that has the entry."""
    now = time.time()
    pinned = [_Beginning(each, pin) for each in _choosers(view) if (pin := each.pinned(now=now)) is not None]
    having = (each for each in pinned if entry.id in dict(each.pin.entries))
    return next(having, pinned[0] if pinned else None)


def _pinned(view: MemoryView, entry: KnowledgeEntry, begins: _Beginning) -> Judgement:
    gone = entry.forgotten_at is not None
    away = entry.project not in (None, view.project)
    if dict(begins.pin.entries)[entry.id] == entry.hash and not gone and not away:
        return _yes("pinned", f"It stands in {begins.block}.")
    news = "that it was forgotten" if gone else "that it holds here no more" if away else "what it says now"
    if view.config.settings.memory.placement == "deltas" and begins.tells(entry):
        when = f"; {news} is told to them with the first thing their user says."
    else:
        when = f"; {news} is told to nobody before."
    erase = f" `holdfast memory forget {entry.id} --erase` removes that block too." if gone else ""
    text = f"What it said before stands in {begins.block}{when}{erase}"
    return _yes("pinned_forgotten" if gone else "pinned_before", text)


def _preference(view: MemoryView, entry: KnowledgeEntry, begins: _Beginning | None) -> Judgement:
    if not view.config.settings.memory.stable_budget:
        return _no("no_room", "memory.stable_budget is 0.")
    if begins is None:
        return _made(view, entry, "")
    until = tables.instant(moment(begins.pin.until))
    later = _made(view, entry, f" after {until}")
    if view.config.settings.memory.placement == "deltas" and begins.tells(entry):
        return _yes(
            "told",
            f"It is told with the first thing their user says to sessions here, which until {until} begin with a "
            "stable block that was pinned without it. The first one after that has it there.",
        )
    if not later.given:
        return later
    return _no(
        "waits",
        f"it is a preference and waits: sessions here begin with the stable block that was pinned "
        f"{tables.instant(moment(begins.pin.made_at))}, until {until}. The first one after that has it.",
    )


def _made(view: MemoryView, entry: KnowledgeEntry, when: str) -> Judgement:
    if entry.id in dict(next(_choosers(view)).made_stable().entries):
        return _yes("next_session", f"The next session here{when} begins with it, in its stable block.")
    return _no("no_room", "surer preferences take the room of the stable block (memory.stable_budget).")


def _asked(view: MemoryView, entry: KnowledgeEntry, query: str, begins: _Beginning | None) -> Judgement:
    memory, chooser = view.config.settings.memory, next(_choosers(view))
    stable = chooser.made_stable() if begins is None else Stable(text=begins.pin.text, entries=begins.pin.entries)
    if memory.placement == "blocks":
        chosen = chooser.context(query, stable=stable).entries
    else:
        delta = chooser.delta(dict(stable.entries), query, first=True, given=0)
        chosen = () if delta is None else delta.entries
    hits = view.knowledge.search(query, limit=CONSIDERED, exclude_categories=(PREFERENCE,))
    rank = next((number for number, hit in enumerate(hits, 1) if hit.entry.id == entry.id), None)
    if entry.id in dict(chosen):
        how = f"found for these words, at place {rank}" if rank is not None else "one of the surest of this project"
        return _yes("found" if rank is not None else "safety_net", f"A session that began so would be told it: {how}.")
    if rank is None:
        return _no("not_found", "these words do not find it.")
    return _no("no_room", f"these words find it at place {rank}; those before it take the room {_limits(view)}.")


def _limits(view: MemoryView) -> str:
    blocks = view.config.settings.memory.placement == "blocks"
    return "(memory.context_budget)" if blocks else "(memory.retrieve_max, memory.context_budget)"


def _unasked(view: MemoryView, entry: KnowledgeEntry) -> Judgement:
    memory = view.config.settings.memory
    if memory.placement == "deltas" and not (memory.retrieve_max and memory.delta_max):
        return _no("not_retrieved", "memory.retrieve_max or memory.delta_max is 0; `recall` finds it.")
    asks = f'`holdfast memory why {entry.id} --query "WORDS"` says whether given words find it.'
    if any(each.id == entry.id for each in next(_choosers(view)).net()):
        return Judgement(
            given=None,
            why="safety_net",
            text=f"It is one of the {NET} surest of this project, which a session is told where what fits its first "
            f"words leaves room. {asks}",
        )
    return Judgement(
        given=None, why="by_words", text=f"A session is told it where it fits the first thing its user says. {asks}"
    )


def _choosers(view: MemoryView) -> Iterator[Surfacing]:
    """What would choose for a session: for the configured model, or, where none is, for a window of the usual size and
    then for all others that are known. Sessions of models with the same budgets share a stable block."""
    settings = view.config.settings
    seen: set[int] = set()
    for context, output in _windows(view):
        chooser = Surfacing(
            view.knowledge,
            settings.memory,
            audience="agent" if view.knowledge.tenant == LOCAL else "client",
            context_limit=context,
            output_limit=output,
        )
        if chooser.budgets.stable not in seen:
            seen.add(chooser.budgets.stable)
            yield chooser


def _windows(view: MemoryView) -> Iterator[tuple[int, int]]:
    agent, local = view.config.settings.agent, view.knowledge.tenant == LOCAL
    most = agent.output_tokens if local else _USUAL[0]
    if local and agent.model:
        facts = default().model(agent.model)
        yield facts.context_limit, min(most, facts.output_limit)
        return
    yield _USUAL
    for facts in default().models():
        yield facts.context_limit, min(most, facts.output_limit)
