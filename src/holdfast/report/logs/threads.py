"""The conversations inside the sessions of logs whose requests do not name them.

This applies `engine.identity.continuation` to logs. Wrongly merged conversations invent breaks, wrongly split ones hide
them. So a request is assigned to the conversation that it repeats (rule by rule the table there, column "logs"), and if
it repeats none, to the one of which it can only be a changed form. A request without any answer opens a conversation.
But in a session named by the log, if it is much shorter than the session's earlier requests and has the same tools and
system text, it is that conversation, compacted. If the older one continues later, it was another one after all. Blocks
are compared by their bytes without markers and thoughts. Memory is bounded: the conversations used last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from holdfast.engine.identity import LOGGED, Evidence, History, Relation, choose, is_reopened, repeated
from holdfast.lru import LRU
from holdfast.wire import BlockSpan, Body

MOST_BLOCKS = 200_000
"""Blocks of conversations that are remembered."""
_MOST_SESSIONS = 20_000
_MOST_THREADS = 256
_RESPONSES = 8
_CONVERSATION = 4  # blocks: with fewer, being much shorter means nothing
_EDGE = 80  # bytes at either end of a block in which its type stands

_MODELS = ("assistant", "model")
_CLIENTS = re.compile(rb'"type"\s*:\s*"\w*_(?:output|response|result)"').search
_thought = re.compile(rb'"type"\s*:\s*"(?:redacted_thinking|thinking|reasoning)"').search
_marker = re.compile(rb'\s*,\s*"cache_control"\s*:\s*\{[^{}]*\}|"cache_control"\s*:\s*\{[^{}]*\}\s*,?\s*').sub
_plain_text = re.compile(rb'\{\s*"type"\s*:\s*"text"\s*,\s*"text"\s*:\s*(?=")').match


def history_of(body: Body) -> History:
    """Return the hashes of a body's tools, system text and blocks."""
    raw = body.raw
    blocks: list[int] = []
    answers: list[bool] = []
    tools = system = size = 0
    for span in body.blocks:
        text = raw[span.start : span.end]
        if span.section == "messages":
            answer = _is_answer(span, text)
            if answer and span.form == "object" and _is_thought(text):
                continue
            blocks.append(hash(_bare(text)))
            answers.append(answer)
            size += len(text)
        elif span.section == "tools":
            tools = hash((tools, _bare(text)))
        else:
            system = hash((system, _bare(text)))
    return History(tools, system, blocks, answers, size)


def _is_answer(span: BlockSpan, text: bytes) -> bool:
    if span.role:
        return span.role in _MODELS
    return span.form == "object" and _CLIENTS(text[:_EDGE]) is None and _CLIENTS(text[-_EDGE:]) is None


def _is_thought(text: bytes) -> bool:
    return _thought(text[:_EDGE]) is not None or _thought(text[-_EDGE:]) is not None


def _bare(text: bytes) -> bytes:
    """A block without markers; a text that had to be wrapped to carry one is the text."""
    if b'"cache_control"' in text:
        text = _marker(b"", text)
    if text[:1] == b"{":
        wrapping = _plain_text(text)
        if wrapping is not None and text.endswith(b'"}'):
            return text[wrapping.end() : -1]
    return text


class _Thread:
    """A conversation: what its last request said, and how many blocks its first one had."""

    def __init__(self, session: str, agent: str, history: History) -> None:
        self.session, self.agent, self.history = session, agent, history
        self.given = len(history.blocks)
        self.first = frozenset(history.blocks)
        self.younger: _Thread | None = None
        self.billed = True
        self.responses: list[str] = []

    def remembers(self, history: History) -> int:
        """How much a request repeats of the answers that came in this conversation, and of its last question."""
        last = self.history
        own = {block for block, answer in zip(last.blocks, last.answers, strict=True) if answer} - self.first
        new_blocks = set(last.blocks[last.answered :])
        return len(own.intersection(history.blocks)) + len(new_blocks.intersection(history.blocks[: history.answered]))


_Used = dict[int, _Thread]  # the one used last at the end


