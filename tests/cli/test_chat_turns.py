"""Two threads for one conversation: what is told arrives in order, and whoever stops something stops it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence

import pytest

from holdfast.agent.contract import CostLine, Turn
from holdfast.cli.chat.loop import decide, lines_of, nobody
from holdfast.cli.chat.turns import AgentThread, Conductor, Leave, handling, leaving
from holdfast.records import Message, Text, ToolResult, ToolUse, usage
from holdfast.tools import Cancel, Decision, Question, ToolAnswer

LINE = CostLine(model="m:m", usage=usage())
QUESTION = Question(
    tool="run_command", effect="execute", subject="ls", input={"command": "ls"}, text="run_command wants to: ls"
)


class Heard:
    """A screen that writes down what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.broken = False

    def piece(self, kind: str, text: str) -> None:
        if self.broken:
            raise BrokenPipeError
        self.said.append(f"{kind} {text}")

    def answered(self, message: Message, line: CostLine) -> None:
        self.said.append("answered")

    def retrying(self, why: str, seconds: float) -> None:
        self.said.append(f"retrying {why} {seconds}")

    def calling(self, call: ToolUse) -> None:
        self.said.append(f"calling {call.name}")

    def output(self, call: str, text: str) -> None:
        self.said.append(f"output {text}")

    def called(self, answer: ToolAnswer) -> None:
        self.said.append(f"called {answer.tool}")

    def notice(self, text: str) -> None:
        self.said.append(f"notice {text}")

    def begins(self, waiting: str) -> None:
        self.said.append(f"begins {waiting}")

    def over(self, turn: Turn | None) -> None:
        self.said.append("over")

    def say(self, lines: Sequence[str]) -> None:
        self.said += lines

    def aside(self, lines: Sequence[str]) -> None:
        self.said += lines

    def warn(self, text: str) -> None:
        self.said.append(f"warn {text}")

    def clear(self) -> None:
        self.said.append("clear")

    def tick(self) -> None:
        """Time passes as it likes."""


@pytest.fixture
def conductor(interruptible: None) -> Iterator[Conductor]:
    work = AgentThread()
    yield Conductor(work, Heard())
    work.close()


def said(conductor: Conductor) -> list[str]:
    assert isinstance(conductor.screen, Heard)
    return conductor.screen.said


class TestRun:
    def test_everything_told_is_shown_in_order(self, conductor: Conductor) -> None:
        async def work() -> int:
            watch = conductor.watch
            watch.piece("text", "a")
            await asyncio.sleep(0)
            watch.calling(ToolUse("c1", "ls", b"{}"))
            watch.output("c1", "x")
            watch.called(ToolAnswer(result=ToolResult("c1", (Text("y"),)), tool="ls"))
            watch.retrying("why", 2.0)
            watch.answered(Message("assistant", ()), LINE)
            watch.notice("n")
            return 7

        assert conductor.run("m:m", lambda cancel: work()) == 7
        assert said(conductor) == [
            "begins m:m", "text a", "calling ls", "output x", "called ls", "retrying why 2.0", "answered", "notice n",
        ]  # fmt: skip

    def test_an_error_comes_out(self, conductor: Conductor) -> None:
        async def work() -> None:
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            conductor.run("m:m", lambda cancel: work())

    def test_ctrl_c_says_cancel_and_the_work_ends_by_itself(self, conductor: Conductor) -> None:
        async def work(cancel: Cancel) -> str:
            os.kill(os.getpid(), signal.SIGINT)
            await cancel.wait()
            return "ended"

        before = signal.getsignal(signal.SIGINT)
        assert conductor.run("m:m", work) == "ended"
        assert "notice stopping; Ctrl-C again leaves" in said(conductor)
        assert signal.getsignal(signal.SIGINT) is before

    def test_a_second_ctrl_c_leaves_and_the_work_is_cancelled(self, conductor: Conductor) -> None:
        ended: list[str] = []

        async def work(cancel: Cancel) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            await cancel.wait()
            os.kill(os.getpid(), signal.SIGINT)
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cancelled")

        with pytest.raises(Leave) as left:
            conductor.run("m:m", work)
        assert left.value.number == signal.SIGINT
        assert ended == ["cancelled"]
        assert said(conductor)[-1] == "over"

    def test_a_signal_to_end_leaves_at_once(self, conductor: Conductor) -> None:
        async def work(cancel: Cancel) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()

        with pytest.raises(Leave) as left:
            conductor.run("m:m", work)
        assert left.value.number == signal.SIGTERM

    def test_a_screen_that_breaks_ends_the_work(self, conductor: Conductor) -> None:
        ended: list[bool] = []

        async def work(cancel: Cancel) -> None:
            conductor.watch.piece("text", "a")
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(cancel.is_set())

        assert isinstance(conductor.screen, Heard)
        conductor.screen.broken = True
        with pytest.raises(BrokenPipeError):
            conductor.run("m:m", work)
        assert ended == [True]

    def test_what_came_between_two_pieces_of_work_is_shown_before_the_next_line(self, conductor: Conductor) -> None:
        conductor.watch.notice("late")
        conductor.drain()
        assert said(conductor) == ["notice late"]


