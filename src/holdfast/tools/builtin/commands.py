"""run_command, process_output and process_stop.

A command runs in a process group of its own with nothing to read from. What it says comes back with its exit code, and
a nonzero one is no error of the tool's. Time limit and cancellation end the whole group. No number that the system gave
and no duration is in what the model reads.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import logging
import os
import shlex
import threading
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.config.sections import CommandSettings
from holdfast.facts import open_end
from holdfast.records.events import Event, ProcessExited, ProcessStarted

from ..contract import Tool, ToolContext, ToolExecutionError, ToolOutput, Touch
from ..keys import Keys
from ..time_limits import in_thread
from ..toolkit import flag, number, schema, text
from .groups import ProcessGroup
from .processes import Processes, ending, facts_of, to_end, until_end
from .safe_text import clean, output_text, whole_characters

logger = logging.getLogger(__name__)

SHELL = "/bin/sh"
MOST_WAIT_S = 300
MOST_NEW = 1 << 20
"""Bytes of new output that one call of process_output gives."""
_LOOK_BACK = 1 << 15
"""Bytes before new output in which a private key may have begun that goes on in it."""
_SPARE_S = 30.0
"""Beyond its own limit, before a call is ended from outside."""
MOST_WAITING = 1 << 16
"""Bytes of output that wait for a slow watcher."""


class OutputStream:
    """Output of a running command on its way to a watcher: from the thread that reads it into the loop that made this.

    Called with bytes in any thread; `watcher` gets text as `masked` leaves it. Bounded: a watcher that is slower than
    the command misses some of it, and is told so. Never reaches the model.
    """

    def __init__(self, watcher: Callable[[str], None], masked: Callable[[str], str]) -> None:
        self._watcher, self._masked = watcher, masked
        self._held = ""
        self._loop = asyncio.get_running_loop()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._missed = 0
        self._called = self._closed = False

    def __call__(self, data: bytes) -> None:
        with self._lock:
            if self._closed:
                return
            room = MOST_WAITING - len(self._waiting)
            self._waiting += data[:room]
            self._missed += max(0, len(data) - room)
            if self._called:
                return
            self._called = True
        try:
            self._loop.call_soon_threadsafe(self._flush)
        except RuntimeError:  # the loop is closed: nobody watches any more
            self._closed = True

    def close(self) -> None:
        """Emit the rest, in the loop's thread."""
        if not self._closed:
            self._flush(last=True)
            self._closed = True

    def _flush(self, *, last: bool = False) -> None:
        with self._lock:
            data, self._waiting = bytes(self._waiting), bytearray()
            missed, self._missed = self._missed, 0
            self._called = False
        text = self._held + clean(self._decoder.decode(data))
        whole = len(text) if last or missed else open_end(text)
        text, self._held = self._masked(text[:whole]), text[whole:]
        if missed:
            text += f"\n[{missed} bytes not shown]\n"
        if text and not self._closed:
            try:
                self._watcher(text)
            except Exception:
                logger.exception("output of a command could not be shown")
                self._closed = True


def run_command(settings: CommandSettings, processes: Processes, keys: Keys) -> Tool:
    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        if input.get("background"):
            return _background(input, context, settings, processes, keys)
        return await _foreground(input, context, settings, processes, keys)

    return Tool(
        name="run_command",
        description=(
            "Run a shell command (sh -c) and get its output and exit code. "
            "With background it is left running: use process_output and process_stop."
        ),
        run=run,
        effect="execute",
        input_schema=schema(
            {"command": text(minLength=1)},
            {
                "timeout_s": number(
                    f"{settings.timeout_s:g} unless told", exclusiveMinimum=0, maximum=settings.max_timeout_s
                ),
                "background": flag(),
                "cwd": text(),
            },
        ),
        paths=(Touch("cwd", "read", outside=True),),
        source="builtin",
        core=True,
        subject=_subject,
        timeout_s=settings.max_timeout_s + _SPARE_S,
    )


def _subject(input: Mapping[str, Any]) -> str:
    """The very command; with a directory the one that would do the same, so that no two of them can be confused."""
    command, cwd = str(input.get("command", "")), input.get("cwd")
    return f"cd -- {shlex.quote(str(cwd))} && {command}" if cwd else command


def _begin(
    input: Mapping[str, Any],
    context: ToolContext,
    settings: CommandSettings,
    processes: Processes,
    keys: Keys,
    *,
    heard: Callable[[bytes], None] | None = None,
    after: Callable[[ProcessGroup], None] | None = None,
) -> ProcessGroup:
    command = input["command"]
    directory = context.workspace.resolve(input.get("cwd", "."), "read", outside=True)
    if not directory.is_dir():
        raise ToolExecutionError(f"cwd {input.get('cwd', '.')} is not a directory.")
    try:
        return processes.begin(
            [SHELL, "-c", command],
            directory=str(directory),
            environment={**keys.environment(os.environ), "PWD": str(directory)},
            keep=settings.max_output_bytes,
            heard=heard,
            after=after,
        )
    except (OSError, ValueError) as problem:  # too long, a zero byte, half a surrogate pair, no process left
        reason = (isinstance(problem, OSError) and problem.strerror) or str(problem)
        raise ToolExecutionError(
            f"The command could not be started: {reason}. A long one can be written to a file with write_file and run "
            "from there."
        ) from problem


