"""Where a chat is shown: in a terminal without losing a line, in a pipe without a single code."""

from __future__ import annotations

import io
from decimal import Decimal

import pytest
from msgspec.structs import replace

from holdfast.agent.contract import CostLine, Turn
from holdfast.cli.chat.screen import MOST_OUTPUT, PlainScreen
from holdfast.cli.chat.terminal import TerminalScreen
from holdfast.records import Message, Text, ToolResult, ToolUse, usage
from holdfast.tools import ToolAnswer
from tests.cli.terminals import Emulator

LINE = CostLine(model="m:m", usage=usage(input=3, output=2), cost=Decimal("0.01"), without=Decimal("0.02"))
CALL = ToolUse("c1", "run_command", b'{"command":"make test"}')
COST = "m:m · 1 call · in 3 · read 0 (0%) · written 0 · out 2 · $0.0100 (without cache $0.0200)"


def result(text: str, *, error: bool = False) -> ToolAnswer:
    return ToolAnswer(result=ToolResult("c1", (Text(text),), is_error=error), tool="run_command")


def turn(ended: str = "completed", problem: str = "") -> Turn:
    return Turn(id="t", ended=ended, line=LINE, problem=problem)  # type: ignore[arg-type]


class Out(io.StringIO):
    """Writes go to an emulator as well."""

    def __init__(self, emulator: Emulator) -> None:
        super().__init__()
        self.emulator = emulator
        self.writes = 0

    def write(self, text: str) -> int:
        self.emulator.feed(text)
        self.writes += 1
        return super().write(text)


