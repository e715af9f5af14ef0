"""Messages typed in a terminal, edited over several lines, with a history and completion.

Needs `prompt_toolkit`, and is imported only where there is a terminal to type in.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import DynamicCompleter, WordCompleter
from prompt_toolkit.enums import DEFAULT_BUFFER, EditingMode
from prompt_toolkit.filters import emacs_mode, has_focus, is_searching
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import clear_typeahead, get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.bindings.search import accept_search_and_accept_input
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.processors import TabsProcessor
from prompt_toolkit.output import Output, create_output
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts import CompleteStyle

from .keyboard import CONTINUED, CONTINUES, HISTORY, PROMPT, Keyboard, MessageHistory, restore_modes, set_modes
from .turns import Leave, handling

_ESCAPE_S = 0.05
"""How long after an escape code the rest of a key may come; longer, and it was the key Esc."""

_SEQUENCE_S = 0.4
"""How long after Esc or Ctrl-X the key may come that belongs to it."""


class Editor(Keyboard):
    """The keyboard of a terminal. `complete` returns the completions of the text before the cursor."""

    def __init__(self, home: Path, complete: Callable[[str], Sequence[str]]) -> None:
        self._history = MessageHistory(home / HISTORY)
        self._input = create_input()
        self._read_at = 0.0
        message: PromptSession[str] = PromptSession(
            multiline=True,
            prompt_continuation=lambda width, line, wraps: "" if wraps else CONTINUED,
            input_processors=[TabsProcessor(tabstop=8, char1=" ", char2=" ")],
            history=InMemoryHistory(self._history.load()),
            completer=DynamicCompleter(
                lambda: WordCompleter(list(complete(message.default_buffer.document.text_before_cursor)), sentence=True)
            ),
            complete_style=CompleteStyle.READLINE_LIKE,
            key_bindings=_message_keys(),
            editing_mode=EditingMode.VI if _prefers_vi() else EditingMode.EMACS,
            enable_suspend=True,
            input=self._input,
            output=_output(),
        )
        self._message = message
        self._answer: PromptSession[str] = PromptSession(
            key_bindings=_answer_keys(), enable_suspend=True, input=self._input, output=_output()
        )

    def line(self) -> str:
        text = _read(self._message, PROMPT)
        self._history.append(text)
        return text

    def answer(self, question: str) -> str:
        self.escaped()
        early = get_typeahead(self._input)  # typed before the question was there, so it is no answer to it
        try:
            return _read(self._answer, question)
        finally:
            store_typeahead(self._input, early + get_typeahead(self._input))

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Take the terminal's keys as they are pressed, from now on to the end, whether or not a line is asked for."""
        before = set_modes(echo=False, lines=False)
        with contextlib.ExitStack() as stack:
            stack.callback(restore_modes, before)
            if before is not None and threading.current_thread() is threading.main_thread():
                # A shell may have changed them while this program was stopped.
                was = signal.signal(signal.SIGCONT, lambda number, frame: _take_keys())
                stack.callback(signal.signal, signal.SIGCONT, was)
            yield

    def escaped(self) -> bool:
        """Esc counts where no other key follows it; whatever else was typed is there for the next line."""
        keys, now = self._input.read_keys(), time.monotonic()
        if keys:
            self._read_at = now
        elif now - self._read_at >= _ESCAPE_S:
            keys = self._input.flush_keys()
        alone = [
            key.key == Keys.Escape and (index + 1 == len(keys) or keys[index + 1].key == Keys.Escape)
            for index, key in enumerate(keys)
        ]
        store_typeahead(self._input, [key for key, escape in zip(keys, alone, strict=True) if not escape])
        return any(alone)

    def discard(self) -> None:
        self._input.read_keys()
        clear_typeahead(self._input)


def _read(session: PromptSession[str], prompt: str) -> str:
    """Ask for one text. A signal that ends the program ends the prompt first, which puts the terminal right."""
    app = session.app
    app.ttimeoutlen, app.timeoutlen = _ESCAPE_S, _SEQUENCE_S
    ends: list[int] = []

    def end() -> None:
        if app.future is not None and not app.future.done():
            app.exit(exception=Leave(ends[0]))

    def on_signal(number: int, frame: FrameType | None) -> None:
        ends.append(number)
        if app.loop is not None:
            app.loop.call_soon_threadsafe(end)

    with handling(on_signal):
        text: str = session.prompt([("bold", prompt)])
    if ends:
        raise Leave(ends[0])
    return text


def _message_keys() -> KeyBindings:
    """Enter sends, also what a search shows; Alt-Enter, Ctrl-J, Enter behind a backslash begin a line; Esc clears."""
    keys, typing = KeyBindings(), has_focus(DEFAULT_BUFFER)

    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.is_cursor_at_the_end and buffer.text.endswith(CONTINUES):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    def new_line(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    def clear(event: KeyPressEvent) -> None:
        event.current_buffer.reset()

    keys.add("enter", filter=typing)(send)
    keys.add("enter", filter=is_searching)(accept_search_and_accept_input)
    keys.add("c-j", filter=typing)(new_line)
    keys.add("escape", "enter", filter=typing & emacs_mode)(new_line)
    keys.add("escape", filter=typing & emacs_mode)(clear)
    return keys


def _answer_keys() -> KeyBindings:
    """Esc clears, and where there is nothing to clear it ends the question without an answer."""
    keys = KeyBindings()

    def clear(event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=EOFError())

    keys.add("escape", filter=has_focus(DEFAULT_BUFFER))(clear)
    return keys


def _take_keys() -> None:
    set_modes(echo=False, lines=False)


def _output() -> Output:
    """Where the cursor stands is not asked for: some terminals do not answer, and nothing here depends on it."""
    output = create_output(sys.stdout)
    if isinstance(output, Vt100_Output):
        output.enable_cpr = False
    return output


def _prefers_vi() -> bool:
    """Whether the user's other programs that edit lines do it as vi does."""
    try:
        lines = Path(os.environ.get("INPUTRC") or "~/.inputrc").expanduser().read_text("utf-8", "replace").splitlines()
    except (OSError, RuntimeError):
        return False
    return any(line.split()[:3] == ["set", "editing-mode", "vi"] for line in lines)
