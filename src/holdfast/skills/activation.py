"""Which skills a session has read, the result of loading one, and how much may be loaded.

A body is sent once; later loads give a pointer to its place. So bodies that were removed by compaction or never sent
are dropped: a pointer must not refer to missing text. Preloaded skills are in the system text and do not count.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from hashlib import sha256
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core import skill_heading
from holdfast.records import Message, Text, ToolResult
from holdfast.tools import ToolExecutionError, mend
from holdfast.wire.codecs import MADE_ID

from .skill import Skill, SkillSource

logger = logging.getLogger(__name__)

MAX_EXPLICIT_ACTIVATIONS_PER_SESSION = 3
WARN_CUMULATIVE_ACTIVATION_TOKENS = 10_000
HARD_CAP_CUMULATIVE_ACTIVATION_TOKENS = 30_000

COUNT_CAP = (
    "activation budget exhausted: {number} skills already activated this session (limit {most}). "
    "Already loaded: [{names}]. To free budget, summarize and discard previously loaded skill bodies in your next "
    "response."
)
TOKEN_CAP = (
    "activation budget exhausted: loading {name} would bring loaded skills to {tokens} tokens (limit {most}). "
    "Already loaded: [{names}]."
)

_TRIED = 100
"""Headings in a result below which its text is looked for: a stranger's page may hold any number of them."""

Given = Literal["body", "already_preloaded", "already_loaded"]
"""The result of a load: the body, or a pointer to its place."""


class Activation(Struct, frozen=True, kw_only=True):
    """A body that is in the prompt, and for a loaded one the call whose result holds it.

    `characters` and `digest` are those of that very text. The skill itself may have changed on disk since. `settled` if
    a later call of that name had the id of its call: Gemini's calls are numbered anew on every turn.
    """

    name: str
    source: SkillSource
    version: str
    tokens: int
    tool_use_id: str | None = None
    characters: int = 0
    digest: bytes = b""
    settled: bool = False

    @classmethod
    def of(cls, skill: Skill, tool_use_id: str | None = None) -> Activation:
        text = mend(skill.section)
        return cls(
            name=skill.name,
            source=skill.source,
            version=skill.version,
            tokens=skill.estimated_body_tokens,
            tool_use_id=tool_use_id,
            characters=len(text),
            digest=text_digest(text),
        )

    def stands_in(self, result: ToolResult) -> bool:
        """Return whether this result contains the body, with whatever joined to it. Only the text counts: some dialects
        have no ids, and decoding a conversation again gives new ones."""
        heading = skill_heading(self.name, self.source)
        for text in (block.text for block in result.content if isinstance(block, Text)):
            at = text.find(heading)
            for _ in range(_TRIED):
                if not 0 <= at <= len(text) - self.characters:
                    break
                if text_digest(text[at : at + self.characters]) == self.digest:
                    return True
                at = text.find(heading, at + 1)
        return False


class RegistryState(Struct, frozen=True, kw_only=True):
    """The state that a registry needs after a restart."""

    preloaded: tuple[Activation, ...] = ()
    loaded: tuple[Activation, ...] = ()
    warned: bool = False


