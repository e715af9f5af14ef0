"""USER.md and MEMORY.md of a workspace: what is known of the user, and notes about the project.

Both are small and have limits in bytes. They are Markdown, one entry per line. People edit them too, so any content is
readable: mended, and cut where it is too long. No link is followed, one process writes at a time, and a file is written
whole or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

from msgspec import Struct

from holdfast.config.sections import MemorySettings
from holdfast.errors import HoldfastError
from holdfast.tools import directory, no_file, open_file

from .texts import beginning, one_line, plain, whole

try:
    import fcntl
except ImportError:  # no advisory locks here: the last of two processes wins
    fcntl = None  # type: ignore[assignment]

File = Literal["user", "memory"]
Operation = Literal["add", "replace", "consolidate"]

FILES: tuple[File, ...] = ("user", "memory")
STORES: Mapping[File, str] = {"user": "USER.md", "memory": "MEMORY.md"}
"""The name of each file, which is also the name of its store in events."""

SET_ASIDE = ".old"
"""What is written over, and could not be shown in full, stays under this ending."""

LOCK = "memory.lock"
LOCK_TIMEOUT_S = 10.0
"""Seconds to wait for the lock of another process. A killed process holds none."""

_PRIVATE = 0o600
_OWN = os.O_CLOEXEC | getattr(os, "O_NOFOLLOW", 0)
_LIST = _OWN | os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)

_MOST = 1 << 20
"""Bytes that are read of a file, whatever its size."""
_BULLETS = ("- ", "* ")
_LINKS = {
    errno.ELOOP: "it is a link, and links are not followed",
    errno.ENOTDIR: "what should be its directory is a link or a file",
}


class Change(Struct, frozen=True, kw_only=True):
    """The result of a write: the file's new text and the message about it."""

    store: str
    operation: Operation
    text: str
    said: str

    @property
    def digest(self) -> str:
        return digest(self.text)

    @property
    def size(self) -> int:
        return len(_data(self.text))


class _Content(Struct, frozen=True, kw_only=True):
    """A file's content on disk. `complete` if the text represents all of its bytes."""

    text: str
    size: int
    complete: bool


class MemoryFiles:
    """The two files in `directory`, which is the `.holdfast` of a workspace. Any number of processes may use them."""

    def __init__(self, directory: Path, settings: MemorySettings = MemorySettings()) -> None:  # noqa: B008  frozen
        directory = Path(directory).absolute()
        self._base, self._folder = directory.parent, directory.name
        self._settings = settings

    def read(self, file: File) -> str:
        """The text of a file as a model may see it: empty if there is none, with a note if not all of it can be shown.
        Never raises: a session must begin whatever the file holds."""
        store, hard = STORES[file], self.caps(file)[1]
        try:
            content = _content(*load(self._real(), self._folder, store, _MOST))
        except OSError as problem:
            return f"[{store} cannot be read: {_why(problem)}.]"
        if len(_data(content.text)) <= hard and (content.complete or content.size <= _MOST):
            return content.text
        head = beginning(content.text, hard)
        note = (
            f"[{store} has {content.size} bytes, more than the {hard} it may have; the rest is not shown. "
            f"It is in {self._folder}/{store}. Consolidate it.]"
        )
        return f"{head}\n{note}" if head else note

    def add(self, file: File, text: str) -> Change:
        """Append one line."""
        store, line = STORES[file], one_line(text)
        if not line.strip("-*# "):
            raise HoldfastError(f"there is nothing to add to {store}; give a text.")
        entry = line if line.startswith((*_BULLETS, "#")) else f"- {line}"

        def change(content: _Content) -> str:
            if _bare(entry) in {_bare(line) for line in content.text.split("\n")}:
                raise HoldfastError(f"{store} says this already; nothing was added.")
            return f"{content.text}\n{entry}" if content.text else entry

        return self._change(file, "add", change)

    def replace(self, file: File, old: str, new: str) -> Change:
        """Put `new` in the place of the one passage that says exactly `old`; nothing removes it."""
        store, passage, put = STORES[file], plain(old), plain(new)
        if not passage.strip():
            raise HoldfastError(f"the passage of {store} to be replaced is empty; give it as it stands there.")

        def change(content: _Content) -> str:
            times = content.text.count(passage)
            if times == 0:
                raise HoldfastError(f"{store} does not say that; give the passage exactly as it stands there.")
            if times > 1:
                raise HoldfastError(f"{store} says that {times} times; give more of the passage, so that it is one.")
            before, _, after = content.text.partition(passage)
            return before + put + after if put.strip() else _without(before, after)

        return self._change(file, "replace", change)

    def consolidate(self, file: File, text: str) -> Change:
        """Put a shorter text in the place of all there is."""
        store, shorter = STORES[file], whole(text)

        def change(content: _Content) -> str:
            size = len(_data(shorter))
            if size > content.size:
                raise HoldfastError(
                    f"{store} has {content.size} bytes and the new text {size}; consolidate makes it shorter: "
                    "give a shorter text, or add what is new."
                )
            return shorter

        return self._change(file, "consolidate", change)

    def _change(self, file: File, operation: Operation, change: Callable[[_Content], str]) -> Change:
        """Read, change and write under a lock."""
        store, (soft, hard) = STORES[file], self.caps(file)
        with _in_words(store), locked(self._real(), self._folder) as at:
            content = _content(*load_at(at, store, _MOST))
            text = whole(change(content))
            data = _data(text)
            if len(data) > hard:
                raise HoldfastError(
                    f"{store} has {content.size} bytes and would have {len(data)}, more than the {hard} it may have; "
                    "nothing was changed. Consolidate it to a shorter text first."
                )
            if text == content.text and content.complete:
                raise HoldfastError(f"{store} says exactly this already; nothing was changed.")
            if not content.complete or len(_data(content.text)) > hard:
                set_aside(at, store, store + SET_ASIDE)
            put(at, store, data)
        said = f"{store} is changed and has {len(data)} of {hard} bytes."
        if len(data) > soft:
            said += f" That is more than {soft}: consolidate it soon."
        return Change(store=store, operation=operation, text=text, said=said)

    def caps(self, file: File) -> tuple[int, int]:
        """The soft cap, from which consolidation is asked for, and the hard cap, both in bytes."""
        settings = self._settings
        if file == "user":
            return settings.user_soft, settings.user_hard
        return settings.notes_soft, settings.notes_hard

    def _real(self) -> Path:
        """The workspace may be named through a link; what is in it may not be one."""
        return Path(os.path.realpath(self._base))


