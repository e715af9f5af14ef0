"""What a skill is, where skills come from, and what can be wrong with one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal

from msgspec import Struct

from holdfast.core import SkillBody
from holdfast.errors import HoldfastError
from holdfast.facts import heuristic_tokens

SkillSource = Literal["global", "workspace"]

FILE = "SKILL.md"

BODY_WARN_TOKENS = 5_000
"""Above this a body is loaded with a warning."""


class Skill(Struct, frozen=True, kw_only=True):
    """One skill as it was read. `source` is the level whose root served it, `skill_dir` where its files are.
    `allowed_tools` is shown and gates nothing."""

    name: str
    description: str
    body: str
    source: SkillSource
    skill_dir: Path
    license: str | None = None
    compatibility: str | None = None
    metadata: Mapping[str, str] | None = None
    allowed_tools: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """Of the body alone: other frontmatter is the same skill."""
        return sha256(self.body.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    @property
    def estimated_body_tokens(self) -> int:
        return heuristic_tokens(self.body)

    @property
    def over_body_token_warn(self) -> bool:
        return self.estimated_body_tokens > BODY_WARN_TOKENS

    @property
    def section(self) -> str:
        """The body below its heading: what `skill_load` returns and what is put into a prompt."""
        return SkillBody(self.name, self.source, self.body).section


class SkillRoot(Struct, frozen=True):
    """A directory of skills, and the level it counts for."""

    path: Path
    source: SkillSource


class SkillProblem(Struct, frozen=True, kw_only=True):
    """Something wrong with a SKILL.md. A warning does not keep it from being loaded."""

    message: str
    line: int | None = None
    field: str | None = None
    warning: bool = False


class SkippedSkill(Struct, frozen=True):
    """A skill that is not loaded: its file, and why."""

    path: Path
    reason: str


class ShadowedSkill(Struct, frozen=True):
    """A skill shadowed by another of its name."""

    name: str
    path: Path
    by: Path


class SkillValidationError(HoldfastError):
    """A SKILL.md that breaks the format; all of its errors."""

    def __init__(self, problems: Sequence[SkillProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problem.message for problem in problems))

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(problem.message for problem in self.problems)