class Seen:
    """A terminal of so many columns and rows, on a clock that is moved by hand."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, columns: int = 60, rows: int = 12, colours: bool = True
    ) -> None:
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("LINES", str(rows))
        monkeypatch.setenv("TERM", "xterm-256color")
        self.emulator = Emulator(columns, rows)
        self.out = Out(self.emulator)
        self.now = 100.0
        self.screen = TerminalScreen(self.out, colours=colours, clock=lambda: self.now)

    def stream(self, text: str, size: int = 17) -> None:
        for start in range(0, len(text), size):
            self.now += 0.1
            self.screen.piece("text", text[start : start + size])

    @property
    def text(self) -> str:
        return self.emulator.text.rstrip()


class TestTerminal:
    @pytest.fixture
    def seen(self, monkeypatch: pytest.MonkeyPatch) -> Seen:
        """A terminal in which an answer begins."""
        seen = Seen(monkeypatch)
        seen.screen.begins("m:m")
        return seen

    def test_an_answer_grows_and_stays(self, seen: Seen) -> None:
        assert seen.text == "m:m …"
        seen.stream("One *two* three.\n\nFour")
        assert seen.text == "One two three.\n\nFour"
        seen.screen.answered(Message("assistant", ()), LINE)
        seen.screen.over(turn())
        assert seen.text.split("\n")[:4] == ["One two three.", "", "Four", ""]
        assert " · ".join(seen.text.split("\n")[4:]) == COST

    @pytest.mark.slow
    @pytest.mark.parametrize("colours", [True, False])
    @pytest.mark.parametrize(("columns", "rows"), [(60, 12), (40, 8), (20, 4)])
    def test_what_is_longer_than_the_screen_is_there_once_and_whole(
        self, monkeypatch: pytest.MonkeyPatch, columns: int, rows: int, colours: bool
    ) -> None:
        seen = Seen(monkeypatch, columns, rows, colours)
        code = "\n".join(f"line_{number} = {number}" for number in range(60))
        items = "\n".join(f"- item {number}" for number in range(50))
        seen.screen.begins("m:m")
        seen.stream(f"Before.\n\n```python\n{code}\n```\n\n{items}\n\n| A | B |\n|---|---|\n" + "| x | y |\n" * 30)
        seen.screen.over(turn())
        words = seen.text.split()
        assert words.count("Before.") == 1
        assert [word for word in words if word.startswith("line_")] == [f"line_{number}" for number in range(60)]
        assert [words[at + 1] for at, word in enumerate(words) if word == "item"] == [str(n) for n in range(50)]
        assert words.count("x") == words.count("y") == 30

    def test_each_change_is_one_write(self, seen: Seen) -> None:
        before = seen.out.writes
        seen.stream("abc", 3)
        assert seen.out.writes == before + 1

    def test_pictures_do_not_follow_each_other_faster_than_they_can_be_seen(self, seen: Seen) -> None:
        before = seen.out.writes
        for char in "abcdef":
            seen.screen.piece("text", char)
        assert seen.out.writes == before
        seen.now += 0.1
        seen.screen.tick()
        assert seen.out.writes == before + 1
        assert seen.text == "abcdef"

    def test_a_call_is_a_line_with_its_output_below_it_and_then_its_result(self, seen: Seen) -> None:
        seen.screen.calling(CALL)
        for number in range(20):
            seen.now += 0.125
            seen.screen.output("c1", f"step {number}\r\n\x1b[2Jx\n")
        assert seen.text.split("\n")[0] == "  run_command  make test"
        assert seen.text.split("\n")[-3:] == ["  | step 19", r"  | \x1b[2Jx", "m:m … 2 s, Ctrl-C stops"]
        assert len(seen.text.split("\n")) == 7
        seen.screen.called(result("all passed\nmore"))
        assert seen.text == "• run_command  make test\n  all passed (1 more line)\nm:m … 2 s, Ctrl-C stops"

    def test_thoughts_are_shown_while_they_last(self, seen: Seen) -> None:
        seen.now += 0.1
        seen.screen.piece("thinking", "Let me see.")
        assert seen.text == "Let me see.\nm:m …"
        seen.stream("Yes.")
        assert seen.text == "Yes."

    def test_a_call_that_is_being_written_is_named(self, seen: Seen) -> None:
        seen.now += 1.5
        seen.screen.piece("tool", "write_file")
        assert seen.text == "writing a call of write_file … 1 s, Ctrl-C stops"

    def test_the_seconds_go_on(self, seen: Seen) -> None:
        seen.now += 3
        seen.screen.tick()
        assert seen.text == "m:m … 3 s, Ctrl-C stops"

    def test_a_retry_leaves_what_was_shown_and_begins_anew(self, seen: Seen) -> None:
        seen.stream("Half an ans")
        seen.screen.retrying("the answer broke off", 2)
        seen.stream("A whole answer.")
        seen.screen.over(None)
        assert seen.text == "Half an ans\n\nthe answer broke off; sent again in 2.0 s\nA whole answer."

    def test_problems_and_stops_are_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = Seen(monkeypatch, 100)
        seen.screen.over(turn("failed", "m:m answered 401: \x1b[2Jno"))
        seen.screen.over(turn("cancelled"))
        assert seen.text.split("\n") == [r"m:m answered 401: \x1b[2Jno", COST, "", "stopped", COST]

    def test_a_question_finds_nothing_that_moves(self, seen: Seen) -> None:
        seen.screen.calling(CALL)
        seen.screen.clear()
        assert seen.text == ""
        seen.screen.aside(["May it?"])
        assert seen.text.split("\n")[0] == "May it?"

    def test_what_was_asked_for_is_wrapped_and_what_is_to_be_copied_is_not(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = Seen(monkeypatch, 20)
        seen.screen.say(["one two three four five", "  exactly 20 columns"])
        seen.screen.aside(["one two three four five"])
        assert seen.text.split("\n") == [
            "one two three four",
            "five",
            "  exactly 20 columns",
            "one two three four f",
            "ive",
        ]

    def test_without_colours_there_are_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = Seen(monkeypatch, colours=False)
        seen.screen.begins("m:m")
        seen.stream("# Title\n\n`code`\n\n```python\ndef f(): pass\n```\n")
        seen.screen.called(result("no", error=True))
        seen.screen.over(turn("failed", "bad"))
        assert "\x1b[3" not in seen.out.getvalue()
        assert "\x1b[9" not in seen.out.getvalue()


class TestPlain:
    def both(self, *, watched: bool = False, whole: bool = False) -> tuple[PlainScreen, io.StringIO, io.StringIO]:
        out, aside = io.StringIO(), io.StringIO()
        return PlainScreen(out, aside, watched=watched, whole=whole), out, aside

    def test_answers_go_to_one_side_and_all_else_to_the_other(self) -> None:
        screen, out, aside = self.both()
        screen.begins("m:m")
        screen.piece("thinking", "hm")
        screen.piece("text", "Look **at**")
        screen.piece("text", " it.")
        screen.calling(CALL)
        screen.output("c1", "loud\n" * 100)
        screen.called(result("done\nmore"))
        screen.piece("text", "Done.\n")
        screen.notice("compacted")
        screen.over(turn())
        assert out.getvalue() == "Look **at** it.\n\nDone.\n"
        assert aside.getvalue().split("\n") == [
            "* run_command  make test: done (1 more line)",
            "- compacted",
            COST,
            "",
        ]

    def test_no_code_passes(self) -> None:
        screen, out, aside = self.both(watched=True)
        for piece in ("\x1b[31m", "a\r", "\n\x07", "b\x9b"):
            screen.piece("text", piece)
        screen.called(result("\x1b]0;x\x07"))
        screen.warn("\x1b[2J")
        screen.say(["\x1b[2J"])
        screen.aside(["\x1b[2J"])
        screen.over(turn("failed", "\x1b"))
        assert "\x1b" not in out.getvalue() + aside.getvalue()
        assert out.getvalue().startswith("\\x1b[31ma\n\\x07b\\x9b\n")

    def test_who_watches_sees_the_beginning_of_what_commands_say(self) -> None:
        screen, _, aside = self.both(watched=True)
        screen.calling(CALL)
        for number in range(100):
            screen.output("c1", f"step {number}\n")
        screen.called(result("done"))
        lines = aside.getvalue().split("\n")
        assert lines[0] == "* run_command  make test"
        assert lines[1] == "  | step 0"
        assert lines[MOST_OUTPUT : MOST_OUTPUT + 3] == [f"  | step {MOST_OUTPUT - 1}", "  | …", "  done"]

    def test_a_failed_turn_says_why(self) -> None:
        screen, out, aside = self.both()
        screen.over(turn("failed", "no key"))
        assert out.getvalue() == ""
        assert aside.getvalue().startswith("holdfast: no key\n")

    def test_a_stopped_turn_says_so(self) -> None:
        screen, _, aside = self.both()
        screen.over(turn("cancelled"))
        assert aside.getvalue() == f"- stopped\n{COST}\n"

    def test_a_retry_is_told(self) -> None:
        screen, out, aside = self.both()
        screen.piece("text", "Half")
        screen.retrying("it broke off.", 0.5)
        screen.piece("text", "Whole")
        screen.over(None)
        assert out.getvalue() == "Half\n\nWhole\n"
        assert aside.getvalue() == "- it broke off; sent again in 0.5 s\n"

    def test_a_file_gets_whole_answers(self) -> None:
        screen, out, _ = self.both(whole=True)
        screen.piece("text", "Half")
        screen.retrying("it broke off", 0.5)
        screen.piece("text", "Half again")
        screen.notice("another model answers")
        screen.piece("text", "Who")
        screen.piece("text", "le")
        assert out.getvalue() == ""
        screen.answered(Message("assistant", (Text("Whole"), CALL)), LINE)
        assert out.getvalue() == "Whole\n"
        screen.piece("text", "Broken")
        screen.over(turn("failed", "gone"))
        assert out.getvalue() == "Whole\n"
        screen.piece("text", "Stopped")
        screen.over(turn("cancelled"))
        assert out.getvalue() == "Whole\n\nStopped\n"

    def test_what_sub_agents_cost_stands_beside_it(self) -> None:
        screen, _, aside = self.both()
        screen.over(replace(turn(), delegated=Decimal("0.0044")))
        assert aside.getvalue() == f"{COST} · sub-agents $0.0044\n"