class Threads:
    """Finds the conversations inside sessions, and gives each a name: empty for a session's first, then #2, #3…"""

    def __init__(self, most_blocks: int = MOST_BLOCKS) -> None:
        self._most = most_blocks
        self._blocks = 0
        self._sessions: LRU[str, int] = LRU(_MOST_SESSIONS)  # how many conversations each had
        # Those that are remembered: all, by session, by their first block.
        self._threads: _Used = {}
        self._inside: dict[str, _Used] = {}
        self._beginning: dict[int, _Used] = {}

    def __len__(self) -> int:
        return len(self._threads)

    def knows(self, session: str) -> bool:
        return session in self._sessions

    def session_of(self, history: History, previous: str | None = None) -> str | None:
        """The session of the conversation that a request repeats, whatever it is called; None if it repeats none."""
        thread = self._repeated(history, previous, None)
        return None if thread is None else thread.session

    def find(
        self,
        session: str,
        history: History,
        *,
        is_named: bool,
        previous: str | None = None,
        response: str | None = None,
        billed: bool = True,
    ) -> str:
        """The conversation of a session that a request belongs to, which is remembered as having sent it. `is_named` if
        the log names the session; `previous` is the response that it names as the one before, `response` its own."""
        thread = self._repeated(history, previous, session)
        if thread is None and history.opens:
            thread = self._opening(session, history, is_named)
        elif thread is None:
            threads = list(_last_first(self._inside.get(session)))
            match = choose(_changed(threads, history, is_named), LOGGED)
            thread = None if match is None else match.conversation
        if thread is None:
            thread = _Thread(session, self._label(session), history)
        elif thread.younger is not None:  # it goes on, so what was thought to be its shorter form is by itself
            thread.younger.agent = self._label(session)
            thread.younger = None
        self._remember(thread, history, response, billed, partial=previous is not None)
        return thread.agent

    def _repeated(self, history: History, previous: str | None, session: str | None) -> _Thread | None:
        """The conversation that a request begins with, in a session or in all."""
        if previous is not None:
            threads = self._threads if session is None else self._inside.get(session)
            return next((each for each in _last_first(threads) if previous in each.responses), None)
        evidence = [
            Evidence(each, how[0], (how[1],))
            for each in _last_first(self._beginning.get(history.first))
            if (session is None or each.session == session)
            and (how := repeated(history, each.history, each.given)) is not None
        ]
        match = choose(evidence, LOGGED)
        return None if match is None else match.conversation

    def _opening(self, session: str, history: History, is_named: bool) -> _Thread | None:
        """The conversation that a request without answers belongs to, if it opens none."""
        for each in _last_first(self._beginning.get(history.first)):
            same = each.session == session and each.history.blocks == history.blocks and each.history.is_alike(history)
            if is_reopened(same=same, came_to_nothing=not each.billed):
                return each
        for each in _last_first(self._inside.get(session)) if is_named else ():
            last = each.history
            long = len(last.blocks) >= _CONVERSATION and 2 * history.size < last.size
            if long and not last.opens and last.tools == history.tools and last.system == history.system:
                each.younger = _Thread(each.session, each.agent, history)
                return each.younger
        return None

    def _label(self, session: str) -> str:
        count = self._sessions[session] = self._sessions.get(session, 0) + 1
        return f"#{count}" if count > 1 else ""

    def _remember(
        self, thread: _Thread, history: History, response: str | None, billed: bool, *, partial: bool
    ) -> None:
        if id(thread) in self._threads:
            self._forget(thread)
        if not partial:
            thread.history = history
        thread.billed = billed
        if response:
            thread.responses = [*thread.responses[1 - _RESPONSES :], response]
        for used in (
            self._threads,
            self._inside.setdefault(thread.session, {}),
            self._beginning.setdefault(thread.history.first, {}),
        ):
            used[id(thread)] = thread
        self._blocks += len(thread.history.blocks)
        while len(self._threads) > 1 and (self._blocks > self._most or len(self._threads) > _MOST_THREADS):
            self._forget(next(iter(self._threads.values())))

    def _forget(self, thread: _Thread) -> None:
        self._blocks -= len(thread.history.blocks)
        del self._threads[id(thread)]
        inside, beginning = self._inside[thread.session], self._beginning[thread.history.first]
        del inside[id(thread)], beginning[id(thread)]
        if not inside:
            del self._inside[thread.session]
        if not beginning:
            del self._beginning[thread.history.first]


def _changed(threads: list[_Thread], history: History, is_named: bool) -> Iterator[Evidence[_Thread]]:
    """What a request that repeats no conversation of its session has in common with each of them, the one used last
    first: of several that have as much, that one counts. The only one of a session need not be alike."""
    turns, alone = history.turns, len(threads) == 1
    for each in threads:
        if again := each.remembers(history):
            yield Evidence(each, Relation.REWRITTEN, (again,))
        fits = alone or each.history.is_alike(history)
        if fits and each.history.turns + 1 == turns:
            yield Evidence(each, Relation.GROWN, (0,))
        if fits and is_named:
            yield Evidence(each, Relation.ALIKE, (0,))


def _last_first(used: _Used | None) -> Iterable[_Thread]:
    return reversed(used.values()) if used else ()
