"""Four pieces of work for an agent, each with its files, what the user says, what the model does and how it is checked.

Whether a task was done is decided by the files in the workspace, never by what the model says about them. Nothing in a
workspace depends on the machine or the day: the same bytes reach the model everywhere.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from benchmarks.agent_files import BILLING, MODULES, NOTES, RELEASE_SKILL, SHOP
from benchmarks.agent_script import Reply, Scene, Step, call, calls, fixed

CHECK = "sh check"
"""The command that runs a workspace's tests: the model never reads it, so that it may name this interpreter."""


class Workload(Struct, frozen=True, kw_only=True):
    """`asked` are the user's messages, `steps` what the model does with each; `done` looks at the workspace."""

    name: str
    files: dict[str, str]
    asked: tuple[str, ...]
    steps: tuple[tuple[Step, ...], ...]
    done: Callable[[Path], bool]

    def lay_out(self, workspace: Path) -> None:
        for name, text in self.files.items():
            place = workspace / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text)
        (workspace / "check").write_text(f"{shlex.quote(sys.executable)} -B tests.py\n")


def passes(workspace: Path) -> bool:
    """Whether the workspace's own tests pass."""
    ran = subprocess.run(
        [sys.executable, "-B", "tests.py"], cwd=workspace, capture_output=True, text=True, timeout=60, check=False
    )
    return ran.returncode == 0


# fix-a-bug-small


def _look_for_the_bug(scene: Scene) -> Reply | None:
    ran = scene.last("run_command")
    failed = None if ran is None else re.search(r"FAILED (\w+)\(", ran.text)
    if failed is None:
        return None
    return calls(
        "One test fails; I look for what it calls.", call("grep_files", pattern=f"def {failed[1]}", glob="*.py")
    )


def _read_the_source(scene: Scene) -> Reply | None:
    found = scene.last("grep_files")
    files = [] if found is None else [line for line in found.text.splitlines() if line.endswith(".py")]
    source = [name for name in files if name != "tests.py"]
    return calls("It is here.", call("read_file", path=source[0])) if source else None


def _mend(scene: Scene) -> Reply | None:
    read = scene.last("read_file")
    wrong = None if read is None else re.search(r"^    if quantity > (\w+):$", read.text, re.MULTILINE)
    if read is None or wrong is None:
        return None
    line = wrong[0].strip()
    path = read.input["path"]
    patch = call("patch_file", path=path, old=line, new=line.replace(">", ">="))
    return calls("The boundary itself belongs to the discount, so the comparison must include it.", patch)


def _passed(scene: Scene) -> Reply | None:
    ran = scene.last("run_command")
    return "The tests pass." if ran is not None and "[exit code 0]" in ran.text else None


FIX = Workload(
    name="fix-a-bug-small",
    files=SHOP,
    asked=("Ten pieces should get the discount already, and they do not. Find out why and mend it. [task 1]",),
    steps=(
        (
            fixed(calls("I run the tests first.", call("run_command", command=CHECK))),
            _look_for_the_bug,
            _read_the_source,
            _mend,
            fixed(calls("Now the tests again.", call("run_command", command=CHECK))),
            _passed,
        ),
    ),
    done=lambda workspace: passes(workspace) and (workspace / "tests.py").read_text() == SHOP["tests.py"],
)


# write-a-doc-from-notes


def _read_the_notes(scene: Scene) -> Reply | None:
    listed = scene.last("list_dir")
    names = [] if listed is None else [name for name in listed.text.split() if name.endswith(".md")]
    made = [call("read_file", path=f"notes/{name}") for name in names]
    return calls("I read all of them.", *made) if made else None


def _facts(scene: Scene) -> list[tuple[str, list[str]]]:
    """What the notes say under each heading, without what is marked as doubtful."""
    found = []
    for note in scene.all("read_file"):
        if note.input["path"].startswith("notes/"):
            lines = note.text.splitlines()
            kept = [line[2:] for line in lines if line.startswith("- ") and not line.endswith("(?)")]
            found.append((lines[0].lstrip("# "), kept))
    return found


def _write_the_doc(scene: Scene) -> Reply | None:
    found = _facts(scene)
    parts = [f"## {heading}\n\n" + "\n".join(f"{line}." for line in kept) for heading, kept in found]
    text = "# How the station works\n\n" + "\n\n".join(parts) + "\n"
    return calls("I write the page.", call("write_file", path="docs/station.md", content=text)) if found else None


def _described(workspace: Path) -> bool:
    page = workspace / "docs/station.md"
    text = page.read_text() if page.is_file() else ""
    sure = [line[2:] for note in NOTES.values() for line in note.splitlines() if line.startswith("- ")]
    wanted = [line for line in sure if not line.endswith("(?)")]
    return bool(wanted) and all(f"\n{line}.\n" in text for line in wanted) and "(?)" not in text


