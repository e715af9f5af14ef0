"""A directory as an indented list: sorted, bounded, and the levels nearest to it first when there is too much.

Symlinks are named with what they say and never followed. Directories that hold somebody else's files by the thousand
are named and not opened, unless they are what was asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec import Struct

from holdfast.config import printable

from ..toolkit import opened_directory
from ..workspace import Workspace

MOST_ENTRIES = 1000
UNOPENED = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})


class Entry(Struct):
    """A name and, of a directory that was opened, what is in it; `left` entries of it found no room."""

    label: str
    name: str
    directory: bool = False
    inside: list[Entry] | None = None
    left: int = 0
    unreadable: bool = False


class Lister:
    """Lists the directory at `parts` of a workspace. `entries` counts what was listed."""

    def __init__(self, workspace: Workspace, parts: tuple[str, ...], check: Callable[[], None]) -> None:
        self._root = workspace.root
        self._closed = workspace.closed
        self._parts = parts
        self._check = check
        self.entries = 0

    def listing(self, depth: int) -> str:
        top = Entry(label="", name="", directory=True)
        self._open(top, ())
        level: list[tuple[Entry, tuple[str, ...]]] = [(top, ())]
        for _ in range(depth - 1):
            level = [
                (entry, (*parts, entry.name))
                for parent, parts in level
                for entry in parent.inside or ()
                if entry.directory and entry.name not in UNOPENED
            ]
            for entry, parts in level:
                if self.entries >= MOST_ENTRIES:
                    break
                try:
                    self._open(entry, parts)
                except OSError:  # gone meanwhile, swapped for a symlink, or not for us
                    entry.unreadable = True
        lines = _lines(top, 0)
        if self.entries >= MOST_ENTRIES:
            lines.append(f"[Stopped at {MOST_ENTRIES} entries; list a directory below for the rest.]")
        return "\n".join(lines) or "[The directory is empty.]"

    def _open(self, entry: Entry, parts: tuple[str, ...]) -> None:
        self._check()
        where = (*self._parts, *parts)
        if self._root.joinpath(*where) in self._closed:
            raise PermissionError
        with opened_directory(self._root, where) as at:
            with os.scandir(at) as found:
                items = sorted(found, key=lambda item: item.name)
            room = MOST_ENTRIES - self.entries
            entry.inside = [_entry(item, at) for item in items[:room]]
        entry.left = max(0, len(items) - room)
        self.entries += len(entry.inside)


def _entry(item: os.DirEntry[str], at: int) -> Entry:
    name = printable(item.name)
    if item.is_symlink():
        try:
            target = os.readlink(item.name, dir_fd=at)
        except OSError:
            target = "?"
        return Entry(label=f"{name} -> {printable(target)}", name=item.name)
    if item.is_dir(follow_symlinks=False):
        return Entry(label=f"{name}/", name=item.name, directory=True)
    if not item.is_file(follow_symlinks=False):
        return Entry(label=f"{name} (not a regular file)", name=item.name)
    return Entry(label=name, name=item.name)


def _lines(entry: Entry, indent: int) -> list[str]:
    lines: list[str] = []
    for item in entry.inside or ():
        lines.append("  " * indent + item.label + (" (not readable)" if item.unreadable else ""))
        lines += _lines(item, indent + 1)
    if entry.left:
        lines.append("  " * indent + f"[{entry.left} more]")
    return lines
