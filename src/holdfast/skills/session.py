"""The skills of one session: their part of its stable text, what its agent loads, and what a restart needs.

Composed once, from a snapshot: no later change on disk changes a byte of what was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.config.sections import CacheSettings, SkillsSettings
from holdfast.core import NO_OUTLOOK, SECTIONS, Outlook, PaddingRules, SkillBody, pad
from holdfast.errors import HoldfastError
from holdfast.facts import ModelFacts, estimate
from holdfast.records import Message, Opaque, ToolDefinition, ToolUse
from holdfast.tools import Tool, ToolAnswer, ToolJournal, function_text, mend, shown

from .activation import RegistryState, SkillActivationRegistry
from .index import render_index
from .loader import skill_store_factory
from .store import SkillStore
from .tools import SKILL_TOOLS, loaded_event, requested_skill

_GAP = "\n\n"


class SkillPrompt(Struct, frozen=True, kw_only=True):
    """A session's stable text and its parts: the index, the padding, and the names of preloaded skills. `why` is the
    reason for the padding decision."""

    text: str
    index: str
    padding: str
    preloaded: tuple[str, ...]
    why: str


class SkillsState(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a session's skills have to know after a restart."""

    registry: RegistryState = RegistryState()
    composed: bool = False
    announced: bool = False


class SessionSkills:
    """What tools find in their context: the skills of one session, and of its conversation alone.

    `begin` makes one from the settings. `state` is that of the same session before a restart. `tools` are the same
    whatever skills there are, so that sessions share their bytes.
    """

    tools: tuple[Tool, ...] = SKILL_TOOLS

    def __init__(
        self,
        store: SkillStore,
        *,
        settings: SkillsSettings = SkillsSettings(),  # noqa: B008  frozen
        state: bytes | None = None,
    ) -> None:
        stored = SkillsState() if state is None else _decode_state(state)
        self.store, self.settings = store, settings
        self.registry = SkillActivationRegistry(
            max_activations=settings.max_activations,
            warn_tokens=settings.warn_tokens,
            hard_tokens=settings.hard_tokens,
            state=stored.registry,
        )
        self._composed, self._announced = stored.composed, stored.announced
        self._session: str | None = None

    @classmethod
    def begin(
        cls,
        settings: SkillsSettings,
        workspace: Path | None,
        *,
        state: bytes | None = None,
        messages: Iterable[Message] | None = None,
    ) -> SessionSkills:
        """Return a session's skills from the current files. After a restart pass its `state` and the `messages` that
        the conversation continues with: the state may be newer than the last stored answers."""
        skills = cls(skill_store_factory(settings, workspace)(), settings=settings, state=state)
        if messages is not None:
            skills.at_reset(messages)
        return skills

    def used_by(self, session: str) -> None:
        """Bodies are loaded into this session's conversation, and pointers name what stands there: to a sub-agent they
        would lie."""
        if self._session not in (None, session):
            raise HoldfastError(
                f"these skills are those of the session {shown(self._session)}; "
                f"begin others for {shown(session)} with SessionSkills.begin."
            )
        self._session = session

    @property
    def directories(self) -> tuple[Path, ...]:
        """What tools may read: the skills' own directories, not everything beside them."""
        return tuple(skill.skill_dir for skill in self.store.list_skills())

    # The stable text

    def compose(
        self,
        before: str,
        *,
        cache: CacheSettings = CacheSettings(),  # noqa: B008  frozen
        tools: Iterable[ToolDefinition | Opaque] = (),
        models: Sequence[ModelFacts] = (),
        outlook: Outlook = NO_OUTLOOK,
        sections: Sequence[str] = SECTIONS,
        count: Callable[[str], int] = estimate,
    ) -> SkillPrompt:
        """`before` (persona, project instructions), the index, and the padding that a prefix of this length needs. What
        is preloaded by it is known from now on. Once for a session: another text would lose its prefix.

        `cache` says how padding is done, `tools` are the definitions that go with it, `models` all that the session may
        be sent to, the first one first, `outlook` what it is expected to do, `sections` the text that fills what bodies
        leave, `count` the tokens of a text.
        """
        if self._composed:
            raise HoldfastError("the stable text of this session was composed before; send the one that was sent.")
        skills = self.store.list_skills()
        padded = pad(
            [_text(each) for each in tools],
            _joined(before, render_index(self.store, self.settings)),
            [SkillBody(skill.name, skill.source, mend(skill.body)) for skill in skills],
            models,
            PaddingRules(
                mode=cache.padding,
                outlook=outlook,
                min_tokens=cache.padding_min,
                max_tokens=cache.padding_max,
                sections=sections,
                count=count,
            ),
        )
        index = render_index(self.store, self.settings, padded.inlined)
        self.registry.preload(skill for skill in skills if skill.name in padded.inlined)
        self._composed = True
        return SkillPrompt(
            text=_joined(before, index, padded.added),
            index=index,
            padding=padded.added,
            preloaded=padded.inlined,
            why=padded.why,
        )

    def announce(self, journal: ToolJournal) -> None:
        """Emit an event for each body that is preloaded, outside of any turn. Once for a session."""
        if not self._composed or self._announced:
            return
        self._announced = True
        for activation in self.registry.preloaded:
            journal.emit(loaded_event(activation, "always"), actor="system")

    # What becomes of loaded bodies

    def begun(self, calls: Iterable[ToolUse]) -> None:
        """A turn begins with these calls."""
        self.registry.begun(_loads(calls))

    def answered(self, answers: Iterable[ToolAnswer]) -> None:
        """These answers go into the conversation. A body that was given and stands in none of them is not loaded."""
        self.registry.answered(answer.result for answer in answers)

    def lost(self, calls: Iterable[ToolUse]) -> None:
        """Withdraw calls whose results nobody gets. Events already emitted for them stay: the body was loaded, and
        loading it again emits another one."""
        self.registry.withdraw(_loads(calls))

    def at_reset(self, kept: Iterable[Message]) -> None:
        """These messages are what is left, after compaction or a restart: bodies that are not in them can be loaded
        again."""
        self.registry.keep(kept)

    @property
    def state(self) -> bytes:
        """Return what a restart needs besides the composed text."""
        state = SkillsState(registry=self.registry.state, composed=self._composed, announced=self._announced)
        return msgspec.msgpack.encode(state)


def _loads(calls: Iterable[ToolUse]) -> list[tuple[str, str]]:
    return [(call.id, name) for call in calls if (name := requested_skill(call)) is not None]


def _text(tool: ToolDefinition | Opaque) -> str:
    """A definition as it counts towards the length of a prefix: one that is deferred does not."""
    if isinstance(tool, Opaque):
        return tool.raw.decode("utf-8", "replace")
    return "" if dict(tool.extra).get("defer_loading") == b"true" else function_text(tool)


def _joined(*parts: str) -> str:
    return _GAP.join(part for part in parts if part)


def _decode_state(state: bytes) -> SkillsState:
    try:
        return msgspec.msgpack.decode(state, type=SkillsState)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HoldfastError(
            f"the stored state of a session's skills cannot be read ({error}); begin a new session."
        ) from error
