"""A terminal to look at: what programs write to it, as a person sees it; and programs that run in one."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.clients.programs import TIMEOUT

_ESCAPE = re.compile(r"\x1b\[([?>]?)([0-9;]*)([A-Za-z])|\x1b[()][A-Z0-9]|\x1b[=>]")

_IN_FRONT = """
import os, sys
os.close(os.open(os.ttyname(0), os.O_RDWR))
os.execv(sys.executable, [sys.executable, "-m", "holdfast", *sys.argv[1:]])
"""
"""The first terminal that the leader of a session opens is its own: it sends Ctrl-C to this program then."""


class Emulator:
    """Lines of so many columns, of which the last `rows` are the screen: what has left it cannot be reached any more,
    as in a real one. Knows the few codes that are used; any other is an error."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self.lines = [""]
        self.row = self.column = 0
        self._rest = ""

    def feed(self, text: str) -> None:
        text, self._rest = self._rest + text, ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = _ESCAPE.match(text, at)
                if found is None:
                    if len(text) - at < 16:
                        self._rest = text[at:]
                        return
                    raise AssertionError(f"an unknown escape code: {text[at : at + 16]!r}")
                self._code(found)
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    @property
    def top(self) -> int:
        return max(0, len(self.lines) - self.rows)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)

    def _put(self, char: str) -> None:
        if char == "\n":
            self.row, self.column = self.row + 1, 0
        elif char == "\r":
            self.column = 0
        elif char == "\b":
            self.column = max(0, self.column - 1)
        elif char == "\x07":
            pass
        else:
            assert char.isprintable() or char in "\xa0\u200d", f"a control character: {char!r}"
            if self.column >= self.columns:
                self.row, self.column = self.row + 1, 0
                self._reach()
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + char + line[self.column + 1 :]
            self.column += 1
        self._reach()

    def _reach(self) -> None:
        while self.row >= len(self.lines):
            self.lines.append("")

    def _code(self, found: re.Match[str]) -> None:
        private, numbers, letter = found[1], found[2], found[3]
        if letter is None or private or letter in "m":
            return
        count = int(numbers or 1) if ";" not in numbers else 1
        if letter == "A":
            self.row = max(self.top, self.row - count)
        elif letter == "B":
            self.row += count
            self._reach()
        elif letter == "C":
            self.column += count
        elif letter == "D":
            self.column = max(0, self.column - count)
        elif letter == "J" and numbers in ("", "0"):
            self.lines[self.row] = self.lines[self.row][: self.column]
            del self.lines[self.row + 1 :]
        elif letter == "K" and numbers in ("", "0"):
            self.lines[self.row] = self.lines[self.row][: self.column]
        elif letter == "K" and numbers == "2":
            self.lines[self.row] = ""
        else:
            raise AssertionError(f"an unknown escape code: {found[0]!r}")


class Program:
    """A program in a terminal of its own, of which it is the owner: Ctrl-C reaches it as it would a user's."""

    def __init__(
        self,
        *arguments: str,
        cwd: Path,
        environ: Mapping[str, str],
        columns: int = 80,
        rows: int = 24,
    ) -> None:
        self.emulator = Emulator(columns, rows)
        self.raw = ""
        self._prompts = 0
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _IN_FRONT, *arguments],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                cwd=cwd,
                env=dict(environ),
                start_new_session=True,
            )
        finally:
            os.close(slave)

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """Everything that can be seen by now, from the beginning."""
        return self.emulator.text

    def until(self, wanted: str | Callable[[str], bool], *, times: int = 1) -> str:
        """Read until the text is there so many times, or what it says holds of all that is seen."""
        if not self._comes(wanted, times, TIMEOUT):
            raise AssertionError(f"{wanted!r} never came; this did:\n{self.text}\n{self.raw[-2000:]!r}")
        return self.text

    def _comes(self, wanted: str | Callable[[str], bool], times: int, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        holds = wanted if callable(wanted) else lambda text: text.count(wanted) >= times
        while not holds(self.text):
            left = deadline - time.monotonic()
            if left <= 0 or not self._read(left):
                return False
        return True

    def prompt(self) -> str:
        """Read until it asks for a line, once more than when this was last waited for."""
        self._prompts += 1
        wanted = self._prompts
        return self.until(lambda text: sum(line == ">" or line[:2] == "> " for line in text.split("\n")) >= wanted)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # the other side is closed
            return False
        piece = data.decode("utf-8", "replace")
        self.raw += piece
        self.emulator.feed(piece)
        return bool(data)

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window. Lines that are there stay as they are."""
        self.emulator.columns, self.emulator.rows = columns, rows
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self.process.pid, signal.SIGWINCH)

    def type(self, text: str, *, until: str | Callable[[str], bool] | None = None, times: int = 1) -> None:
        """Type something, and wait for what is to come of it."""
        os.write(self._master, text.encode())
        if until is not None:
            self.until(until, times=times)

    def say(self, text: str, *, until: str | Callable[[str], bool] | None = None, times: int = 1) -> None:
        self.type(text + "\r", until=until, times=times)

    def ask(self, text: str, *, until: str | None = None, times: int = 1) -> None:
        """The same, and wait for the next prompt."""
        self.say(text, until=until, times=times)
        self.prompt()

    def press_ctrl_c(self) -> None:
        self.type("\x03")

    def interrupt(self, wanted: str, *, times: int = 1, number: int = signal.SIGINT) -> None:
        """A signal while it waits for a line. One that comes just before it waits is heard at the next key only, as in
        every program that reads lines: then it is sent once more."""
        for _ in range(10):
            os.kill(self.process.pid, number)
            if self._comes(wanted, times, TIMEOUT / 10) or self.process.poll() is not None:
                return
        self.until(wanted, times=times)

    def ended(self) -> int:
        """Its exit code, when it has ended and everything it said was read."""
        while self._read(TIMEOUT):
            pass
        return self.process.wait(TIMEOUT)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(TIMEOUT)
