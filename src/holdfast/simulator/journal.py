"""The simulator's journal of requests: what each read and wrote and why. It keeps the last ones only."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from holdfast.records import Usage


class Record(Struct):
    """One request. `why` explains what was read and written; `state` is the progress of its answer."""

    number: int
    at: float
    method: str
    path: str
    dialect: str = ""
    model: str = ""
    workspace: str = ""
    session: str = ""
    status: int = 0
    stream: bool = False
    usage: Usage | None = None
    prompt_tokens: int = 0
    why: tuple[str, ...] = ()
    fault: str = ""
    error: str = ""
    state: str = "open"
    first_token_at: float | None = None


class Journal:
    def __init__(self, keep: int) -> None:
        self._records: deque[Record] = deque(maxlen=keep)
        self.count = 0
        self.read = 0
        self.prompt = 0

    def open(self, at: float, method: str, path: str) -> Record:
        self.count += 1
        record = Record(self.count, at, method, path)
        self._records.append(record)
        return record

    def settle(self, record: Record, usage: Usage) -> None:
        """Add a billed usage to the totals."""
        record.usage = usage
        self.read += usage.read
        self.prompt += usage.prompt

    def unsettle(self, record: Record) -> None:
        """A request that was left before its first token: nothing is billed and nothing kept."""
        if record.usage is not None:
            self.read -= record.usage.read
            self.prompt -= record.usage.prompt
            record.usage = None
            record.why = ("the client left before the first token: nothing is billed or kept",)

    def records(self, *, limit: int = 0, session: str = "") -> list[Record]:
        """The latest, oldest first."""
        chosen = [record for record in self._records if not session or record.session == session]
        return chosen[-limit:] if limit else chosen
