"""Whether an entry of the knowledge store would be given to a session that begins now, and why."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config import Settings
from holdfast.engine.identity import LOCAL
from holdfast.facts import default
from holdfast.store import KnowledgeEntry, Pin

from .entries import PREFERENCE, StableBlock
from .ids import is_named
from .knowledge import Knowledge
from .markdown import EVERYWHERE
from .surface import CONSIDERED, NET, Surfacing

_USUAL = (200_000, 16_384)
"""A window, and the longest answer in it, where no model is configured."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = -62_135_510_400_000_000, 253_402_214_399_999_999
"""Microseconds that can be written as a date in whatever zone."""


class Judgement(Struct, frozen=True, kw_only=True):
    """`given` is None if it depends on the session's subject. `why` is a keyword for programs."""

    given: bool | None
    why: str
    text: str


class _Beginning(Struct, frozen=True):
    """The stable block that is pinned here, and the selection for sessions that begin with it."""

    chooser: Surfacing
    pin: Pin

    @property
    def block(self) -> str:
        return f"the stable block that sessions here begin with until {_local_time(self.pin.until)}"

    def tells(self, entry: KnowledgeEntry) -> bool:
        """Return whether the first delta of such a session contains the entry for any first message."""
        note = self.chooser.delta(dict(self.pin.entries), "", first=True, deltas=0)
        return note is not None and entry.id in dict(note.entries)