def digest(text: str) -> str:
    """Return the SHA-256 of a file with this text."""
    return hashlib.sha256(_data(text)).hexdigest()


def _data(text: str) -> bytes:
    return f"{text}\n".encode() if text else b""


def _content(data: bytes, size: int) -> _Content:
    """Bytes beyond the limit of one read count as not shown, and so does what is no UTF-8."""
    try:
        text, complete = data.decode("utf-8"), size <= len(data)
    except UnicodeDecodeError:
        text, complete = data.decode("utf-8", "replace"), False
    return _Content(text=whole(text), size=size, complete=complete)


def _bare(line: str) -> str:
    """Normalise a line for comparison: lines with the same words are the same entry."""
    return " ".join(line.strip().removeprefix("-").removeprefix("*").casefold().split()).rstrip(".")


def _without(before: str, after: str) -> str:
    """The text without a passage between these, and without the line that held nothing else."""
    start, end = before.rfind("\n") + 1, after.find("\n")
    rest = before[start:] + (after if end < 0 else after[:end])
    if rest.strip(" -*"):
        return before + after
    return before[:start].rstrip("\n") + ("" if end < 0 else after[end:])


@contextmanager
def _in_words(store: str) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise HoldfastError(f"{store} cannot be written: {_why(problem)}; nothing was changed.") from problem


def _why(problem: OSError) -> str:
    return _LINKS.get(problem.errno or 0) or problem.strerror or type(problem).__name__


def load(base: Path, folder: str, name: str, most: int) -> tuple[bytes, int]:
    """The first `most` bytes of a file, and its size; nothing where there is no file."""
    try:
        file = open_file(base, (folder, name))
    except FileNotFoundError:
        return b"", 0
    return _read(file, most)


@contextlib.contextmanager
def locked(base: Path, folder: str, timeout: float = LOCK_TIMEOUT_S) -> Iterator[int]:
    """Lock the directory, made if it is missing, against other processes; gives its descriptor."""
    with directory(base, (folder,), make=True) as at:
        below = os.open(".", _LIST, dir_fd=at)
    try:
        lock = _locked(below, time.monotonic() + timeout)
        try:
            yield below
        finally:
            os.close(lock)
    finally:
        os.close(below)


def load_at(at: int, name: str, most: int) -> tuple[bytes, int]:
    """The same, from an open directory."""
    try:
        descriptor = os.open(name, _OWN | os.O_RDONLY | os.O_NONBLOCK, dir_fd=at)  # a pipe must not hold us up
    except FileNotFoundError:
        return b"", 0
    return _read(os.fdopen(descriptor, "rb"), most)


def put(at: int, name: str, data: bytes) -> None:
    """Write a file. A reader, also after a crash, gets the old content or the new."""
    temporary = f".{name}.tmp"  # one name, since we are locked: what a killed process left behind is used up
    with contextlib.suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=at)
    descriptor = os.open(temporary, _OWN | os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE, dir_fd=at)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=at)
        raise
    with contextlib.suppress(OSError):  # not every file system can; the file itself is safe
        os.fsync(at)


def set_aside(at: int, name: str, other: str) -> None:
    """Link the file under a second name, whatever becomes of the first."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(other, dir_fd=at)
    os.link(name, other, src_dir_fd=at, dst_dir_fd=at, follow_symlinks=False)


def _read(file: BinaryIO, most: int) -> tuple[bytes, int]:
    with file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise no_file(status.st_mode)
        data = file.read(most)
        return data, max(status.st_size, len(data))


def _locked(at: int, until: float) -> int:
    while True:
        lock = os.open(LOCK, _OWN | os.O_RDWR | os.O_CREAT | os.O_NONBLOCK, _PRIVATE, dir_fd=at)
        try:
            if _taken(lock, at):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
        if time.monotonic() > until:
            raise OSError(errno.EAGAIN, "another process has been writing it for too long")
        time.sleep(0.005)


def _taken(lock: int, at: int) -> bool:
    try:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Somebody who tidied up may have removed the file that we waited for; then another one is the lock.
        return os.path.samestat(os.fstat(lock), os.stat(LOCK, dir_fd=at, follow_symlinks=False))
    except (BlockingIOError, FileNotFoundError):
        return False
