"""The keyboard of a chat, and the plain way to read it: one line after the other.

Made for terminals that understand no escape codes, and for answers that go into a pipe. `editor` is the other way.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

from .words import clean

PROMPT = "> "
CONTINUED = ". "
"""Before each further line of a message."""
CONTINUES = "\\"
"""At the end of a line: there is another one."""

HISTORY = "chat-history"
MOST_LINES = 1_000


class Keyboard:
    """Reads the user's input; this base class has none. Reading raises KeyboardInterrupt for Ctrl-C and EOFError for
    Ctrl-D, with the cursor at the beginning of a line."""

    def line(self) -> str:
        """A message of one line or several."""
        raise EOFError

    def answer(self, question: str) -> str:
        """Read a short answer, which is visible even within `unseen` and not added to the history."""
        raise EOFError

    def unseen(self) -> AbstractContextManager[None]:
        """What is typed while something else is shown is not echoed: it waits for the next prompt."""
        return contextlib.nullcontext()

    def escaped(self) -> bool:
        """Whether Esc was pressed since this was last called."""
        return False

    def discard(self) -> None:
        """Discard input that was typed but not read yet, as terminals do at Ctrl-C."""


class LineKeyboard(Keyboard):
    """Reads lines with `input`, edited by readline where there is one. Where standard output is no terminal the prompt
    goes to standard error, and the system edits."""

    def __init__(self, home: Path, complete: Callable[[str], Sequence[str]]) -> None:
        self._shown: list[Any] | None = None  # how the terminal was before its echo was turned off
        self._history = MessageHistory(home / HISTORY)
        self._readline = _readline(complete, self._history.load()) if sys.stdout.isatty() else None

    def line(self) -> str:
        lines = [self._read(PROMPT)]
        while lines[-1].endswith(CONTINUES):
            lines[-1] = lines[-1].removesuffix(CONTINUES)
            lines.append(self._read(CONTINUED))
        text = "\n".join(lines)
        if self._readline is not None:
            self._readline.add_history(text)
            self._history.append(text)
        return text

    def answer(self, question: str) -> str:
        hidden = self._shown is not None
        self._show()
        try:
            return self._read(question)
        finally:
            if hidden:
                self._hide()

    @contextlib.contextmanager
    def unseen(self) -> Iterator[None]:
        self._hide()
        try:
            yield
        finally:
            self._show()

    def _read(self, prompt: str) -> str:
        if not sys.stdout.isatty():  # `input` would write the prompt into the pipe
            sys.stderr.write(prompt)
            sys.stderr.flush()
            prompt = ""
        try:
            return input(prompt)
        except (KeyboardInterrupt, EOFError):
            sys.stderr.write("\n")
            sys.stderr.flush()
            raise

    def _hide(self) -> None:
        self._shown = set_modes(echo=False)

    def _show(self) -> None:
        shown, self._shown = self._shown, None
        restore_modes(shown)


class MessageHistory:
    """What was typed, a line for each message, in a file that only its user can read. It is a comfort: a file that
    cannot be used is not in the way."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def load(self) -> list[str]:
        """The newest messages, oldest first. A file that has become long is shortened."""
        lines: list[str] = []
        with contextlib.suppress(OSError, UnicodeError):
            lines = self._file.read_text("utf-8").splitlines()
            if len(lines) > 2 * MOST_LINES:
                self._file.write_text("".join(f"{line}\n" for line in lines[-MOST_LINES:]), "utf-8")
        return lines[-MOST_LINES:]

    def append(self, text: str) -> None:
        line = " ".join(clean(text).split())
        if not line:
            return
        with contextlib.suppress(OSError):
            number = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(number, "a", encoding="utf-8", errors="replace") as file:
                file.write(line + "\n")


def _readline(complete: Callable[[str], Sequence[str]], history: Sequence[str]) -> ModuleType | None:
    """readline, set up to complete lines from their beginning; None where Python has none (Windows)."""
    try:
        import readline
    except ImportError:
        return None

    def completion(text: str, number: int) -> str | None:
        fitting = [each for each in complete(text) if text and each.startswith(text)]
        return fitting[number] if number < len(fitting) else None

    readline.set_completer(completion)
    readline.set_completer_delims("")
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    readline.set_auto_history(False)
    readline.clear_history()
    for line in history:
        readline.add_history(line)
    return readline


def set_modes(*, echo: bool = True, lines: bool = True) -> list[Any] | None:
    """Change how the terminal treats what is typed. Without `lines` each key can be read at once, as it was pressed;
    Ctrl-C and Ctrl-Z are signals still. Returns what `restore_modes` takes; None where there is nothing to change."""
    try:
        import termios
    except ImportError:  # Windows
        return None
    if sys.stdin is None:  # it was closed before the program began
        return None
    with contextlib.suppress(OSError, ValueError, termios.error):
        number = sys.stdin.fileno()
        before = termios.tcgetattr(number)
        changed = [*before[:6], list(before[6])]
        if not echo:
            changed[3] &= ~termios.ECHO
        if not lines:
            changed[0] &= ~termios.ICRNL  # Enter and Ctrl-J are two keys
            changed[3] &= ~termios.ICANON
            changed[6][termios.VMIN], changed[6][termios.VTIME] = 1, 0
        termios.tcsetattr(number, termios.TCSADRAIN, changed)
        return before
    return None


def restore_modes(modes: list[Any] | None) -> None:
    if modes is None:
        return
    import termios

    with contextlib.suppress(OSError, ValueError, termios.error):
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, modes)
