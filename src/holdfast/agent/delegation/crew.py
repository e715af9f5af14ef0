"""The sub-agents of one session: how many run at once, their timeouts, their questions, and what the session learns of
them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.records import Text, Usage, usage
from holdfast.records.events import DelegateAsked, DelegateCompleted, DelegateFailed, DelegateStarted, Event
from holdfast.tools import Cancel, Tool, retrieve_exception, wait_until_done

from ..contract import DelegateResult, Task, Turn, Watch
from ..costs import add
from ..window.entries import Status
from ..window.state import SPENT
from . import texts
from .prefix_warmup import PrefixWarmup

if TYPE_CHECKING:
    from ..session import Session
    from ..window.state import Projection


GRACE_S = 1.0
"""Seconds a stopped sub-agent has to end by itself: less than the canceller of a call waits."""


class DelegateWatch(Watch):
    """Shows the user notices of a sub-agent, but not its text, which is for its parent."""

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
        session.ask(texts.prompt(work.task), watch=DelegateWatch(watch, work.name), cancel=work.cancel)
    )
    task.add_done_callback(retrieve_exception)
    try:
        await asyncio.wait({task}, timeout=limit)
    except asyncio.CancelledError:
        await _stop(work, task)
        raise
    if not task.done():
        await _stop(work, task)
        return work.result("failed", texts.LATE.format(seconds=limit))
    return _result_of(work, task.result())


async def _stop(work: Assignment, task: asyncio.Task[Turn]) -> None:
    """Stopped, a turn keeps what it has; one that does not end is cut, and answers its open calls all the same."""
    work.cancel.set()
    await wait_until_done(task, GRACE_S)
    if not task.done():
        task.cancel()
        await wait_until_done(task)


def _result_of(work: Assignment, turn: Turn) -> DelegateResult:
    if turn.ended == "completed":
        return work.result("completed", *texts.report_and_question(turn.text))
    if turn.ended == "cancelled":
        return work.result("cancelled", texts.CANCELLED)
    if turn.ended == "failed":
        return work.result("failed", turn.problem)
    partial_text = f"\n{turn.text}" if turn.text else ""
    return work.result("failed", texts.CAPPED.format(calls=turn.line.calls) + partial_text)


MOST = 32
"""Tasks of one call."""
_ROLE = 64

logger = logging.getLogger(__name__)


class Crew:
    """The sub-agents of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._places: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
        self._holds: dict[str, PrefixWarmup] = {}
        self._runners: set[asyncio.Task[DelegateResult]] = set()
        self._batches: set[asyncio.Task[tuple[DelegateResult, ...]]] = set()

    async def run(
        self, tasks: Sequence[Task], *, awaited: bool, watch: Watch, cancel: Cancel, tool: Tool, turn: str | None = None
    ) -> tuple[DelegateResult, ...]:
        """Give these tasks to sub-agents; returns their results if they are `awaited`. If not, it returns those that
        were started, and the session gets all reports together when the last one is done. `tool` limits a report."""
        self._check(tasks)
        works = await self._engaged(tasks, awaited, turn)
        for work in works:
            watch.notice(f"{work.name}: {'goes on' if work.task.resume else 'started'}")
        batch = self._batch(works, watch, cancel, awaited=awaited, turn=turn, tool=tool)
        if awaited:
            return await batch
        begun = tuple(work.result("started") for work in works)
        task = asyncio.create_task(batch)
        self._batches.add(task)
        task.add_done_callback(self._batches.discard)
        task.add_done_callback(retrieve_exception)
        return begun

    @property
    def under_way(self) -> int:
        """How many calls of the tool that nobody waits for are not over."""
        return len(self._batches)

    async def close(self) -> None:
        """All of them stop."""
        for batch in tuple(self._batches):
            batch.cancel()
        for batch in tuple(self._batches):
            await wait_until_done(batch)
        for runner in tuple(self._runners):
            runner.cancel()
        for runner in tuple(self._runners):
            await wait_until_done(runner)

    # Before they begin

    def _check(self, tasks: Sequence[Task]) -> None:
        session, depth = self._session, 0
        most = session.settings.agent.delegates.depth
        above = session.parent
        while above is not None:
            above, depth = above.parent, depth + 1
        if depth >= most:
            raise HoldfastError(
                f"An agent at this depth starts no sub-agents (agent.delegates.depth is {most}); do the work yourself."
            )
        if not 1 <= len(tasks) <= MOST:
            raise HoldfastError(f"{len(tasks)} tasks were given; give between 1 and {MOST}.")
        going_on = [task.resume for task in tasks if task.resume]
        for task in tasks:
            if not task.task.strip():
                raise HoldfastError("A task is empty; say what is to be done.")
            role = task.role
            if not role.strip() or len(role) > _ROLE or not role.isprintable():
                raise HoldfastError(f"A role is one line of 1 to {_ROLE} characters; give a shorter one.")
            if task.resume and (task.resume in session.children or going_on.count(task.resume) > 1):
                raise HoldfastError(f"Sub-agent {task.resume[:80]} is at work; wait for its report.")

    async def _engaged(self, tasks: Sequence[Task], awaited: bool, turn: str | None) -> tuple[Assignment, ...]:
        """A session for each task, or for none. From here on they count as begun."""
        works: list[Assignment] = []
        try:
            for number, task in enumerate(tasks, 1):
                works.append(await self._work(number, task))
            started = [
                DelegateStarted(delegate=work.session.id, role=work.role, task=work.task.task, awaited=awaited)
                for work in works
            ]
            self._session.log(*started, turn=turn, actor="agent")
        except BaseException:
            for work in works:
                await self._undo(work)
            raise
        return tuple(works)

    async def _work(self, number: int, task: Task) -> Assignment:
        session, sessions = self._session, self._session.sessions
        if task.resume:
            child = await sessions.resume_child(session, task.resume)
        else:
            child = await sessions.child(session, task.role.strip())
        session.children[child.id] = child
        return Assignment(number=number, task=task, session=child, before=child.state, cancel=Cancel())

    async def _undo(self, work: Assignment) -> None:
        if not work.task.resume:
            work.session.discard()
        await self._leave(work, over=False)

    # At work

    async def _batch(
        self,
        works: tuple[Assignment, ...],
        watch: Watch,
        cancel: Cancel,
        *,
        awaited: bool,
        turn: str | None,
        tool: Tool,
    ) -> tuple[DelegateResult, ...]:
        """All of these, until the last one is done. To be cancelled, or told to stop, stops each of them first."""
        runners = [
            asyncio.create_task(self._run_one(work, watch, cancel, awaited=awaited, turn=turn)) for work in works
        ]
        self._runners.update(runners)
        stop = asyncio.create_task(cancel.wait())
        cancelled: asyncio.CancelledError | None = None
        stopped = False
        while unfinished := [runner for runner in runners if not runner.done()]:
            try:
                await asyncio.sleep(0)  # a task that is cancelled before its first step never puts anything away
                await asyncio.wait({*unfinished, *(() if stopped else (stop,))}, return_when=asyncio.FIRST_COMPLETED)
            except asyncio.CancelledError as error:
                cancelled = error
            if not stopped and (cancelled is not None or stop.done()):
                stopped = True
                for runner in unfinished:
                    runner.cancel()
        stop.cancel()
        self._runners.difference_update(runners)
        results = tuple(
            work.result("cancelled", texts.CANCELLED) if runner.cancelled() else runner.result()
            for work, runner in zip(works, runners, strict=True)
        )
        if not awaited:
            self._session.log(*(self._event(self._fitting(each, tool), awaited=False) for each in results), turn=turn)
        if cancelled is not None:
            raise cancelled
        return results

    async def _run_one(
        self, work: Assignment, watch: Watch, cancel: Cancel, *, awaited: bool, turn: str | None
    ) -> DelegateResult:
        """One of them, from its turn to its end. What goes wrong with it is no matter of the others."""
        try:
            if cancel.is_set():
                raise asyncio.CancelledError
            result = await self._run_in_place(work, watch)
        except asyncio.CancelledError:  # by the batch, which asks for the result all the same
            result = work.result("cancelled", texts.CANCELLED)
        except HoldfastError as error:
            result = work.result("failed", str(error))
        except Exception as error:
            logger.exception("the sub-agent %s failed", work.session.id)
            result = work.result("failed", f"{type(error).__name__} in the runtime.")
        await self._leave(work, over=result.status == "completed" and not result.question)
        if awaited:
            self._session.log(self._event(result, awaited=True), turn=turn)
        watch.notice(texts.notice(work.number, result, work.calls))
        return result

    async def _run_in_place(self, work: Assignment, watch: Watch) -> DelegateResult:
        child = work.session
        async with self._place():
            if work.task.resume:  # it goes on from its own prefix
                return await ask(work, watch)
            hold = self._hold(child.model)
            await hold.wait(child.id)
            child.on_planned, child.on_begun = partial(hold.planned, child.id), hold.release
            try:
                return await ask(work, watch)
            finally:
                child.on_planned = child.on_begun = None
                hold.finished(child.id)

    def _place(self) -> asyncio.Semaphore:
        """One of the places for those who work at once. A program that is not asynchronous has a loop for each turn."""
        loop = asyncio.get_running_loop()
        if loop not in self._places:
            self._places = {each: places for each, places in self._places.items() if not each.is_closed()}
            self._places[loop] = asyncio.Semaphore(self._session.settings.agent.delegates.concurrent)
        return self._places[loop]

    def _hold(self, model: str) -> PrefixWarmup:
        """Where those with this model wait for each other, also those of several calls in one turn."""
        warmup = self._holds.get(model)
        if warmup is None or warmup.over:
            warmup = self._holds[model] = PrefixWarmup(self._session.settings.agent.delegates.hold_s)
        return warmup

    # Afterwards

    async def _leave(self, work: Assignment, *, over: bool) -> None:
        """Close its session. One that has asked, or failed, may go on later."""
        session = work.session
        try:
            await (session.end() if over else session.close())
        except HoldfastError:
            logger.exception("the session of sub-agent %s could not be closed", session.id)
        finally:
            self._session.children.pop(session.id, None)

    def _fitting(self, result: DelegateResult, tool: Tool) -> DelegateResult:
        """A report that nobody waits for, as short as a tool's result has to be: it never was one."""
        if not result.text:
            return result
        (first, *_), _ = self._session.box.offloader.store(tool, f"report_{result.id}", (Text(result.text),))
        return replace(result, text=first.text) if isinstance(first, Text) else result

    def _event(self, result: DelegateResult, *, awaited: bool) -> Event:
        if result.question:
            question = result.question if awaited else texts.question_text(result)
            return DelegateAsked(delegate=result.id, question=question, cost=result.cost, used=result.used)
        if result.status == "completed":
            text = result.text if awaited else texts.REPORT.format(text=result.text or texts.NOTHING)
            return DelegateCompleted(
                delegate=result.id, result=text, cost=result.cost, used=result.used, awaited=awaited
            )
        return DelegateFailed(
            delegate=result.id, error_message=result.text, cost=result.cost, used=result.used, awaited=awaited
        )
