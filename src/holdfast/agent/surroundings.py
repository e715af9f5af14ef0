"""The surroundings of a session: day, platform, git, files. Read once, at its start, and compared when it is resumed.

The same disk, day and machine give the same text. Names are shown unchanged, except for characters that a terminal or a
model could misinterpret.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from holdfast.config import printable
from holdfast.tools import opened_directory

from .window.texts import zone_of

DEPTH = 3
STATUS_LINES = 30
CHANGED_PATHS = 20
UNSHOWN = frozenset({".git", ".hg", ".holdfast", ".svn", ".venv", "__pycache__", "node_modules"})
"""Directories with thousands of generated files, and our own."""

TITLE = "# Surroundings"
GIT = "## Git"
FILES = "## Files"
MORE = "… and {number} more"
NONE = "(none)"
UNKNOWN = "not known"

_DATE, _PLATFORM, _BRANCH, _STATUS = "Date: ", "Platform: ", "Branch: ", "Status:"
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_PART = 8
"""A directory below the first level takes at most one part in so many of the room, so that others have some too."""
_CHECKED_PATHS = 5_000
"""Names of one level that git is asked about."""
GIT_TIMEOUT_S = 2.0

_GIT_OPTIONS = ("--no-pager", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
_ENVIRONMENT = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "LC_ALL": "C"}
_KEPT_VARIABLES = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES")
"""git's variables that locate its settings and do not select a repository."""
_USERS = (b"system", b"global", b"command")
"""Where settings come from that the user made himself."""


class _Node(Struct):
    """A directory: what is shown of it, and how much is not."""

    parts: tuple[str, ...]
    names: list[str] = []
    labels: list[str] = []
    below: dict[str, _Node] = {}
    left: int = 0
    remark: str = ""


def surroundings(workspace: Path, *, now: float, timezone: str, entries: int) -> str:
    """The text that a session begins with. Reads the disk and asks git: not for an event loop."""
    root = Path(os.path.realpath(workspace))
    repository = repository_of(root)
    system = f"{platform.system()} {platform.machine()}".strip()
    sections = [TITLE, f"{_DATE}{_day(now, timezone)}\n{_PLATFORM}{printable(system)}"]
    if repository is not None:
        sections += [GIT, "\n".join(_git(repository))]
    if entries > 0:
        tree = _tree(root, entries, repository=repository is not None)
        sections += [FILES, "\n".join(_lines(tree, 0)) or NONE]
    return "\n\n".join(sections)


def _day(now: float, timezone: str) -> str:
    moment = datetime.fromtimestamp(now, zone_of(timezone) or UTC)
    return f"{moment.year:04d}-{moment.month:02d}-{moment.day:02d} ({_DAYS[moment.weekday()]})"


def _git(repository: Repository) -> Iterator[str]:
    yield _BRANCH + (
        f"none, at commit {repository.commit}" if repository.branch is None else printable(repository.branch)
    )
    if repository.status is None:
        yield f"{_STATUS} {UNKNOWN}"
        return
    # Our own files are told of in another way; that one of them is new is nothing to speak of.
    lines = [f"{letters} {_shown(path)}" for letters, path in repository.status if path.split("/")[0] != ".holdfast"]
    yield _STATUS if lines else f"{_STATUS} clean"
    yield from lines[:STATUS_LINES]
    if len(lines) > STATUS_LINES:
        yield MORE.format(number=len(lines) - STATUS_LINES)


