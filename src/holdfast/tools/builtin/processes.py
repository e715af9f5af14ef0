"""The processes of one session: every command that runs, and those in the background by name.

Names count up, so that a session says the same whatever numbers the system gave. Nothing outlives the session: `close`
ends all, and so do the collection of this object and the end of the program, even a violent one (see `Guardian`).
Processes that make a session of their own, as daemons do, end with the command that started them (see `descendants`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from ..contract import Cancel, ToolExecutionError
from ..descendants import Descendants
from .groups import ProcessGroup

End = Literal["exit", "timeout", "cancel"]
ENDED_KEPT = 32
"""Ended background commands whose output can still be read."""


_SCRIPT = """trap '' INT HUP TERM QUIT
g=' '
while read -r o p; do
p=${p%% *}:${p#* }
case $o in
+) g="$g$p " ;;
-) g="${g%% $p *} ${g#* $p }" ;;
esac
done
end() {
for p in $g; do
[ ${p%%:*} = 0 ] || kill -$1 -${p%%:*}
for f in $(grep -lsF -e "${p#*:}=" /proc/[0-9]*/environ); do
f=${f%/environ}
kill -$1 ${f#/proc/}
done
done
}
end TERM
[ "$g" = ' ' ] || sleep 1
end KILL
"""


class BackgroundCommand(Struct):
    """A command in the background; `read` bytes of its output have been given out."""

    name: str
    group: ProcessGroup
    read: int = 0


class Processes:
    """`started` is how many background commands the session has started before, where it goes on after a restart."""

    def __init__(self, *, started: int = 0) -> None:
        self.started = started
        self._named: dict[str, BackgroundCommand] = {}
        self._live: dict[int, ProcessGroup] = {}
        self._guardian = Guardian()
        self._closed = False
        self._collected = weakref.finalize(self, _abandon, self._live, self._named, self._guardian)

    def begin(
        self,
        command: Sequence[str],
        *,
        directory: str,
        environment: Mapping[str, str],
        keep: int,
        heard: Callable[[bytes], None] | None = None,
        after: Callable[[ProcessGroup], None] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> ProcessGroup:
        """Start a program. `heard` gets its output and `after` its end, both in another thread."""
        if self._closed:
            raise ToolExecutionError("The session is closed: no command can be started.")
        live, guardian = self._live, self._guardian  # not self: the thread must not keep this object alive
        others = Descendants()
        guardian.add(0, others.mark)  # before it runs: we may be killed at any moment
        try:
            group = ProcessGroup(
                command,
                directory=directory,
                environment=environment,
                keep=keep,
                heard=heard,
                pass_fds=pass_fds,
                others=others,
            )
        except BaseException:
            guardian.remove(0, others.mark)
            raise

        def over(ended: ProcessGroup) -> None:
            live.pop(ended.id, None)
            guardian.remove(ended.id, others.mark)
            guardian.remove(0, others.mark)
            if after is not None:
                after(ended)

        live[group.id] = group
        guardian.add(group.id, others.mark)
        group.watch(over)
        return group

    def name(self, group: ProcessGroup) -> str:
        """Keep a program in the background, under a new name."""
        self.started += 1
        name = f"p{self.started}"
        self._named[name] = BackgroundCommand(name=name, group=group)
        ended = [process for process in self._named.values() if process.group.ended.done()]
        for process in ended[: max(0, len(ended) - ENDED_KEPT)]:
            del self._named[process.name]
            process.group.release()
        return name

    @property
    def running(self) -> tuple[str, ...]:
        return tuple(name for name, process in self._named.items() if not process.group.ended.done())

    def get(self, name: str) -> BackgroundCommand:
        command = self._named.get(name)
        if command is None:
            names = ", ".join(self._named) or "none"
            raise ToolExecutionError(f"There is no background process {name!r}; there are: {names}.")
        return command

    async def close(self) -> None:
        """End every process. No more can be started afterwards."""
        self._closed = True
        await asyncio.gather(*(group.stop() for group in tuple(self._live.values())))
        self._collected()


def _abandon(live: dict[int, ProcessGroup], named: dict[str, BackgroundCommand], guardian: Guardian) -> None:
    for group in tuple(live.values()):
        group.signal(signal.SIGKILL)
    for process in named.values():
        process.group.release()
    named.clear()
    guardian.close()


async def until_end(group: ProcessGroup, seconds: float, cancel: Cancel) -> End:
    """Wait for the end, so long at most, and not beyond a cancellation."""
    cancelled = asyncio.ensure_future(cancel.wait())
    ended = asyncio.ensure_future(group.wait())
    try:
        await asyncio.wait({cancelled, ended}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        cancelled.cancel()
        ended.cancel()
    if group.ended.done():
        return "exit"
    return "cancel" if cancel.is_set() else "timeout"


async def to_end(group: ProcessGroup, seconds: float, cancel: Cancel) -> End:
    """Do the same, but stop the group afterwards in any case."""
    try:
        return await until_end(group, seconds, cancel)
    finally:
        if not group.ended.done():
            await group.stop()


def ending(code: int | None) -> str:
    """Describe how a program ended."""
    if code is None:
        return "could not be ended"
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


def facts_of(group: ProcessGroup) -> dict[str, Any]:
    """Return a program's facts for the trace."""
    return {"exit_code": group.code, "output_bytes": group.size + group.dropped, "dropped_bytes": group.dropped}


class Guardian:
    """A small shell that watches us: when this process is gone, for whatever reason, it ends the processes left behind.

    It is started with the first group to guard, and reads from a pipe whose other end only this program holds. `+ 12
    MARK` and `- 12 MARK` are groups to end and to forget, with the variable that their processes have in the
    environment, including those that left the group; 0 is a group about to begin, with an unknown number. The end of
    the pipe means that we are gone. Without the shell commands run all the same.
    """

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None
        self._groups: set[tuple[int, str]] = set()
        self._lock = threading.Lock()

    def add(self, group: int, mark: str) -> None:
        with self._lock:
            if self._shell is None:
                with contextlib.suppress(OSError):  # no process left for it
                    self._shell = _shell()
            self._groups.add((group, mark))
            self._say(f"+ {group} {mark}\n")

    def remove(self, group: int, mark: str) -> None:
        with self._lock:
            if (group, mark) in self._groups:
                self._groups.discard((group, mark))
                self._say(f"- {group} {mark}\n")

    def close(self) -> None:
        """Release every group and the shell. Processes that had to be ended have ended by now."""
        with self._lock:
            shell, self._shell = self._shell, None
            self._groups.clear()
        if shell is not None:
            shell.kill()
            shell.communicate()

    def _say(self, line: str) -> None:
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):  # somebody ended it: commands go on unguarded
                self._shell.stdin.write(line.encode("ascii"))


def _shell() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["/bin/sh", "-c", _SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"PATH": os.defpath},
        bufsize=0,
        start_new_session=True,
    )
