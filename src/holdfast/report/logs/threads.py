"""Who continues whom: the conversations inside a session whose requests do not name them.

Wrongly merged conversations invent breaks, wrongly split ones hide them. So a request goes to the conversation that it
repeats, and where it repeats none, to the one that it can only be a changed form of:

1. It begins with all that the conversation's last request said, or with more than the conversation's first request
   said. What the first one brought along (examples that every conversation of a program begins with) proves nothing.
   The last blocks of an opening may be gone: clients put reminders there.
2. It holds answers that came in this conversation, or what its last request asked with an answer behind it, in whatever
   place: a history that was rewritten or trimmed.
3. It has one answer more than the conversation, and the same tools or system text, and no other one fits; or there is
   only this conversation.
4. A request without any answer opens a conversation. Only in a session that was named by the log, if it is much shorter
   than what the session said before and has the same tools and system text, it is that conversation, compacted. If the
   older one goes on later, it was another one after all.

Compared are the blocks' bytes without markers and thoughts. Memory is bounded: the conversations used last.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable

from msgspec import Struct

from holdfast.wire import BlockSpan, Body

MOST_BLOCKS = 200_000
"""Blocks of conversations that are remembered."""
_MOST_SESSIONS = 20_000
_MOST_THREADS = 256
_RESPONSES = 8
_CONVERSATION = 4  # blocks: with fewer, being much shorter means nothing
_TAIL = 3
_EDGE = 80  # bytes at either end of a block in which its type stands

_MODELS = ("assistant", "model")
_CLIENTS = re.compile(rb'"type"\s*:\s*"\w*_(?:output|response|result)"').search
_thought = re.compile(rb'"type"\s*:\s*"(?:redacted_thinking|thinking|reasoning)"').search
_marker = re.compile(rb'\s*,\s*"cache_control"\s*:\s*\{[^{}]*\}|"cache_control"\s*:\s*\{[^{}]*\}\s*,?\s*').sub
_plain_text = re.compile(rb'\{\s*"type"\s*:\s*"text"\s*,\s*"text"\s*:\s*(?=")').match


class RequestHistory(Struct):
    """What a request says, in hashes: its tools, its system text, the blocks of its messages, and which of these are
    the model's. `size` is the length of the messages."""

    tools: int
    system: int
    blocks: list[int]
    models: list[bool]
    size: int

    @property
    def first(self) -> int:
        return self.blocks[0] if self.blocks else 0

    @property
    def opens(self) -> bool:
        return True not in self.models

    @property
    def turns(self) -> int:
        """Answers, each counted once however many blocks it has."""
        return sum(1 for i, is_models in enumerate(self.models) if is_models and not (i and self.models[i - 1]))


def said_by(body: Body) -> RequestHistory:
    """What a body says."""
    raw = body.raw
    blocks: list[int] = []
    models: list[bool] = []
    tools = system = size = 0
    for span in body.blocks:
        text = raw[span.start : span.end]
        if span.section == "messages":
            is_models = _is_models(span, text)
            if is_models and span.form == "object" and _is_thought(text):
                continue
            blocks.append(hash(_bare(text)))
            models.append(is_models)
            size += len(text)
        elif span.section == "tools":
            tools = hash((tools, _bare(text)))
        else:
            system = hash((system, _bare(text)))
    return RequestHistory(tools, system, blocks, models, size)


def _is_models(span: BlockSpan, text: bytes) -> bool:
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
        found = _plain_text(text)
        if found is not None and text.endswith(b'"}'):
            return text[found.end() : -1]
    return text


class _Thread:
    """A conversation: what its last request said, and how many blocks its first one had."""

    def __init__(self, session: str, agent: str, said: RequestHistory) -> None:
        self.session, self.agent, self.said = session, agent, said
        self.given = len(said.blocks)
        self.first = frozenset(said.blocks)
        self.younger: _Thread | None = None
        self.billed = True
        self.responses: list[str] = []

    def shares(self, said: RequestHistory) -> tuple[bool, int]:
        """Whether a request begins with all that was said here last, and how many blocks it repeats; 0 if it does not
        go on with this conversation. Two that are alike so far are told apart by the first."""
        mine, new = self.said.blocks, said.blocks
        same = _common(mine, new)
        if same == len(mine) and (len(new) > same > 0 or same > self.given):
            return True, same
        answered = 0 < same < len(new) and said.models[same] and len(mine) == self.given
        goes_on = same > self.given or (answered and same >= self.given - _TAIL)
        return False, same if goes_on else 0

    def remembers(self, said: RequestHistory) -> int:
        """How much a request repeats of the answers that came in this conversation, and of its last question."""
        mine = self.said
        own = {block for block, is_models in zip(mine.blocks, mine.models, strict=True) if is_models} - self.first
        asked = set(mine.blocks[_past(mine.models) :])
        behind = _past(said.models)
        return len(own.intersection(said.blocks)) + len(asked.intersection(said.blocks[:behind]))

    def alike(self, said: RequestHistory) -> bool:
        return self.said.tools == said.tools or self.said.system == said.system


_Used = dict[int, _Thread]


