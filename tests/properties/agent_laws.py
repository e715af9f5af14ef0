"""The laws of the agent's sessions, checked on every request that went out and on what is on disk by then."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from holdfast import facts
from holdfast.agent.compaction.summary import AGAIN, INSTRUCTION
from holdfast.agent.log_content import from_line
from holdfast.agent.window.entries import Entry, Static, entry_from, from_json, message_from, messages_from
from holdfast.agent.window.renderer import entry_messages
from holdfast.memory.prompt_texts import NOTES
from holdfast.records import Message, Request, Text, ToolResult, validate
from holdfast.records.events import Envelope
from holdfast.records.events.agent import (
    SessionComposed,
    SessionRefreshed,
    TurnAnswered,
    TurnToolsAnswered,
    WindowAppended,
    WindowSent,
)
from holdfast.records.events.sessions import CompactionCompleted
from holdfast.tools.guides import HEADING
from holdfast.tools.masking import PLACEHOLDER
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader
from tests.agent.bench import Bench, extends

LOOKBACK = 20
EXPIRED = {"ttl_expired_5m", "ttl_expired_1h"}


class Sent:
    """One request: as the cache sees it, and what was said when it left."""

    def __init__(
        self, dialect: str, model: str, raw: bytes, session: str, reset: str | None, *, reader: PromptReader
    ) -> None:
        body = DIALECTS[dialect].parse(raw, model=model.partition(":")[2])
        assert isinstance(body, Body), body
        self.session, self.model, self.reset = session, model, reset
        self.keys = reader.read(body, facts.model(model)).prompt.keys
        self.request = DIALECTS[dialect].decode(body)

    @property
    def system(self) -> str:
        """All of the system text: some dialects join its parts."""
        return "".join(_flat(part) for part in (self.request.system_prompt, self.request.system_prompt_volatile))

    @property
    def lane(self) -> tuple[str, str]:
        return self.session, self.model


class Laws:
    """What has to be true of every request of a bench. `paused` is to be said when time passed in which entries go."""

    def __init__(self, bench: Bench, *, system_mode: bool) -> None:
        self.bench, self.system_mode, self.paused = bench, system_mode, False
        self.reader = PromptReader()
        self.checked = 0
        self.last: dict[tuple[str, str], Sent] = {}
        self.systems: dict[str, tuple[str, ...]] = {}
        self.volatiles: dict[tuple[str, str], str] = {}
        self.disks: dict[str, Disk] = {}
        self.far: set[tuple[str, str]] = set()
        """Lanes that were gone on with after more than a cache looks back."""

    def check(self) -> None:
        for place in range(self.checked, len(self.bench.sent)):
            sent = Sent(*self.bench.sent[place], *self.bench.sent_by[place], reader=self.reader)
            self._extends(sent)
            self._system(sent)
            self._kept(sent)
            _notes_in_place(sent.request)
            assert not validate(sent.request), validate(sent.request)
            self.last[sent.lane] = sent
        self.checked = len(self.bench.sent)
        refused = [record for record in self.bench.simulator.journal.records() if record.status == 400]
        assert not refused, refused[-1].error

    def _extends(self, sent: Sent) -> None:
        """Laws 1 and 5. Messages are compared too: one that was sent gets no further block, although a cache would not
        mind."""
        before = self.last.get(sent.lane)
        if before is not None and len(sent.keys) - len(before.keys) > LOOKBACK:
            self.far.add(sent.lane)
        if before is None or sent.reset is not None:
            return
        assert sent.keys[: len(before.keys)] == before.keys, "law 5: a prefix that changed has a reason"
        assert extends(before.request.messages, sent.request.messages), "law 1: what was sent is final"

    def _system(self, sent: Sent) -> None:
        """Law 3: the stable text is what was composed, in front of everything. What changes stands behind it, where
        that is asked for, and has its reason."""
        behind = sent.system
        for part in self._stable(sent.session):
            assert behind.startswith(part), "law 3"
            behind = behind.removeprefix(part).removeprefix("\n\n")
        assert self.system_mode or not behind, "law 3"
        if self.volatiles.setdefault(sent.lane, behind) != behind:
            assert sent.reset is not None, "law 3: what changed behind the stable text has a reason"
        self.volatiles[sent.lane] = behind

    def _stable(self, session: str) -> tuple[str, ...]:
        if session not in self.systems:
            composed = [e.payload for e in self.bench.log(session) if isinstance(e.payload, SessionComposed)]
            assert len(composed) == 1, "computed once"
            self.systems[session] = (composed[0].system, composed[0].preferences)
        return self.systems[session]

    def _kept(self, sent: Sent) -> None:
        disk = self.disks.setdefault(sent.session, Disk())
        disk.read(self.bench.home / "sessions" / f"{sent.session}.jsonl")
        for text in texts_of(sent.request):
            assert disk.accounts_for(text), f"not on disk: {text[:200]}"

    def check_breaks(self) -> None:
        """Nothing was lost that nobody can explain."""
        sessions = {session for session, _ in self.bench.sent_by}
        told = [event.payload for session in sessions for event in self.bench.log(session)]
        reasons = {each.call: each.reset for each in told if isinstance(each, WindowSent)}
        found = [each for each in self.bench.breaks() if not self._explained(each, reasons.get(each.call))]
        assert not found, [(each.cause, each.model, each.path, each.tokens) for each in found]

    def _explained(self, found: Any, reason: str | None) -> bool:
        provider = found.model.partition(":")[0]
        if found.cause in EXPIRED:
            return self.paused
        if found.cause == "lookback_exceeded":
            # A model that is asked again after many turns with others, or the head that a compaction has kept.
            return reason is not None or (found.session, found.model) in self.far
        # Where the changing part of the system text is joined to the stable one, a cache that matches token by token
        # still reads the beginning of what is one block to the engine, which then does not believe the reason.
        joined = provider != "anthropic" and reason in ("volatile_system_changed", "memory_block_changed")
        if joined and found.cause == "unknown":
            return True
        if provider == "gemini":  # whose hits come by chance, also behind an attempt that was given up
            return found.cause in ("likely_server_side", "parallel_race")
        if provider == "openrouter":  # which the simulator does not know: nothing is ever cached
            return found.cause == "likely_server_side"
        return False


def _notes_in_place(request: Request) -> None:
    """Memory stands in front of what the user says, and so never at the end of a message."""
    for message in request.messages:
        last = message.content[-1] if message.content else None
        assert not (isinstance(last, Text) and NOTES in last.text), "memory is never the tail"


def _flat(part: Any) -> str:
    if part is None or isinstance(part, str):
        return part or ""
    return "".join(block.text for block in part if isinstance(block, Text))


def texts_of(request: Request) -> list[str]:
    """Every text of a conversation, those in results too."""
    found = []
    for message in request.messages:
        for block in message.content:
            parts = block.content if isinstance(block, ToolResult) else (block,)
            found += [part.text for part in parts if isinstance(part, Text)]
    return found


_GUIDE = re.compile(rf"\n+(?=---\n{re.escape(HEADING)}\n)")


class Disk:
    """Every text that the log of a session accounts for."""

    def __init__(self) -> None:
        self._known, self._size = {INSTRUCTION}, 0

    def read(self, path: Path) -> None:
        """What has been added: a log is only ever appended to."""
        with path.open("rb") as file:
            file.seek(self._size)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # the end that a killed process left
                self._known |= _texts_in(from_line(line.rstrip(b"\n")))
                self._size += len(line)

    def accounts_for(self, text: str) -> bool:
        """What is said for one request alone, and what stands in a result's place, are texts of ours. Some dialects
        join a result and its guides to one text."""
        if text.startswith((PLACEHOLDER, AGAIN.partition("{")[0])):
            return True
        return text in self._known or all(part in self._known for part in _GUIDE.split(text))


def _texts_in(event: Envelope) -> set[str]:
    payload = event.payload
    if isinstance(payload, WindowAppended):
        return _rendered(from_json(payload.entries))
    if isinstance(payload, SessionRefreshed | CompactionCompleted):
        return _rendered((entry_from(payload.entry),)) if payload.entry else set()
    if isinstance(payload, TurnAnswered):
        return _said((message_from(payload.message),))
    return _said(messages_from(payload.messages)) if isinstance(payload, TurnToolsAnswered) else set()


def _rendered(entries: tuple[Entry, ...]) -> set[str]:
    return {text for entry in entries for text in _said(entry_messages(entry, Static()))}


def _said(messages: tuple[Message, ...]) -> set[str]:
    return set(texts_of(Request(model="m:m", messages=messages)))
