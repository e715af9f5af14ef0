"""The processes that a program started and that left its process group: with `setsid`, or as daemons do.

They are known by two things: the tree of parents, as long as the parents live, and a variable in their environment that
no other program's processes have, which children inherit and which stays when a parent is gone. A process is signalled
only if it is the very one that was looked at: numbers are used again, times of start are not. One that has both lost
its parents and cleared its environment cannot be found. Without `/proc` there is nothing to look at, and process groups
have to do.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_PREFIX = "_HOLDFAST_COMMAND_"
_PROC = Path("/proc")


class Process(NamedTuple):
    """One line of the process table; `started` is in ticks since the system was started."""

    id: int
    parent: int
    group: int
    started: int


class Descendants:
    """What one program started, outside of its process group, which is named by its first process."""

    def __init__(self) -> None:
        self.mark = f"{_PREFIX}{secrets.token_hex(8)}"
        self._first: Process | None = None
        self._last: list[Process] = []
        """Those that were there when they were last looked for: their parents may be gone since."""

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The environment for the program."""
        return {**variables, self.mark: "1"}

    def began(self, process: int) -> None:
        """This is the program's first process, which may have ended already and is not waited for yet."""
        self._first = process_of(process, dead=True)

    def alive(self) -> bool:
        """Whether one of them runs."""
        return any(_is_there(each) for each in self._last) or bool(self._find())

    def signal(self, number: int) -> None:
        for each in self._find():
            send_signal(each, number)

    def _find(self) -> list[Process]:
        first = self._first
        if first is None:
            return []
        table = {each.id: each for each in _processes() if each.started >= first.started}
        table.pop(os.getpid(), None)
        ids = {each.id for each in (first, *self._last) if _is_in(each, table)}
        ids |= {each.id for each in table.values() if each.id not in ids and self._is_marked(each)}
        while more := {each.id for each in table.values() if each.parent in ids} - ids:
            ids |= more
        self._last = [table[each] for each in ids if table[each].group != first.id]
        return self._last

    def _is_marked(self, process: Process) -> bool:
        try:
            variables = (_PROC / str(process.id) / "environ").read_bytes()
        except OSError:  # it has ended, or belongs to somebody else
            return False
        return f"\0{self.mark}=".encode() in b"\0" + variables


def _is_in(process: Process, table: Mapping[int, Process]) -> bool:
    return process.id in table and table[process.id].started == process.started


def _processes() -> Iterator[Process]:
    try:
        names = os.listdir(_PROC)  # noqa: PTH208  (names are enough)
    except OSError:
        return
    for name in names:
        if name.isdigit() and (process := process_of(int(name))) is not None:
            yield process


def process_of(number: int, *, dead: bool = False) -> Process | None:
    """A process that runs, or with `dead` also one that has ended and that nobody has waited for."""
    try:
        fields = (_PROC / str(number) / "stat").read_bytes().rpartition(b")")[2].split()
        if fields[0] in b"ZX" and not dead:
            return None
        return Process(id=number, parent=int(fields[1]), group=int(fields[2]), started=int(fields[19]))
    except (OSError, ValueError, IndexError):
        return None


def send_signal(process: Process, number: int) -> None:
    """To this very process, and to none that has its number since."""
    with contextlib.suppress(OSError):
        opening = getattr(os, "pidfd_open", None)
        if opening is None:
            if _is_there(process):
                os.kill(process.id, number)
            return
        descriptor = opening(process.id)
        try:
            if _is_there(process):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def _is_there(process: Process) -> bool:
    now = process_of(process.id)
    return now is not None and now.started == process.started
