"""Finds logs and tells their formats by content: in the paths a user gives, or where known clients keep them."""

from __future__ import annotations

import importlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote

from holdfast.config import load
from holdfast.errors import HoldfastError

from .lines import beginning, reason
from .records import Advance, BrokenSource, Reader, Record, Source

MODULES = {
    # The order is the order of asking: what is told by unmistakable members first, the general forms last.
    "claude-code": "claude_code",
    "codex": "codex",
    "pi": "pi",
    "opencode": "opencode",
    "store": "gateway_store",
    "shapes": "shapes",
    "bodies": "bodies",
    "chat": "chat",
}
CLIENTS = {"claude-code", "codex", "pi", "opencode"}
"""Formats that one client writes and that are named after it."""
KNOWN = (
    "Claude Code transcripts, Codex rollouts, pi and opencode sessions, the gateway's store, "
    "JSONL of request bodies, OpenAI chat JSON and shape traces"
)
UNREADABLE = "unreadable"
"""The format of a file or directory that could not be opened; reading it says why."""
EMPTY = "empty"


def part(format: str, name: str) -> Callable[..., Any] | None:
    """A function of a format's module, None where it has none of that name."""
    function: Callable[..., Any] | None = getattr(
        importlib.import_module(f".{MODULES[format]}", __package__), name, None
    )
    return function


def needed(format: str, name: str) -> Callable[..., Any]:
    function = part(format, name)
    if function is None:
        raise AttributeError(f"the format {format} has no {name}")
    return function


def format_of(path: Path, start: bytes) -> str | None:
    """The format of a file that begins so, or of a directory."""
    return next((name for name in MODULES if needed(name, "is_mine")(path, start)), None)


def source(path: Path, format: str, size: int) -> Source:
    return Source(path=path, format=format, size=size, client=format if format in CLIENTS else "")


def places(home: Path, environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """(format, file or directory), whether or not it is there."""

    def named(variable: str, *default: str) -> Path:
        value = environ.get(variable, "").strip()
        if value == "~" or value.startswith("~/"):
            return home / value[2:]
        return home / value if value else home.joinpath(*default)  # an absolute value stands by itself

    if environ.get("CLAUDE_CONFIG_DIR", "").strip():
        yield "claude-code", named("CLAUDE_CONFIG_DIR") / "projects"
    else:
        yield "claude-code", home / ".claude" / "projects"
        yield "claude-code", named("XDG_CONFIG_HOME", ".config") / "claude" / "projects"
    codex = named("CODEX_HOME", ".codex")
    yield "codex", codex / "sessions"
    yield "codex", codex / "archived_sessions"
    pi = named("PI_CODING_AGENT_DIR", ".pi", "agent")
    sessions = environ.get("PI_CODING_AGENT_SESSION_DIR", "").strip()
    yield "pi", named("PI_CODING_AGENT_SESSION_DIR") if sessions else pi / "sessions"
    opencode = named("XDG_DATA_HOME", ".local", "share") / "opencode"
    yield "opencode", opencode / "storage"
    yield "opencode", opencode / (environ.get("OPENCODE_DB", "").strip() or "opencode.db")
    yield "store", _store(home, environ)


def _store(home: Path, environ: Mapping[str, str]) -> Path:
    """The gateway's database as the configuration of the home directory names it."""
    try:
        config = load(workspace=None, home=None, environ={**environ, "HOME": str(home)})
        return Path(unquote(config.settings.store.url.removeprefix("sqlite:///")))
    except HoldfastError:
        return home / ".holdfast" / "holdfast.db"


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
    keyed_sources: list[tuple[Key, Source]] = []
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
                keyed_sources += _file(key, path, state.st_size, starts)
        elif stat.S_ISDIR(state.st_mode) and path.name not in PASSED_OVER:
            directory_format = format_of(path, b"")
            if directory_format is not None:
                keyed_sources.append((key, source(path, directory_format, _size(path))))
                continue
            try:
                waiting += [((*key, _place(inside.name)), inside) for inside in path.iterdir()]
            except OSError:
                keyed_sources.append((key, source(path, UNREADABLE, 0)))

    def order(pair: tuple[Key, Source]) -> list[tuple[Start, Place]]:
        key = pair[0]
        return [(starts.get((key[:depth], place[0]), ("", 0)), place) for depth, place in enumerate(key)]

    return [each for _, each in sorted(keyed_sources, key=order)]


def _place(name: str) -> Place:
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix), 0, suffix
    return name, 1, ""


