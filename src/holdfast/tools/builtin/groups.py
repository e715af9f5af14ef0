"""One program in a process group of its own, and what it writes.

A thread reads its output without pause, so that it never waits for us, and keeps the beginning in a nameless file. The
program has ended when its first process has: what that leaves behind is ended too, in the group or outside of it (see
`descendants`), and a pipe that somebody still holds open is not waited for. Belongs to no event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from ..descendants import Descendants

GRACE_S = 1.0
"""Between the request to end and the end by force."""
LINGER_S = 0.5
"""Seconds the other processes may run, and write output, after the first one ended."""
_POLL_S = 0.05
_LOOK_S = 0.01
_BLOCK = 1 << 16


class ProcessGroup:
    """A running or ended program. `code` is its exit code, negative for a signal, None while it runs. `size` bytes of
    its output are kept, `dropped` were lost. `left_behind` if it ended by itself and left processes, which were ended
    then."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        directory: str,
        environment: Mapping[str, str],
        keep: int,
        heard: Callable[[bytes], None] | None = None,
        pass_fds: Sequence[int] = (),
        others: Descendants | None = None,
    ) -> None:
        self.code: int | None = None
        self.size = self.dropped = 0
        self.left_behind = False
        self._keep = keep
        self._heard = heard
        self._reaped = self._released = self._stopped = False
        self._lock = threading.Lock()
        self._others = others or Descendants()
        self._spool = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  (closed by release)
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=self._others.environment(environment),
                bufsize=0,
                start_new_session=True,
                pass_fds=pass_fds,
            )
        except BaseException:
            self._spool.close()
            raise
        self.id = self._process.pid
        self._others.began(self.id)
        self.ended: Future[None] = Future()
        self.ended.set_running_or_notify_cancel()  # nobody who waits can call it off

    def watch(self, after: Callable[[ProcessGroup], None] | None = None) -> None:
        """Begin to read; `after` is called in the reading thread when all is over."""
        try:
            threading.Thread(target=self._pump, args=(after,), name="holdfast-command", daemon=True).start()
        except RuntimeError as problem:  # no thread left: it cannot be read, so it must not run
            self.signal(signal.SIGKILL)
            self._released = True
            self._pump(after)
            raise OSError(errno.EAGAIN, "there are too many threads") from problem

    async def wait(self, seconds: float | None = None) -> bool:
        """Whether it ended within this time."""
        waiting = asyncio.wrap_future(self.ended)
        try:
            await asyncio.wait({waiting}, timeout=seconds)
            return self.ended.done()
        finally:
            waiting.cancel()  # or it would wake a loop that may be closed by then

    async def stop(self) -> None:
        """End all of it, and see it ended."""
        self._stopped = True
        self.signal(signal.SIGTERM)
        try:
            if await self.wait(GRACE_S):
                return
        finally:
            self.signal(signal.SIGKILL)
        await self.wait(GRACE_S)

    def signal(self, number: signal.Signals) -> None:
        self._others.signal(number)  # first: whoever left the group may be known by its parents only
        with self._lock:
            if not self._reaped:  # afterwards the number may be somebody else's
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.id, number)

    def output(self, start: int = 0, most: int | None = None) -> bytes:
        """Kept output from a position on."""
        end = self.size if most is None else min(self.size, start + most)
        pieces = []
        while start < end:
            piece = os.pread(self._spool.fileno(), end - start, start)
            if not piece:
                break
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def release(self) -> None:
        """Close the output now, or when the program has ended."""
        with self._lock:
            self._released = True
            if self.ended.done():
                self._spool.close()

    def _pump(self, after: Callable[[ProcessGroup], None] | None) -> None:
        pipe = self._process.stdout
        assert pipe is not None
        try:
            with pipe:
                open_still = self._read(pipe.fileno())
                until = time.monotonic() + (0 if self._stopped else LINGER_S)
                if open_still:
                    self._read(pipe.fileno(), until=until)
            with self._lock:
                self.code = self._process.wait()
                self._reaped = True
            self.left_behind = self._end_rest(until) and not self._stopped
        finally:
            if after is not None:
                after(self)
            with self._lock:
                self.ended.set_result(None)
                if self._released:
                    self._spool.close()

    def _end_rest(self, until: float) -> bool:
        """End what is left after the first process, unless it ends by itself. Return whether there was anything."""
        if not self._stays(until):
            return False
        self._signal_rest(signal.SIGTERM)
        if self._stays(time.monotonic() + GRACE_S):
            end = time.monotonic() + GRACE_S
            self._signal_rest(signal.SIGKILL)
            while self._stays(time.monotonic() + _POLL_S) and time.monotonic() < end:
                self._signal_rest(signal.SIGKILL)  # one that was started meanwhile
        return True

    def _signal_rest(self, number: int) -> None:
        self._others.signal(number)
        if _alive(self.id):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.id, number)

    def _stays(self, until: float) -> bool:
        while _alive(self.id) or self._others.alive():
            if time.monotonic() >= until:
                return True
            time.sleep(_LOOK_S)
        return False

    def _read(self, pipe: int, until: float | None = None) -> bool:
        """Take output until the process exits, or without one that runs, until it ends or `until`. Whether the pipe is
        open still."""
        poller = select.poll()
        poller.register(pipe, select.POLLIN)
        exit_of = _exit_descriptor(self.id) if until is None else None
        if exit_of is not None:
            poller.register(exit_of, select.POLLIN)
        piped = True
        try:
            while True:
                seconds = None if exit_of is not None else _POLL_S if until is None else until - time.monotonic()
                if seconds is not None and seconds <= 0:
                    return piped
                ready = {descriptor for descriptor, _ in poller.poll(None if seconds is None else seconds * 1000)}
                if pipe in ready and not self._take(pipe):
                    poller.unregister(pipe)
                    piped = False
                if not piped and until is not None:
                    return False
                if until is None and (exit_of in ready if exit_of is not None else self._exited()):
                    return piped
        finally:
            if exit_of is not None:
                os.close(exit_of)

    def _take(self, pipe: int) -> bool:
        data = os.read(pipe, _BLOCK)
        head = data[: max(0, self._keep - self.size)]
        try:
            written = os.write(self._spool.fileno(), head) if head else 0
        except OSError:
            written = 0
        self.size += written
        self.dropped += len(data) - written
        if written < len(head):  # the disk is full: keep what there is, and nothing that comes after a gap
            self._keep = self.size
        if data and self._heard is not None:
            self._heard(data)
        return bool(data)

    def _exited(self) -> bool:
        with self._lock:
            self._reaped = self._process.poll() is not None
            return self._reaped


def _exit_descriptor(process: int) -> int | None:
    """Becomes readable when the process exits, which stays a zombie until it is waited for; where there is such."""
    opening = getattr(os, "pidfd_open", None)
    if opening is None:
        return None
    try:
        return int(opening(process))
    except OSError:
        return None


def _alive(group: int) -> bool:
    """Return whether a process of the group runs. Zombies are still members, and do not count."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    if not Path("/proc/self/stat").exists():
        return True
    for name in os.listdir("/proc"):  # noqa: PTH208  (names are enough)
        if name.isdigit():
            with contextlib.suppress(OSError):
                state, _, its_group = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()[:3]
                if int(its_group) == group and state not in b"ZX":
                    return True
    return False
