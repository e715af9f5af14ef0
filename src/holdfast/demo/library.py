"""What the demo's agent knows beside its files: a library of skills, and a long-term memory that changes."""

from __future__ import annotations

from pathlib import Path
from random import Random

from holdfast.memory import Knowledge, KnowledgeEntry

from .session import MEMORY_EVERY, NOUNS, PARTS, SEED, VERBS

PROJECT = "shop"
_USES = {
    "fix-a-failing-test": "a test fails and nobody knows why",
    "measure-then-speed-up": "something is slow",
    "rename-with-an-alias": "a name that others use is to change",
    "add-a-switch": "a command gets a new option",
    "write-a-migration": "stored data has to take another form",
    "review-a-change": "somebody else's change is to be read",
    "release": "a version is to be published",
    "write-a-changelog": "users have to hear of what changed",
    "add-a-table": "a report needs one more table",
    "import-a-file": "a customer sends data in a file",
    "answer-a-complaint": "a customer is unhappy with an amount",
    "close-a-month": "the books of a month are to be closed",
}
_STEPS = 24
_KNOWN = 5


def write_skills(folder: Path) -> None:
    """One file for each, below the workspace's own directory of skills."""
    for name, use in _USES.items():
        place = folder / ".holdfast" / "skills" / name
        place.mkdir(parents=True)
        head = f"---\nname: {name}\ndescription: Use when {use}.\nmetadata:\n  version: '1'\n---\n"
        (place / "SKILL.md").write_text(f"{head}\n{_body(name, use)}\n")


def all_bodies() -> str:
    """Every skill in full, under the heading that a loaded one has."""
    return "\n\n".join(f"# Skill: {name} (source: workspace)\n\n{_body(name, use)}" for name, use in _USES.items())


def _body(name: str, use: str) -> str:
    rng = Random(f"{SEED} skill {name}")
    steps = [
        f"{number}. {rng.choice(VERBS).capitalize()} each {rng.choice(NOUNS)} of {rng.choice(PARTS)} before the "
        f"{rng.choice(NOUNS)} is looked at, and write down what differs from the {rng.choice(NOUNS)} before it."
        for number in range(1, _STEPS + 1)
    ]
    return "\n".join((f"What to do when {use}:", "", *steps))


def remember(knowledge: Knowledge) -> list[KnowledgeEntry]:
    """What is known when the session begins."""
    knowledge.add("Answers are brief", "One sentence where one is enough.", category="preference", id="k0000000")
    return [
        knowledge.add(f"How {part} is run", _content(part, 0), category="gotcha", id=f"k000000{number}")
        for number, part in enumerate(PARTS[:_KNOWN], 1)
    ]


def change(knowledge: Knowledge, entries: list[KnowledgeEntry], turn: int) -> None:
    """Somebody else changes an entry before every so many turns, another one each time."""
    if turn and turn % MEMORY_EVERY == 0:
        place = turn // MEMORY_EVERY % len(entries)
        knowledge.edit(entries[place].id, content=_content(PARTS[place], turn))


def _content(part: str, step: int) -> str:
    return f"The nightly job of {part} stops at step {step}; its log is kept for a week. Ask before it is run by hand."
