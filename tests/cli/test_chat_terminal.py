"""`holdfast chat` in a real terminal: a person types, reads, says yes and no, and presses Ctrl-C."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from tests.cli.chats import RESUMED, Chatting
from tests.cli.terminals import Program
from tests.clients.programs import TIMEOUT

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("interruptible")]

Start = Callable[..., Program]
COST = "(without cache"


@pytest.fixture
def start(chat: Chatting) -> Iterator[Start]:
    """Starts a chat and waits for its first prompt."""
    with ExitStack() as stack:

        def started(*arguments: str, columns: int = 80, rows: int = 24, **more: str) -> Program:
            environ = {key: value for key, value in chat.environ.items() if key not in ("NO_COLOR", "COLUMNS", "LINES")}
            program = Program(
                "chat", "--simulate", "--script", str(chat.script), *arguments,
                cwd=chat.workspace,
                environ=environ | {"TERM": "xterm-256color", "LANG": "C.UTF-8"} | more,
                columns=columns,
                rows=rows,
            )  # fmt: skip
            stack.enter_context(program)
            program.prompt()
            return program

        yield started


def test_what_is_typed_while_one_message_is_answered_is_left_to_the_shell(chat: Chatting) -> None:
    master, slave = pty.openpty()
    command = shlex.join(
        [sys.executable, "-m", "holdfast", "chat", "--simulate", "--script", str(chat.script), "Hello"]
    )
    with os.fdopen(master, "rb+", buffering=0) as terminal:
        os.write(master, b"typed ahead\n")
        shell = subprocess.Popen(
            ["sh", "-c", f'{command}; read -r line; printf "%s is left.\n" "$line"'],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=chat.workspace,
            env={**chat.environ, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(slave)
        seen = b""
        with suppress(OSError):  # the shell has ended
            while select.select([terminal], [], [], TIMEOUT)[0] and (piece := terminal.read(65_536)):
                seen += piece
        shell.kill()
        shell.wait()
    assert b"(without cache" in seen
    assert b"typed ahead is left." in seen


def session_of(text: str) -> str:
    found = RESUMED.search(text.replace("\n", ""))
    assert found is not None, text
    return found[1][:26]


class TestTalking:
    def test_a_conversation_from_the_greeting_to_the_way_back(self, start: Start, chat: Chatting) -> None:
        program = start()
        assert "anthropic:claude-haiku-5-5; /help lists commands, Ctrl-D leaves" in program.text
        program.ask("Hello there")
        program.ask("")
        program.ask("/goal Ship it")
        program.ask("/contxt")
        program.type("two \\\rlines\r")
        program.prompt()
        program.type("\x04")
        assert program.ended() == 0
        text = program.text
        assert "> Hello there\nHello there\n\nanthropic:claude-haiku-5-5 · 1 call · in " in text
        assert "The goal is set; the model is told with the next message." in text
        assert "did you mean /context?" in text
        assert "> two\n. lines\ntwo lines\n" in text
        assert session_of(text) == chat.logs[0].stem

    def test_several_lines_that_are_pasted_are_one_message(self, start: Start) -> None:
        program = start(columns=200)
        program.type("\x1b[200~one\n\ttwo\nthree\x1b[201~\r", until=COST)
        assert "> one\n.         two\n. three\n" in program.text
        assert program.text.count(" 1 call ") == 1
        assert "\none two three\n" in program.text

    @pytest.mark.parametrize("key", ["\x1b\r", "\n", "\\\r"], ids=["alt-enter", "ctrl-j", "backslash-enter"])
    def test_a_message_has_several_lines(self, start: Start, chat: Chatting, key: str) -> None:
        program = start()
        program.type(f"one{key}two{key}three", until="> one\n. two\n. three")
        program.type("\x1b[A\x1b[A!\r", until=COST)
        assert "> one!\n. two\n. three\none! two three\n" in program.text
        assert (chat.home / "chat-history").read_text() == "one! two three\n"

    def test_escape_clears_what_was_typed(self, start: Start) -> None:
        program = start()
        program.type("one\x1b\rtwo", until=". two")
        program.type("\x1b", until=lambda text: "two" not in text)
        program.say("three", until=COST)
        assert "> three\nthree\n" in program.text

    def test_the_history_is_searched(self, start: Start) -> None:
        program = start()
        for text in ("find this", "and that"):
            program.ask(text)
        program.type("\x12find", until=lambda text: text.count("find this") == 3)
        program.type("\r", until=COST, times=3)

    def test_a_narrower_window_shows_all_that_is_typed(self, start: Start) -> None:
        program = start(columns=80)
        program.type("word " * 14, until="word word")
        program.resize(columns=40, rows=12)
        program.until(lambda text: text.rstrip().count("\n") >= 2)
        assert "\n. word" not in program.text  # it is one line
        program.type("end\r", until=COST)
        assert "word " * 14 + "end" in " ".join(program.text.split())

    @pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
    def test_a_tab_completes_a_command(self, start: Start, term: str) -> None:
        program = start(TERM=term)
        program.type("/mem\t\r")
        program.prompt()
        assert "> /memory" in program.text
        assert ".holdfast/USER.md: 0 of 3,072 bytes." in program.text

    @pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
    def test_what_was_typed_comes_back_with_an_arrow(self, start: Start, chat: Chatting, term: str) -> None:
        first = start(TERM=term)
        first.ask("Remember me")
        first.say("/exit")
        assert first.ended() == 0
        history = chat.home / "chat-history"
        assert history.read_text() == "Remember me\n/exit\n"
        assert stat.S_IMODE(history.stat().st_mode) == 0o600
        second = start("--resume")
        second.type("\x1b[A\x1b[A", until="> Remember me")

    @pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 10)])
    def test_long_markdown_is_there_once_and_whole(self, start: Start, columns: int, rows: int) -> None:
        program = start(columns=columns, rows=rows)
        program.ask("SHOW-MARKDOWN", until=COST)
        text = program.text
        assert text.count("A title") == 1
        assert "Some bold text and a Vec<String>." in " ".join(text.split())
        assert "Name  Value\none       1\ntwo      22\n" in text
        assert "  def f(x):\n      return x + 1\n" in text
        assert re.findall(r"• item (\d+)", text) == [str(number) for number in range(60)]
        assert max(len(line) for line in text.split("\n")) <= columns

    def test_colours_are_left_out_where_they_are_not_wanted(self, start: Start) -> None:
        plain, coloured = start(NO_COLOR="1"), start()
        for program in (plain, coloured):
            program.say("SHOW-MARKDOWN", until=COST)
        codes = {"plain": set(re.findall(r"\x1b\[[0-9;]*m", plain.raw)), "coloured": "\x1b[36m" in coloured.raw}
        assert codes["coloured"]
        assert not any(re.search(r"\b(3|4|9|10)\d\b", code) for code in codes["plain"])  # type: ignore[union-attr]
        assert "• item 59" in plain.text

    def test_a_terminal_without_codes_gets_none(self, start: Start) -> None:
        program = start("--yes", TERM="dumb")
        program.say("RUN-A-COMMAND", until=COST)
        program.ask("SHOW-MARKDOWN", until=COST, times=2)
        program.say("/exit")
        assert program.ended() == 0
        assert "\x1b" not in program.raw
        assert (
            "* run_command  echo from the command\n  | from the command\n  from the command (1 more line, with a guide)"
            in program.text
        )
        assert "| two  | 22    |" in program.text

    def test_what_the_model_says_cannot_speak_to_the_terminal(self, start: Start) -> None:
        program = start()
        program.say("SPEAK-TO-THE-TERMINAL", until=COST)
        assert "a\\x1b[2Jb\\x07" in program.text
        assert "\x1b[2J" not in program.raw

    def test_what_is_typed_meanwhile_waits_for_the_next_prompt(self, start: Start, chat: Chatting) -> None:
        gate = chat.workspace / "gate"
        os.mkfifo(gate)
        program = start("--yes")
        program.say("RUN-UNTIL-TOLD", until="| begun")
        program.type("typed early")
        gate.write_text("told\n")
        program.until("> typed early")
        assert program.text.count("typed early") == 1

    def test_what_is_typed_meanwhile_is_no_answer_to_a_question(self, start: Start) -> None:
        program = start()
        program.type("RUN-A-COMMAND\ry\r", until="Allow?")
        program.say("n no", until=COST, times=2)
        assert "It said The call was not run. The user did not allow it: no" in program.text
        assert "> y\ny\n" in program.text


class TestConfirming:
    def test_once_is_once_and_for_the_session_is_for_the_session(self, start: Start) -> None:
        program = start()
        for number, answer in enumerate(("y", "s"), 1):
            program.say("RUN-A-COMMAND", until="Allow? y once, s this session, a always here, n no:", times=number)
            assert "run_command wants to run a command: echo from the command" in program.text
            program.say(answer, until=COST, times=number)
        program.say("RUN-A-COMMAND", until=COST, times=3)
        assert program.text.count("Allow?") == 2
        assert program.text.count("• run_command  echo from the command\n  from the command") == 3

    def test_always_holds_in_the_next_chat_too(self, start: Start) -> None:
        first = start()
        first.say("RUN-A-COMMAND", until="Allow?")
        first.say("a", until=COST)
        first.say("/exit")
        assert first.ended() == 0
        second = start()
        second.say("RUN-A-COMMAND", until=COST)
        assert "Allow?" not in second.text

    def test_a_no_and_its_reason_reach_the_model(self, start: Start, chat: Chatting) -> None:
        program = start()
        program.say("WRITE-A-FILE", until="Allow?")
        assert "write_file wants to change a file: notes.txt\n  content:\n  | one\n  | two\n" in program.text
        program.say("what?", until="Allow?", times=2)
        program.say("n", until="Why not?")
        program.say("not today", until=COST)
        assert "Then The call was not run. The user did not allow it: not today" in program.text
        assert not (chat.workspace / "notes.txt").exists()

    def test_escape_at_a_question_is_a_no(self, start: Start) -> None:
        program = start()
        program.say("RUN-A-COMMAND", until="Allow?")
        program.type("y", until="no: y")
        program.type("\x1b", until=lambda text: "no: y" not in text)
        program.type("\x1b", until=COST)
        assert "It said The call was not run. The user did not allow it." in program.text

    def test_ctrl_c_at_a_question_stops_the_turn(self, start: Start) -> None:
        program = start()
        program.say("RUN-A-COMMAND", until="Allow?")
        program.interrupt("stopped")
        program.prompt()
        program.say("And now?", until=COST, times=2)
        assert "It said The call was" in program.text


class TestStopping:
    @pytest.mark.parametrize("key", ["\x03", "\x1b"], ids=["ctrl-c", "escape"])
    def test_an_answer_in_the_middle_and_then_on(self, start: Start, chat: Chatting, key: str) -> None:
        program = start()
        program.say("TALK-ON", until="This is a long story.")
        program.type(key, until="stopped")
        program.prompt()
        program.ask("Go on")
        program.ask("/cost")
        assert "In all: 2 turns" in program.text
        program.type("\x04")
        assert program.ended() == 0
        assert "This is a long story." in chat.logs[0].read_text()

    def test_a_running_command_and_then_on(self, start: Start) -> None:
        program = start("--yes")
        program.say("RUN-FOR-LONG", until="| begun")
        program.press_ctrl_c()
        program.until("cancelled: ")
        program.prompt()
        assert "  | begun" not in program.text
        program.ask("Go on")
        program.type("\x04")
        assert program.ended() == 0

    def test_pressed_twice_in_a_turn_it_leaves_and_nothing_is_lost(self, start: Start) -> None:
        program = start("--yes")
        program.say("RUN-STUBBORNLY", until="| begun")
        program.press_ctrl_c()
        program.until("stopping; Ctrl-C again leaves")
        program.press_ctrl_c()
        assert program.ended() == 128 + signal.SIGINT
        again = start("--resume", session_of(program.text))
        again.say("Hello again")
        again.until(COST)

    def test_at_the_prompt_it_clears_the_line_and_pressed_twice_leaves(self, start: Start, chat: Chatting) -> None:
        program = start()
        program.type("half a line", until="half a line")
        program.interrupt("Ctrl-C again leaves, and so does Ctrl-D")
        program.prompt()
        program.ask("a whole line")
        assert "half a line" not in program.text.partition("a whole line")[2]
        program.interrupt("Ctrl-C again leaves, and so does Ctrl-D", times=2)
        program.prompt()
        program.interrupt("--resume")
        assert program.ended() == 0
        assert len(chat.logs) == 1

    @pytest.mark.parametrize("working", [True, False])
    def test_a_signal_ends_it_in_order(self, start: Start, working: bool) -> None:
        program = start("--yes")
        program.say("RUN-FOR-LONG" if working else "Hello", until="| begun" if working else COST)
        program.interrupt("--resume", number=signal.SIGTERM)
        assert program.ended() == 128 + signal.SIGTERM
        assert session_of(program.text)

    def test_killed_in_the_middle_it_goes_on_where_it_was(self, start: Start, chat: Chatting) -> None:
        program = start("--yes")
        program.say("First words", until=COST)
        program.say("RUN-FOR-LONG", until="| begun")
        program.kill()
        again = start("--resume")
        assert f"Session {chat.logs[0].stem}, " in again.text
        assert "First words" in " ".join(again.text.split())
        again.say("Hello again")
        again.until(COST)
        again.say("/cost")
        again.until("In all: ")
        assert "anthropic:claude-haiku-5-5 answered" not in again.text
