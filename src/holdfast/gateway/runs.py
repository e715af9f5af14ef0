"""What was seen of each run of `holdfast run`: its sessions and calls, by the id that stands in its addresses.

In memory and bounded: a run is asked about when it is over, and the calls themselves are in the store. Of a very long
one the newest calls are known, and how many came before them.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct, field

from holdfast.engine.passage import Passage

MOST_RUNS = 200
MOST_CALLS = 10_000
"""Calls, and sessions, of one run."""


class Run(Struct):
    """`requests` counts everything, side calls too; `calls` are the ids of those that were stored, without the first
    ones that were `left_out`."""

    id: str
    requests: int = 0
    failed: int = 0
    tenants: dict[str, None] = field(default_factory=dict)
    sessions: dict[str, None] = field(default_factory=dict)
    calls: dict[str, None] = field(default_factory=dict)
    left_out: int = 0
    directory: str = ""
    client: str = ""


class Seen(Struct, frozen=True):
    """A run as it is told."""

    id: str
    requests: int
    failed: int
    tenants: tuple[str, ...]
    sessions: tuple[str, ...]
    calls: tuple[str, ...]
    left_out: int = 0


class Runs:
    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()

    def begin(self, id: str, directory: str, client: str = "") -> None:
        """A client is about to be started in this directory: its project, where memory is asked for."""
        run = self._run(id)
        run.directory, run.client = directory, client

    def directory(self, id: str) -> str:
        """Where a run was started; empty where nobody said so."""
        run = self._runs.get(id)
        return "" if run is None else run.directory

    def client(self, id: str) -> str:
        """Which client a run started; empty where nobody said so."""
        run = self._runs.get(id)
        return "" if run is None else run.client

    def _run(self, id: str) -> Run:
        run = self._runs.setdefault(id, Run(id))
        self._runs.move_to_end(id)
        while len(self._runs) > MOST_RUNS:
            self._runs.popitem(last=False)
        return run

    def note(self, id: str, passage: Passage | None, status: int) -> None:
        """A request of a run is over."""
        run = self._run(id)
        run.requests += 1
        run.failed += status >= 400 or not status
        if passage is not None and passage.found is not None:
            _remember(run.tenants, passage.lane.tenant)
            _remember(run.sessions, passage.lane.session)
        if passage is not None and passage.call is not None:
            run.left_out += _remember(run.calls, passage.call)

    def seen(self, id: str) -> Seen | None:
        run = self._runs.get(id)
        if run is None or not run.requests:
            return None
        sessions, calls = tuple(run.sessions), tuple(run.calls)
        return Seen(id, run.requests, run.failed, tuple(run.tenants), sessions, calls, run.left_out)


def _remember(known: dict[str, None], name: str) -> int:
    """Add a name; how many older ones had to go."""
    known[name] = None
    if len(known) <= MOST_CALLS:
        return 0
    del known[next(iter(known))]
    return 1