async def _foreground(
    input: Mapping[str, Any], context: ToolContext, settings: CommandSettings, processes: Processes, keys: Keys
) -> ToolOutput:
    command = input["command"]
    limit = min(float(input.get("timeout_s", settings.timeout_s)), settings.max_timeout_s)
    stream = OutputStream(context.stream, keys.masked)
    group = _begin(input, context, settings, processes, keys, heard=stream)
    name = context.tool_use_id or "command"
    context.emit(ProcessStarted(process=name, command=command, directory=input.get("cwd", ".")))
    try:
        end = await to_end(group, limit, context.cancel)
        stream.close()
        if end == "cancel":
            raise ToolExecutionError("The command was cancelled and ended.", facts_of(group))
        notes = _notes(group)
        if end == "timeout":
            notes.append(
                f"[Ended at its time limit of {limit:g} s. A longer timeout_s, at most {settings.max_timeout_s:g}, or "
                "background gives it more.]"
            )
        notes.append(f"[{ending(group.code)}]")
        text = await in_thread(lambda: _with(output_text(group.output()), notes))
    finally:
        stream.close()
        group.release()
        context.emit(ProcessExited(process=name, exit_code=group.code))
    return ToolOutput(
        content=text, metadata={**facts_of(group), "timed_out": end == "timeout"}, command_executed=command
    )


def _notes(group: ProcessGroup) -> list[str]:
    notes = []
    if group.dropped:
        notes.append(f"[Only the first {group.size} of {group.size + group.dropped} bytes of output were kept.]")
    if group.left_behind:
        notes.append("[Processes that it left behind were ended. Use background for what is to go on running.]")
    return notes


def _with(text: str, notes: list[str]) -> str:
    between = "" if not text or text.endswith("\n") else "\n"
    return text + between + "\n".join(notes)


def _background(
    input: Mapping[str, Any], context: ToolContext, settings: CommandSettings, processes: Processes, keys: Keys
) -> ToolOutput:
    running = processes.running
    if len(running) >= settings.max_background:
        raise ToolExecutionError(
            f"{len(running)} background processes are running, which is the limit; end one of them with process_stop: "
            f"{', '.join(running)}."
        )
    unreported: list[str] = []
    emit = context.emit
    group = _begin(input, context, settings, processes, keys, after=lambda ended: _emit_end(emit, unreported, ended))
    name = processes.name(group)
    emit(ProcessStarted(process=name, command=input["command"], directory=input.get("cwd", "."), background=True))
    unreported.append(name)
    if group.code is not None:
        _emit_end(emit, unreported, group)
    return ToolOutput(content=f"Started as {name}.", metadata={"process": name}, command_executed=input["command"])


def _emit_end(emit: Callable[[Event], None], unreported: list[str], group: ProcessGroup) -> None:
    """Emit the end once, and only after the beginning was emitted: the second of the two callers does it."""
    with contextlib.suppress(IndexError):
        emit(ProcessExited(process=unreported.pop(), exit_code=group.code, background=True))


def process_output(processes: Processes, keys: Keys) -> Tool:
    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        process = processes.get(input["process"])
        if wait := input.get("wait_s"):
            await until_end(process.group, wait, context.cancel)
        ended = process.group.ended.done()  # before the output is read, so that none can come in between
        data = process.group.output(process.read, MOST_NEW)
        more = process.read + len(data) < process.group.size
        before = process.group.output(max(0, process.read - _LOOK_BACK), min(process.read, _LOOK_BACK))
        if more or not ended:
            data = data[: whole_characters(data)]
            data = data[: max(0, open_end((before + data).decode("latin-1")) - len(before))]
        process.read += len(data)
        notes = ["[There is more: call process_output again.]"] if more else _notes(process.group) if ended else []
        notes.append(f"[{process.name}: {ending(process.group.code) if ended else 'running'}]")
        return ToolOutput(
            content=_with(output_text(keys.masked_after(before, data)), notes),
            metadata={"process": process.name, **facts_of(process.group)},
        )

    return Tool(
        name="process_output",
        description="New output of a background process since the last call, and whether it still runs.",
        run=run,
        effect="read",
        input_schema=schema(
            {"process": text()}, {"wait_s": number("Wait so long for its end", minimum=0, maximum=MOST_WAIT_S)}
        ),
        source="builtin",
        core=True,
        timeout_s=MOST_WAIT_S + _SPARE_S,
    )


def process_stop(processes: Processes) -> Tool:
    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        process = processes.get(input["process"])
        before = process.group.ended.done()
        if not before:
            await process.group.stop()
        sentence = f"{process.name} {'had ended before' if before else 'was ended'}: {ending(process.group.code)}."
        return ToolOutput(content=sentence, metadata={"process": process.name, **facts_of(process.group)})

    return Tool(
        name="process_stop",
        description="End a background process.",
        run=run,
        effect="execute",
        input_schema=schema({"process": text()}),
        source="builtin",
        core=True,
        confirm=False,  # it ends only what was started here with permission
        subject=lambda call: str(call.get("process", "")),
    )
