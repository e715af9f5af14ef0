"""The skills of a session: a snapshot, sorted by name, that nothing on disk changes afterwards."""

from __future__ import annotations

from collections.abc import Iterable

from .search import SkillSearch
from .skill import Shadowed, Skill, Skipped


class SkillStore:
    """Skills by name. `skipped` could not be loaded, `shadowed` have another of their name before them."""

    def __init__(
        self, skills: Iterable[Skill] = (), *, skipped: Iterable[Skipped] = (), shadowed: Iterable[Shadowed] = ()
    ) -> None:
        self._skills = {skill.name: skill for skill in sorted(skills, key=lambda skill: skill.name)}
        self._search = SkillSearch(tuple(self._skills.values()))
        self.skipped, self.shadowed = tuple(skipped), tuple(shadowed)

    @classmethod
    def empty(cls) -> SkillStore:
        return cls()

    def list_skills(self) -> list[Skill]:
        return list(self._skills.values())

    def get(self, name: str) -> Skill | None:
        return self._skills.get(name)

    def search(self, query: str, *, limit: int = 10) -> list[Skill]:
        """Those that match, best first; by name where the query is empty."""
        return self._search.find(query, limit)

    def discovery_index(self) -> list[tuple[str, str]]:
        """Name and description of each."""
        return [(skill.name, skill.description) for skill in self._skills.values()]

    def __len__(self) -> int:
        return len(self._skills)

    def __contains__(self, name: object) -> bool:
        return name in self._skills

    def __eq__(self, other: object) -> bool:
        return self._skills == other._skills if isinstance(other, SkillStore) else NotImplemented

    __hash__ = None  # type: ignore[assignment]
