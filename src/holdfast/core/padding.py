"""Floors and padding: what is added to a stable prefix that is too short to be cached.

A function of texts and facts, nothing else: no clock, no ids, no files, so a session gets the same bytes on every turn.
Skill bodies and sections of the operating context are added whole or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
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


class Outlook(Struct, frozen=True, kw_only=True):
    """What a session is expected to do, when it is decided whether padding pays."""

    calls: float = 0.0
    """Requests that it makes."""
    growth: tuple[float, ...] = (0.0,)
    """Tokens that a request adds to the one before, in sessions of several kinds, each as likely as the others."""
    opening: int = 0
    """Tokens that stand behind the stable text from the first request on."""
    head_ttl: str | None = None
    """The lifetime that tools and system text are written for; None: the model's usual one."""
    unmarked: bool = False
    """No marker of ours is set: where only markers cache, nothing is."""


NO_OUTLOOK = Outlook()


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
    outlook: Outlook = NO_OUTLOOK,
    min_tokens: int = MIN_TOKENS,
    max_tokens: int = MAX_TOKENS,
    sections: Sequence[str] = SECTIONS,
    count: Callable[[str], int] = estimate,
) -> Padded:
    """The stable text, padded as far as the mode asks for.

    `models` are all that the lane may be routed to, the one it begins with first. `always` clears the floors of all of
    them; `economic` that of the first, where it pays by the `outlook`: to lengthen every request for the sake of a
    model that is hardly ever asked would be paid for by the one that is. `sections` is the text that fills what skill
    bodies leave. `count` estimates real tokens, for the floors of the models; the two bounds are heuristic tokens of
    four characters.
    """
    if mode == "economic":
        return _economic(tools, stable, [*sorted(bodies, key=_by_name), *sections], models[:1], outlook, count)
    work = _Work(tools, stable, floor_of(models), count)
    if mode == "off":
        return work.done("padding is off")
    return _always(work, bodies, sections, min_tokens, max_tokens)


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


def _always(work: _Work, bodies: Sequence[SkillBody], sections: Sequence[str], least: int, most: int) -> Padded:
    """Bodies by name, then the fixed text, until both the lower bound and the models' floor are cleared.

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
    for section in sections:
        if not cleared() and work.fits(section, most, skill=False):
            work.add(section)
    size = f"padded to {work.heuristic()} tokens"
    if cleared():
        return work.done(f"{size}, at least {least} and above the floor of {work.floor}")
    return work.done(f"{size}; more would pass the upper bound of {most}")


def _economic(
    tools: Sequence[str],
    stable: str,
    parts: Sequence[SkillBody | str],
    models: Sequence[ModelFacts],
    outlook: Outlook,
    count: Callable[[str], int],
) -> Padded:
    """Whole bodies, then the fixed text, up to the model's floor, where rule 5.6 says that the session is long enough
    and does not pass the floor by itself soon enough; else nothing."""
    work = _Work(tools, stable, floor_of(models), count)
    natural, floor, calls = work.tokens(), work.floor, outlook.calls
    if natural >= floor:
        return work.done(f"the prefix has {natural:,} tokens by itself, at or above the floor of {floor:,}")
    model = models[0]
    if outlook.unmarked and model.caching == "explicit":
        return work.done(f"no marker is set, so that {model.ref} caches nothing in any case")
    bare = work.done(f"by rule 5.6, padding {natural:,} tokens to {floor:,} does not pay within {calls:g} calls")
    plain = _cost(natural, model, outlook)

    def pays(size: int) -> bool:
        """Whether it does at this size, or at the target where more has to come."""
        return _cost(max(size, work.target), model, outlook) < plain

    if not pays(work.target):
        return bare
    for part in parts:
        text, skill = (part, None) if isinstance(part, str) else (part.section, part.name)
        if work.tokens() < work.target and pays(work.tokens(text)):
            work.add(text, skill)
    size = work.tokens()
    if size < work.target:
        return structs.replace(bare, why=f"by rule 5.6, nothing fills {natural:,} tokens to {floor:,} within what pays")
    return work.done(f"padded from {natural:,} to {size:,} tokens, which by rule 5.6 pays within {calls:g} calls")


def _cost(prefix: int, model: ModelFacts, outlook: Outlook) -> float:
    """What the prompts of a session with this prefix cost in expectation, as tokens at the input price."""
    if outlook.calls < 1:
        return float(prefix)  # nothing is read again
    read, write = float(model.read), float(model.write())
    head = float(model.write(outlook.head_ttl))
    costs = [
        economics.session_cost(
            prefix, model.floor, read, write, head=head, calls=outlook.calls, growth=growth, opening=outlook.opening
        )
        for growth in outlook.growth
    ]
    return sum(costs) / len(costs)


_FENCE = re.compile(r"\s*(```|~~~)")
_HEADING = re.compile(r"#{1,6}\s")


def split_sections(text: str) -> tuple[str, ...]:
    """A text as the parts that padding adds whole: paragraphs, each heading with what follows it. An empty line in a
    fenced block parts nothing."""
    parts: list[str] = []
    paragraph: list[str] = []
    fenced = False

    def close() -> None:
        if not paragraph:
            return
        made = "\n".join(paragraph)
        if parts and all(_HEADING.match(line) for line in parts[-1].split("\n") if line):
            made = f"{parts.pop()}{_GAP}{made}"
        parts.append(made)
        paragraph.clear()

    for line in text.replace("\r\n", "\n").split("\n"):
        if _FENCE.match(line):
            fenced = not fenced
        if line.strip() or (fenced and paragraph):
            paragraph.append(line.rstrip())
        else:
            close()
    close()
    return tuple(parts)


def _by_name(body: SkillBody) -> str:
    return body.name
