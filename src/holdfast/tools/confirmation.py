"""Whether a call that changes something may run: by the settings, by an earlier decision, or by asking the user.

A refusal wins if two sources disagree, and any error is a refusal. Questions of one session are asked one at a time; a
waiting one may have been answered by the one before.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holdfast.config import printable
from holdfast.config.sections import ConfirmSettings
from holdfast.errors import HoldfastError
from holdfast.notices import warn_once
from holdfast.records.events import ToolConfirmationRequested, ToolConfirmationResolved

from .change_lock import LoopLock
from .contract import Effect, Tool, ToolContext
from .safe_files import open_file, put_file
from .text_limits import as_json, describe_error, mend
from .time_limits import in_thread, run_bounded
from .workspace import Workspace

try:
    import fcntl
except ImportError:  # no advisory locks here: the last of two processes wins
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

FILE = "confirmations.json"
_PRIVATE = 0o600
_LARGEST = 10_000_000
LOCK_TIMEOUT_S = 2.0

Scope = Literal["once", "session", "always"]

_WANTS: dict[Effect, str] = {
    "none": "run",
    "read": "read",
    "write": "change something",
    "execute": "execute something",
    "network": "use the network",
}


class Question(Struct, frozen=True, kw_only=True):
    """A question to the user. `text` has printable characters only; `subject` is what the call acts on."""

    tool: str
    effect: Effect
    subject: str
    input: Mapping[str, Any]
    text: str


class Decision(Struct, frozen=True):
    """Whether a call may run, how long that holds, and the reason for the model if not."""

    allowed: bool
    scope: Scope = "once"
    why: str = ""


Confirmer = Callable[[Question], Awaitable[Decision]]

_About = tuple[Path, str, str | None]
"""What a remembered decision covers: workspace, tool, subject."""

_YES = Decision(True)


class Confirmations:
    """The decisions of one session, shared by its agents. Without a `home` none outlives the session; without a
    way to `ask` nobody can be asked."""

    def __init__(self, settings: ConfirmSettings, *, home: Path | None = None, ask: Confirmer | None = None) -> None:
        self._settings: tuple[ConfirmSettings, ...] = (settings,)
        self._confirmer = ask
        self._always = None if home is None else DecisionFile(home)
        self._session: dict[_About, bool] = {}
        self._asking = LoopLock()

    def narrowed(self, settings: ConfirmSettings) -> Confirmations:
        """The same decisions for a sub-agent with settings of its own: it is refused what either of both refuse, and
        runs without a question what both allow. Delegating is no way round a question."""
        narrowed = copy(self)
        narrowed._settings = (*self._settings, settings)
        return narrowed

    async def decide(self, tool: Tool, input: Mapping[str, Any], context: ToolContext) -> Decision:
        """Whether this call may run. Asks if nothing else decides."""
        settled = [_settled(tool, settings) for settings in self._settings]
        refusal = next((each for each in settled if each is not None and not each.allowed), None)
        if refusal is not None or all(settled):
            return refusal or _YES
        name = tool.name
        about = (context.workspace.root, name, _subject(tool, input, context.workspace))
        decision = await self._stored(about)
        if decision is not None:
            return decision
        if self._confirmer is None:
            return Decision(False, why=f"{name} needs the user's consent, and nobody can be asked here.")
        async with self._asking:
            return await self._stored(about) or await self._ask(self._confirmer, tool, about, input, context)

    async def _stored(self, about: _About) -> Decision | None:
        """Return an earlier decision, or None."""
        here = self._session.get(about)
        always = None if self._always is None else await in_thread(self._always.find, *about)
        if here is False or always is False:
            return Decision(False, "session" if here is False else "always", "The user has refused this before.")
        if here or always:
            return Decision(True, "session" if here else "always")
        return None

    async def _ask(
        self, confirmer: Confirmer, tool: Tool, about: _About, input: Mapping[str, Any], context: ToolContext
    ) -> Decision:
        subject = about[2]
        description = (
            f"{as_json(input) or '{}'}{_leads(tool, input, context.workspace)}" if subject is None else subject
        )
        text = _printable(f"{_wants(tool)}: {description}")
        question = Question(tool=tool.name, effect=tool.effect, subject=subject or "", input=input, text=text)
        context.emit(ToolConfirmationRequested(tool=tool.name, tool_use_id=context.tool_use_id, question=question.text))
        decision = Decision(False, why="The question was not answered.")
        try:
            decision = _as_decision(await run_bounded(lambda: confirmer(question), stopping=context.cancel.set))
        except Exception as error:
            logger.exception("the question whether %s may run could not be asked", tool.name)
            decision = Decision(False, why=f"The user could not be asked ({describe_error(error, 200)}).")
        finally:
            context.emit(
                ToolConfirmationResolved(
                    tool=tool.name,
                    tool_use_id=context.tool_use_id,
                    allowed_to_run=decision.allowed,
                    scope=decision.scope,
                )
            )
        if decision.scope != "once":
            self._session[about] = decision.allowed
        if decision.scope == "always" and self._always is not None:
            await in_thread(self._always.put, *about, decision.allowed)
        return decision


def _settled(tool: Tool, settings: ConfirmSettings) -> Decision | None:
    """Return the settings' decision on every call of a tool; None if the user has to be asked."""
    name = tool.name
    if name in settings.deny:
        return Decision(False, why=f"The settings do not allow {name} (tools.confirm.deny).")
    needed = not tool.read_only if tool.confirm is None else tool.confirm
    if not needed or name in settings.allow or settings.mode == "allow":
        return _YES
    if settings.mode == "deny":
        return Decision(False, why=f"The settings do not allow {name} (tools.confirm.mode is deny).")
    return None


