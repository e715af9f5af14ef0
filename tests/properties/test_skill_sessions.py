"""Laws 1 and 3 with skills: whatever an agent loads, loses and goes on with, the prefix only grows, and a pointer never
names text that is not in the prompt."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config.sections.agent import SkillsSettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.padding import Outlook
from holdfast.core.skill_texts import SkillChange, skill_change
from holdfast.records import Message, Request, Text, ToolResult, ToolUse, canonical_json, validate
from holdfast.records.events import Bus
from holdfast.records.events.tools import SkillLoaded
from holdfast.skills.loader import load_skills
from holdfast.skills.session import SessionSkills
from holdfast.tools import Cancel, Tool
from holdfast.tools.contract import ToolAnswer
from holdfast.wire import DIALECTS
from tests.engine.driver import MODELS, Driver
from tests.skills.skill_files import write_skill
from tests.support.toolboxes import toolbox

PROVIDERS = {
    "anthropic": "anthropic:claude-sonnet-5-5",
    "openai_chat": "openai:gpt-6.1-sol",
    "openai_responses": "openai:gpt-6.1-sol",
    "gemini": "gemini:gemini-2.5-pro",
}
NAMES = ("csv", "deploy", "notes", "pdf", "pdf-forms", "review", "zip")
PERSONA = "You are a clerk of a small company. " * 60
EARLIER, PRELOADED = "is already in this conversation", "is already loaded in the system prompt"


async def _forever(given: Any, context: Any) -> Any:
    await asyncio.Event().wait()


HANG = Tool(name="hang", description="Waits.", run=_forever, effect="read")


class Library:
    """Skills on disk. Each version of a body says which one it is."""

    def __init__(self, root: Path, random: Random) -> None:
        self.root, self._random, self._version = root, random, 0
        root.mkdir()
        for name in NAMES:
            if random.random() < 0.9:
                self.write(name)

    def write(self, name: str) -> None:
        self._version += 1
        about = self._random.choice(["Does a thing.", "Does another thing.", "Handles files:\nall of them."])
        size = self._random.choice([1, 20, 150])
        write_skill(self.root, name, description=about, body=f"<{name}> {self._version}\n" + "Do it well. " * size)

    def edit(self) -> None:
        name = self._random.choice(NAMES)
        if (self.root / name).exists() and self._random.random() < 0.4:
            rmtree(self.root / name)
        else:
            self.write(name)


class Played:
    """One session in front of the engine and a simulated provider."""

    def __init__(self, place: Path, random: Random, dialect: str) -> None:
        self.random, self.dialect, self.place = random, dialect, place
        self.library = Library(place / "skills", random)
        self.settings = SkillsSettings(
            max_activations=random.choice([0, 1, 3, 3, 3]),
            hard_tokens=random.choice([50, 500, 30_000, 30_000]),
            index=random.choice(["full", "capped", "off"]),
            index_chars=random.choice([150, 250, 16_000]),
        )
        self.bus = Bus()
        self.heard = self.bus.subscribe()
        self.driver = Driver(path=place / "h.db")
        (place / "work").mkdir()
        self.calls = 0
        self.messages: list[Message] = [Message("user", (Text("Begin, please. " * 30),))]
        self.before: list[tuple[str, bytes]] = []  # what the last request said
        self.given: list[tuple[str, str]] = []  # name and call of each body that a call was answered with
        self.open(None, None)
        mode: Any = random.choice(["off", "off", "off", "always"])
        self.composed = self.skills.compose(
            PERSONA, models=[self.box.toolset.facts], outlook=Outlook(calls=50), cache=CacheSettings(padding=mode)
        )
        self.skills.announce(self.box.journal)

    def open(self, state: bytes | None, box: bytes | None) -> None:
        """A process begins, and goes on with a session if there was one."""
        store = load_skills(global_dir=self.library.root, workspace_dir=None)
        self.skills = SessionSkills(store, settings=self.settings, state=state)
        self.box = toolbox(
            [HANG],
            model=PROVIDERS[self.dialect],
            dialect=self.dialect,
            session="s",
            workspace=self.place / "work",
            home=self.place / "home",
            builtins=False,
            bus=self.bus,
            skills=self.skills,
            state=box,
        )

    # Steps

    def turn(self) -> None:
        """Calls of the model, side by side, and their answers."""
        answers = self._run(said := self._said())
        self.messages += [said, Message("user", tuple(answer.result for answer in answers))]
        self._check_answers(answers)

    def cancelled(self) -> None:
        cancel = Cancel()
        cancel.set()
        answers = self._run(said := self._said(), cancel)
        self.messages += [said, Message("user", tuple(answer.result for answer in answers))]
        self._check_answers(answers)

    def lost(self) -> None:
        """The program ended before the answers were written down."""
        self._run(said := self._said())
        self.restart(edits=False)
        self.messages += [said, *self.box.cut(said).messages]

    def crashed(self) -> None:
        """The same, and the calls were not written down either: what goes on is said by the conversation."""
        self._run(self._said())
        self.restart(edits=False)
        self.skills.at_reset(self.messages)

    def interrupted(self) -> None:
        """The turn ends while its calls run, and is answered later."""
        said, steps = self._said(), self.random.randrange(1, 12)

        async def stopped() -> None:
            task = asyncio.create_task(self.box.run([*said.content, ToolUse("hang", "hang", b"{}")], turn="t"))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(stopped())
        self.messages += [said, *self.box.cut(said).messages]

    def restart(self, edits: bool = True) -> None:
        while edits and self.random.random() < 0.6:
            self.library.edit()
        state, box = self.skills.state, self.box.state
        self.open(state, box)
        self.skills.announce(self.box.journal)  # was told before
        self.driver.restart()

    def compacted(self) -> None:
        """Some of the last turns are kept, behind a summary."""
        starts = [n for n, message in enumerate(self.messages) if message.role == "assistant"]
        kept = self.messages[self.random.choice([*starts, len(self.messages)]) :] if starts else []
        self.messages = [Message("user", (Text(f"A summary, after {self.calls} calls."),)), *kept]
        changed = self.box.at_reset(self.messages)
        assert changed is None
        self.driver.engine.announce(self.driver.lane, "compaction", now=self.driver.now)

    def _said(self) -> Message:
        return Message("assistant", tuple(self._call(n) for n in range(self.random.choice([1, 1, 2, 4]))))

    def _call(self, number: int) -> ToolUse:
        self.calls += 1
        # Gemini's calls have no ids of their own: they are numbered anew on every turn.
        known = f"gemini-call-{number + 1}" if self.dialect == "gemini" else f"call_{self.calls}"
        search = self.random.random() < 0.2
        again = [name for name, _ in self.given[-2:]] * 3  # what was loaded is asked for again
        given = {"query": "thing"} if search else {"name": self.random.choice([*NAMES, "nobody", *again])}
        return ToolUse(known, "skill_search" if search else "skill_load", canonical_json(json.dumps(given).encode()))

    def _run(self, said: Message, cancel: Cancel | None = None) -> tuple[ToolAnswer, ...]:
        answers = asyncio.run(self.box.run(said, turn="t", cancel=cancel)).answers
        self.given += [(name, answer.result.tool_use_id) for answer in answers for name in bodies(text(answer.result))]
        return answers

    # Laws

    def _check_answers(self, answers: tuple[ToolAnswer, ...]) -> None:
        for answer in answers:
            said = text(answer.result)
            name = said.partition("# Skill: ")[2].partition(" ")[0]
            if EARLIER in said:
                assert name in self.in_messages(), "the pointer names a result that is there"
            elif PRELOADED in said:
                assert f"<{name}>" in self.composed.text, "the pointer names a section that is there"
            elif said.startswith("activation budget exhausted"):
                assert answer.result.is_error
                full = len(self.in_messages()) >= self.settings.max_activations
                assert full or "would bring loaded skills to" in said

    def in_messages(self) -> list[str]:
        """The skills whose bodies stand in the conversation, each as often as it does."""
        results = [block for message in self.messages for block in message.content if isinstance(block, ToolResult)]
        return [name for result in results for name in bodies(text(result))]

    def check(self) -> None:
        loaded, known = self.in_messages(), [each.name for each in self.skills.registry.loaded]
        assert set(known) <= set(loaded), "what would be pointed at is there"
        assert sorted(known) == sorted(loaded), "and no body twice"
        assert not set(loaded) & set(self.composed.preloaded)
        assert len(known) <= self.settings.max_activations
        assert self.skills.registry.tokens <= self.settings.hard_tokens

    def send(self, *, reset: bool) -> None:
        request = Request(
            model=MODELS[self.dialect],
            tools=self.box.definitions(),
            system_prompt=self.composed.text,
            messages=tuple(self.messages),
            output_limit=500,
        )
        assert validate(request) == ()
        prepared, _, verdict = self.driver.send(DIALECTS[self.dialect].encode(request), dialect=self.dialect)
        body = prepared.client
        blocks = [(span.section, DIALECTS[self.dialect].content(body, n)) for n, span in enumerate(body.blocks)]
        head = [block for block in blocks if block[0] != "messages"]
        before = self.before or blocks
        assert head == [block for block in before if block[0] != "messages"], "law 3"
        assert reset or blocks[: len(before)] == before, "law 1"
        if self.dialect != "gemini":  # whose hits come by chance
            assert verdict.finding is None or reset
        self.before = blocks

    def close(self) -> None:
        self.driver.close()
        told = [event.payload for event in self.heard.drain() if isinstance(event.payload, SkillLoaded)]
        self.bus.close()
        always = [each for each in told if each.load_reason == "always"]
        assert [each.skill_id for each in always] == list(self.composed.preloaded)
        assert all(each.triggered_by_tool_use_id is None for each in always)
        asked = [(each.skill_id, each.triggered_by_tool_use_id) for each in told if each.load_reason == "on_demand"]
        assert asked == self.given
        assert {each.load_reason for each in told} <= {"always", "on_demand"}, "nothing is loaded unasked"


def text(result: ToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, Text))


def bodies(said: str) -> list[str]:
    return [name for name in NAMES if f"<{name}>" in said]


@pytest.mark.slow
@pytest.mark.parametrize("dialect", MODELS)
@settings(max_examples=8, derandomize=True, deadline=None)
@given(st.integers(0, 2**32))
def test_a6_a58_a74_whatever_is_loaded_lost_or_gone_on_with(dialect: str, seed: int) -> None:
    random = Random(seed)
    with TemporaryDirectory() as place:
        played = Played(Path(place), random, dialect)
        played.send(reset=False)
        for _ in range(14):
            step = random.choice(
                [played.turn] * 6
                + [played.lost, played.crashed, played.interrupted]
                + [played.restart, played.cancelled, played.compacted, played.compacted]
            )
            step()
            played.check()
            played.send(reset=step == played.compacted)
        played.close()


@pytest.mark.slow
@settings(max_examples=40, derandomize=True, deadline=None)
@given(st.integers(0, 2**32))
def test_d39_two_sessions_differ_in_what_was_edited_and_in_nothing_else(seed: int) -> None:
    """From disk: the same bytes if no name, description or preloaded body changed, else exactly those are named."""
    random = Random(seed)
    with TemporaryDirectory() as place:
        library = Library(Path(place) / "skills", random)
        setting = SkillsSettings(index="full")
        mode: Any = random.choice(["off", "always"])
        found = []
        for _ in range(2):
            skills = SessionSkills(load_skills(global_dir=library.root, workspace_dir=None), settings=setting)
            found.append((skills.compose(PERSONA, cache=CacheSettings(padding=mode)), skills.store))
            for _ in range(random.choice([0, 1, 1, 2])):
                library.edit()
    (one, before), (two, after) = found
    old, new = dict(before.discovery_index()), dict(after.discovery_index())
    changed = skill_change(one.text, two.text) or SkillChange()
    assert set(changed.added) == new.keys() - old.keys()
    assert set(changed.removed) == old.keys() - new.keys()
    assert set(changed.described) == {name for name in old.keys() & new.keys() if old[name] != new[name]}
    both = set(one.preloaded) & set(two.preloaded)
    edited = {name for name in both if before.get(name) != after.get(name) and old[name] == new[name]}
    inlined = set(one.preloaded) == set(two.preloaded)
    assert (one.index == two.index) == (old == new and inlined)
    assert (one.text == two.text) == (old == new and inlined and not edited)
    if one.index == two.index:
        assert set(changed.edited) == edited