def _file(key: Key, path: Path, size: int, starts: dict[tuple[Key, str], Start]) -> list[tuple[Key, Source]]:
    """A file of a directory: nothing where its format is unknown."""
    try:
        start = beginning(path)
        file_format = format_of(path, start)
    except OSError:
        return [(key, source(path, UNREADABLE, size))]
    if file_format is None:
        return []
    owner, began = part(file_format, "owner"), part(file_format, "began")
    stem = owner(path, start) if owner else None
    if key and stem is not None:
        key = (*key[:-1], (stem, 2, path.name))
    elif key and began:
        starts[key[:-1], key[-1][0]] = (began(path, start), -size)
    return [(key, source(path, file_format, size))]


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


__all__ = ["EMPTY", "KNOWN", "UNREADABLE", "LogReader", "home_sources", "records", "sniff", "sources"]


class LogReader:
    """One run over many sources. A request that a client copied from one file into another is given once: a module
    with `reading()` instead of `read` makes a reader for one run, which remembers what it has given."""

    def __init__(self) -> None:
        self._readers: dict[str, Reader] = {}

    def records(self, source: Source, advance: Advance) -> Iterator[Record]:
        if source.format == UNREADABLE:
            yield _unreadable(source.path)
        elif source.format != EMPTY:
            yield from self._reader(source.format)(source.path, advance)

    def _reader(self, format: str) -> Reader:
        reader = self._readers.get(format)
        if reader is None:
            make = part(format, "reading")
            reader = self._readers[format] = make() if make else needed(format, "read")
        return reader


def records(source: Source, advance: Advance) -> Iterator[Record]:
    """The requests of one source by itself; for all sources of a run, use one `LogReader`."""
    return LogReader().records(source, advance)


def _unreadable(path: Path) -> BrokenSource:
    try:
        if path.is_dir():
            list(path.iterdir())
        else:
            beginning(path)
    except OSError as error:
        return BrokenSource(path.name, reason(error))
    return BrokenSource(path.name, "could not be read when it was looked for")


def sniff(path: Path) -> str | None:
    """A format's name from the beginning of a file; raises OSError where it cannot be read."""
    return format_of(path, b"" if path.is_dir() else beginning(path))


def sources(paths: Sequence[Path]) -> list[Source]:
    """The logs under the paths, each once, in a fixed order."""
    seen: SeenFiles = set()
    all_sources: list[Source] = []
    for path in paths:
        try:
            state = path.stat()
        except OSError as error:
            raise HoldfastError(f"{path} {reason(error)}; check the path and its permissions") from error
        if stat.S_ISDIR(state.st_mode):
            inside = tree(path, seen)
            if not inside and not all_sources:
                raise HoldfastError(f"{path} holds no log of a known format; known are {KNOWN}")
            all_sources += inside
        elif not stat.S_ISREG(state.st_mode):
            raise HoldfastError(f"{path} is neither a file nor a directory; give logs or directories of them")
        elif first_time(state, seen):
            all_sources.append(_named(path, state.st_size))
    return all_sources


def _named(path: Path, size: int) -> Source:
    """A file that the user named: it must be readable and of a known format, or empty."""
    try:
        start = beginning(path)
    except OSError as error:
        raise HoldfastError(f"{path} {reason(error)}; check the path and its permissions") from error
    file_format = format_of(path, start) if start.strip() else EMPTY
    if file_format is None:
        raise HoldfastError(f"{path} is of no known format; known are {KNOWN}")
    return source(path, file_format, size)


def home_sources(home: Path, environ: Mapping[str, str]) -> list[Source]:
    """The logs of known clients under a home directory, client by client; empty where there are none."""
    seen: SeenFiles = set()
    all_sources: list[Source] = []
    for name, place in places(home, environ):
        all_sources += [each for each in tree(place, seen) if each.format in (name, UNREADABLE)]
    return all_sources


_KINDS = {
    "claude-code": "Claude Code",
    "codex": "Codex",
    "store": "the gateway's store",
    "shapes": "shape traces",
    "bodies": "request bodies",
    "chat": "conversations",
    "empty": "empty files",
    "unreadable": "unreadable files",
}


class LogFile(Protocol):
    @property
    def format(self) -> str: ...
    @property
    def size(self) -> int: ...


def in_words(files: Sequence[LogFile]) -> str:
    """`3 logs of Claude Code and 1 of Codex (12 MB)`."""
    kinds = Counter(_KINDS.get(file.format, file.format) for file in files)
    parts = [
        f"{number:,}{'' if i else ' log' if number == 1 else ' logs'} of {kind}"
        for i, (kind, number) in enumerate(kinds.items())
    ]
    listed = parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + f" and {parts[-1]}"
    return f"{listed} ({megabytes(sum(file.size for file in files))})"


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB" if size >= 9_500_000 else f"{size / 1e6:,.1f} MB"