class TestQuestions:
    def test_the_main_thread_is_asked_and_the_work_goes_on(self, conductor: Conductor) -> None:
        conductor.ask = lambda question: Decision(question.tool == "run_command", "session")
        assert conductor.run("m:m", lambda cancel: conductor.confirm(QUESTION)) == Decision(True, "session")
        assert said(conductor) == ["begins m:m", "clear"]

    def test_ctrl_c_instead_of_an_answer_stops_the_turn(self, conductor: Conductor) -> None:
        def ask(question: Question) -> Decision:
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("it was interrupted")

        async def work(cancel: Cancel) -> Decision:
            decision = await conductor.confirm(QUESTION)
            await cancel.wait()
            return decision

        conductor.ask = ask
        assert conductor.run("m:m", work) == Decision(False, why="The user stopped the turn.")

    def test_when_the_turn_was_stopped_nobody_is_asked_any_more(self, conductor: Conductor) -> None:
        async def work(cancel: Cancel) -> Decision:
            cancel.set()
            return await conductor.confirm(QUESTION)

        assert not conductor.run("m:m", work).allowed
        assert "clear" not in said(conductor)

    def test_a_question_between_two_turns_waits_for_the_next(self, conductor: Conductor) -> None:
        conductor.ask = lambda question: Decision(True)
        waiting = conductor.work.start(conductor.confirm(QUESTION))
        conductor.work.call(lambda: None)  # it has been put by now
        conductor.drain()
        assert not waiting.done()

        async def work() -> None:
            await asyncio.wrap_future(waiting)

        conductor.run("m:m", lambda cancel: work())
        assert waiting.result().allowed


class TestSignals:
    def test_outside_of_work_ctrl_c_interrupts_and_others_leave(self, interruptible: None) -> None:
        with handling(leaving):
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
            with pytest.raises(Leave):
                os.kill(os.getpid(), signal.SIGTERM)


class TestAnswers:
    def ask(self, *typed: str) -> tuple[Decision, list[str]]:
        left, shown = list(typed), []

        def read(prompt: str) -> str:
            shown.append(prompt)
            if not left:
                raise EOFError
            return left.pop(0)

        return decide(QUESTION, lambda lines: shown.extend(lines), read), shown

    @pytest.mark.parametrize(
        ("typed", "decision"),
        [
            (("y",), Decision(True, "once")),
            ((" YES ",), Decision(True, "once")),
            (("s",), Decision(True, "session")),
            (("a",), Decision(True, "always")),
            (("always",), Decision(True, "always")),
            (("n", ""), Decision(False, why="The user did not allow it.")),
            (("n", "too risky"), Decision(False, why="The user did not allow it: too risky")),
            (("no use ls -l",), Decision(False, why="The user did not allow it: use ls -l")),
            (("", "what", "y"), Decision(True, "once")),
            ((), Decision(False, why="The user did not allow it.")),
        ],
    )
    def test_one_letter_decides(self, typed: tuple[str, ...], decision: Decision) -> None:
        found, shown = self.ask(*typed)
        assert found == decision
        assert shown[0] == "run_command wants to: ls"

    def test_what_is_to_be_written_is_shown(self) -> None:
        given = {"path": "a.txt", "content": "".join(f"line {number}\x1b\n" for number in range(20)), "mode": "new"}
        question = Question(tool="write_file", effect="write", subject="a.txt", input=given, text="write_file: a.txt")
        lines = list(lines_of(question))
        assert lines[:3] == ["write_file: a.txt", "  content:", r"  | line 0\x1b"]
        assert lines[-2:] == ["  | … 8 more lines", "  mode: new"]

    def test_where_nobody_is_there_the_answer_is_no_and_that_is_said(self) -> None:
        told: list[str] = []
        assert not nobody(told.append)(QUESTION).allowed
        assert told == [
            "run_command was refused: nobody can be asked here; --yes allows all tools (run_command wants to: ls)"
        ]