DOCUMENT = Workload(
    name="write-a-doc-from-notes",
    files=NOTES,
    asked=(
        "Write docs/station.md from what is in notes/: a section for each note, nothing that is doubtful. [task 1]",
        "Read it once more and tell me how many sections it has. [task 2]",
    ),
    steps=(
        (
            fixed(calls("I see what there is.", call("list_dir", path="notes"))),
            _read_the_notes,
            _write_the_doc,
            lambda scene: "The page is written." if scene.last("write_file") else None,
        ),
        (
            fixed(calls("I read it.", call("read_file", path="docs/station.md"))),
            lambda scene: f"It has {scene.seen[-1].text.count('## ')} sections." if scene.seen else None,
        ),
    ),
    done=_described,
)


# multi-turn-refactor

RENAMES = (
    ("get_rec", "load_record"),
    ("Rec", "Record"),
    ("put_rec", "store_record"),
    ("fmt_amt", "amount_text"),
    ("chk", "is_valid"),
    ("tot", "total_of"),
)


def _find(old: str) -> Step:
    return fixed(calls(f"Where is {old} used?", call("grep_files", pattern=rf"\b{old}\b", glob="*.py")))


def _read_each(scene: Scene) -> Reply | None:
    found = scene.last("grep_files")
    files = [] if found is None else [line for line in found.text.splitlines() if line.endswith(".py")]
    return calls("I read these files.", *(call("read_file", path=name) for name in files)) if files else None


def _rename(old: str, new: str) -> Step:
    """Whole words only: `tot` is also a part of other names, so every different use is replaced by itself."""

    def step(scene: Scene) -> Reply | None:
        made = []
        for read in scene.all("read_file"):
            lines = dict.fromkeys(line for line in read.text.splitlines() if re.search(rf"\b{old}\b", line))
            for line in lines:
                mended = re.sub(rf"\b{old}\b", new, line)
                made.append(
                    call("patch_file", path=read.input["path"], old=f"{line}\n", new=f"{mended}\n", replace_all=True)
                )
        return calls(f"{old} becomes {new}.", *made) if made else None

    return step


def _renamed(workspace: Path) -> bool:
    text = "\n".join(place.read_text() for place in sorted(workspace.rglob("*.py")))
    gone = all(re.search(rf"\b{old}\b", text) is None for old, _ in RENAMES)
    return gone and all(re.search(rf"\bdef {new}\b|\bclass {new}\b", text) for _, new in RENAMES) and passes(workspace)


REFACTOR = Workload(
    name="multi-turn-refactor",
    files={**MODULES, **BILLING},
    asked=tuple(
        f"Please rename {old} to {new}, everywhere, and see that the tests still pass. [task {number}]"
        for number, (old, new) in enumerate(RENAMES, start=1)
    ),
    steps=tuple(
        (
            _find(old),
            _read_each,
            _rename(old, new),
            fixed(calls("The tests.", call("run_command", command=CHECK))),
            _passed,
        )
        for old, new in RENAMES
    ),
    done=_renamed,
)


# use-a-skill

SKILL = "release-notes"


def _follow(scene: Scene) -> Reply | None:
    """What the skill says, be it loaded or a part of the system text from the start."""
    loaded = scene.last("skill_load")
    body = f"{'' if loaded is None else loaded.text}\n{scene.system}"
    changes = scene.last("read_file")
    headings = re.findall(r"^- `(\w+)` goes under \*\*(.+?)\*\*\.$", body, re.MULTILINE)
    ending = re.search(r"^The last line is always: (.+)$", body, re.MULTILINE)
    if changes is None or not headings or ending is None:
        return None
    parts = []
    for kind, heading in headings:
        lines = [line.partition(": ")[2] for line in changes.text.splitlines() if line.startswith(f"{kind}: ")]
        parts.append(f"## {heading}\n\n" + "\n".join(f"- {line}" for line in sorted(lines)))
    text = "# Release notes\n\n" + "\n\n".join(parts) + f"\n\n{ending[1]}\n"
    return calls("As the skill says.", call("write_file", path="RELEASE.md", content=text))


def _load(scene: Scene) -> Reply | None:
    """A body that stands in the system text is not asked for again."""
    read = call("read_file", path="changes.txt")
    if f"# Skill: {SKILL} " in scene.system:
        return calls("The skill is there already; I read the changes.", read)
    return calls("I load the skill and read the changes.", call("skill_load", name=SKILL), read)


RELEASED = """\
# Release notes

## New for users

- dark mode for the map
- stations can be searched by name

## Repaired

- a station without rain is no longer hidden
- times are shown in the station's zone

## For those who run it

- the map tiles need 2 GB less

Thanks to everybody who told us what did not work.
"""

USE_A_SKILL = Workload(
    name="use-a-skill",
    files=RELEASE_SKILL,
    asked=("Write RELEASE.md for what is in changes.txt, the way we always do. [task 1]", "Is it done? [task 2]"),
    steps=(
        (_load, _follow, lambda scene: "RELEASE.md is written." if scene.last("write_file") else None),
        (fixed(calls("I look.", call("read_file", path="RELEASE.md"))), fixed("Yes.")),
    ),
    done=lambda workspace: (workspace / "RELEASE.md").is_file() and (workspace / "RELEASE.md").read_text() == RELEASED,
)

WORKLOADS = (FIX, DOCUMENT, REFACTOR, USE_A_SKILL)
