"""`holdfast chat`: an agent in the terminal, or in a pipe, whose prompt stays cached."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import re
import shlex
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import click

from holdfast.config import Config
from holdfast.errors import HoldfastError

from .. import completion, tables
from . import commands, views
from .conversation import Chat, ChatOptions, configured, opened
from .keyboard import Keyboard, LineKeyboard
from .loop import answer, decide, expected_calls, nobody, said, talk
from .screen import PlainScreen, Screen
from .turns import AgentThread, Ask, Conductor, Leave, handling, leaving

NEWEST = ""
"""`--resume` without an id."""

_ID = re.compile(r"\s*[0-7]\S*\s*").fullmatch
"""What may be the beginning of an id; most words cannot."""


@click.command()
@click.argument("message", nargs=-1)
@click.option(
    "--model",
    metavar="NAME",
    shell_complete=completion.models,
    help="Model to ask, such as anthropic:claude-haiku-4-5 (agent.model).",
)
@click.option(
    "--resume",
    metavar="[ID]",
    is_flag=False,
    flag_value=NEWEST,
    help="Go on with a session, by its id or the beginning of it; without, with the newest of this workspace.",
)
@click.option("--fork", metavar="ID", help="Begin a session that goes on from where another one is.")
@click.option(
    "--agent", metavar="NAME", default="", shell_complete=completion.agents, help="With the settings of [agents.NAME]."
)
@click.option(
    "--workspace", metavar="DIR", type=click.Path(path_type=Path), default=Path(), help="Where to work (here)."
)
@click.option("--simulate", is_flag=True, help="Ask a simulated model in this process: no key, no network, no bill.")
@click.option(
    "--script", metavar="FILE", type=click.Path(path_type=Path), help="What the simulated model says; else an echo."
)
@click.option("-y", "--yes", is_flag=True, help="Allow all tools without asking (tools.confirm.mode = allow).")
@click.option("--amnesia", is_flag=True, help="Read memory and write none: nothing said here is remembered.")
@click.option(
    "--effort",
    metavar="LEVEL",
    help="How much the model is to think, such as low or high, where it takes levels of that (agent.effort).",
)
@click.option("--list", "list_", is_flag=True, help="List the sessions of this workspace, and end.")
def command(
    message: tuple[str, ...],
    model: str | None,
    resume: str | None,
    fork: str | None,
    agent: str,
    workspace: Path,
    simulate: bool,
    script: Path | None,
    yes: bool,
    amnesia: bool,
    effort: str | None,
    list_: bool,
) -> int:
    """Talk to an agent whose prompt stays cached, and see what every turn costs.

    In a terminal it asks for one message after the other; /help lists its commands. With MESSAGE, or with something
    piped into it, it answers and ends: the answers go to standard output, all else to standard error, the exit code is
    1 if a turn failed. `-` in MESSAGE stands for standard input. What is piped in without a MESSAGE is one message,
    however many lines it has; lines that are commands (/model NAME, /cost, …) are carried out in their place, and part
    one message from the next.

    The agent may read files of its workspace; before it changes something or runs a command it asks, and where nobody
    can be asked that is refused, unless --yes is given. Everything said is kept in HOLDFAST_HOME/sessions: a chat that
    was left, or killed, goes on with --resume.

    \b
    Examples:
      holdfast chat --model anthropic:claude-haiku-4-5
      holdfast chat "What does this project do?"
      git diff | holdfast chat "Review this change:" -
      holdfast chat --resume
      holdfast chat --amnesia "Try something out"
      holdfast chat --model anthropic:claude-opus-5-5 --effort high "Find the race in this queue"
      holdfast chat --list
      holdfast chat --simulate
    """
    if resume is not None and fork is not None:
        raise click.UsageError("--resume and --fork are two things to do; choose one.")
    if script is not None and not simulate:
        raise click.UsageError("--script belongs to --simulate.")
    if resume and _ID(resume) is None:  # it is the message
        message, resume = (resume, *message), NEWEST
    here = _here()
    options = ChatOptions(
        here=here,
        workspace=here / workspace,
        model=model,
        agent=agent,
        simulate=simulate,
        script=None if script is None else here / script,
        yes=yes,
        amnesia=amnesia,
        effort=effort,
    )
    _bear_any_text()
    lines = [] if list_ else said(message)
    config = configured(options)
    screen, work = screen_here(), AgentThread()
    try:
        with handling(leaving):
            return _chat(options, config, Conductor(work, screen), lines, resume, fork, list_=list_)
    except Leave as left:
        return 128 + left.number if left.number else 0
    finally:
        work.close()


def _chat(
    options: ChatOptions,
    config: Config,
    conductor: Conductor,
    lines: list[str] | None,
    resume: str | None,
    fork: str | None,
    *,
    list_: bool,
) -> int:
    screen = conductor.screen
    with contextlib.ExitStack() as stack:
        keyboard = stack.enter_context(_keyboard(screen, config.home, once=lines is not None))
        conductor.ask, conductor.keyboard = _asker(screen, keyboard), keyboard
        stack.enter_context(_logs_as_notices(conductor))
        things = stack.enter_context(opened(options, config, conductor, screen.notice))
        someone = keyboard.answer if _somebody_types() and lines is None else None
        chat = Chat(things, conductor, answer=someone, expected_calls=expected_calls(lines))
        if list_:
            return _list(chat)
        try:
            _open(chat, resume, fork)
            if lines is not None:
                return answer(chat, lines)
            _greet(chat, begun=resume is None and fork is None)
            return talk(chat, keyboard)
        finally:
            _leave(chat)


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError as problem:
        raise HoldfastError("the current directory no longer exists; change to one that does") from problem


def _open(chat: Chat, resume: str | None, fork: str | None) -> None:
    if fork is not None:
        chat.fork(fork)
    elif resume is not None:
        chat.resume(resume or None)
    else:
        chat.begin()


def _greet(chat: Chat, *, begun: bool) -> None:
    lines = [f"{chat.session.model}; /help lists commands, Ctrl-D leaves"] if begun else commands.introduced(chat)
    for line in lines:
        chat.screen.notice(line)


def _leave(chat: Chat) -> None:
    """Close the conversation and print how to resume it, if the terminal is still there."""
    id = chat.leave()
    if id is not None:
        with contextlib.suppress(OSError):
            chat.screen.aside(
                [f"Go on with: {shlex.join(('holdfast', 'chat', *chat.opened.options.again, '--resume', id))}"]
            )


def _list(chat: Chat) -> int:
    sessions = chat.stored()
    for lost in chat.opened.sessions.unreadable():
        chat.screen.warn(f"session {lost.id}: {lost.problem}")
    for each in sessions:
        if each.damage:
            chat.screen.warn(f"session {each.id}: {each.damage}; --resume goes on from what stands before")
    if not sessions:
        chat.screen.say(["There are no sessions of this workspace yet; `holdfast chat` begins one."])
        return 0
    lines = views.stored(sessions, chat.opened.billed, tables.width(), workspace=sessions[0].workspace)
    chat.screen.say([*lines, "", "`holdfast chat --resume ID` goes on with one, `--fork ID` with a copy."])
    return 0


@contextlib.contextmanager
def _keyboard(screen: Screen, home: Path, *, once: bool) -> Iterator[Keyboard]:
    """How what is typed here is read: with an editor where the terminal understands escape codes. With `once` no
    messages are asked for: what is typed meanwhile is left to the shell."""
    if once or isinstance(screen, PlainScreen) or not _is_terminal(sys.stdin):
        yield LineKeyboard(home, commands.completions)
        return
    try:
        from .editor import Editor
    except ImportError:
        click.echo("holdfast: to edit messages of several lines: pip install 'holdfast[agent]'", err=True)
        yield LineKeyboard(home, commands.completions)
        return
    editor = Editor(home, commands.completions)
    with editor.open():
        yield editor


def _asker(screen: Screen, keyboard: Keyboard) -> Ask:
    """Who is asked whether a tool may run: the one at the terminal, or nobody."""
    if _somebody_types():
        return lambda question: decide(question, screen.aside, keyboard.answer)
    return nobody(screen.warn)


def _somebody_types() -> bool:
    return _is_terminal(sys.stdin) and (_is_terminal(sys.stdout) or _is_terminal(sys.stderr))


def screen_here() -> Screen:
    """Return the screen that suits this terminal, or a plain one if standard output is none."""
    if _is_terminal(sys.stdout) and os.environ.get("TERM", "dumb") not in ("", "dumb", "unknown"):
        try:
            from .terminal import TerminalScreen
        except ImportError:
            click.echo("holdfast: for Markdown and colours: pip install 'holdfast[agent]'", err=True)
        else:
            return TerminalScreen(sys.stdout, colours=not os.environ.get("NO_COLOR"))
    return PlainScreen(sys.stdout, sys.stderr, watched=_is_terminal(sys.stderr), whole=_is_file(sys.stdout))


def _is_file(stream: TextIO) -> bool:
    """Return whether the stream is a regular file, so that output can only be read later."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _is_terminal(stream: object) -> bool:
    return isinstance(stream, io.TextIOBase) and stream.isatty()


def _bear_any_text() -> None:
    """A terminal that has no character for something gets its number, and what no character is was typed by mistake."""
    for stream, errors in ((sys.stdout, "backslashreplace"), (sys.stderr, "backslashreplace"), (sys.stdin, "replace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


@contextlib.contextmanager
def _logs_as_notices(conductor: Conductor) -> Iterator[None]:
    """Show log records as notices, since other output would disturb the screen."""

    class Teller(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            conductor.watch.notice(record.getMessage())

    root = logging.getLogger()
    before, root.handlers = root.handlers, [Teller()]
    try:
        yield
    finally:
        root.handlers = before
