"""Where a session's tools may read and write: its workspace, and for reading its skill and offload directories.

What counts is where a path really leads, through every link. A check and the opening of a file are two moments: files
are therefore opened without following links, so that one swapped in between leads to an error and not out.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Literal, NoReturn

from holdfast.errors import HoldfastError

from .contract import ToolExecutionError
from .safe_files import kind, open_file, put_file
from .text_limits import mend, shown

Access = Literal["read", "write"]

_LONGEST = 4_096
"""Bytes of a path that any system takes."""


class Workspace:
    """The workspace at `root`. `readable` and `offloads` may be read by those who ask for `outside`; `closed` are
    directories below the root that are no part of it, like our own state where somebody works in his home."""

    def __init__(
        self,
        root: Path,
        *,
        readable: Sequence[Path] = (),
        offloads: Sequence[Path] = (),
        closed: Sequence[Path] = (),
    ) -> None:
        try:
            self.root = Path(root).resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as problem:
            raise HoldfastError(
                f"the workspace {shown(root)} cannot be used ({problem}); name a directory"
            ) from problem
        if not self.root.is_dir():
            raise HoldfastError(f"the workspace {shown(root)} is not a directory; name one")
        self._named = lexical(root)
        self.offloads: tuple[Path, ...] = self._beside(offloads)
        self.readable: tuple[Path, ...] = (*self._beside(readable), *self.offloads)
        below = (Path(os.path.realpath(each)) for each in closed)
        self.closed = tuple(each for each in below if each != self.root and each.is_relative_to(self.root))

    def _beside(self, directories: Sequence[Path]) -> tuple[Path, ...]:
        """Where these really are. One that is named inside the workspace must not lead out of it: a stranger's
        repository could make anything readable with a link in the place of its skills."""
        names = []
        for each in directories:
            named, real = lexical(each), Path(os.path.realpath(each))
            inside = named.is_relative_to(self.root) or named.is_relative_to(self._named)
            if not inside or real.is_relative_to(self.root):
                names.append(real)
        return tuple(names)

    def resolve(self, path: str, access: Access, *, outside: bool = False) -> Path:
        """Where a path really leads; ToolExecutionError if a tool may not go there."""
        return self.locate(path, access, outside)[1]

    def leads(self, path: str) -> str | None:
        """Where a path leads, if links make that another place than the one it names."""
        named, real = self.relative(lexical(Path(self._joined(path)))), self.relative(self._real(path))
        return None if named == real else real

    def relative(self, path: Path) -> str:
        """A path as the model is shown it: from the workspace on, or whole where it is elsewhere."""
        for root in (self.root, self._named):
            if path.is_relative_to(root):
                return mend(path.relative_to(root).as_posix())
        return mend(str(path))

    def is_offloaded(self, path: Path) -> bool:
        """Whether this is an offloaded result."""
        try:
            real = Path(os.path.realpath(path))
        except (OSError, ValueError):
            return False
        return any(real.is_relative_to(each) for each in self.offloads)

    def open_read(self, path: str, *, outside: bool = False) -> BinaryIO:
        """A regular file that lies inside at the moment it is opened."""
        base, real = self.locate(path, "read", outside)
        try:
            return open_file(base, real.relative_to(base).parts)
        except OSError as problem:
            _fail(path, "read", problem)

    def write(self, path: str, data: bytes) -> Path:
        """Write a file as a whole, with the directories on the way; an existing one keeps its permissions."""
        base, real = self.locate(path, "write", False)
        try:
            put_file(base, real.relative_to(base).parts, data)
        except OSError as problem:
            _fail(path, "written", problem)
        return real

    def locate(self, path: str, access: Access, outside: bool) -> tuple[Path, Path]:
        """The directory that allows it, and the real path below it."""
        real = self._real(path)
        ours = self._is_closed(real)
        base = self.root if real.is_relative_to(self.root) and not ours else None
        if base is None and outside and access == "read":
            base = next((each for each in self.readable if real.is_relative_to(each)), None)
        if base is None and ours:
            raise ToolExecutionError(f"{shown(path)} belongs to Holdfast itself; tools cannot go there")
        if base is None:
            raise ToolExecutionError(self._outside(path))
        _only_files(path, real)
        return base, real

    def _is_closed(self, real: Path) -> bool:
        """Whether this is no part of the workspace: by name, or because it is the same thing under another name, as
        where a system takes capital letters for small ones."""
        if any(real.is_relative_to(each) for each in self.closed):
            return True
        closed = [status for each in self.closed if (status := _stat(each)) is not None]
        if not closed or not real.is_relative_to(self.root):
            return False
        places = (self.root.joinpath(*real.relative_to(self.root).parts[:depth]) for depth in range(1, len(real.parts)))
        return any(here is not None and os.path.samestat(here, each) for here in map(_stat, places) for each in closed)

    def _real(self, path: str) -> Path:
        if not isinstance(path, str) or not path:
            raise ToolExecutionError("the path is empty; give one relative to the workspace, or . for the workspace")
        if "\0" in path:
            raise ToolExecutionError(f"{shown(path)} is not a path: it contains a zero byte; leave it out")
        try:
            size = len(os.fsencode(path))
        except UnicodeEncodeError:
            raise ToolExecutionError(f"{shown(path)} is not a path: it is not valid Unicode; correct it") from None
        if size > _LONGEST:
            raise ToolExecutionError(f"{shown(path)} is too long for a path; give a shorter one")
        try:
            return Path(os.path.realpath(self._joined(path)))
        except OSError as problem:  # a link that went away while it was followed
            _fail(path, "used", problem)

    def _joined(self, path: str) -> str:
        home = path == "~" or path.startswith("~/")
        return os.path.join(self.root, os.path.expanduser(path) if home else path)  # noqa: PTH111, PTH118

    def _outside(self, path: str) -> str:
        named = lexical(Path(self._joined(path)))
        if named.is_relative_to(self.root) or named.is_relative_to(self._named):
            return f"{shown(path)} leads out of the workspace through a link; give a path that stays inside"
        return f"{shown(path)} is outside the workspace; give a path relative to the workspace"


def lexical(path: Path) -> Path:
    """A path as it is spelled, without `..` and from the root; links are not followed."""
    return Path(os.path.normpath(Path(path).absolute()))


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except (OSError, ValueError):
        return None


def _only_files(path: str, real: Path) -> None:
    """Refuse an existing path that is neither a file nor a directory."""
    try:
        mode = real.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    except (OSError, ValueError) as problem:
        _fail(path, "used", problem)
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        loop = stat.S_ISLNK(mode)  # a real path ends in a link only where links go round in a circle
        why = "its links lead back to itself" if loop else f"it is {kind(mode)}"
        raise ToolExecutionError(f"{shown(path)} cannot be used: {why}; give a file or a directory")


def _fail(path: str, verb: str, problem: OSError | ValueError) -> NoReturn:
    reason = (problem.strerror if isinstance(problem, OSError) else None) or str(problem)
    raise ToolExecutionError(
        f"{shown(path)} cannot be {verb}: {mend(reason)}", {"errno": getattr(problem, "errno", None)}
    ) from problem
