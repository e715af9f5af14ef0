"""Runs the calls of a turn: look up, check the input, check the paths, confirm, run in time, shape, emit.

Every call is answered once, in order, whatever its tool does. Calls that change nothing, those that only read over the
network included, run side by side, each as soon as it may; one that changes something waits for those before it, runs
alone, and those after it wait for it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.config.sections import ToolsSettings
from holdfast.errors import HoldfastError
from holdfast.records import ToolUse
from holdfast.records.events import Event, ToolCalled, ToolCompleted, ToolFailed, ToolInputInvalid

from .change_lock import Lock, LoopLock, alone
from .confirmation import Confirmations
from .contract import (
    CALL_TOOL,
    SKILL_LOAD,
    Cancel,
    RefusedCall,
    ResolvedCall,
    SkillsInUse,
    Tool,
    ToolAnswer,
    ToolContext,
    ToolExecutionError,
    ToolOutput,
)
from .journal import ToolJournal
from .keys import Keys
from .results import CANCELLED, NOT_BEGUN, ResultPipeline, content, failure, shortened, success, text_of
from .text_limits import as_json, cut, describe_error, error_text, mend, shown
from .time_limits import GRACE_S, WorkAborted, WorkTimeout, in_thread, retrieve_exception, run_bounded, wait_until_done
from .validation import check, require
from .workspace import Workspace

logger = logging.getLogger(__name__)

Resolve = Callable[[ToolUse], ResolvedCall | RefusedCall]
"""What a call means. Asked once for each call, when those before it that change something have ended."""

AT_ONCE = 64
"""Calls of a turn that run side by side; the others wait. A thousand searches would be a thousand programs."""

_SHAPE_S = _CHECK_S = 60.0
_LARGE = 10_000
"""Bytes of an input from which on it is checked beside the loop: a megabyte takes seconds."""


class _Invalid(Exception):
    """The input does not fit the schema."""


class _Job(Struct):
    """One call on its way."""

    call: ToolUse
    resolved: ResolvedCall | RefusedCall
    name: str
    context: ToolContext
    elapsed_us: int | None = None


class CallServices(Struct, frozen=True, kw_only=True):
    """The services that a session's calls use while they run."""

    confirmations: Confirmations | None = None  # None: by the settings alone, nobody is asked
    keys: Keys | None = None
    skills: SkillsInUse | None = None
    memory: Any = None
    stream: Callable[[str, str], None] | None = None  # gets the output of running commands, with the id of their call
    write_lock: Lock | None = None  # agents that share one change things one at a time


