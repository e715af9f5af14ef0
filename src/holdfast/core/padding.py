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
"""The index's note on an inlined body; it counts towards the upper bound, being added with the body."""

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


class PaddedText(Struct, frozen=True):
    """A stable text with what was added to it, which is also given alone; `inlined` are the skills it holds."""

    text: str
    added: str
    inlined: tuple[str, ...]
    why: str


def floor_of(models: Sequence[ModelFacts]) -> int:
    """The highest minimum of all models that a lane may be routed to; those that cache nothing have none."""
    return max((model.floor for model in models if model.caching != "none"), default=0)


class PaddingRules(Struct, frozen=True, kw_only=True):
    """How a stable text is padded."""

    mode: Mode
    """`always` clears the floors of all models; `economic` that of the first, where it pays by the outlook: to lengthen
    every request for the sake of a model that is hardly ever asked would be paid for by the one that is."""
    outlook: Outlook = NO_OUTLOOK
    min_tokens: int = MIN_TOKENS
    """What `always` fills up to at least, in heuristic tokens of four characters."""
    max_tokens: int = MAX_TOKENS
    """What `always` may fill up to, in heuristic tokens."""
    sections: Sequence[str] = SECTIONS
    """The text that fills what skill bodies leave."""
    count: Callable[[str], int] = estimate
    """Estimates real tokens, for the floors of the models."""


def pad(
    tools: Sequence[str],
    stable: str,
    bodies: Sequence[SkillBody],
    models: Sequence[ModelFacts],
    rules: PaddingRules,
) -> PaddedText:
    """The stable text, padded as far as the rules ask for. `models` are all that the lane may be routed to, the one it
    begins with first."""
    bodies = sorted(bodies, key=lambda body: body.name)
    if rules.mode == "economic":
        return _economic(_Prefix(tools, stable, models[:1], rules), bodies)
    prefix = _Prefix(tools, stable, models, rules)
    return prefix.done("padding is off") if rules.mode == "off" else _always(prefix, bodies)


class _Prefix:
    """A prefix that grows by whole parts."""

    def __init__(self, tools: Sequence[str], stable: str, models: Sequence[ModelFacts], rules: PaddingRules) -> None:
        self._tool_chars, self._tool_tokens = sum(map(len, tools)), sum(map(rules.count, tools))
        self._stable = stable
        self._parts: list[str] = []
        self._inlined: list[str] = []
        self.models, self.rules = models, rules
        self.floor = floor_of(models)
        self.target = self.floor + self.floor // MARGIN

    def text(self, *more: str) -> str:
        return _GAP.join(part for part in (self._stable, *self._parts, *more) if part)

    def heuristic(self, *more: str) -> int:
        return (self._tool_chars + len(self.text(*more))) // CHARS

    def tokens(self, *more: str) -> int:
        """Counted over the whole text: what two parts have together is not the sum of what they have alone."""
        return self._tool_tokens + self.rules.count(self.text(*more))

    def add(self, part: str, skill: str | None = None) -> None:
        self._parts.append(part)
        if skill is not None:
            self._inlined.append(skill)

    def fits(self, part: str, *, skill: bool) -> bool:
        """Return whether the estimated upper bound has room for a part and its note in the index."""
        tags = len(PRELOADED) * (len(self._inlined) + skill)
        return (self._tool_chars + len(self.text(part)) + tags) // CHARS <= self.rules.max_tokens

    def done(self, why: str) -> PaddedText:
        return PaddedText(self.text(), _GAP.join(self._parts), tuple(self._inlined), why)


def _always(prefix: _Prefix, bodies: Sequence[SkillBody]) -> PaddedText:
    """Bodies by name, then the fixed text, until both the lower bound and the models' floor are cleared.

    Characters per token differ between texts and tokenizers, so the lower bound alone may still lie under the floor;
    the upper bound holds in any case.
    """

    least, most = prefix.rules.min_tokens, prefix.rules.max_tokens

    def cleared(tokens: int = prefix.target) -> bool:
        return prefix.heuristic() >= least and prefix.tokens() >= tokens

    if cleared(prefix.floor):
        return prefix.done(f"the prefix has {prefix.heuristic()} tokens by itself, at least {least}")
    for body in bodies:
        if not cleared() and prefix.fits(body.section, skill=True):
            prefix.add(body.section, body.name)
    for section in prefix.rules.sections:
        if not cleared() and prefix.fits(section, skill=False):
            prefix.add(section)
    size = f"padded to {prefix.heuristic()} tokens"
    if cleared():
        return prefix.done(f"{size}, at least {least} and above the floor of {prefix.floor}")
    return prefix.done(f"{size}; more would pass the upper bound of {most}")


def _economic(prefix: _Prefix, bodies: Sequence[SkillBody]) -> PaddedText:
    """Return whole bodies and then the fixed text, up to the model's floor, if by rule 5.6 the session is long enough
    and does not pass the floor soon enough by itself; else nothing."""
    outlook = prefix.rules.outlook
    natural, floor, calls = prefix.tokens(), prefix.floor, outlook.calls
    if natural >= floor:
        return prefix.done(f"the prefix has {natural:,} tokens by itself, at or above the floor of {floor:,}")
    model = prefix.models[0]
    if outlook.unmarked and model.caching == "explicit":
        return prefix.done(f"no marker is set, so that {model.ref} caches nothing in any case")
    bare = prefix.done(f"by rule 5.6, padding {natural:,} tokens to {floor:,} does not pay within {calls:g} calls")
    plain = _cost(natural, model, outlook)

    def pays(size: int) -> bool:
        """Return whether it pays at this size, or at the target if more has to follow."""
        return _cost(max(size, prefix.target), model, outlook) < plain

    if not pays(prefix.target):
        return bare
    parts: tuple[SkillBody | str, ...] = (*bodies, *prefix.rules.sections)
    for part in parts:
        text, skill = (part, None) if isinstance(part, str) else (part.section, part.name)
        if prefix.tokens() < prefix.target and pays(prefix.tokens(text)):
            prefix.add(text, skill)
    size = prefix.tokens()
    if size < prefix.target:
        return structs.replace(bare, why=f"by rule 5.6, nothing fills {natural:,} tokens to {floor:,} within what pays")
    return prefix.done(f"padded from {natural:,} to {size:,} tokens, which by rule 5.6 pays within {calls:g} calls")


def _cost(prefix: int, model: ModelFacts, outlook: Outlook) -> float:
    """What the prompts of a session with this prefix cost in expectation, as tokens at the input price."""
    if outlook.calls < 1:
        return float(prefix)  # nothing is read again
    price = economics.Multipliers(float(model.read), float(model.write()), float(model.write(outlook.head_ttl)))
    calls, opening = outlook.calls, outlook.opening
    costs = [
        economics.session_cost(prefix, model.floor, price, calls=calls, growth=growth, opening=opening)
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