def _wants(tool: Tool) -> str:
    """Who wants what. Of the built-in tools it is known what they do; a server's say only that they are called."""
    if tool.source == "mcp":
        return f"{tool.name} is to be called, a tool of the MCP server {tool.server}"
    if tool.source == "builtin":
        wants = {"write": "change a file", "execute": "run a command"}.get(tool.effect, _WANTS[tool.effect])
        return f"{tool.name} wants to {wants}"
    return f"{tool.name} wants to {_WANTS[tool.effect]}"


def _as_decision(answer: object) -> Decision:
    """An answer that is exactly a yes, or a refusal."""
    if not isinstance(answer, Decision):
        return Decision(False, why="The question was not answered with a decision.")
    scope: Scope = answer.scope if answer.scope in ("once", "session", "always") else "once"
    if answer.allowed is True:
        return Decision(True, scope)
    return Decision(False, scope, mend(str(answer.why or "The user did not allow it.")))


def _subject(tool: Tool, input: Mapping[str, Any], workspace: Workspace) -> str | None:
    """Return what a decision covers: the tool's subject, or if it fails exactly this input, never more."""
    if tool.subject is None:
        return None
    try:
        subject = tool.subject(input)
    except Exception:
        logger.exception("%s cannot say what a call is about", tool.name)
        subject = None
    return (mend(subject) if isinstance(subject, str) else as_json(input) or "{}") + _leads(tool, input, workspace)


def _leads(tool: Tool, input: Mapping[str, Any], workspace: Workspace) -> str:
    """The real targets of its paths: `notes.txt` may be a link to a git hook, and the user must know before saying
    yes."""
    links = ""
    for touch in tool.paths:
        for path in touch.named(input):
            if isinstance(path, str) and (real := workspace.leads(path)) is not None:
                links += f" ({path} leads to {real})"
    return mend(links)


def _printable(text: str) -> str:
    """Control characters as escapes: a command must not be able to hide itself from the one who is asked."""
    return "\n".join(map(printable, mend(text).split("\n")))


class StoredDecision(Struct, frozen=True):
    """One decision. Without a subject it covers every call of the tool."""

    workspace: str
    tool: str
    subject: str | None
    allowed: bool

    @property
    def about(self) -> tuple[str, str, str | None]:
        return self.workspace, self.tool, self.subject


class _File(Struct, frozen=True):
    decisions: tuple[StoredDecision, ...] = ()


class DecisionFile:
    """Decisions that hold for ever: one private file in HOLDFAST_HOME, by workspace, tool and subject.

    Other processes may change it at any time, so each look reads it. Whatever is wrong with the file, it says nothing:
    then the user is asked again. It never allows by mistake.
    """

    def __init__(self, home: Path) -> None:
        self._home = home

    def find(self, workspace: Path, tool: str, subject: str | None) -> bool | None:
        """Return the decision for this tool and subject, None without one; a refusal wins."""
        about = (mend(str(workspace)), tool, subject)
        decisions = {each.allowed for each in self._read() if each.about == about}
        return None if not decisions else decisions == {True}

    def put(self, workspace: Path, tool: str, subject: str | None, allowed: bool) -> bool:
        """Write a decision down; whether that was possible."""
        decision = StoredDecision(mend(str(workspace)), tool, subject, allowed)
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._locked():
                others = tuple(each for each in self._read() if each.about != decision.about)
                data = msgspec.json.encode(_File((*others, decision)))
                put_file(self._real(), (FILE,), msgspec.json.format(data, indent=1) + b"\n", mode=_PRIVATE)
        except (OSError, HoldfastError, UnicodeEncodeError) as problem:
            logger.warning("a decision could not be kept in %s (%s): it holds for this session", FILE, problem)
            return False
        return True

    def _real(self) -> Path:
        return Path(os.path.realpath(self._home))

    def _read(self) -> tuple[StoredDecision, ...]:
        try:
            with open_file(self._real(), (FILE,)) as file:
                status = os.fstat(file.fileno())
                if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o022:
                    warn_once(logger, "%s may be written by others and is not believed; remove it", FILE)
                    return ()
                data = file.read(_LARGEST + 1)
            return msgspec.json.decode(data, type=_File).decisions if len(data) <= _LARGEST else ()
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            warn_once(logger, "%s cannot be read (%s): the user is asked again", FILE, problem)
            return ()

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time, so that none loses another's decision."""
        lock = os.open(self._real() / f"{FILE}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        try:
            until = time.monotonic() + LOCK_TIMEOUT_S
            while fcntl is not None:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.01)
            yield
        finally:
            os.close(lock)
