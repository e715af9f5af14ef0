"""What git says of a workspace, asked in a way that runs nothing of the workspace's own.

A repository that came as an archive brings its configuration along, and that can name programs: hooks, monitors,
filters, helpers for missing objects. None of them is started. No answer within a moment counts as none.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

TIMEOUT_S = 2.0

_OPTIONS = ("--no-pager", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
_KEPT = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_CEILING_DIRECTORIES")
"""Of the variables that speak to git: those that say where settings are, not which repository is meant."""
_USERS = (b"system", b"global", b"command")
"""Where settings come from that the user made himself."""


class Repository(Struct, frozen=True, kw_only=True):
    """`branch` is None where none is checked out, `commit` then what is. `status` are pairs of the two letters and a
    path from the workspace on; None where git did not say."""

    branch: str | None
    commit: str
    status: tuple[tuple[str, str], ...] | None


def look(workspace: Path) -> Repository | None:
    """The repository that a workspace is in; None where there is none, or no git."""
    where = _ask(workspace, "rev-parse", "--is-inside-work-tree", "--show-prefix")
    if where is None or not where.startswith(b"true\n"):
        return None
    prefix = where.removeprefix(b"true\n").removesuffix(b"\n")
    branch = _ask(workspace, "symbolic-ref", "--short", "--quiet", "HEAD")
    commit = _ask(workspace, "rev-parse", "--short", "--verify", "--quiet", "HEAD") if branch is None else None
    return Repository(
        branch=None if branch is None else os.fsdecode(branch.removesuffix(b"\n")),
        commit=(commit or b"").decode("ascii", "replace").strip(),
        status=_status(workspace, prefix),
    )


def ignored(workspace: Path, paths: Sequence[str]) -> frozenset[str]:
    """Which of these paths, relative to the workspace, git ignores."""
    if not paths:
        return frozenset()
    listed = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)  # or a name could be read as a pattern
    answer = _ask(workspace, "check-ignore", "-z", "--stdin", input=listed)
    return frozenset(os.fsdecode(path.removeprefix(b"./")) for path in (answer or b"").split(b"\0") if path)


def _status(workspace: Path, prefix: bytes) -> tuple[tuple[str, str], ...] | None:
    options = ("--porcelain=v1", "-z", "--untracked-files=normal", "--no-renames", "--ignore-submodules=dirty")
    answer = _ask(workspace, "status", *options, "--", ".", settings=_filters(workspace))
    if answer is None:
        return None
    lines = (line for line in answer.split(b"\0") if len(line) > 3)
    return tuple((line[:2].decode("ascii", "replace"), os.fsdecode(line[3:].removeprefix(prefix))) for line in lines)


def _filters(workspace: Path) -> dict[str, str]:
    """Settings that switch off the filters that the repository itself defines: git runs them to compare files."""
    answer = _ask(workspace, "config", "--show-scope", "-z", "--name-only", "--get-regexp", r"^filter\.")
    words = (answer or b"").split(b"\0")
    names = {
        key.rpartition(b".")[0] for scope, key in zip(words[::2], words[1::2], strict=False) if scope not in _USERS
    }
    off = ((".clean", ""), (".process", ""), (".required", "false"))
    return {os.fsdecode(name) + member: value for name in sorted(names) for member, value in off}


def _ask(
    workspace: Path, *arguments: str, input: bytes = b"", settings: Mapping[str, str] | None = None
) -> bytes | None:
    """What git prints; None where it is missing, fails or takes too long."""
    program = shutil.which("git")
    if program is None or not Path(program).is_absolute():  # a relative one would be the workspace's
        return None
    try:
        process = subprocess.Popen(
            [program, *_OPTIONS, *arguments],
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
            output, _ = process.communicate(input, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None
    return output if process.returncode == 0 else None


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    made = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT}
    made |= _ENVIRONMENT
    made["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings.items()):
        made[f"GIT_CONFIG_KEY_{number}"], made[f"GIT_CONFIG_VALUE_{number}"] = key, value
    return made
