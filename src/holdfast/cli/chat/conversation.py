"""A chat: one conversation at a time, what is said in it, and how another one takes its place."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Awaitable, Callable
from typing import TypeVar

from holdfast.agent import EXPECTED_CALLS, Session, SessionOnDisk, Turn, listed, log_path, read_log
from holdfast.agent.window import project
from holdfast.cli.tables import printable, uncut
from holdfast.errors import HoldfastError

from .setup import ChatResources, missing_key
from .turns import Conductor

T = TypeVar("T")

_NEAREST = 4
NO_MODEL = (
    "no model is chosen; name one with `holdfast chat --model anthropic:claude-haiku-4-5`, set agent.model in "
    "holdfast.toml, or try it without a key: holdfast chat --simulate"
)


class Chat:
    """The conversation of this chat, and what it stands on."""

    def __init__(
        self,
        opened: ChatResources,
        conductor: Conductor,
        *,
        answer: Callable[[str], str] | None = None,
        expected_calls: float = EXPECTED_CALLS,
    ) -> None:
        self.opened, self.conductor, self.screen = opened, conductor, conductor.screen
        self.answer = answer
        """Asks whoever is at the terminal; None where nobody is."""
        self._expected_calls = expected_calls
        self._session: Session | None = None
        self._begun: set[str] = set()

    @property
    def session(self) -> Session:
        assert self._session is not None
        return self._session

    def here(self, work: Callable[[], T]) -> T:
        """Do something with the session where it lives: in the agent's thread."""
        return self.conductor.work.call(work)

    # Which conversation

    def begin(self) -> None:
        """A new one."""
        opened = self.opened
        chosen = opened.sessions.configured(opened.options.agent)
        model = opened.model
        if model is None and chosen.model is None and not chosen.fallback:
            raise HoldfastError(NO_MODEL)
        if model is not None:
            model = opened.sessions.model_ref(model)
        missing = missing_key(opened, model or chosen.model or chosen.fallback[0])
        if missing and not chosen.fallback:
            raise HoldfastError(missing)
        options = opened.options
        made = self._opening(
            lambda: opened.sessions.create(
                agent=options.agent,
                model=model,
                amnesia=options.amnesia,
                effort=options.effort,
                expected_calls=self._expected_calls,
            )
        )
        self._begun.add(made.id)
        self._take(made)

    def resume(self, id: str | None) -> None:
        """One that is stored, by its id or the beginning of it; the newest of this workspace where there is none."""
        whole_id = self.find(id)
        if self._session is not None and whole_id == self._session.id:
            raise HoldfastError(f"this is session {whole_id} already")
        self._take(self._opening(lambda: self.opened.sessions.resume(whole_id)))
        self._named_model()
        self._named_effort()

    def fork(self, id: str) -> None:
        """A new one that goes on from where another is."""
        whole_id = self.find(id)
        self._take(self._opening(lambda: self.opened.sessions.fork(whole_id)))
        self._named_model()
        self._named_effort()

    def _named_model(self) -> None:
        name = self.opened.options.model
        if name is None:
            return
        model = self.opened.sessions.model_ref(name)
        missing = missing_key(self.opened, model)
        if missing:
            raise HoldfastError(missing)
        if model != self.session.model:
            self.here(lambda: self.session.set_model(model))

    def _named_effort(self) -> None:
        effort = self.opened.options.effort
        if effort is not None:
            self.here(lambda: self.session.set_effort(effort))

    def _opening(self, make: Callable[[], Awaitable[Session]]) -> Session:
        try:
            return self.conductor.run("opening the session", lambda cancel: make())
        finally:
            self.screen.over(None)

    def _take(self, session: Session) -> None:
        self.leave()
        self._session = session

    def leave(self) -> str | None:
        """Leave the conversation as it is; its id, if there is something to be resumed. One in which nothing was said
        leaves nothing behind."""
        session, self._session = self._session, None
        if session is None:
            return None
        empty = session.id in self._begun and not session.state.title
        if empty:
            self.here(session.discard)
        self.conductor.work.wait(session.close())
        return None if empty else session.id

    def stored(self, *, everywhere: bool = False) -> list[SessionOnDisk]:
        """The sessions of this workspace that something was said in, the newest first."""
        return [each for each in self.opened.sessions.stored(everywhere=everywhere) if each.title]

    def find(self, id: str | None) -> str:
        """The whole id of a stored session. One of another workspace is refused: its tools would work in the wrong
        place."""
        if id is None:
            sessions = self.stored()
            if not sessions:
                raise HoldfastError("there is no session of this workspace to resume; `holdfast chat` begins one")
            return sessions[0].id
        id = uncut(id.strip())
        ids = listed(self.opened.sessions.directory)
        fitting = [id] if id in ids else [each for each in ids if id and each.lower().startswith(id.lower())]
        if len(fitting) != 1:
            raise HoldfastError(self._unknown(id, fitting))
        composed = project(read_log(log_path(self.opened.sessions.directory, fitting[0]))).composed
        if composed is not None and composed.parent is not None:
            raise HoldfastError(
                f"session {fitting[0]} is that of a sub-agent; go on with the one it worked for: {composed.parent}"
            )
        if composed is not None and composed.workspace not in ("", self.opened.sessions.workspace_name):
            where = printable(composed.workspace)
            raise HoldfastError(
                f"session {fitting[0]} works in {where}; go on with it there, or with --workspace {shlex.quote(where)}"
            )
        return fitting[0]

    def _unknown(self, id: str, fitting: list[str]) -> str:
        named = printable(id)[:80]
        if fitting:
            ids = ", ".join(fitting[:_NEAREST]) + (", …" if len(fitting) > _NEAREST else "")
            return f"{len(fitting)} sessions begin with {named!r}: {ids}; give more of the id"
        titles = {each.id: each.title for each in self.stored(everywhere=True)}
        close = difflib.get_close_matches(id.upper()[:64], titles, n=_NEAREST, cutoff=0.6)
        close = close or [each.id for each in self.stored()[:_NEAREST]]
        if not close:
            other = " of this workspace" if titles else " yet"
            begin = "" if self._session is not None else "; `holdfast chat` begins one"
            return f"there is no session {named!r}, nor any other{other}{begin}"
        near = "; ".join(f"{each} ({printable(titles[each])[:40]})" for each in close)
        return f"there is no session {named!r}. The nearest or newest: {near}. `holdfast chat --list` lists all"

    # What is said

    def ask(self, text: str) -> Turn | None:
        """Say something and show the answer; None where it could not be said at all."""
        session = self.session
        try:
            turn = self.conductor.run(
                session.model, lambda cancel: session.ask(text, watch=self.conductor.watch, cancel=cancel)
            )
        except HoldfastError as problem:
            self.screen.over(None)
            self.screen.warn(str(problem))
            return None
        self.screen.over(turn)
        return turn
