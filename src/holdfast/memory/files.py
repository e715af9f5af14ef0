"""USER.md and MEMORY.md of a workspace: what is known of the user, and notes about the project.

Both are small and have limits in bytes. They are Markdown, one entry in a line; people edit them too, so whatever is
found there is readable: mended, and cut where it is too long.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from msgspec import Struct

from holdfast.config.sections import Memory
from holdfast.errors import HoldfastError

from . import private_folder
from .texts import beginning, one_line, plain, whole

File = Literal["user", "memory"]
Operation = Literal["add", "replace", "consolidate"]

FILES: tuple[File, ...] = ("user", "memory")
STORES: Mapping[File, str] = {"user": "USER.md", "memory": "MEMORY.md"}
"""The name of each file, which is also the name of its store in events."""

SET_ASIDE = ".old"
"""What is written over, and could not be shown in full, stays under this ending."""

_MOST = 1 << 20
"""Bytes that are read of a file, whatever its size."""
_BULLETS = ("- ", "* ")
_LINKS = {
    errno.ELOOP: "it is a link, and links are not followed",
    errno.ENOTDIR: "what should be its directory is a link or a file",
}


class Change(Struct, frozen=True, kw_only=True):
    """What a write came to: the whole text now, and what is said about it."""

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


class _Found(Struct, frozen=True, kw_only=True):
    """A file as it is on disk. `complete` where its text says all that its bytes do."""

    text: str
    size: int
    complete: bool


class MemoryFiles:
    """The two files in `directory`, which is the `.holdfast` of a workspace. Any number of processes may use them."""

    def __init__(self, directory: Path, settings: Memory = Memory()) -> None:  # noqa: B008  frozen
        directory = Path(directory).absolute()
        self._base, self._folder = directory.parent, directory.name
        self._settings = settings

    def read(self, file: File) -> str:
        """What a file says, as a model may be told it: empty where there is none, with a note where not all of it can
        be shown. Never an error: a session must begin whatever somebody put there."""
        store, hard = STORES[file], self.caps(file)[1]
        try:
            found = _found(*private_folder.load(self._real(), self._folder, store, _MOST))
        except OSError as problem:
            return f"[{store} cannot be read: {_why(problem)}.]"
        if len(_data(found.text)) <= hard and (found.complete or found.size <= _MOST):
            return found.text
        head = beginning(found.text, hard)
        note = (
            f"[{store} has {found.size} bytes, more than the {hard} it may have; the rest is not shown. "
            f"It is in {self._folder}/{store}. Consolidate it.]"
        )
        return f"{head}\n{note}" if head else note

    def add(self, file: File, text: str) -> Change:
        """Append one line."""
        store, said = STORES[file], one_line(text)
        if not said.strip("-*# "):
            raise HoldfastError(f"there is nothing to add to {store}; give a text.")
        entry = said if said.startswith((*_BULLETS, "#")) else f"- {said}"

        def change(found: _Found) -> str:
            if _bare(entry) in {_bare(line) for line in found.text.split("\n")}:
                raise HoldfastError(f"{store} says this already; nothing was added.")
            return f"{found.text}\n{entry}" if found.text else entry

        return self._change(file, "add", change)

    def replace(self, file: File, old: str, new: str) -> Change:
        """Put `new` in the place of the one passage that says exactly `old`; nothing removes it."""
        store, passage, put = STORES[file], plain(old), plain(new)
        if not passage.strip():
            raise HoldfastError(f"the passage of {store} to be replaced is empty; give it as it stands there.")

        def change(found: _Found) -> str:
            times = found.text.count(passage)
            if times == 0:
                raise HoldfastError(f"{store} does not say that; give the passage exactly as it stands there.")
            if times > 1:
                raise HoldfastError(f"{store} says that {times} times; give more of the passage, so that it is one.")
            before, _, after = found.text.partition(passage)
            return before + put + after if put.strip() else _without(before, after)

        return self._change(file, "replace", change)

    def consolidate(self, file: File, text: str) -> Change:
        """Put a shorter text in the place of all there is."""
        store, made = STORES[file], whole(text)

        def change(found: _Found) -> str:
            size = len(_data(made))
            if size > found.size:
                raise HoldfastError(
                    f"{store} has {found.size} bytes and the new text {size}; consolidate makes it shorter: "
                    "give a shorter text, or add what is new."
                )
            return made

        return self._change(file, "consolidate", change)

    def _change(self, file: File, operation: Operation, change: Callable[[_Found], str]) -> Change:
        """Read, change and write while nobody else does."""
        store, (soft, hard) = STORES[file], self.caps(file)
        with _in_words(store), private_folder.alone(self._real(), self._folder) as at:
            found = _found(*private_folder.load_at(at, store, _MOST))
            text = whole(change(found))
            data = _data(text)
            if len(data) > hard:
                raise HoldfastError(
                    f"{store} has {found.size} bytes and would have {len(data)}, more than the {hard} it may have; "
                    "nothing was changed. Consolidate it to a shorter text first."
                )
            if text == found.text and found.complete:
                raise HoldfastError(f"{store} says exactly this already; nothing was changed.")
            if not found.complete or len(_data(found.text)) > hard:
                private_folder.set_aside(at, store, store + SET_ASIDE)
            private_folder.put(at, store, data)
        said = f"{store} is changed and has {len(data)} of {hard} bytes."
        if len(data) > soft:
            said += f" That is more than {soft}: consolidate it soon."
        return Change(store=store, operation=operation, text=text, said=said)

    def caps(self, file: File) -> tuple[int, int]:
        """From how many bytes on tidying up is asked for, and how many there may be."""
        given = self._settings
        return (given.user_soft, given.user_hard) if file == "user" else (given.notes_soft, given.notes_hard)

    def _real(self) -> Path:
        """The workspace may be named through a link; what is in it may not be one."""
        return Path(os.path.realpath(self._base))


def digest(text: str) -> str:
    """The SHA-256 of a file that says exactly this."""
    return hashlib.sha256(_data(text)).hexdigest()


def _data(text: str) -> bytes:
    return f"{text}\n".encode() if text else b""


def _found(data: bytes, size: int) -> _Found:
    """Bytes beyond the limit of one read count as not shown, and so does what is no UTF-8."""
    try:
        text, complete = data.decode("utf-8"), size <= len(data)
    except UnicodeDecodeError:
        text, complete = data.decode("utf-8", "replace"), False
    return _Found(text=whole(text), size=size, complete=complete)


def _bare(line: str) -> str:
    """A line by what it says: two that differ in no word are the same entry."""
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
