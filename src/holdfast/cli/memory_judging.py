"""Whether an entry would be given to a session that begins now, and why: asked of what a session itself would ask."""

from __future__ import annotations

import time
from collections.abc import Iterator

from msgspec import Struct

from holdfast.cli import tables
from holdfast.cli.memory_found import Memories, moment, place
from holdfast.facts.catalogue import default
from holdfast.identity.core import LOCAL
from holdfast.memory.selecting import NET, safety_net
from holdfast.memory.surfacing import CONSIDERED, Surfacing
from holdfast.memory.values import PREFERENCE, KnowledgeEntry, Stable
from holdfast.store.rows import Pin

_USUAL = (200_000, 16_384)
"""A window, and the longest answer in it, where no model is configured."""


class Judgement(Struct, frozen=True, kw_only=True):
    """`given` is null where it depends on what the session is about. `why` is a word for programs."""

    given: bool | None
    why: str
    text: str


def judged(found: Memories, entry: KnowledgeEntry, query: str | None) -> Judgement:
    """Of a session here that began now, with `query` as the first thing its user says."""
    tenant, memory = found.knowledge.tenant, found.config.settings.memory
    if entry.forgotten_at is not None:
        when = tables.instant(moment(entry.forgotten_at))
        return _no("forgotten", f"it was forgotten {when}. `holdfast memory restore {entry.id}` takes it back.")
    if tenant != LOCAL and not memory.inject:
        return _no("not_injected", "clients of the gateway are given memory only with memory.inject = true.")
    if tenant != LOCAL and memory.inject_as == "local":
        return _no("not_injected", f"memory.inject_as says that clients of the gateway get the memory of {LOCAL}.")
    if tenant != LOCAL and memory.inject_tenants and tenant not in memory.inject_tenants:
        return _no("not_injected", "memory.inject_tenants names other tenants.")
    if entry.project is not None and entry.project != found.project:
        here = "no project" if found.project is None else place(found.project)
        return _no("other_project", f"it belongs to {place(entry.project)}, and this is {here}.")
    if entry.category == PREFERENCE:
        return _preference(found, entry)
    return _unasked(found, entry) if query is None else _asked(found, entry, query)


def _no(why: str, text: str) -> Judgement:
    return Judgement(given=False, why=why, text=f"A session that began now would not be given it: {text}")


def _yes(why: str, text: str) -> Judgement:
    return Judgement(given=True, why=why, text=text)


def _preference(found: Memories, entry: KnowledgeEntry) -> Judgement:
    if not found.config.settings.memory.stable_budget:
        return _no("no_room", "memory.stable_budget is 0.")
    pin = next((pin for each in _choosers(found) if (pin := each.pinned(now=time.time())) is not None), None)
    if pin is None:
        return _made(found, entry, "")
    until = tables.instant(moment(pin.until))
    said = dict(pin.entries).get(entry.id)
    if said == entry.hash:
        return _yes("pinned", f"It stands in the stable block that sessions here begin with until {until}.")
    if said is not None:
        return _yes(
            "pinned_before",
            f"What it said before stands in the stable block that sessions here begin with until {until}; what it says "
            "now is told to them with the first thing their user says.",
        )
    return _waiting(found, entry, pin)


def _waiting(found: Memories, entry: KnowledgeEntry, pin: Pin) -> Judgement:
    made, until = tables.instant(moment(pin.made_at)), tables.instant(moment(pin.until))
    later = _made(found, entry, f" after {until}")
    if not later.given:
        return later
    return _no(
        "waits",
        f"it is a preference and waits: sessions here begin with the stable block that was pinned {made}, until "
        f"{until}. The first one after that has it.",
    )


def _made(found: Memories, entry: KnowledgeEntry, when: str) -> Judgement:
    if entry.id in dict(next(_choosers(found)).made_stable().entries):
        return _yes("next_session", f"The next session here{when} begins with it, in its stable block.")
    return _no("no_room", "surer preferences take the room of the stable block (memory.stable_budget).")


def _asked(found: Memories, entry: KnowledgeEntry, query: str) -> Judgement:
    memory, chooser = found.config.settings.memory, next(_choosers(found))
    if memory.placement == "blocks":
        chosen = chooser.context(query, stable=Stable()).entries
    else:
        delta = chooser.delta({}, query, first=True, given=0)
        chosen = () if delta is None else delta.entries
    hits = found.knowledge.search(query, limit=CONSIDERED, exclude_categories=(PREFERENCE,))
    rank = next((number for number, hit in enumerate(hits, 1) if hit.entry.id == entry.id), None)
    if entry.id in dict(chosen):
        how = f"found for these words, at place {rank}" if rank is not None else "one of the surest of this project"
        return _yes("found" if rank is not None else "safety_net", f"A session that began so would be told it: {how}.")
    if rank is None:
        return _no("not_found", "these words do not find it.")
    return _no("no_room", f"these words find it at place {rank}; those before it take the room {_limits(found)}.")


def _limits(found: Memories) -> str:
    blocks = found.config.settings.memory.placement == "blocks"
    return "(memory.context_budget)" if blocks else "(memory.retrieve_max, memory.context_budget)"


def _unasked(found: Memories, entry: KnowledgeEntry) -> Judgement:
    memory = found.config.settings.memory
    if memory.placement == "deltas" and not (memory.retrieve_max and memory.delta_max):
        return _no("not_retrieved", "memory.retrieve_max or memory.delta_max is 0; `recall` finds it.")
    own = found.knowledge.entries(projects="project", exclude_categories=(PREFERENCE,)) if found.project else []
    asks = f'`holdfast memory why {entry.id} --query "WORDS"` says whether given words find it.'
    if any(each.id == entry.id for each in safety_net(own)):
        return Judgement(
            given=None,
            why="safety_net",
            text=f"It is one of the {NET} surest of this project, which a session is told where what fits its first "
            f"words leaves room. {asks}",
        )
    return Judgement(
        given=None, why="by_words", text=f"A session is told it where it fits the first thing its user says. {asks}"
    )


def _choosers(found: Memories) -> Iterator[Surfacing]:
    """What would choose for a session: for the configured model, or, where none is, for a window of the usual size and
    then for all others that are known. Sessions of models with the same budgets share a stable block."""
    settings = found.config.settings
    seen: set[int] = set()
    for context, output in _windows(found):
        chooser = Surfacing(
            found.knowledge,
            settings.memory,
            audience="agent" if found.knowledge.tenant == LOCAL else "client",
            context_limit=context,
            output_limit=output,
        )
        if chooser.budgets.stable not in seen:
            seen.add(chooser.budgets.stable)
            yield chooser


def _windows(found: Memories) -> Iterator[tuple[int, int]]:
    agent, local = found.config.settings.agent, found.knowledge.tenant == LOCAL
    most = agent.output_tokens if local else _USUAL[0]
    if local and agent.model:
        facts = default().model(agent.model)
        yield facts.context_limit, min(most, facts.output_limit)
        return
    yield _USUAL
    for facts in default().models():
        yield facts.context_limit, min(most, facts.output_limit)
