"""Two threads for one conversation: the agent runs in an event loop of its own, the terminal in the main thread.

So a line can be edited while commands run in the background, Ctrl-C reaches the main thread, and only one thread draws.
The agent's output comes through a queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, TypeVar

from holdfast.agent import CostLine, Watch
from holdfast.records import Message, ToolUse
from holdfast.tools import Cancel, Decision, Question, ToolAnswer

from .keyboard import Keyboard
from .screen import Kind, Screen

T = TypeVar("T")

_LOOK_S = 0.1
"""How often something that moves is looked at."""

CLOSE_TIMEOUT_S = 5.0
"""How long work may take to end that was told to end at once."""

Ask = Callable[[Question], Decision]


class Leave(Exception):
    """The user wants to go; by a signal, if it has a number."""

    def __init__(self, number: int = 0) -> None:
        super().__init__(number)
        self.number = number


class AgentThread:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="holdfast-agent", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def wait(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """What it gives, when it has ended; TimeoutError if that takes longer."""
        return self.start(work).result(seconds)

    def call(self, function: Callable[[], T]) -> T:
        """A plain function, where everything else of the agent runs."""

        async def called() -> T:
            return function()

        return self.wait(called())

    def close(self) -> None:
        """Cancel what still runs, wait for it a little, and end the thread."""
        with contextlib.suppress(TimeoutError):
            self.wait(_ended(), CLOSE_TIMEOUT_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(CLOSE_TIMEOUT_S)
        if not self._thread.is_alive():
            self.loop.close()


async def _ended() -> None:
    loop = asyncio.get_running_loop()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await loop.shutdown_asyncgens()


class _Relay(Watch):
    """Passes events to a screen in another thread."""

    def __init__(self, put: Callable[[Callable[[Screen], None]], None]) -> None:
        self._put = put

    def piece(self, kind: Kind, text: str) -> None:
        self._put(lambda screen: screen.piece(kind, text))

    def answered(self, message: Message, line: CostLine) -> None:
        self._put(lambda screen: screen.answered(message, line))

    def retrying(self, why: str, seconds: float) -> None:
        self._put(lambda screen: screen.retrying(why, seconds))

    def calling(self, call: ToolUse) -> None:
        self._put(lambda screen: screen.calling(call))

    def output(self, call: str, text: str) -> None:
        self._put(lambda screen: screen.output(call, text))

    def called(self, answer: ToolAnswer) -> None:
        self._put(lambda screen: screen.called(answer))

    def notice(self, text: str) -> None:
        self._put(lambda screen: screen.notice(text))


class _PendingQuestion:
    """A question on its way to the user; answered in the thread of the one who asks."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Decision] = self._loop.create_future()

    @property
    def open(self) -> bool:
        return not self.answer.done()

    def give(self, decision: Decision) -> None:
        self._loop.call_soon_threadsafe(self._give, decision)

    def _give(self, decision: Decision) -> None:
        if self.open:
            self.answer.set_result(decision)


class _WorkEnded:
    """The work under way has ended."""


class _SignalReceived:
    """A signal has come."""

    def __init__(self, number: int) -> None:
        self.number = number


class Conductor:
    """Runs one piece of the agent's work after the other and shows what happens. Questions wait for a turn."""

    def __init__(self, work: AgentThread, screen: Screen) -> None:
        self.work, self.screen = work, screen
        self.ask: Ask = lambda question: Decision(False, why="Nobody can be asked.")
        self.keyboard = Keyboard()
        self._inbox: SimpleQueue[Callable[[Screen], None] | _PendingQuestion | _WorkEnded | _SignalReceived] = (
            SimpleQueue()
        )
        self.watch: Watch = _Relay(self._inbox.put)
        self._turn = False

    async def confirm(self, question: Question) -> Decision:
        """Called by the agent, in its own thread."""
        pending = _PendingQuestion(question)
        self._inbox.put(pending)
        return await pending.answer

    def run(self, waiting: str, make: Callable[[Cancel], Awaitable[T]]) -> T:
        """Do a piece of work to its end. Ctrl-C and Esc set `cancel`; Ctrl-C after that ends it and raises Leave."""
        cancel, task = Cancel(), SimpleQueue[asyncio.Task[T]]()

        async def whole() -> T:
            inner = asyncio.ensure_future(make(cancel))
            task.put(inner)
            return await inner

        self.screen.begins(waiting)
        with self._listening(), self.keyboard.unseen():
            future = self.work.start(whole())
            future.add_done_callback(lambda _: self._inbox.put(_WorkEnded()))
            try:
                self._attend(cancel)
            except BaseException:
                cancel.set()
                self.work.loop.call_soon_threadsafe(task.get().cancel)
                with contextlib.suppress(BaseException):  # whatever it says now, the first reason counts
                    future.exception(CLOSE_TIMEOUT_S)
                self._drop()
                with contextlib.suppress(OSError):
                    self.screen.over(None)
                raise
        return future.result()

    def _attend(self, cancel: Cancel) -> None:
        pressed = 0
        while True:
            if self.keyboard.escaped() and not cancel.is_set():
                pressed = 1
                cancel.set()
                self.screen.notice("stopping; Ctrl-C leaves")
            try:
                item = self._inbox.get(timeout=_LOOK_S)
            except Empty:
                self.screen.tick()
                continue
            if isinstance(item, _WorkEnded):
                return
            if isinstance(item, _SignalReceived):
                pressed += 1
                if item.number != signal.SIGINT or pressed > 1:
                    raise Leave(item.number)
                cancel.set()
                self.keyboard.discard()
                self.screen.notice("stopping; Ctrl-C again leaves")
            elif isinstance(item, _PendingQuestion):
                self._put(item, cancel)
            else:
                item(self.screen)

    def _put(self, pending: _PendingQuestion, cancel: Cancel) -> None:
        """Ask the user. Ctrl-C instead of an answer stops the turn."""
        if not pending.open or cancel.is_set():
            pending.give(Decision(False, why="The user stopped the turn."))
            return
        self.screen.clear()
        self._turn = False
        try:
            pending.give(self.ask(pending.question))
        except KeyboardInterrupt:
            cancel.set()
            pending.give(Decision(False, why="The user stopped the turn."))
        finally:
            self._turn = True

    def drain(self) -> None:
        """Show what came while nobody worked: before the next prompt."""
        late: list[_PendingQuestion] = []
        with contextlib.suppress(Empty):
            while True:
                item = self._inbox.get_nowait()
                if isinstance(item, _PendingQuestion):
                    late.append(item)
                elif not isinstance(item, _WorkEnded | _SignalReceived):
                    item(self.screen)
        for question in late:  # it is answered when a turn is under way
            self._inbox.put(question)

    def _drop(self) -> None:
        with contextlib.suppress(Empty):
            while True:
                self._inbox.get_nowait()

    @contextlib.contextmanager
    def _listening(self) -> Iterator[None]:
        """Signals go into the queue while somebody works, except while the user is asked: there they interrupt."""

        def on_signal(number: int, frame: FrameType | None) -> None:
            if self._turn:
                self._inbox.put(_SignalReceived(number))
            elif number == signal.SIGINT:
                raise KeyboardInterrupt
            else:
                raise Leave(number)

        with handling(on_signal):
            self._turn = True
            try:
                yield
            finally:
                self._turn = False


@contextlib.contextmanager
def handling(on_signal: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Give signals that end a program to `on_signal`, in the main thread only; those that are ignored here stay so."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    usual = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, on_signal) for number in usual}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def leaving(number: int, frame: FrameType | None) -> None:
    """The signal handler while the agent is idle."""
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise Leave(number)
