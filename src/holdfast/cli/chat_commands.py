"""The commands of a chat: lines that begin with a slash. What they show goes where answers go."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

from msgspec import Struct

from holdfast import facts
from holdfast.agent import choosing, routing
from holdfast.agent.calling import Stopped
from holdfast.agent.compaction.measuring import length
from holdfast.cli import chat_views, tables
from holdfast.cli.chat_opening import missing_key
from holdfast.cli.chat_talking import Chat
from holdfast.cli.chat_turns import Leave
from holdfast.cli.tables import dollars, printable
from holdfast.errors import HoldfastError

LISTED = 10
"""Sessions that `/resume` lists."""


class Command(Struct, frozen=True):
    """One command. `takes` is what may stand behind its name."""

    run: Callable[[Chat, str], Iterable[str]]
    takes: str
    help: str


def is_command(line: str) -> bool:
    """Whether a line is one. Two slashes begin a message, and so does a path, which has a second one in its first
    word."""
    word = line.split(maxsplit=1)[0] if line.strip() else ""
    return word.startswith("/") and "/" not in word[1:]


def is_known(line: str) -> bool:
    """Whether a line is a command that there is: in a pipe all else is text."""
    return line.startswith("/") and _name(line) in COMMANDS


def _name(line: str) -> str:
    word = line.strip().removeprefix("/").partition(" ")[0].lower()
    return _ALSO.get(word, word)


def meant(line: str) -> str:
    """A message as it is meant: two slashes at its beginning stand for one."""
    return line[1:] if line.startswith("//") else line


def run(chat: Chat, line: str) -> None:
    """Do what a command says. HoldfastError where it cannot be done; Leave at the end of the chat."""
    name, _, argument = line.strip().removeprefix("/").partition(" ")
    command = COMMANDS.get(_name(line))
    if command is None:
        raise HoldfastError(_unknown(name))
    argument = argument.strip()
    if argument and not command.takes:
        raise HoldfastError(f"/{name} takes nothing behind it; /help lists what commands take")
    chat.screen.say(list(command.run(chat, argument)))


def _unknown(name: str) -> str:
    close = difflib.get_close_matches(name.lower(), COMMANDS, n=1, cutoff=0.6)
    hint = f"did you mean /{close[0]}?" if close else "/help lists all"
    return f"there is no command /{printable(name)[:40]}; {hint} A message that begins with a slash is written //…"


def _help(chat: Chat, argument: str) -> Iterable[str]:
    width = max(len(f"/{name} {each.takes}".rstrip()) for name, each in COMMANDS.items())
    for name, each in COMMANDS.items():
        yield from tables.wrapped(
            f"{f'/{name} {each.takes}'.rstrip():{width}}  {each.help}", tables.width(), indent=" " * (width + 2)
        )
    yield ""
    yield from tables.wrapped(
        "//text sends a message that begins with a slash. A backslash at the end of a line goes on in the next one. "
        "@model at the beginning of a message asks another model this once. Ctrl-C stops a turn, Ctrl-D leaves.",
        tables.width(),
    )


def _model(chat: Chat, argument: str) -> Iterable[str]:
    session = chat.session
    if argument:
        yield from tables.wrapped(_changed(chat, argument), tables.width())
        return
    configured = chat.opened.sessions.configured(session.agent)
    wanted = session.state.chosen
    now = f"{session.model} answers." if wanted in (None, session.model) else f"{wanted} answers from now on."
    yield from tables.wrapped(now, tables.width())
    if configured.model:
        yield from tables.wrapped(f"agent.model is {configured.model} ({configured.source}).", tables.width())
    if configured.fallback:
        chain = ", ".join(configured.fallback)
        yield from tables.wrapped(f"If it cannot answer: {chain} (agent.fallback).", tables.width())
    yield from tables.wrapped("`/model NAME` changes it, `holdfast models` lists what is known.", tables.width())


def _changed(chat: Chat, name: str) -> str:
    session = chat.session
    model = name if ":" in name else chat.opened.sessions.model_named(name)
    missing = missing_key(chat.opened, model)
    if missing:
        raise HoldfastError(missing)
    if model == (session.state.chosen or session.model):
        return f"{model} answers already."
    chat.here(lambda: session.set_model(model))
    return f"{model} answers from the next message on. {_switch(chat, model)}"


def _switch(chat: Chat, model: str) -> str:
    """What a change of the model costs."""
    session, last = chat.session, chat.session.state.last
    if not facts.model(model).known:
        return "Nothing is known of this model, neither its prices nor its cache."
    if last is None:
        return "Nothing was sent yet, so the change costs nothing."
    tokens, warm = chat.here(lambda: (length(session).used, choosing.warm(session, model)))
    cold, price = routing.cold_switch(model, tokens, warm=warm)
    most = routing.dearest(model, cold, price)
    upto = "" if most is None else f" to {dollars(most)}"
    return f"About {cold:,} tokens are not cached there: sending them anew costs {dollars(price)}{upto}."


def _cost(chat: Chat, argument: str) -> Iterable[str]:
    return chat_views.cost(chat.session, chat.opened.billed, tables.width())


def _cache(chat: Chat, argument: str) -> Iterable[str]:
    return chat_views.cache(chat.session, chat.opened.store, tables.width())


def _context(chat: Chat, argument: str) -> Iterable[str]:
    session = chat.session
    blocks = chat.here(session.inspect)
    return chat_views.context(blocks, session.facts.context_limit, session.clock(), tables.width())


def _skills(chat: Chat, argument: str) -> Iterable[str]:
    return chat_views.skills(chat.session, tables.width())


def _memory(chat: Chat, argument: str) -> Iterable[str]:
    return chat_views.memory(chat.session, tables.width())


def _goal(chat: Chat, argument: str) -> Iterable[str]:
    session = chat.session
    if not argument:
        goal = session.state.current_goal
        yield from tables.wrapped(
            f"Goal: {goal}" if goal else "There is no goal; `/goal TEXT` sets one.", tables.width()
        )
        return
    text = "" if argument.lower() == "off" else argument
    chat.here(lambda: session.set_goal(text))
    yield "The goal is set; the model is told with the next message." if text else "There is no goal any more."


def _compact(chat: Chat, argument: str) -> Iterable[str]:
    """What it came to is told as it happens."""
    session = chat.session
    try:
        done = chat.conductor.run(
            "compacting", lambda cancel: session.compact(watch=chat.conductor.watch, cancel=cancel)
        )
    except Stopped:
        return ["Stopped; nothing was changed."]
    finally:
        chat.screen.over(None)
    return ["Nothing was compacted."] if done.tokens_after >= done.tokens_before else []


def _resume(chat: Chat, argument: str) -> Iterable[str]:
    if argument:
        chat.resume(argument)
        yield from introduced(chat)
        return
    held = [each for each in chat.stored() if each.id != chat.session.id]
    if not held:
        yield "There is no other session of this workspace."
        return
    yield from chat_views.stored(held, chat.opened.billed, tables.width(), workspace=held[0].workspace, most=LISTED)
    yield ""
    yield "`/resume ID` goes on with one; the beginning of an id is enough."


def _fork(chat: Chat, argument: str) -> Iterable[str]:
    before = chat.session.id
    if not chat.session.state.turns:
        raise HoldfastError("nothing was said yet that a fork could go on from")
    chat.fork(before)
    yield from tables.wrapped(
        f"This is session {chat.session.id} now; {before} stays as it was: `/resume {before}` goes back.",
        tables.width(),
    )


def _exit(chat: Chat, argument: str) -> Iterable[str]:
    raise Leave


def introduced(chat: Chat) -> Iterable[str]:
    """What a session says of itself when a chat goes on with it."""
    state = chat.session.state
    title = f": {printable(state.title)}" if state.title else ""
    turns = tables.counted(state.turns, "turn")
    yield from tables.wrapped(f"Session {chat.session.id}, {turns}, {chat.session.model}{title}", tables.width())


COMMANDS: dict[str, Command] = {
    "model": Command(_model, "[NAME]", "Show or change the model that answers, and what a change costs."),
    "cost": Command(_cost, "", "What this session cost, and how much of it was read from the cache."),
    "cache": Command(_cache, "", "Hit rate, what is alive, last verdicts, breaks and resets with their reasons."),
    "context": Command(_context, "", "Every block of the next request: owner, tokens, age, cached or not."),
    "skills": Command(_skills, "", "The skills of this session and which are loaded."),
    "memory": Command(_memory, "", "USER.md and MEMORY.md, and what was told of the knowledge store."),
    "goal": Command(_goal, "[TEXT|off]", "Show, set or give up what the session is to reach."),
    "compact": Command(_compact, "", "Put a summary in the place of old history, and say what it cost."),
    "resume": Command(_resume, "[ID]", "Go on with another session; without ID, list them."),
    "fork": Command(_fork, "", "Go on in a copy; the session stays as it was."),
    "help": Command(_help, "", "This list."),
    "exit": Command(_exit, "", "Leave; the session can be resumed."),
}
_ALSO = {"quit": "exit", "q": "exit", "?": "help"}
