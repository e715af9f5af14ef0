"""Finding skills by name and description.

A word counts where it is part of a name or a description, the name for more. Of several words the counts are summed,
without those that say nothing of what is looked for (how, do, a); among many skills, where most words are in a dozen
descriptions, BM25 ranks them instead. A function of skills and query alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.tools import COMMON, WordIndex, meant, words

from .skill import Skill

MANY = 50
"""Above so many skills several words are ranked by the index."""

IN_NAME, IN_DESCRIPTION = 2, 1

_SIGNS = ",.;:!?\"'`()[]{}<>…“”‘’«»"


class SkillSearch:
    """Over a fixed set of skills. The index is built by the first query that needs one; where its library is not
    installed, words are counted instead."""

    def __init__(self, skills: Sequence[Skill]) -> None:
        self._skills = sorted(skills, key=lambda skill: skill.name)
        self._texts = [(skill.name.casefold(), skill.description.casefold()) for skill in self._skills]
        self._all = "\n".join(text for texts in self._texts for text in texts)
        self._index: WordIndex | None = None
        self._plain = len(self._skills) <= MANY

    def find(self, query: str, limit: int) -> list[Skill]:
        """Those that match, best first and then by name; all of them by name where the query is empty, or a question
        whose words say nothing ("what do you have")."""
        limit, query = max(0, min(limit, len(self._skills))), query.strip()
        if not query:
            return self._skills[:limit]
        asked = _asked(query)
        if len(asked) > 1 and COMMON.issuperset(asked):
            phrase = " ".join(asked)
            found = self._scored([phrase, phrase.replace(" ", "-")]) or list(range(limit))
            return [self._skills[at] for at in found[:limit]]
        found = self._ranked(query, limit) if len(asked) > 1 else []
        if len(found) < limit:
            ranked = frozenset(found)
            found += [at for at in self._scored(asked) if at not in ranked]
        return [self._skills[at] for at in found[:limit]]

    def _scored(self, asked: Sequence[str]) -> list[int]:
        """The places of the skills that have any of these."""
        asked, scores = [word for word in asked if word in self._all], []
        for at, (name, description) in enumerate(self._texts):
            score = 0
            for word in asked:
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


def _asked(query: str) -> list[str]:
    """What is looked for: the query itself where it is one word, else its words without the signs around and between
    them."""
    parts = query.casefold().split()
    if len(parts) == 1:
        return parts
    return meant([part.strip(_SIGNS) for part in parts if any(map(str.isalnum, part))] or parts)