def _past(models: list[bool]) -> int:
    """Where the last answer ends."""
    return len(models) - next((i for i, is_models in enumerate(reversed(models)) if is_models), len(models))


def _common(old: list[int], new: list[int]) -> int:
    if new[: len(old)] == old:
        return len(old)
    same = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        same += 1
    return same


class Threads:
    """Finds the conversations inside sessions, and gives each a name: empty for a session's first, then #2, #3…"""

    def __init__(self, most_blocks: int = MOST_BLOCKS) -> None:
        self._most = most_blocks
        self._blocks = 0
        self._sessions: OrderedDict[str, int] = OrderedDict()  # how many conversations each had
        # Those that are remembered: all, by session, by their first block; the one used last at the end.
        self._threads: _Used = {}
        self._inside: dict[str, _Used] = {}
        self._beginning: dict[int, _Used] = {}

    def __len__(self) -> int:
        return len(self._threads)

    def knows(self, session: str) -> bool:
        return session in self._sessions

    def going_on(self, said: RequestHistory, previous: str | None = None) -> str | None:
        """The session of the conversation that a request repeats, whatever it is called; None if it repeats none."""
        found = self._repeated(said, previous, None)
        return None if found is None else found.session

    def find(
        self,
        session: str,
        said: RequestHistory,
        *,
        named: bool,
        previous: str | None = None,
        response: str | None = None,
        billed: bool = True,
    ) -> str:
        """The conversation of a session that a request belongs to, which is remembered as having sent it. `named` if
        the log names the session; `previous` is the response that it names as the one before, `response` its own."""
        found = self._repeated(said, previous, session)
        if found is None and said.opens:
            found = self._opening(session, said, named)
        elif found is None:
            found = self._changed(list(_last_first(self._inside.get(session))), said, named)
        if found is None:
            found = _Thread(session, self._label(session), said)
        elif found.younger is not None:  # it goes on, so what was thought to be its shorter form is by itself
            found.younger.agent = self._label(session)
            found.younger = None
        self._remember(found, said, response, billed, partial=previous is not None)
        return found.agent

    def _repeated(self, said: RequestHistory, previous: str | None, session: str | None) -> _Thread | None:
        """The conversation that a request begins with, in a session or in all."""
        if previous is not None:
            known = self._threads if session is None else self._inside.get(session)
            return next((each for each in _last_first(known) if previous in each.responses), None)
        best, most = None, (False, 0)
        for each in _last_first(self._beginning.get(said.first)):
            if session is None or each.session == session:
                shared = each.shares(said)
                if shared[1] and shared > most:
                    best, most = each, shared
        return best

    def _changed(self, threads: list[_Thread], said: RequestHistory, named: bool) -> _Thread | None:
        """The conversation that a request with answers is a changed form of."""
        best, most = None, 0
        for each in threads:
            shared = each.remembers(said)
            if shared > most:
                best, most = each, shared
        if best is not None:
            return best
        turns, alone = said.turns, len(threads) == 1
        grown = [each for each in threads if each.said.turns + 1 == turns and (alone or each.alike(said))]
        if len(grown) == 1:
            return grown[0]
        if not named:
            return None
        return next((each for each in threads if each.alike(said)), threads[0] if alone else None)

    def _opening(self, session: str, said: RequestHistory, named: bool) -> _Thread | None:
        """The conversation that a request without answers belongs to, if it opens none."""
        for each in _last_first(self._beginning.get(said.first)):
            if each.session == session and not each.billed and each.said.blocks == said.blocks and each.alike(said):
                return each  # the same again, after it came to nothing
        for each in _last_first(self._inside.get(session)) if named else ():
            long = len(each.said.blocks) >= _CONVERSATION and 2 * said.size < each.said.size
            if long and not each.said.opens and each.said.tools == said.tools and each.said.system == said.system:
                each.younger = _Thread(each.session, each.agent, said)
                return each.younger
        return None

    def _label(self, session: str) -> str:
        count = self._sessions.pop(session, 0) + 1
        self._sessions[session] = count
        if len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return f"#{count}" if count > 1 else ""

    def _remember(
        self, found: _Thread, said: RequestHistory, response: str | None, billed: bool, *, partial: bool
    ) -> None:
        if id(found) in self._threads:
            self._forget(found)
        if not partial:
            found.said = said
        found.billed = billed
        if response:
            found.responses = [*found.responses[1 - _RESPONSES :], response]
        for used in (
            self._threads,
            self._inside.setdefault(found.session, {}),
            self._beginning.setdefault(found.said.first, {}),
        ):
            used[id(found)] = found
        self._blocks += len(found.said.blocks)
        while len(self._threads) > 1 and (self._blocks > self._most or len(self._threads) > _MOST_THREADS):
            self._forget(next(iter(self._threads.values())))

    def _forget(self, found: _Thread) -> None:
        self._blocks -= len(found.said.blocks)
        del self._threads[id(found)]
        inside, beginning = self._inside[found.session], self._beginning[found.said.first]
        del inside[id(found)], beginning[id(found)]
        if not inside:
            del self._inside[found.session]
        if not beginning:
            del self._beginning[found.said.first]


def _last_first(used: _Used | None) -> Iterable[_Thread]:
    return reversed(used.values()) if used else ()