def _tree(root: Path, entries: int, *, repository: bool) -> _Node:
    """The levels nearest to the root first, as far as there is room."""
    top = _Node(parts=())
    level, room = [top], entries
    for depth in range(DEPTH):
        names = {node.parts: _scan(root, node, nested=repository and depth > 0) for node in level}
        paths = ["/".join((*parts, name)) for parts, items in names.items() for name in items]
        hidden = ignored_paths(root, paths[:_CHECKED_PATHS]) if repository else frozenset()
        for node in level:
            items = {name: label for name, label in names[node.parts].items() if _path(node, name) not in hidden}
            most = min(room, entries if depth == 0 else max(1, entries // _PART))
            node.names, node.labels = list(items)[:most], list(items.values())[:most]
            node.left = len(items) - len(node.names)
            room -= len(node.names)
            if depth < DEPTH - 1:
                pairs = zip(node.names, node.labels, strict=True)
                node.below = {name: _Node(parts=(*node.parts, name)) for name, label in pairs if label.endswith("/")}
        level = [below for node in level for below in node.below.values()]
    return top


def _path(node: _Node, name: str) -> str:
    return "/".join((*node.parts, name))


def _scan(root: Path, node: _Node, *, nested: bool) -> dict[str, str]:
    """Names and labels, sorted. A repository inside of another one has rules of its own and is not opened."""
    try:
        with opened_directory(root, node.parts) as at, os.scandir(at) as items:
            entries = sorted(items, key=lambda item: item.name)
            if nested and any(item.name == ".git" for item in entries):
                node.remark = " (a repository of its own)"
                return {}
            return {item.name: _label(item, at) for item in entries if item.name not in UNSHOWN}
    except OSError:  # gone meanwhile, swapped for a link, or not for us
        node.remark = " (not readable)"
        return {}


def _label(item: os.DirEntry[str], at: int) -> str:
    name = _shown(item.name)
    if item.is_symlink():
        try:
            return f"{name} -> {printable(os.readlink(item.name, dir_fd=at))}"
        except OSError:
            return f"{name} -> ?"
    if item.is_dir(follow_symlinks=False):
        return f"{name}/"
    return name if item.is_file(follow_symlinks=False) else f"{name} (not a regular file)"


def _shown(name: str) -> str:
    """A name on one line. A space before it would look like another level."""
    text = printable(name)
    return f"\\x20{text[1:]}" if text.startswith(" ") else text


def _lines(node: _Node, indent: int) -> Iterator[str]:
    margin = "  " * indent
    for name, label in zip(node.names, node.labels, strict=True):
        below = node.below.get(name)
        yield margin + label + (below.remark if below is not None else "")
        if below is not None:
            yield from _lines(below, indent + 1)
    if node.left:
        yield margin + MORE.format(number=node.left)


class _Listing(Struct):
    """A parsed tree: the names shown by directory, and the directories that are not shown completely."""

    shown: dict[str, list[str]]
    cut: set[str]


def changed(before: str, after: str) -> str | None:
    """Return the differences, one fact per line; None without any. Facts that only one text has, or that were left out
    for lack of room, are not compared."""
    old, new = _facts(before), _facts(after)
    lines = []
    for key, subject in ((_DATE, "The date"), (_PLATFORM, "The platform"), (_BRANCH, "The git branch")):
        if key in new and old.get(key) != new[key]:
            was = f" (before: {old[key]})" if key in old else ""
            lines.append(f"{subject} is now {new[key]}{was}.")
    status = new.get(_STATUS, UNKNOWN)
    if status not in (UNKNOWN, old.get(_STATUS)):
        lines.append("git status is now" + (f":{status}" if status.startswith("\n") else f" {status}."))
    if FILES in old and FILES in new:
        there, here = _listing(old[FILES]), _listing(new[FILES])
        lines += _named("New", _only(here, there))
        lines += _named("Gone", _only(there, here))
    return "\n".join(lines) or None


def _facts(text: str) -> dict[str, str]:
    """The parts of a text of ours. Between its sections, and nowhere else, are empty lines."""
    sections = text.split("\n\n")
    facts = {}
    for line in sections[1].split("\n") if len(sections) > 1 else ():
        for key in (_DATE, _PLATFORM):
            if line.startswith(key):
                facts[key] = line.removeprefix(key)
    for heading, body in pairwise(sections):
        if heading == GIT:
            branch, _, status = body.partition("\n")
            facts |= {_BRANCH: branch.removeprefix(_BRANCH), _STATUS: status.removeprefix(_STATUS).removeprefix(" ")}
        elif heading == FILES:
            facts[FILES] = body
    return facts


def _listing(text: str) -> _Listing:
    listing = _Listing(shown={"": []}, cut=set())
    inside = [""]
    for line in text.split("\n") if text != NONE else ():
        label = line.lstrip(" ")
        depth = (len(line) - len(label)) // 2
        inside = inside[: depth + 1]
        here = inside[-1]
        if _more(label):
            listing.cut.add(here)
            continue
        listing.shown[here].append(label)
        if "/" in label.partition(" -> ")[0]:
            inside.append(here + label)
            listing.shown[here + label] = []
    return listing


def _more(label: str) -> bool:
    start, _, end = MORE.partition("{number}")
    return label.startswith(start) and label.endswith(end)


def _only(listing: _Listing, other: _Listing) -> list[str]:
    """What the first shows and the second does not, where it would."""
    paths = []
    for place, labels in listing.shown.items():
        other_labels = other.shown.get(place)
        if other_labels is None:  # the directory itself is named
            continue
        last = _order(other_labels[-1]) if other_labels else ""
        cut = place in other.cut
        paths += [place + each for each in labels if each not in other_labels and not (cut and _order(each) > last)]
    return paths


def _order(label: str) -> str:
    """Return the sort key of a name."""
    return label.partition(" -> ")[0].partition("/")[0]


def _named(label: str, paths: list[str]) -> list[str]:
    if not paths:
        return []
    more = f" {MORE.format(number=len(paths) - CHANGED_PATHS)}" if len(paths) > CHANGED_PATHS else ""
    return [f"{label}: {', '.join(paths[:CHANGED_PATHS])}{more}."]


class Repository(Struct, frozen=True, kw_only=True):
    """The state of a git repository."""

    branch: str | None
    commit: str
    status: tuple[tuple[str, str], ...] | None


def repository_of(workspace: Path) -> Repository | None:
    """The repository that contains a workspace; None where there is none, or no git."""
    where = _run_git(workspace, "rev-parse", "--is-inside-work-tree", "--show-prefix")
    if where is None or not where.startswith(b"true\n"):
        return None
    prefix = where.removeprefix(b"true\n").removesuffix(b"\n")
    branch = _run_git(workspace, "symbolic-ref", "--short", "--quiet", "HEAD")
    commit = _run_git(workspace, "rev-parse", "--short", "--verify", "--quiet", "HEAD") if branch is None else None
    return Repository(
        branch=None if branch is None else os.fsdecode(branch.removesuffix(b"\n")),
        commit=(commit or b"").decode("ascii", "replace").strip(),
        status=_status(workspace, prefix),
    )


def ignored_paths(workspace: Path, paths: Sequence[str]) -> frozenset[str]:
    """The paths among these, relative to the workspace, that git ignores."""
    if not paths:
        return frozenset()
    listed = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)  # or a name could be read as a pattern
    answer = _run_git(workspace, "check-ignore", "-z", "--stdin", input=listed)
    return frozenset(os.fsdecode(path.removeprefix(b"./")) for path in (answer or b"").split(b"\0") if path)


def _status(workspace: Path, prefix: bytes) -> tuple[tuple[str, str], ...] | None:
    options = ("--porcelain=v1", "-z", "--untracked-files=normal", "--no-renames", "--ignore-submodules=dirty")
    answer = _run_git(workspace, "status", *options, "--", ".", settings=_filters(workspace))
    if answer is None:
        return None
    lines = (line for line in answer.split(b"\0") if len(line) > 3)
    return tuple((line[:2].decode("ascii", "replace"), os.fsdecode(line[3:].removeprefix(prefix))) for line in lines)


def _filters(workspace: Path) -> dict[str, str]:
    """Settings that switch off the filters that the repository itself defines: git runs them to compare files."""
    answer = _run_git(workspace, "config", "--show-scope", "-z", "--name-only", "--get-regexp", r"^filter\.")
    words = (answer or b"").split(b"\0")
    names = {
        key.rpartition(b".")[0] for scope, key in zip(words[::2], words[1::2], strict=False) if scope not in _USERS
    }
    off = ((".clean", ""), (".process", ""), (".required", "false"))
    return {os.fsdecode(name) + member: value for name in sorted(names) for member, value in off}


def _run_git(
    workspace: Path, *arguments: str, input: bytes = b"", settings: Mapping[str, str] | None = None
) -> bytes | None:
    """The output of git; None where git is missing, fails or takes too long.

    Nothing of the workspace's own is run. A repository that came as an archive brings its configuration along, and that
    can name programs: hooks, monitors, filters, helpers for missing objects.
    """
    program = shutil.which("git")
    if program is None or not Path(program).is_absolute():  # a relative one would be the workspace's
        return None
    try:
        process = subprocess.Popen(
            [program, *_GIT_OPTIONS, *arguments],
            cwd=workspace,
            env=_environment(settings or {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            output, _ = process.communicate(input, timeout=GIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None
    return output if process.returncode == 0 else None


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT_VARIABLES
    }
    variables |= _ENVIRONMENT
    variables["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings.items()):
        variables[f"GIT_CONFIG_KEY_{number}"], variables[f"GIT_CONFIG_VALUE_{number}"] = key, value
    return variables