class Dispatcher:
    """Runs the calls of one agent.

    `resolve` interprets a call. `results` shapes outputs and errors; if it fails they are returned unshaped. `grace_s`
    is how long to wait for a cancelled call.
    """

    def __init__(
        self,
        resolve: Resolve,
        *,
        workspace: Workspace,
        settings: ToolsSettings,
        journal: ToolJournal,
        services: CallServices | None = None,
        results: ResultPipeline | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        require()
        services = services or CallServices()
        self._resolve, self._workspace, self._settings, self._journal = resolve, workspace, settings, journal
        self._confirmations = services.confirmations or Confirmations(settings.confirm)
        self._results = results
        self._keys = services.keys or Keys(settings.command)
        self._skills, self._memory, self._stream = services.skills, services.memory, services.stream
        self._write_lock, self._shape_lock = services.write_lock or LoopLock(), LoopLock()
        self._grace = grace_s

    async def run(
        self, calls: Sequence[ToolUse], *, turn: str | None = None, cancel: Cancel | None = None
    ) -> tuple[ToolAnswer, ...]:
        """One answer for each call, in order. `cancel` ends those that run and those that have not begun."""
        skills = self._skills if any(call.name in (SKILL_LOAD, CALL_TOOL) for call in calls) else None
        if skills is not None:
            skills.begun(calls)
        try:
            answers = await self._answers(calls, turn, cancel or Cancel())
        except BaseException:  # nobody gets them
            if skills is not None:
                skills.lost(calls)
            raise
        if skills is not None:
            skills.answered(answers)
        for event in (event for answer in answers for event in _events(answer)):
            self._journal.emit(event, turn=turn)
        return answers

    async def _answers(self, calls: Sequence[ToolUse], turn: str | None, cancel: Cancel) -> tuple[ToolAnswer, ...]:
        stop = asyncio.create_task(cancel.wait())
        answers: list[ToolAnswer] = []
        quiet: list[_Job] = []
        seen: set[str] = set()
        try:
            for call in calls:
                job = self._job(call, turn, repeated=call.id in seen)
                seen.add(call.id)
                if isinstance(job.resolved, RefusedCall) or not job.resolved.tool.mutating:
                    quiet.append(job)
                    continue
                answers += await self._together(quiet, cancel, stop)
                answers += await self._together([job], cancel, stop)
                quiet = []
            answers += await self._together(quiet, cancel, stop)
        finally:
            stop.cancel()
            await wait_until_done(stop)
        return tuple(answers)

    def _job(self, call: ToolUse, turn: str | None, *, repeated: bool) -> _Job:
        resolved: ResolvedCall | RefusedCall
        try:
            resolved = self._resolve(call)
            if repeated:
                resolved = RefusedCall(
                    f"The id {shown(call.id)} stands for another call of this turn; this one was not run."
                )
            elif isinstance(resolved, ResolvedCall) and not isinstance(resolved.input, Mapping):
                resolved = RefusedCall(f"The input of {shown(resolved.tool.name)} is not a JSON object.", invalid=True)
        except Exception as error:
            logger.exception("the tool %s could not be looked up", shown(call.name))
            resolved = RefusedCall(f"{shown(call.name)} could not be looked up ({describe_error(error, 200)}).")
        name = resolved.tool.name if isinstance(resolved, ResolvedCall) else call.name
        return _Job(call, resolved, name, self._context(call, turn))

    def _context(self, call: ToolUse, turn: str | None) -> ToolContext:
        journal, watcher = self._journal, self._stream  # not self: a command in the background keeps them, and would us

        def emit(event: Event) -> None:
            journal.emit(event, turn=turn)

        def stream(text: str) -> None:
            if watcher is not None:
                try:
                    watcher(call.id, text)
                except Exception:
                    logger.exception("the output of a call could not be shown")

        return ToolContext(
            session=journal.session,
            turn=turn,
            tool_use_id=call.id,
            workspace=self._workspace,
            cancel=Cancel(),  # its own: a call that took too long is told to stop, the others are not
            skills=self._skills,
            memory=self._memory,
            bus=journal.bus,
            emit=emit,
            stream=stream,
        )

    async def _together(self, jobs: list[_Job], cancel: Cancel, stop: asyncio.Task[None]) -> list[ToolAnswer]:
        places = asyncio.Semaphore(AT_ONCE)

        async def answer(job: _Job) -> ToolAnswer:
            async with places:
                return await self._answer(job, cancel, stop)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(answer(job)) for job in jobs]
        return [task.result() for task in tasks]

    async def _answer(self, job: _Job, cancel: Cancel, stop: asyncio.Task[None]) -> ToolAnswer:
        input_ = (
            as_json(job.resolved.input)
            if isinstance(job.resolved, ResolvedCall) and job.resolved.via
            else _sent(job.call)
        )
        job.context.emit(ToolCalled(tool=job.name, tool_use_id=job.call.id, input=input_))
        if cancel.is_set():
            return self._failed(job, NOT_BEGUN, cancelled=True)
        try:
            output = await self._masked(await self._until(job, stop))
            return self._completed(job, await self._shaped(job, output))
        except asyncio.CancelledError:
            answer = self._failed(job, CANCELLED, cancelled=True)
            if _being_cancelled():  # not this call: whoever waits for all of them
                raise
            return answer
        except _Invalid as error:
            text = self._keys.masked(str(error))
            job.context.emit(ToolInputInvalid(tool=job.name, tool_use_id=job.call.id, error_message=text))
            return failure(job.call, job.name, text)
        except HoldfastError as error:
            text = await self._error_text(job, self._keys.masked(error_text(error)))
            return self._failed(job, text, metadata=getattr(error, "metadata", None))
        except WorkAborted as error:
            return self._failed(job, f"{job.name} failed: {error}.")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            logger.info("%s raised an exception", job.name, exc_info=error)
            return self._failed(job, f"{job.name} failed: {describe_error(error)}")

    async def _masked(self, output: ToolOutput) -> ToolOutput:
        large = len(text_of(output.blocks)) > _LARGE
        return await in_thread(self._keys.output, output) if large else self._keys.output(output)

    async def _until(self, job: _Job, stop: asyncio.Task[None]) -> ToolOutput:
        """Return the call's output, or cancel the call when `stop` is done."""
        task = asyncio.create_task(self._carry_out(job))
        task.add_done_callback(retrieve_exception)
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                job.context.cancel.set()
                task.cancel()
                await wait_until_done(task)
        return task.result()

    async def _carry_out(self, job: _Job) -> ToolOutput:
        resolved, context = job.resolved, job.context
        if isinstance(resolved, RefusedCall):
            raise _Invalid(resolved.text) if resolved.invalid else ToolExecutionError(resolved.text)
        tool = resolved.tool
        problem = await self._problem(tool, resolved.input, len(job.call.input))
        if problem is not None:
            raise _Invalid(problem)
        self._keys.check(tool, resolved.input)
        self._check_paths(tool, resolved.input)
        decision = await self._confirmations.decide(tool, resolved.input, context)
        if not decision.allowed:
            raise ToolExecutionError(f"The call was not run. {decision.why}".strip(), {"refused": True})
        if not tool.mutating:
            return await self._perform(job, tool, resolved.input)
        async with alone(self._write_lock):
            self._check_paths(tool, resolved.input)  # the user may have taken his time, and others had their turn
            return await self._perform(job, tool, resolved.input)

    async def _problem(self, tool: Tool, input: Mapping[str, Any], size: int) -> str | None:
        checked = partial(check, tool.name, tool.input_schema, input, stranger=tool.source == "mcp")
        if size <= _LARGE:
            return checked()
        try:
            work = partial(in_thread, partial(checked, references=size))
            return await run_bounded(work, timeout=_CHECK_S, grace=self._grace)
        except WorkTimeout as late:
            raise ToolExecutionError(f"The input of {tool.name} is too large to be checked; make it smaller.") from late

    def _check_paths(self, tool: Tool, input: Mapping[str, Any]) -> None:
        for touch in tool.paths:
            for path in touch.named(input):
                self._workspace.resolve(path, touch.access, outside=touch.outside)

    async def _perform(self, job: _Job, tool: Tool, input: Mapping[str, Any]) -> ToolOutput:
        limit = self._settings.timeout_s if tool.timeout_s is None else tool.timeout_s
        context, began = job.context, time.monotonic_ns()
        try:
            output = await run_bounded(
                lambda: tool.run(input, context), timeout=limit, grace=self._grace, stopping=context.cancel.set
            )
        except WorkTimeout as late:
            rest = " It did not end when it was told to, and may still be at work." if late.left else ""
            raise ToolExecutionError(f"{tool.name} was stopped: it took more than {limit:g} seconds.{rest}") from late
        finally:
            job.elapsed_us = max(0, time.monotonic_ns() - began) // 1_000
        if not isinstance(output, ToolOutput):
            raise ToolExecutionError(f"{tool.name} ran, but returned {type(output).__name__} and no ToolOutput.")
        return msgspec.structs.replace(output, content=content(output, tool.name))

    async def _shaped(self, job: _Job, output: ToolOutput) -> ToolOutput:
        """Shape the output. One at a time, because guides and bodies must be sent only once."""
        results, resolved = self._results, job.resolved
        if results is None or not isinstance(resolved, ResolvedCall):
            return output
        tool = resolved.tool
        try:
            async with self._shape_lock:
                work = partial(in_thread, results.shape, tool, job.call, output, job.context)
                shaped = await run_bounded(work, timeout=_SHAPE_S)
            return msgspec.structs.replace(shaped, content=content(shaped, tool.name))
        except Exception:
            logger.exception("the output of %s could not be shaped", tool.name)
            if tool.exempt or tool.name == SKILL_LOAD:  # never cut, as where it is shaped
                return output
            limit = self._settings.offload.hard_cap_chars
            return msgspec.structs.replace(output, content=shortened(output.blocks, limit), events=())

    async def _error_text(self, job: _Job, text: str) -> str:
        """Return an error's text for the model: in full, or shortened with a reference to the full text."""
        results, resolved = self._results, job.resolved
        if results is not None and isinstance(resolved, ResolvedCall):
            try:
                work = partial(in_thread, results.shorten, resolved.tool, job.call, mend(text), job.context)
                text = await run_bounded(work, timeout=_SHAPE_S)
            except Exception:
                logger.exception("the error of %s could not be offloaded", job.name)
        return cut(text, self._settings.offload.hard_cap_chars)

    def _completed(self, job: _Job, output: ToolOutput) -> ToolAnswer:
        job.context.emit(
            ToolCompleted(
                tool=job.name,
                tool_use_id=job.call.id,
                output=text_of(output.blocks),
                elapsed_us=job.elapsed_us,
                metadata=self._keys.masked(as_json(output.metadata)),
                files_modified=_places(output.files_modified),
                command_executed=None if output.command_executed is None else str(output.command_executed),
            )
        )
        return success(job.call, job.name, output, job.elapsed_us or 0)

    def _failed(self, job: _Job, text: str, *, metadata: object = None, cancelled: bool = False) -> ToolAnswer:
        text = self._keys.masked(text)
        answer = failure(job.call, job.name, text, cancelled=cancelled, elapsed_us=job.elapsed_us or 0)
        job.context.emit(
            ToolFailed(
                tool=job.name,
                tool_use_id=job.call.id,
                error_message=answer.error or "",
                elapsed_us=job.elapsed_us,
                metadata=self._keys.masked(as_json(metadata)),
            )
        )
        return answer


def _sent(call: ToolUse) -> str:
    """An input as it came, for the trace. Who builds calls by hand may have given it as text."""
    return call.input.decode("utf-8", "replace") if isinstance(call.input, bytes) else str(call.input)


def _places(paths: object) -> tuple[str, ...]:
    if isinstance(paths, (tuple, list)):
        return tuple(str(each) for each in paths)
    return (paths,) if isinstance(paths, str) else ()


def _events(answer: ToolAnswer) -> tuple[Event, ...]:
    events = None if answer.output is None else answer.output.events
    return tuple(events) if isinstance(events, (tuple, list)) else ()


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