class SkillActivationRegistry:
    """The activations of one session, and its budget. Safe from any thread: of loads that come side by side no two get
    the same body, and together they stay within the caps."""

    def __init__(
        self,
        *,
        max_activations: int = MAX_EXPLICIT_ACTIVATIONS_PER_SESSION,
        warn_tokens: int = WARN_CUMULATIVE_ACTIVATION_TOKENS,
        hard_tokens: int = HARD_CAP_CUMULATIVE_ACTIVATION_TOKENS,
        state: RegistryState | None = None,
    ) -> None:
        self._most, self._warn, self._hard = max_activations, warn_tokens, hard_tokens
        state = state or RegistryState()
        self._preloaded = {each.name: each for each in state.preloaded}
        self._loaded = {each.name: each for each in state.loaded}
        self._warned = state.warned
        self._open: set[str] = set()  # names whose body was given, and whose call is not answered yet
        self._lock = threading.Lock()

    @property
    def preloaded(self) -> tuple[Activation, ...]:
        """The skills in the system text, by name."""
        return tuple(self._preloaded.values())

    @property
    def loaded(self) -> tuple[Activation, ...]:
        """The skills loaded on request, in order."""
        with self._lock:
            return tuple(self._loaded.values())

    @property
    def count(self) -> int:
        return len(self.loaded)

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.loaded)

    @property
    def state(self) -> RegistryState:
        return RegistryState(preloaded=self.preloaded, loaded=self.loaded, warned=self._warned)

    def active(self, name: str) -> tuple[Given, Activation] | None:
        """The pointer that a load of this name gets, also where the skill itself is gone by now."""
        with self._lock:
            return self._active(name)

    def _active(self, name: str) -> tuple[Given, Activation] | None:
        if name in self._preloaded:
            return "already_preloaded", self._preloaded[name]
        return ("already_loaded", self._loaded[name]) if name in self._loaded else None

    def preload(self, skills: Iterable[Skill]) -> None:
        """Set the skills whose bodies are in the system text."""
        self._preloaded = {skill.name: Activation.of(skill) for skill in sorted(skills, key=lambda skill: skill.name)}

    def load(self, skill: Skill, tool_use_id: str) -> tuple[Given, Activation]:
        """What a call to load this skill gets. A body counts from now on; ToolExecutionError where that is too much."""
        with self._lock:
            if pointer := self._active(skill.name):
                return pointer
            activation = Activation.of(skill, tool_use_id)
            names, tokens = (
                ", ".join(self._loaded),
                activation.tokens + sum(each.tokens for each in self._loaded.values()),
            )
            if len(self._loaded) >= self._most:
                raise ToolExecutionError(COUNT_CAP.format(number=len(self._loaded), most=self._most, names=names))
            if tokens > self._hard:
                raise ToolExecutionError(TOKEN_CAP.format(name=skill.name, tokens=tokens, most=self._hard, names=names))
            self._loaded[skill.name] = activation
            self._open.add(skill.name)
            warn, self._warned = tokens >= self._warn and not self._warned, self._warned or tokens >= self._warn
        if warn:
            logger.warning("the skills loaded in this session have %d tokens (warning at %d)", tokens, self._warn)
        return "body", activation

    def begun(self, calls: Iterable[tuple[str, str]]) -> None:
        """A turn begins with these calls, each with its id and the skill's name. One that loaded a skill before and is
        run again after a restart was not answered: it gets the body. Where ids come again, it is another call."""
        with self._lock:
            for use, name in calls:
                if name in self._open or not self._of(use, name):
                    continue
                if use and not use.startswith(MADE_ID):
                    self._drop((name,))
                else:
                    self._loaded[name] = replace(self._loaded[name], settled=True)

    def answered(self, results: Iterable[ToolResult]) -> None:
        """Handle the results of a turn: bodies loaded in it that are in none of the results are dropped."""
        results = tuple(results)
        ids = {result.tool_use_id for result in results}
        with self._lock:
            over = {name for name in self._open if (each := self._loaded.get(name)) and each.tool_use_id in ids}
            self._open -= over
            self._drop(name for name in over if not any(map(self._loaded[name].stands_in, results)))

    def withdraw(self, calls: Iterable[tuple[str, str]]) -> None:
        """The answers of these calls never got into the conversation. What another call loaded stays."""
        with self._lock:
            self._drop({name for use, name in calls if self._of(use, name) and not self._loaded[name].settled})

    def keep(self, messages: Iterable[Message]) -> None:
        """A reset left these messages: what stands in none of their tool results is forgotten, and frees its budget."""
        results = [block for message in messages for block in message.content if isinstance(block, ToolResult)]
        with self._lock:
            self._drop(name for name, each in self._loaded.items() if not any(map(each.stands_in, results)))

    def _of(self, tool_use_id: str, name: str) -> bool:
        return name in self._loaded and self._loaded[name].tool_use_id == tool_use_id

    def _drop(self, names: Iterable[str]) -> None:
        for name in tuple(names):
            del self._loaded[name]
            self._open.discard(name)


def text_digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
