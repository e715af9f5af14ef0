"""What the user types: lines with editing and a history where there is a terminal, answers to yes or no."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from .words import clean

HISTORY = "chat-history"
MOST_LINES = 1_000
_MORE = "\\"
"""At the end of a line: there is another one."""


class Typed:
    """The keyboard. `escapes` says whether the terminal understands them: the prompt is bold then, and several lines
    that are pasted are one message. `words` are what a tab completes a line to."""

    def __init__(self, home: Path, *, escapes: bool, words: Sequence[str] = ()) -> None:
        self._escapes, self._words = escapes, words
        self._readline = _module("readline") if sys.stdout.isatty() else None
        self._file = home / HISTORY
        self._before: list[Any] | None = None  # how the terminal was before it was told not to show what is typed
        self._set_up()
        self._load()

    def line(self, prompt: str) -> str:
        """A message: one line, or several of which all but the last end in a backslash. EOFError at the end."""
        said: list[str] = []
        while True:
            text = self._read(prompt if not said else ". ")
            if not text.endswith(_MORE):
                break
            said.append(text[:-1])
        whole = "\n".join([*said, text])
        self._remember(whole)
        return whole

    def answer(self, question: str) -> str:
        """A short answer, which is not remembered. It is seen, also where nothing else is."""
        hidden = self._before
        if hidden is not None:
            self._show()
        try:
            return self._read(question)
        finally:
            if hidden is not None:
                self._hide()

    @contextlib.contextmanager
    def unseen(self) -> Iterator[None]:
        """What is typed while something else is shown does not get in between: it waits for the next prompt."""
        self._hide()
        try:
            yield
        finally:
            self._show()

    def _hide(self) -> None:
        termios = _module("termios")
        if termios is None or not sys.stdin.isatty():
            return
        with contextlib.suppress(OSError, ValueError, termios.error):
            number = sys.stdin.fileno()
            before = termios.tcgetattr(number)
            changed = list(before)
            changed[3] &= ~termios.ECHO
            termios.tcsetattr(number, termios.TCSADRAIN, changed)
            self._before = before

    def _show(self) -> None:
        termios = _module("termios")
        before, self._before = self._before, None
        if termios is not None and before is not None:
            with contextlib.suppress(OSError, ValueError, termios.error):
                termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)

    def _read(self, prompt: str) -> str:
        if not sys.stdout.isatty():  # `input` would write the prompt into the pipe
            sys.stderr.write(prompt)
            sys.stderr.flush()
            prompt = ""
        elif self._escapes and self._readline is not None:
            prompt = f"\x01\x1b[1m\x02{prompt}\x01\x1b[0m\x02"
        return input(prompt)

    def _set_up(self) -> None:
        if self._readline is None:
            return
        self._readline.set_completer(self._completed)
        self._readline.set_completer_delims(" ")
        if "libedit" in (self._readline.__doc__ or ""):
            self._readline.parse_and_bind("bind ^I rl_complete")
            return
        self._readline.parse_and_bind("tab: complete")
        self._readline.parse_and_bind(f"set enable-bracketed-paste {'on' if self._escapes else 'off'}")

    def _completed(self, text: str, number: int) -> str | None:
        begins = self._readline is not None and self._readline.get_begidx() == 0
        fitting = [word for word in self._words if begins and text and word.startswith(text)]
        return fitting[number] if number < len(fitting) else None

    def _load(self) -> None:
        if self._readline is None:
            return
        self._readline.set_auto_history(False)
        self._readline.set_history_length(MOST_LINES)
        self._readline.clear_history()
        with contextlib.suppress(OSError, UnicodeError):  # a history is a comfort, not a duty
            lines = self._file.read_text("utf-8").splitlines()
            for line in lines[-MOST_LINES:]:
                self._readline.add_history(line)
            if len(lines) > 2 * MOST_LINES:
                self._file.write_text("".join(f"{line}\n" for line in lines[-MOST_LINES:]), "utf-8")

    def _remember(self, text: str) -> None:
        line = " ".join(clean(text).split())
        if self._readline is None or not line:
            return
        self._readline.add_history(text)
        with contextlib.suppress(OSError):
            number = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(number, "a", encoding="utf-8", errors="replace") as file:
                file.write(line + "\n")


def _module(name: str) -> ModuleType | Any:
    """A module that not every system has."""
    try:
        return __import__(name)
    except ImportError:
        return None
