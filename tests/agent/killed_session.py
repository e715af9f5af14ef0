"""Run as a program by `test_kill`: plays a session in a process that kills itself at one of its writes, and goes on
with what that left in another. Each is forked from this one, which has loaded everything and has no threads.

    python -m tests.agent.killed_session DIRECTORY KIND WHEN

For each write of a kind one line of JSON is printed: its number, whether the process died there, and what was wrong.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import traceback
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast import facts
from holdfast.agent.log import Log
from holdfast.agent.mentions import known_models
from holdfast.agent.session import Session
from holdfast.agent.window.entries import KnowledgeNews, Timeline
from holdfast.agent.window.state import told_hashes
from holdfast.config.sections.agent import MaskSettings
from holdfast.memory.knowledge import Knowledge
from holdfast.memory.texts import entry_hash
from holdfast.records import usage
from holdfast.records.events.agent import TaskUpdated
from holdfast.records.events.sessions import ProcessStarted
from holdfast.store import Store
from holdfast.store.sqlite.writer import Writer
from holdfast.tools import Tool, ToolContext, ToolOutput
from tests.agent.bench import MODEL, START, Bench, calls, settings, sound
from tests.agent.summaries import summarizer
from tests.properties.agent_laws import Laws, texts_of

FACT = "the build needs make"
OTHER = "anthropic:claude-haiku-4-5"
HAPPENS = {
    "compaction.completed",
    "delegate.completed",
    "memory.updated",
    "memory.surfaced",
    "process.started",
    "model.routed",
}
MOST = 400
"""Writes of a kind: a session that makes more than this does not end."""


async def _echo(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    return ToolOutput(content=f"echo {input.get('n')}")


async def _detach(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    context.emit(ProcessStarted(process="job1", command="make watch", background=True))
    return ToolOutput(content="started")


TOOLS = tuple(
    Tool(name=name, description=f"Does {name}.", run=run, effect="read", core=True)
    for name, run in (("echo", _echo), ("detach", _detach))
)


class Killer:
    """Ends this process without warning at the `at`-th write of a kind: before it, in the middle of it, or after it."""

    def __init__(self, kind: str, when: str, at: int) -> None:
        self.kind, self.when, self.at, self.count = kind, when, at, 0

    def install(self) -> None:
        if self.kind == "log":
            self._around(Log, "_write", lambda log, descriptor, data: os.write(descriptor, data[: len(data) // 2]))
        elif self.kind == "store":
            self._around(Writer, "_commit", lambda *_: None)
        else:
            self._around(os, "replace", lambda *_: None)

    def _around(self, owner: Any, name: str, half: Callable[..., object]) -> None:
        whole = getattr(owner, name)

        def write(*given: Any, **more: Any) -> Any:
            self.count += 1
            due = self.count == self.at
            if due and self.when == "half":
                half(*given)
            if due and self.when != "after":
                os.kill(os.getpid(), signal.SIGKILL)
            done = whole(*given, **more)
            if due:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        setattr(owner, name, write)


class Noting:
    """Notes what goes out, and when, before it does: what this process sent is known after its death."""

    def __init__(self, bench: Bench, path: Path, *, flush: bool) -> None:
        self._bench, self._provider, self._flush = bench, bench.sessions.provider, flush
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def open(self, request: Any) -> Any:
        if self._flush:  # or it were a matter of time how often the store writes
            self._bench.store.flush()
        opened = self._provider.open(request)
        (dialect, model, raw), (session, reset) = self._bench.sent[-1], self._bench.sent_by[-1]
        note = [dialect, model, b64encode(raw).decode(), session, reset, self._bench.clock.now()]
        os.write(self._file, json.dumps(note).encode() + b"\n")
        return opened


def _bench(place: Path, *, flush: bool = False) -> Bench:
    config = settings(
        compaction={"keep_recent_tokens": 100, "reserve_tokens": 2_000, "anchor_turns": 0},
        mask=MaskSettings(keep_window=2, trigger_chars=2_000, release_chars=1_000),
    )
    bench = Bench(place, config=config, reply=summarizer(), tools=TOOLS)
    bench.sessions.provider = Noting(bench, place / "sent", flush=flush)
    return bench


async def _talk(session: Session) -> None:
    own = {"title": "Own", "content": "It was found out here."}
    tools = (
        ("echo", {"n": 1}),
        ("memory_add", {"file": "memory", "text": FACT}),
        ("detach", {}),
        ("knowledge_add", own),
        ("recall", {"query": "release"}),
    )
    await session.ask(calls(*tools))
    entries = known(session.sessions.store, session.sessions.workspace)
    (entry,) = entries.search("echo release")
    entries.edit(entry.entry.id, content="Releases wait for the review.")
    session.tell(TaskUpdated(task="t", status="open", text="news"))
    await session.ask("words " * 4_000)
    await session.ask(calls(("delegate", {"tasks": [{"task": "one"}]})))
    await session.compact()
    await session.ask(f"@{OTHER} and you?")
    await session.ask("the end")


def play(place: Path, killer: Killer) -> None:
    """A whole session, or as much of one as there is time for."""

    async def main() -> None:
        bench = _bench(place, flush=killer.kind == "store")
        known(bench.store, bench.workspace).add("Release", "What echo says of a release is binding.")
        bench.store.flush()
        killer.install()
        session = await bench.sessions.create(goal="Ship it")
        await _talk(session)
        missing = HAPPENS - {event.type for event in bench.log(session.id)}
        assert not missing, f"a session without {missing} shows less than it should"
        await bench.close()

    asyncio.run(main())


def go_on(place: Path) -> None:
    """Another process takes up what is there. AssertionError where it cannot, or sends what it may not."""

    async def main() -> None:
        bench = _bench(place)
        notes = [json.loads(line) for line in (place / "sent").read_bytes().splitlines()]
        bench.clock.set(max([START, *(note[5] for note in notes)]) + 1)
        bench.sent += [(dialect, model, b64decode(raw)) for dialect, model, raw, *_ in notes]
        bench.sent_by += [(session, reset) for *_, session, reset, _ in notes]
        laws = Laws(bench, system_mode=False)
        stored = bench.sessions.stored()
        if not stored:
            assert not notes, "what has sent something is there"
            session = await bench.sessions.create()
        else:
            session = await bench.sessions.resume(stored[0].id)
        assert not session.state.open_calls
        assert not session.state.running_processes
        sound(session)
        for text in (calls(("echo", {"n": 3})), "go on"):
            turn = await session.ask(text)
            assert turn.ended == "completed", turn.problem
        laws.check()
        _remembers(bench)
        _knows(bench, session)
        await bench.close()

    asyncio.run(main())


def _remembers(bench: Bench) -> None:
    """What stands in a memory file is told, whether or not the write of it was the last one."""
    notes = bench.workspace / ".holdfast" / "MEMORY.md"
    if notes.exists():
        assert FACT in notes.read_text()
        assert any(FACT in text for text in texts_of(bench.bodies()[-1]))


def known(store: Store | None, workspace: Path) -> Knowledge:
    assert store is not None
    return Knowledge(store, "t", project=str(workspace.resolve()))


def _knows(bench: Bench, session: Session) -> None:
    """What the conversation says of the knowledge store is what stands there, and was told once."""
    items = [item for entry in session.state.window.entries if isinstance(entry, Timeline) for item in entry.items]
    told = [pair for item in items if isinstance(item, KnowledgeNews) for pair in item.entries]
    assert len(set(told)) == len(told), told
    entries = {entry.id: entry.hash for entry in known(bench.store, bench.workspace).entries()}
    said = told_hashes(session.state)
    assert said == {id_: entries[id_] for id_ in said}
    (release,) = (id_ for id_, entry in entries.items() if entry != entry_hash("Own", "It was found out here."))
    assert release in said


def forked(work: Callable[[], None], errors: Path) -> int:
    """How a process ended that did this: 0, 1 with the reason in `errors`, or minus the signal."""
    child = os.fork()
    if child == 0:
        code = 0
        try:
            work()
        except BaseException:  # noqa: BLE001  whatever it was, it is told
            errors.write_text(traceback.format_exc())
            code = 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def warm() -> None:
    """Load what is loaded at its first use: each of the forks would do it again."""
    for model in (MODEL, OTHER):
        facts.price(usage(input=facts.estimate("words")), facts.model(model).ref)
    known_models()


def main(directory: Path, kind: str, when: str) -> None:
    warm()
    for at in range(1, MOST):
        place = directory / str(at)
        place.mkdir(parents=True)
        (place / "sent").touch()
        died = forked(lambda place=place, at=at: play(place, Killer(kind, when, at)), place / "problem")  # type: ignore[misc]
        problem = (place / "problem").read_text() if died not in (0, -signal.SIGKILL) else ""
        if not problem and forked(lambda place=place: go_on(place), place / "problem"):  # type: ignore[misc]
            problem = (place / "problem").read_text()
        print(json.dumps({"at": at, "died": died == -signal.SIGKILL, "problem": problem}), flush=True)  # noqa: T201
        if not problem:
            shutil.rmtree(place)
        if died == 0:  # there are no more writes than that
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
