"""What was seen of each run of `holdfast run`: its sessions and calls, by the id in its addresses.

In memory and bounded: a run is reported when it is over, and the calls themselves are in the store. For a very long run
it has the newest calls and the count of earlier ones.
"""

from __future__ import annotations

from msgspec import Struct, field

from holdfast.engine.passage import Passage
from holdfast.lru import LRU

MOST_RUNS = 200
MOST_CALLS = 10_000
"""Calls, and sessions, of one run."""


def _names() -> LRU[str, None]:
    return LRU(MOST_CALLS)


class Run(Struct):
    id: str
    requests: int = 0  # all of them, side calls too
    failed: int = 0
    tenants: LRU[str, None] = field(default_factory=_names)
    sessions: LRU[str, None] = field(default_factory=_names)
    calls: LRU[str, None] = field(default_factory=_names)  # the newest of those that were stored
    stored: int = 0  # calls that were stored
    directory: str = ""
    client: str = ""


class RunSummary(Struct, frozen=True):
    """The summary of a run for reports."""

    id: str
    requests: int
    failed: int
    tenants: tuple[str, ...]
    sessions: tuple[str, ...]
    calls: tuple[str, ...]
    left_out: int = 0  # calls that came before those in `calls`


class Runs:
    def __init__(self) -> None:
        self._runs: LRU[str, Run] = LRU(MOST_RUNS)

    def begin(self, id: str, directory: str, client: str = "") -> None:
        """A client is about to be started in this directory: its project, where memory is asked for."""
        run = self._run(id)
        run.directory, run.client = directory, client

    def directory(self, id: str | None) -> str:
        """Return the directory of a run, empty if unknown."""
        run = None if id is None else self._runs.peek(id)
        return "" if run is None else run.directory

    def client(self, id: str | None) -> str:
        """Return the client of a run, empty if unknown."""
        run = None if id is None else self._runs.peek(id)
        return "" if run is None else run.client

    def _run(self, id: str) -> Run:
        run = self._runs.get(id)
        if run is None:
            run = self._runs[id] = Run(id)
        return run

    def note(self, id: str, passage: Passage | None, status: int) -> None:
        """Count a finished request of a run."""
        run = self._run(id)
        run.requests += 1
        run.failed += status >= 400 or not status
        if passage is not None and passage.identity is not None:
            for names, name in ((run.tenants, passage.lane.tenant), (run.sessions, passage.lane.session)):
                if name not in names:  # in the order in which they were first seen
                    names[name] = None
        if passage is not None and passage.call is not None:
            run.stored += 1
            run.calls[passage.call] = None

    def summary(self, id: str) -> RunSummary | None:
        """Return the summary of a run; None if it had no request."""
        run = self._runs.peek(id)
        if run is None or not run.requests:
            return None
        sessions, calls = tuple(run.sessions), tuple(run.calls)
        return RunSummary(id, run.requests, run.failed, tuple(run.tenants), sessions, calls, run.stored - len(calls))
