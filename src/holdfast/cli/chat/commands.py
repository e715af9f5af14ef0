"""The commands of a chat: lines that begin with a slash. What they show goes where answers go."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from decimal import Decimal

from msgspec import Struct

from holdfast import facts
from holdfast.agent import DEFAULT, Stopped, check_effort, lost_section, model_choice, price_of_change, routing
from holdfast.agent.compaction import length
from holdfast.cli.tables import dollars, printable
from holdfast.errors import HoldfastError
from holdfast.wording import counted

from .. import tables
from . import views
from .conversation import Chat, missing_key
from .turns import Leave

LISTED = 10
"""Sessions that `/resume` lists."""


class ChatCommand(Struct, frozen=True):
    """A slash command. `takes` names its argument."""

    run: Callable[[Chat, str], Iterable[str]]
    takes: str
    help: str


def is_command(line: str) -> bool:
    """Return whether a line is a command. Two slashes begin a message, and so does a path, which has a second slash in
    its first word."""
    word = line.split(maxsplit=1)[0] if line.strip() else ""
    return word.startswith("/") and "/" not in word[1:]


def is_known(line: str) -> bool:
    """Whether a line is a command that there is: in a pipe all else is text."""
    return line.startswith("/") and _name(line) in COMMANDS


def _name(line: str) -> str:
    word = line.strip().removeprefix("/").partition(" ")[0].lower()
    return _ALSO.get(word, word)


def completions(text: str) -> list[str]:
    """What a line that begins with `text` may be completed to."""
    name, space, _ = text.partition(" ")
    if not space:
        return [f"/{each}" for each in COMMANDS]
    complete = _COMPLETED.get(_name(name))
    return [] if complete is None else [f"{name} {each}" for each in complete()]


def meant(line: str) -> str:
    """Return a message without its escape: two slashes at its beginning stand for one."""
    return line[1:] if line.startswith("//") else line


def run(chat: Chat, line: str) -> None:
    """Run a command. Raises HoldfastError if it cannot be done and Leave at the end of the chat."""
    name, _, argument = line.strip().removeprefix("/").partition(" ")
    command = COMMANDS.get(_name(line))
    if command is None:
        raise HoldfastError(_unknown(name))
    argument = argument.strip()
    if argument and not command.takes:
        shown = printable(argument)[:40]
        raise HoldfastError(f"/{_name(line)} takes nothing behind its name, but {shown!r} stands there; write it alone")
    chat.screen.say(list(command.run(chat, argument)))


def _unknown(name: str) -> str:
    if not name:
        return "a command has a name behind its slash; /help lists them"
    shown, low = printable(name)[:40], name.lower()
    close = [_MEANT[low]] if low in _MEANT else difflib.get_close_matches(low, COMMANDS, n=1, cutoff=0.6)
    suggestion = f"did you mean /{close[0]}? " if close else ""
    return f"there is no command /{shown}; {suggestion}/help lists all, and //{shown} is sent as a message"


def _help(chat: Chat, argument: str) -> Iterable[str]:
    chosen = _name(argument) if argument else ""
    if chosen and chosen not in COMMANDS:
        raise HoldfastError(_unknown(argument.removeprefix("/")))
    listed = {name: each for name, each in COMMANDS.items() if chosen in ("", name)}
    width = max(len(f"/{name} {each.takes}".rstrip()) for name, each in listed.items())
    for name, each in listed.items():
        yield from tables.wrapped(
            f"{f'/{name} {each.takes}'.rstrip():{width}}  {each.help}", tables.width(), indent=" " * (width + 2)
        )
    if chosen:
        return
    yield ""
    yield from tables.wrapped(
        "//text sends a message that begins with a slash. Alt-Enter, Ctrl-J, or a backslash and Enter go on in the "
        "next line. @model at the beginning of a message asks another model this once. Esc or Ctrl-C stops a turn, "
        "Ctrl-D leaves.",
        tables.width(),
    )


def _model(chat: Chat, argument: str) -> Iterable[str]:
    session = chat.session
    if argument:
        yield from tables.wrapped(_changed(chat, argument), tables.width())
        return
    configured = chat.opened.sessions.configured(session.agent)
    chosen = session.state.chosen
    now = f"{session.model} answers." if chosen in (None, session.model) else f"{chosen} answers from now on."
    yield from tables.wrapped(now, tables.width())
    if configured.model:
        yield from tables.wrapped(f"agent.model is {configured.model} ({configured.source}).", tables.width())
    if configured.fallback:
        chain = ", ".join(configured.fallback)
        yield from tables.wrapped(f"If it cannot answer: {chain} (agent.fallback).", tables.width())
    yield from tables.wrapped("`/model NAME` changes it, `holdfast models` lists what is known.", tables.width())


def _changed(chat: Chat, name: str) -> str:
    session = chat.session
    model = chat.opened.sessions.model_ref(name)
    missing = missing_key(chat.opened, model)
    if missing:
        raise HoldfastError(missing)
    if model == (session.state.chosen or session.model):
        return f"{model} answers already."
    chat.here(lambda: session.set_model(model))
    return f"{model} answers from the next message on. {_switch(chat, model)}"


def _switch(chat: Chat, model: str) -> str:
    """Describe the cost of a change of the model."""
    session, last = chat.session, chat.session.state.last
    if not facts.model(model).known:
        return "What the change costs is not known."
    if last is None:
        return "Nothing was sent yet, so the change costs nothing."
    tokens, warm = chat.here(lambda: (length(session).used, model_choice.warm(session, model)))
    cold, price = routing.cold_switch(model, tokens, warm=warm)
    most = routing.dearest(model, cold, price)
    upto = "" if most is None else f" to {dollars(most)}"
    return f"About {cold:,} tokens are not cached there: sending them anew costs {dollars(price)}{upto}."


ASKED_ABOVE = Decimal("0.01")
"""Dollars from which on somebody at a terminal is asked before the effort changes."""


def _effort(chat: Chat, argument: str) -> Iterable[str]:
    session = chat.session
    levels = session.facts.efforts
    effort = argument.lower()
    if effort:
        check_effort(session.model, "" if effort == DEFAULT else effort)
    before = session.state.effort or DEFAULT
    if not levels:
        yield from tables.wrapped(f"{session.model} takes no effort as far as is known.", tables.width())
    elif not effort:
        used = before if before in (DEFAULT, *levels) else f"{DEFAULT}, because it takes no {before}"
        yield from tables.wrapped(
            f"{session.model} thinks with the effort {used}; it takes {', '.join(levels)}, and {DEFAULT} for its own.",
            tables.width(),
        )
        yield from tables.wrapped(f"A change: {_effort_price(chat)}", tables.width())
    elif effort == before:
        yield f"The effort is {before} already."
    else:
        yield from _changed_effort(chat, effort)


def _changed_effort(chat: Chat, effort: str) -> Iterable[str]:
    """Change the effort after showing the price; if it is not small, ask the user at a terminal."""
    price = _effort_price(chat)
    chat.screen.say(tables.wrapped(price[:1].upper() + price[1:], tables.width()))
    extra = chat.here(lambda: price_of_change(chat.session)).extra
    if chat.answer is not None and extra is not None and extra >= ASKED_ABOVE:
        try:
            word = chat.answer("Change it? y yes, n no: ")
        except EOFError:
            word = ""
        if word.strip().lower() not in ("y", "yes"):
            yield "Nothing was changed."
            return
    chat.here(lambda: chat.session.set_effort(effort))
    yield f"The effort is {effort} from the next request on."


def _effort_price(chat: Chat) -> str:
    session = chat.session
    if lost_section(session.facts, session.dialect) is None:
        return f"it costs nothing, the cache of {session.model} does not depend on it."
    change = chat.here(lambda: price_of_change(session))
    if not change.tokens:
        return "it costs nothing now, because nothing of the conversation is cached that depends on it."
    if change.cost is None or change.read_cost is None:
        return f"about {change.tokens:,} cached tokens are written again with the next request, at an unknown price."
    return (
        f"about {change.tokens:,} cached tokens are written again with the next request, for {dollars(change.cost)} "
        f"instead of {dollars(change.read_cost)} to read them."
    )


def _cost(chat: Chat, argument: str) -> Iterable[str]:
    return views.cost(chat.session, chat.opened.billed, tables.width())


def _cache(chat: Chat, argument: str) -> Iterable[str]:
    return views.cache(chat.session, chat.opened.store, tables.width())


def _context(chat: Chat, argument: str) -> Iterable[str]:
    session = chat.session
    blocks = chat.here(session.inspect)
    return views.context(blocks, session.facts.context_limit, session.clock(), tables.width())


def _skills(chat: Chat, argument: str) -> Iterable[str]:
    return views.skills(chat.session, tables.width())


def _memory(chat: Chat, argument: str) -> Iterable[str]:
    return views.memory(chat.session, tables.width())


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
    """Compact the session. The result is printed while it runs."""
    session = chat.session
    try:
        compacted = chat.conductor.run(
            "compacting", lambda cancel: session.compact(watch=chat.conductor.watch, cancel=cancel)
        )
    except Stopped:
        return ["Stopped; nothing was changed."]
    finally:
        chat.screen.over(None)
    return ["Nothing was compacted."] if compacted.tokens_after >= compacted.tokens_before else []


def _resume(chat: Chat, argument: str) -> Iterable[str]:
    if argument:
        chat.resume(argument)
        yield from introduced(chat)
        return
    sessions = [each for each in chat.stored() if each.id != chat.session.id]
    if not sessions:
        yield "There is no other session of this workspace."
        return
    yield from views.stored(sessions, chat.opened.billed, tables.width(), workspace=sessions[0].workspace, most=LISTED)
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
    """Introduce the session that a chat continues: id, turns, model and title."""
    state = chat.session.state
    title = f": {printable(state.title)}" if state.title else ""
    turns = counted(state.turns, "turn")
    yield from tables.wrapped(f"Session {chat.session.id}, {turns}, {chat.session.model}{title}", tables.width())


COMMANDS: dict[str, ChatCommand] = {
    "model": ChatCommand(_model, "[NAME]", "Show or change the model that answers, and what a change costs."),
    "effort": ChatCommand(_effort, "[LEVEL]", "Show or change how much the model thinks, and what a change costs."),
    "cost": ChatCommand(_cost, "", "What this session cost, and how much of it was read from the cache."),
    "cache": ChatCommand(_cache, "", "Hit rate, what is alive, last verdicts, breaks and resets with their reasons."),
    "context": ChatCommand(_context, "", "Every block of the next request: owner, tokens, age, cached or not."),
    "skills": ChatCommand(_skills, "", "The skills of this session and which are loaded."),
    "memory": ChatCommand(_memory, "", "USER.md and MEMORY.md, and what was told of the knowledge store."),
    "goal": ChatCommand(_goal, "[TEXT|off]", "Show, set or give up what the session is to reach."),
    "compact": ChatCommand(_compact, "", "Put a summary in the place of old history, and say what it cost."),
    "resume": ChatCommand(_resume, "[ID]", "Go on with another session; without ID, list them."),
    "fork": ChatCommand(_fork, "", "Go on in a copy; the session stays as it was."),
    "help": ChatCommand(_help, "[COMMAND]", "This list, or what one command does."),
    "exit": ChatCommand(_exit, "", "Leave; the session can be resumed."),
}
_COMPLETED: dict[str, Callable[[], Iterable[str]]] = {
    "model": lambda: (model.ref for model in facts.default().models()),
    "help": lambda: COMMANDS,
}
"""The completions of a command's argument."""
_ALSO = {"quit": "exit", "q": "exit", "?": "help"}
_MEANT = {
    **dict.fromkeys(("usage", "stats", "spent", "bill"), "cost"),
    **dict.fromkeys(("tokens", "window", "prompt"), "context"),
    **dict.fromkeys(("sessions", "list", "history", "continue"), "resume"),
    **dict.fromkeys(("summarize", "summarise", "compress"), "compact"),
    **dict.fromkeys(("bye", "leave", "end", "stop"), "exit"),
    "commands": "help",
}
"""What other chats call these commands."""
