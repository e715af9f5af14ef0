"""Floors and padding: what is added to a stable prefix that is too short to be cached.

A function of texts and facts, nothing else: no clock, no ids, no files, so a session gets the same bytes on every turn.
Skill bodies and sections of the operating context are added whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Literal

from msgspec import Struct, structs

from holdfast.facts import ModelFacts, estimate

from . import economics
from .operating_context import SECTIONS

Mode = Literal["off", "economic", "always"]

MIN_TOKENS = 4_500
MAX_TOKENS = 5_500
CHARS = 4
"""Characters of a heuristic token, the unit of both bounds."""

PRELOADED = " [preloaded]"
"""What the skills index says of an inlined body; it counts towards the upper bound, since it is added with the body."""

MARGIN = 20
"""Padding aims above the floor by one part in so many: an estimate that falls just short has bought nothing."""

_GAP = "\n\n"


def skill_heading(name: str, source: str) -> str:
    """The line above a skill's body, wherever it stands: a pointer refers to it."""
    return f"# Skill: {name} (source: {source})"


class SkillBody(Struct, frozen=True):
    """A skill's instructions as they may be inlined."""

    name: str
    source: str
    text: str

    @property
    def section(self) -> str:
        return f"{skill_heading(self.name, self.source)}{_GAP}{self.text}"


class Padded(Struct, frozen=True):
    """A stable text with what was added to it, which is also given alone; `inlined` are the skills it holds."""

    text: str
    added: str
    inlined: tuple[str, ...]
    why: str


def floor_of(models: Sequence[ModelFacts]) -> int:
    """The highest minimum of all models that a lane may be routed to; those that cache nothing have none."""
    return max((model.floor for model in models if model.caching != "none"), default=0)


def pad(
    tools: Sequence[str],
    stable: str,
    bodies: Sequence[SkillBody],
    *,
    mode: Mode,
    models: Sequence[ModelFacts],
    calls: float = 0.0,
    min_tokens: int = MIN_TOKENS,
    max_tokens: int = MAX_TOKENS,
    count: Callable[[str], int] = estimate,
) -> Padded:
    """The stable text, padded as far as the mode asks for.

    `models` are all that the lane may be routed to, `calls` how many are expected in the session. `count` estimates
    real tokens, for the floors of the models; the two bounds are heuristic tokens of four characters.
    """
    work = _Work(tools, stable, floor_of(models), count)
    if mode == "off":
        return work.done("padding is off")
    if mode == "economic":
        return _economic(work, bodies, models, calls)
    return _always(work, bodies, min_tokens, max_tokens)


class _Work:
    """A prefix that grows by whole parts."""

    def __init__(self, tools: Sequence[str], stable: str, floor: int, count: Callable[[str], int]) -> None:
        self._tool_chars, self._tool_tokens = sum(map(len, tools)), sum(map(count, tools))
        self._stable, self._count = stable, count
        self._parts: list[str] = []
        self._inlined: list[str] = []
        self.floor, self.target = floor, floor + floor // MARGIN

    def text(self, *more: str) -> str:
        return _GAP.join(part for part in (self._stable, *self._parts, *more) if part)

    def heuristic(self, *more: str) -> int:
        return (self._tool_chars + len(self.text(*more))) // CHARS

    def tokens(self, *more: str) -> int:
        """Counted over the whole text: what two parts have together is not the sum of what they have alone."""
        return self._tool_tokens + self._count(self.text(*more))

    def add(self, part: str, skill: str | None = None) -> None:
        self._parts.append(part)
        if skill is not None:
            self._inlined.append(skill)

    def fits(self, part: str, most: int, *, skill: bool) -> bool:
        """Whether the heuristic upper bound leaves room for a part, and for the index to say what is inlined."""
        said = len(PRELOADED) * (len(self._inlined) + skill)
        return (self._tool_chars + len(self.text(part)) + said) // CHARS <= most

    def done(self, why: str) -> Padded:
        return Padded(self.text(), _GAP.join(self._parts), tuple(self._inlined), why)


def _always(work: _Work, bodies: Sequence[SkillBody], least: int, most: int) -> Padded:
    """Bodies by name, then the operating context, until both the lower bound and the models' floor are cleared.

    Characters per token differ between texts and tokenizers, so the lower bound alone may still lie under the floor;
    the upper bound holds in any case.
    """

    def cleared(tokens: int = work.target) -> bool:
        return work.heuristic() >= least and work.tokens() >= tokens

    if cleared(work.floor):
        return work.done(f"the prefix has {work.heuristic()} tokens by itself, at least {least}")
    for body in sorted(bodies, key=_by_name):
        if not cleared() and work.fits(body.section, most, skill=True):
            work.add(body.section, body.name)
    for section in SECTIONS:
        if not cleared() and work.fits(section, most, skill=False):
            work.add(section)
    size = f"padded to {work.heuristic()} tokens"
    if cleared():
        return work.done(f"{size}, at least {least} and above the floor of {work.floor}")
    return work.done(f"{size}; more would pass the upper bound of {most}")


def _economic(work: _Work, bodies: Sequence[SkillBody], models: Sequence[ModelFacts], calls: float) -> Padded:
    """Whole bodies up to the models' floor, where rule 5.6 says that the session is long enough; else nothing."""
    natural, floor = work.tokens(), work.floor
    if natural >= floor:
        return work.done(f"the prefix has {natural} tokens by itself, at or above the floor of {floor}")
    caching = [model for model in models if model.caching != "none"]
    read = max(model.read for model in caching)  # the dearest decides: it must pay wherever the lane goes
    write = max(model.write() for model in caching)

    def pays(size: int) -> bool:
        needed = economics.calls_to_pad(Decimal(natural), Decimal(size), read, write)
        return needed is not None and calls > needed

    bare = work.done(f"padding {natural} tokens to {floor} does not pay within {calls:g} calls (rule 5.6)")
    if not pays(work.target):
        return bare
    for body in sorted(bodies, key=_by_name):
        if work.tokens() < work.target and pays(work.tokens(body.section)):
            work.add(body.section, body.name)
    size = work.tokens()
    if size < work.target:
        return structs.replace(bare, why=f"no skills fill {natural} tokens to {floor} within what pays (rule 5.6)")
    return work.done(f"padded from {natural} to {size} tokens, which pays within {calls:g} calls (rule 5.6)")


def _by_name(body: SkillBody) -> str:
    return body.name
