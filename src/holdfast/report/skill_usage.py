"""Which skills were loaded, why, their size, and whether preloaded ones were ever requested.

A preloaded body was requested if the agent called `skill_load` for it in the same session: the result, a pointer, has
it in its metadata, and there is no event of its own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial

import msgspec
from msgspec import Struct

from holdfast.store import Store, StoredEvent

from .results import SkillUsage, SkillUsages
from .tally import moment, window

REASONS = ("always", "on_demand")
"""Counted also where there is none."""

SKILL_LOAD = "skill_load"
"""As `tools` has it, whose import takes twice as long as that of all questions together."""

_Where = tuple[str, str]
"""Tenant and session."""


class _Loaded(Struct):
    skill_id: str
    load_reason: str
    load_size_tokens: int


class _Completed(Struct):
    metadata: str = ""


class _Answer(Struct):
    skill_id: str = ""
    already_preloaded: bool = False


class _Sums:
    """The loads of one skill, or of all."""

    def __init__(self) -> None:
        self.loads, self.tokens = Counter[str](), Counter[str]()
        self.sessions: set[_Where] = set()
        self.last: int | None = None

    def add(self, loaded: _Loaded, where: _Where, at: int) -> None:
        self.loads[loaded.load_reason] += 1
        self.tokens[loaded.load_reason] += loaded.load_size_tokens
        self.sessions.add(where)
        self.last = at if self.last is None else max(self.last, at)

    def usage(self, skill: str | None, preloaded: int, referenced: int) -> SkillUsage:
        reasons = (*REASONS, *sorted(set(self.loads) - set(REASONS)))
        return SkillUsage(
            skill=skill,
            loads={reason: self.loads[reason] for reason in reasons},
            tokens={reason: self.tokens[reason] for reason in reasons},
            sessions=len(self.sessions),
            preloaded=preloaded,
            referenced=referenced,
            referenced_share=referenced / preloaded if preloaded else None,
            last=None if self.last is None else moment(self.last),
        )


class _Gathered:
    """Collects events one at a time."""

    def __init__(self) -> None:
        self.total = _Sums()
        self.skills: dict[str, _Sums] = defaultdict(_Sums)
        self.preloaded: dict[_Where, set[str]] = defaultdict(set)
        self.referenced: dict[_Where, set[str]] = defaultdict(set)

    def load(self, event: StoredEvent) -> None:
        try:
            loaded = msgspec.json.decode(event.payload, type=_Loaded)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # written by another version
            return
        where = event.tenant, event.session
        for sums in (self.total, self.skills[loaded.skill_id]):
            sums.add(loaded, where, event.at)
        if loaded.load_reason == "always":
            self.preloaded[where].add(loaded.skill_id)

    def reference(self, where: _Where, event: StoredEvent) -> None:
        try:
            metadata = msgspec.json.decode(event.payload, type=_Completed).metadata
            answer = msgspec.json.decode(metadata, type=_Answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # no metadata, or of another version
            return
        if answer.already_preloaded and answer.skill_id in self.preloaded[where]:
            self.referenced[where].add(answer.skill_id)


def skills(
    store: Store | None, *, start: int | None = None, end: int | None = None, tenant: str | None = None
) -> SkillUsages:
    """Skills loaded in the window, and which of those preloaded in it were asked for before it ends. Without a store
    there are none."""
    gathered = _Gathered()
    if store is not None:
        store.visit_events(gathered.load, "skill.loaded", tenant, start=start, end=end)
        for owner, session in gathered.preloaded:
            visit = partial(gathered.reference, (owner, session))
            store.visit_events(visit, "tool.completed", owner, session=session, tool=SKILL_LOAD, start=start, end=end)
    preloaded = Counter(name for names in gathered.preloaded.values() for name in names)
    referenced = Counter(name for names in gathered.referenced.values() for name in names)
    shown = [sums.usage(name, preloaded[name], referenced[name]) for name, sums in gathered.skills.items()]
    shown.sort(key=lambda usage: (-sum(usage.tokens.values()), usage.skill or ""))
    return SkillUsages(
        window=window(start, end),
        skills=tuple(shown),
        total=gathered.total.usage(None, preloaded.total(), referenced.total()),
        never_referenced=tuple(sorted(name for name in preloaded if not referenced[name])),
    )
