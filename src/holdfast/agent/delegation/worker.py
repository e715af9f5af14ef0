"""One sub-agent at work: its session, what it is asked, for how long, and what came of it."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.records import Usage, usage
from holdfast.tools import Cancel, ended, heard

from ..contract import DelegateResult, Task, Turn, Watch
from ..costs import add
from ..window.entries import Status
from ..window.state import SPENT
from . import texts

if TYPE_CHECKING:
    from ..session import Session
    from ..window.state import Projection

GRACE_S = 1.0
"""How long one that is to stop may take to come to an end by itself: less than whoever cancels a call waits."""


class DelegateWatch(Watch):
    """What the user sees of a sub-agent: not its words, which are its parent's to judge, but what he should know."""

    def __init__(self, watch: Watch, who: str) -> None:
        self._watch, self._who = watch, who

    def notice(self, text: str) -> None:
        self._watch.notice(f"{self._who}: {text}")

    def retrying(self, why: str, seconds: float) -> None:
        self._watch.notice(f"{self._who}: {why}; again in {seconds:g} s")


class Assignment(Struct, kw_only=True):
    """A task in somebody's hands. `before` is the state that its session had when it was opened."""

    number: int
    task: Task
    session: Session
    before: Projection
    cancel: Cancel

    @property
    def role(self) -> str:
        return self.session.agent

    @property
    def name(self) -> str:
        return texts.name(self.number, self.role)

    @property
    def calls(self) -> int:
        return self.session.state.calls - self.before.calls

    def result(self, status: Status, text: str = "", question: str = "") -> DelegateResult:
        """What became of it, with what it has cost since it was given."""
        return DelegateResult(
            id=self.session.id,
            role=self.role,
            status=status,
            text=text,
            question=question,
            cost=self._cost(),
            usage=self._usage(),
            used=self._used(),
        )

    def _cost(self) -> Decimal | None:
        """What is known of it; None where nothing is. Its own sub-agents' is part of it."""
        now, then = self.session.state, self.before
        cost = now.cost + now.delegated_cost - then.cost - then.delegated_cost
        return None if not cost and now.unpriced > then.unpriced else cost

    def _used(self) -> tuple[int, ...]:
        now, then = self.session.state, self.before
        return tuple(getattr(now, name) - getattr(then, name) for name in SPENT)

    def _usage(self) -> Usage:
        if self.session.lines:
            return add(line.usage for line in self.session.lines)
        now, then = self.session.state, self.before  # its turn was cut: lifetimes are not known any more
        writes = {self.session.facts.default_ttl or "": now.written - then.written}
        return usage(
            input=now.input - then.input, read=now.read - then.read, output=now.output - then.output, writes=writes
        )


async def ask(work: Assignment, watch: Watch) -> DelegateResult:
    """Let one work until it reports, asks, fails or takes too long."""
    session = work.session
    limit = session.settings.agent.delegates.timeout_s
    task = asyncio.create_task(
        session.ask(texts.told(work.task), watch=DelegateWatch(watch, work.name), cancel=work.cancel)
    )
    task.add_done_callback(heard)
    try:
        await asyncio.wait({task}, timeout=limit)
    except asyncio.CancelledError:
        await _stop(work, task)
        raise
    if not task.done():
        await _stop(work, task)
        return work.result("failed", texts.LATE.format(seconds=limit))
    return _came_of(work, task.result())


async def _stop(work: Assignment, task: asyncio.Task[Turn]) -> None:
    """Stopped, a turn keeps what it has; one that does not end is cut, and answers its open calls all the same."""
    work.cancel.set()
    await ended(task, GRACE_S)
    if not task.done():
        task.cancel()
        await ended(task)


def _came_of(work: Assignment, turn: Turn) -> DelegateResult:
    if turn.ended == "completed":
        return work.result("completed", *texts.parted(turn.text))
    if turn.ended == "cancelled":
        return work.result("cancelled", texts.CANCELLED)
    if turn.ended == "failed":
        return work.result("failed", turn.problem)
    said = f"\n{turn.text}" if turn.text else ""
    return work.result("failed", texts.CAPPED.format(calls=turn.line.calls) + said)
