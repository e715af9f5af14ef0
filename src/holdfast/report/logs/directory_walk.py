"""The logs below a directory, each once, in a fixed order whatever order the file system lists them in.

The order is by name, with two exceptions that formats ask for: the files of a session's sub-agents come directly after
its own (`owner(path, start)` names the file, by its stem, after which a file beside it belongs), and sessions by when
they began (`began(path, start)`, empty where a file does not say); of those that began as one, which are copies, the
largest first, because it holds most of the conversation.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from .formats import UNREADABLE, format_of, part, source
from .lines import beginning
from .records import Source

_LINES = (".jsonl", ".ndjson", ".json")
SUFFIXES = (*(name + packed for name in _LINES for packed in ("", ".gz", ".zst")), ".db", ".sqlite", ".sqlite3")
"""Files of a directory that are looked into; a file that is named itself is looked into whatever its name."""
PASSED_OVER = {".git", "node_modules", "tool-results"}
"""Directories that hold no logs: the last is where Claude Code keeps long results of tools."""

SeenFiles = set[tuple[int, int]]
Place = tuple[str, int, str]
"""Name without ending, rank (file, directory of that name, files it owns), ending or name."""
Key = tuple[Place, ...]
Start = tuple[str, int]


def first_time(state: os.stat_result, seen: SeenFiles) -> bool:
    """Whether a file or directory has not been looked at; links may lead to one twice, or round in a circle."""
    key = (state.st_dev, state.st_ino)
    if key in seen:
        return False
    seen.add(key)
    return True


def tree(top: Path, seen: SeenFiles) -> list[Source]:
    """The logs of a file, or of a directory and all below it; what cannot be opened is among them."""
    found: list[tuple[Key, Source]] = []
    starts: dict[tuple[Key, str], Start] = {}
    waiting: list[tuple[Key, Path]] = [((), top)]
    while waiting:
        key, path = waiting.pop()
        try:
            state = path.stat()
        except OSError:  # gone since, or a link that leads nowhere
            continue
        if not first_time(state, seen):
            continue
        if stat.S_ISREG(state.st_mode):
            if path.name.endswith(SUFFIXES):
                found += _file(key, path, state.st_size, starts)
        elif stat.S_ISDIR(state.st_mode) and path.name not in PASSED_OVER:
            known = format_of(path, b"")
            if known is not None:
                found.append((key, source(path, known, _size(path))))
                continue
            try:
                waiting += [((*key, _place(inside.name)), inside) for inside in path.iterdir()]
            except OSError:
                found.append((key, source(path, UNREADABLE, 0)))

    def order(pair: tuple[Key, Source]) -> list[tuple[Start, Place]]:
        key = pair[0]
        return [(starts.get((key[:depth], place[0]), ("", 0)), place) for depth, place in enumerate(key)]

    return [each for _, each in sorted(found, key=order)]


def _place(name: str) -> Place:
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix), 0, suffix
    return name, 1, ""


def _file(key: Key, path: Path, size: int, starts: dict[tuple[Key, str], Start]) -> list[tuple[Key, Source]]:
    """A file of a directory: nothing where its format is unknown."""
    try:
        start = beginning(path)
        known = format_of(path, start)
    except OSError:
        return [(key, source(path, UNREADABLE, size))]
    if known is None:
        return []
    owner, began = part(known, "owner"), part(known, "began")
    stem = owner(path, start) if owner else None
    if key and stem is not None:
        key = (*key[:-1], (stem, 2, path.name))
    elif key and began:
        starts[key[:-1], key[-1][0]] = (began(path, start), -size)
    return [(key, source(path, known, size))]


def _size(directory: Path) -> int:
    """Bytes of all files below a directory."""
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += Path(folder, name).lstat().st_size
            except OSError:
                continue
    return total
