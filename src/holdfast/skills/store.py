"""The skills of a session: a snapshot, sorted by name, that nothing on disk changes afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.tools import COMMON, WordIndex, meant, words

from .skill import ShadowedSkill, Skill, SkippedSkill

MANY = 50
"""The number of skills above which several words are ranked by the index."""

IN_NAME, IN_DESCRIPTION = 2, 1

_SIGNS = ",.;:!?\"'`()[]{}<>…“”‘’«»"


class SkillSearch:
    """Finds skills by name and description, over a fixed set of them.

    A word counts if it is part of a name or a description, the name for more. The counts of several words are summed,
    without stop words (how, do, a); among many skills, where most words are in a dozen descriptions, BM25 ranks them
    instead. The index is built by the first query that needs one; if its library is not installed, words are counted
    instead.
    """

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = sorted(skills, key=lambda skill: skill.name)
        self._texts = [(skill.name.casefold(), skill.description.casefold()) for skill in self._skills]
        self._all = "\n".join(text for texts in self._texts for text in texts)
        self._index: WordIndex | None = None
        self._plain = len(self._skills) <= MANY

    def find(self, query: str, limit: int) -> list[Skill]:
        """Return the matching skills, best first and then by name; all of them by name if the query is empty or has
        only stop words ("what do you have")."""
        limit, query = max(0, min(limit, len(self._skills))), query.strip()
        if not query:
            return self._skills[:limit]
        terms = _terms_of(query)
        if len(terms) > 1 and COMMON.issuperset(terms):
            phrase = " ".join(terms)
            ranked_ = self._scored([phrase, phrase.replace(" ", "-")]) or list(range(limit))
            return [self._skills[at] for at in ranked_[:limit]]
        ranked_ = self._ranked(query, limit) if len(terms) > 1 else []
        if len(ranked_) < limit:
            ranked = frozenset(ranked_)
            ranked_ += [at for at in self._scored(terms) if at not in ranked]
        return [self._skills[at] for at in ranked_[:limit]]

    def _scored(self, terms: Sequence[str]) -> list[int]:
        """The places of the skills that have any of these."""
        terms, scores = [word for word in terms if word in self._all], []
        for at, (name, description) in enumerate(self._texts):
            score = 0
            for word in terms:
                if word in name:
                    score += IN_NAME
                if word in description:
                    score += IN_DESCRIPTION
            if score:
                scores.append((-score, at))
        return [at for _, at in sorted(scores)]

    def _ranked(self, query: str, limit: int) -> list[int]:
        stems = meant(words(query))
        if self._plain or not stems or not limit:
            return []
        if self._index is None:
            try:
                self._index = WordIndex(
                    [{"name": skill.name, "description": skill.description} for skill in self._skills],
                    {"name": float(IN_NAME), "description": float(IN_DESCRIPTION)},
                )
            except ImportError:
                self._plain = True
                return []
        return self._index.search(stems, limit)


def _terms_of(query: str) -> list[str]:
    """Return the search terms: the query itself if it is one word, else its words without punctuation."""
    parts = query.casefold().split()
    if len(parts) == 1:
        return parts
    return meant([part.strip(_SIGNS) for part in parts if any(map(str.isalnum, part))] or parts)


class SkillStore:
    """Skills by name. `skipped` could not be loaded, `shadowed` have another of their name before them."""

    def __init__(
        self,
        skills: Iterable[Skill] = (),
        *,
        skipped: Iterable[SkippedSkill] = (),
        shadowed: Iterable[ShadowedSkill] = (),
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