class Judge:
    """Decides whether a session of this tenant and project would get an entry."""

    def __init__(self, settings: Settings, knowledge: Knowledge) -> None:
        self.settings, self.knowledge = settings, knowledge

    def judge(self, entry: KnowledgeEntry, query: str | None) -> Judgement:
        """Judge for a session that begins here now, with `query` as the first thing its user says. For the user's own
        tenant that is a session of the agent: clients of the gateway that share its memory have pins of their own."""
        judgement, memory = self._judge(entry, query), self.settings.memory
        shared = self.knowledge.tenant == LOCAL and memory.inject and memory.inject_as == "local"
        if not shared or entry.category != PREFERENCE:
            return judgement
        clients = "That is so for `holdfast chat`; clients of the gateway begin with stable blocks of their own."
        return replace(judgement, text=f"{judgement.text} {clients}")

    def _judge(self, entry: KnowledgeEntry, query: str | None) -> Judgement:
        """Judge an entry. Pinned ones come first: they stay in the head even if changed or forgotten."""
        refusal = self._not_injected()
        begins = None if refusal else self._beginning(entry)
        if begins is not None and entry.id in dict(begins.pin.entries):
            return self._pinned(entry, begins)
        if entry.forgotten_at is not None:
            when, title = _local_time(entry.forgotten_at), ""
            if begins is not None and entry.id in begins.pin.text:
                title = f" Its title stands in {begins.block}."
            return _no(
                "forgotten", f"it was forgotten {when}. `holdfast memory restore {entry.id}` takes it back.{title}"
            )
        if refusal:
            return _no("not_injected", refusal)
        if entry.project is not None and entry.project != self.knowledge.project:
            here = "no project" if self.knowledge.project is None else project_label(self.knowledge.project)
            return _no("other_project", f"it belongs to {project_label(entry.project)}, and this is {here}.")
        if entry.category == PREFERENCE:
            return self._preference(entry, begins)
        return self._without_query(entry) if query is None else self._by_query(entry, query, begins)

    def _not_injected(self) -> str:
        """Why clients of the gateway get no memory of this tenant; empty where they do, or it is no client's."""
        tenant, memory = self.knowledge.tenant, self.settings.memory
        if tenant == LOCAL:
            return ""
        if not memory.inject:
            return "clients of the gateway are given memory only with memory.inject = true."
        if memory.inject_as == "local":
            return f"memory.inject_as says that clients of the gateway get the memory of {LOCAL}."
        if memory.inject_tenants and not is_named(tenant, memory.inject_tenants):
            return "memory.inject_tenants names other tenants."
        return ""

    def _beginning(self, entry: KnowledgeEntry) -> _Beginning | None:
        """The pinned block; of several, for models with other budgets, the first that holds the entry."""
        now = time.time()
        pinned = [_Beginning(each, pin) for each in self._choosers() if (pin := each.pinned(now=now)) is not None]
        having = (each for each in pinned if entry.id in dict(each.pin.entries))
        return next(having, pinned[0] if pinned else None)

    def _pinned(self, entry: KnowledgeEntry, begins: _Beginning) -> Judgement:
        forgotten = entry.forgotten_at is not None
        away = entry.project not in (None, self.knowledge.project)
        if dict(begins.pin.entries)[entry.id] == entry.hash and not forgotten and not away:
            return _yes("pinned", f"It stands in {begins.block}.")
        news = "that it was forgotten" if forgotten else "that it holds here no more" if away else "what it says now"
        if self.settings.memory.placement == "deltas" and begins.tells(entry):
            when = f"; {news} is told to them with the first thing their user says."
        else:
            when = f"; {news} is told to nobody before."
        erase = f" `holdfast memory forget {entry.id} --erase` removes that block too." if forgotten else ""
        text = f"What it said before stands in {begins.block}{when}{erase}"
        return _yes("pinned_forgotten" if forgotten else "pinned_before", text)

    def _preference(self, entry: KnowledgeEntry, begins: _Beginning | None) -> Judgement:
        if not self.settings.memory.stable_budget:
            return _no("no_room", "memory.stable_budget is 0.")
        if begins is None:
            return self._when_made(entry, "")
        until = _local_time(begins.pin.until)
        later = self._when_made(entry, f" after {until}")
        if self.settings.memory.placement == "deltas" and begins.tells(entry):
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
            f"{_local_time(begins.pin.made_at)}, until {until}. The first one after that has it.",
        )

    def _when_made(self, entry: KnowledgeEntry, when: str) -> Judgement:
        if entry.id in dict(next(self._choosers()).made_stable().entries):
            return _yes("next_session", f"The next session here{when} begins with it, in its stable block.")
        return _no("no_room", "surer preferences take the room of the stable block (memory.stable_budget).")

    def _by_query(self, entry: KnowledgeEntry, query: str, begins: _Beginning | None) -> Judgement:
        memory, chooser = self.settings.memory, next(self._choosers())
        stable = (
            chooser.made_stable() if begins is None else StableBlock(text=begins.pin.text, entries=begins.pin.entries)
        )
        if memory.placement == "blocks":
            chosen = chooser.context(query, stable=stable).entries
        else:
            delta = chooser.delta(dict(stable.entries), query, first=True, deltas=0)
            chosen = () if delta is None else delta.entries
        hits = self.knowledge.search(query, limit=CONSIDERED, exclude_categories=(PREFERENCE,))
        rank = next((number for number, hit in enumerate(hits, 1) if hit.entry.id == entry.id), None)
        if entry.id in dict(chosen):
            how = f"found for these words, at place {rank}" if rank is not None else "one of the surest of this project"
            return _yes(
                "found" if rank is not None else "safety_net", f"A session that began so would be told it: {how}."
            )
        if rank is None:
            return _no("not_found", "these words do not find it.")
        return _no("no_room", f"these words find it at place {rank}; those before it take the room {self._limits()}.")

    def _limits(self) -> str:
        blocks = self.settings.memory.placement == "blocks"
        return "(memory.context_budget)" if blocks else "(memory.retrieve_max, memory.context_budget)"

    def _without_query(self, entry: KnowledgeEntry) -> Judgement:
        memory = self.settings.memory
        if memory.placement == "deltas" and not (memory.retrieve_max and memory.delta_max):
            return _no("not_retrieved", "memory.retrieve_max or memory.delta_max is 0; `recall` finds it.")
        asks = f'`holdfast memory why {entry.id} --query "WORDS"` says whether given words find it.'
        if any(each.id == entry.id for each in next(self._choosers()).net()):
            return Judgement(
                given=None,
                why="safety_net",
                text=f"It is one of the {NET} surest of this project, which a session is told where what fits its "
                f"first words leaves room. {asks}",
            )
        return Judgement(
            given=None, why="by_words", text=f"A session is told it where it fits the first thing its user says. {asks}"
        )

    def _choosers(self) -> Iterator[Surfacing]:
        """The selection for a session of the configured model; where none is configured, for a window of the usual size
        and then for all known models. Sessions of models with equal budgets share a stable block."""
        settings = self.settings
        seen: set[int] = set()
        for context, output in self._windows():
            chooser = Surfacing(
                self.knowledge,
                settings.memory,
                audience="agent" if self.knowledge.tenant == LOCAL else "client",
                context_limit=context,
                output_limit=output,
            )
            if chooser.budgets.stable not in seen:
                seen.add(chooser.budgets.stable)
                yield chooser

    def _windows(self) -> Iterator[tuple[int, int]]:
        agent, local = self.settings.agent, self.knowledge.tenant == LOCAL
        most = agent.output_tokens if local else _USUAL[0]
        if local and agent.model:
            facts = default().model(agent.model)
            yield facts.context_limit, min(most, facts.output_limit)
            return
        yield _USUAL
        for facts in default().models():
            yield facts.context_limit, min(most, facts.output_limit)


def _no(why: str, text: str) -> Judgement:
    return Judgement(given=False, why=why, text=f"A session that began now would not be given it: {text}")


def _yes(why: str, text: str) -> Judgement:
    return Judgement(given=True, why=why, text=text)


def utc_time(at: int) -> datetime:
    """A time of the store, limited to what a date can express."""
    return _EPOCH + timedelta(microseconds=max(_FIRST, min(at, _LAST)))


def _local_time(at: int) -> str:
    return utc_time(at).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def project_label(project: str | None) -> str:
    """A project as people read it."""
    if project is None:
        return EVERYWHERE
    path = Path(project)
    with contextlib.suppress(RuntimeError, ValueError):  # there is no home, or the path does not lie below it
        return str("~" / path.relative_to(Path.home()))
    return project
