"""The messages of a chat in order, typed or from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import click

from holdfast.agent import CALLS_OF_A_MESSAGE, EXPECTED_CALLS
from holdfast.errors import HoldfastError
from holdfast.tools import Decision, Question, Scope

from . import commands
from .conversation import Chat
from .keyboard import Keyboard
from .words import clean

STOPPED = 130
"""The exit code of what Ctrl-C has stopped, as shells report it."""


def said(message: Sequence[str]) -> list[str] | None:
    """Return the messages and commands to run in order; None if the user types them."""
    if message:
        lines = [" ".join(_input() if word == "-" else word for word in message)]
    elif sys.stdin is not None and sys.stdin.isatty():
        return None
    else:
        lines = parted(_input())
    if not any(each.strip() for each in lines):
        raise click.UsageError("there is nothing to say: give a MESSAGE, pipe one in, or start it in a terminal.")
    return lines


def _input() -> str:
    return "" if sys.stdin is None else sys.stdin.read()


def parted(text: str) -> list[str]:
    """What was piped in: commands, each a line of its own, and the messages between them. A line that begins with a
    slash and is no command is part of a message: it may be a path."""
    parts: list[str] = []
    open_lines: list[str] = []

    def end() -> None:
        whole = "\n".join(open_lines).strip("\n")
        parts.extend([whole] if whole.strip() else [])
        open_lines.clear()

    for line in text.split("\n"):
        if commands.is_known(line):
            end()
            parts.append(line)
        else:
            open_lines.append(line)
    end()
    return parts


def expected_calls(lines: Sequence[str] | None) -> float:
    """Requests that a new session is likely to make: few where all that will be said is known and short."""
    if lines is None:
        return EXPECTED_CALLS
    messages = sum(not commands.is_known(line) for line in lines)
    return min(max(messages, 1) * CALLS_OF_A_MESSAGE, EXPECTED_CALLS)


def answer(chat: Chat, lines: Sequence[str]) -> int:
    """Send all lines and return the exit code. Stops if a turn is cancelled."""
    code = 0
    for line in lines:
        try:
            if commands.is_known(line):
                commands.run(chat, line)
                continue
            turn = chat.ask(commands.meant(line))
        except HoldfastError as problem:
            chat.screen.warn(str(problem))
            code = 1
            continue
        if turn is not None and turn.ended == "cancelled":
            return STOPPED
        if turn is None or turn.ended != "completed":
            code = 1
    return code


def talk(chat: Chat, keyboard: Keyboard) -> int:
    """Ask for one message after the other until the user leaves."""
    pressed = False
    while True:
        try:
            chat.conductor.drain()
            line = keyboard.line()
            pressed = False
            _do(chat, line)
        except KeyboardInterrupt:
            if pressed:
                return 0
            pressed = True
            chat.screen.notice("Ctrl-C again leaves, and so does Ctrl-D")
        except EOFError:
            return 0


def _do(chat: Chat, line: str) -> None:
    if not line.strip():
        return
    try:
        if commands.is_command(line):
            commands.run(chat, line)
        else:
            chat.ask(commands.meant(line))
    except HoldfastError as problem:
        chat.screen.warn(str(problem))


SCOPES: Mapping[str, Scope] = {
    "y": "once",
    "yes": "once",
    "s": "session",
    "session": "session",
    "a": "always",
    "always": "always",
}
QUESTION = "Allow? y once, s this session, a always here, n no: "
REASON = "Why not? The model is told; Enter for no reason: "
PREVIEW = 12
"""Lines of a text that are shown of what a tool is given."""


def lines_of(question: Question) -> Iterator[str]:
    """Yield the question and the beginnings of its input texts that it does not contain."""
    yield from clean(question.text).split("\n")
    for name, value in question.input.items():
        if isinstance(value, str) and value.strip() and value not in question.text:
            yield from _beginning(name, value)


def _beginning(name: str, value: str) -> Iterator[str]:
    lines = clean(value).rstrip("\n").split("\n")
    if len(lines) == 1 and len(lines[0]) <= 60:
        yield f"  {clean(name)}: {lines[0]}"
        return
    yield f"  {clean(name)}:"
    for line in lines[:PREVIEW]:
        yield f"  | {line}"
    if len(lines) > PREVIEW:
        yield f"  | … {len(lines) - PREVIEW:,} more lines"


def decide(question: Question, show: Callable[[list[str]], None], read: Callable[[str], str]) -> Decision:
    """Ask until there is an answer; no input left is a no."""
    show(list(lines_of(question)))
    try:
        while True:
            word, _, rest = read(QUESTION).strip().partition(" ")
            word = word.lower()
            if word in SCOPES:
                return Decision(True, SCOPES[word])
            if word in ("n", "no"):
                return refusal(rest.strip() or read(REASON).strip())
    except EOFError:
        return refusal("")


def refusal(reason: str) -> Decision:
    return Decision(False, why=f"The user did not allow it: {reason}" if reason else "The user did not allow it.")


def nobody(say: Callable[[str], None]) -> Callable[[Question], Decision]:
    """Return a confirmation that refuses everything, for sessions without a terminal."""

    def refused(question: Question) -> Decision:
        say(f"{question.tool} was refused: nobody can be asked here; --yes allows all tools ({question.text})")
        return Decision(False, why=f"{question.tool} needs the user's consent, and nobody can be asked here.")

    return refused
