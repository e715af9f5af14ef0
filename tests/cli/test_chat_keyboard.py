"""What is typed: lines, answers, a history that only its user can read; and the loop around it."""

from __future__ import annotations

import builtins
import io
import os
import pty
import stat
import sys
import termios
from pathlib import Path

import pytest

from holdfast.cli.chat import commands
from holdfast.cli.chat.keyboard import HISTORY, MOST_LINES, LineKeyboard, MessageHistory
from tests.cli.chats import Chatting
from tests.cli.commands import Terminal


class TestLines:
    @pytest.fixture
    def lines(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """Standard output is a terminal; what `input` gives is put into the list."""
        lines: list[str] = []
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)  # pytest puts its own one back before every test
        monkeypatch.setattr(builtins, "input", lambda prompt="": _next(lines))
        return lines

    def test_a_backslash_goes_on_in_the_next_line(self, lines: list[str], tmp_path: Path) -> None:
        lines += ["one\\", "two\\", "", "three"]
        keyboard = LineKeyboard(tmp_path, commands.completions)
        assert keyboard.line() == "one\ntwo\n"
        assert keyboard.line() == "three"
        with pytest.raises(EOFError):
            keyboard.line()

    def test_without_a_terminal_the_prompt_goes_beside(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("one\n"))
        assert LineKeyboard(tmp_path, commands.completions).line() == "one"
        output = capsys.readouterr()
        assert (output.out, output.err) == ("", "> ")

    def test_what_is_typed_meanwhile_is_not_seen_but_an_answer_is(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        master, slave = pty.openpty()
        with open(slave, encoding="utf-8") as terminal:  # noqa: PTH123  it has a number, no name
            monkeypatch.setattr(sys, "stdin", terminal)
            seen: list[bool] = []
            monkeypatch.setattr(builtins, "input", lambda prompt="": seen.append(_echoes(slave)) or "y")
            keyboard = LineKeyboard(tmp_path, commands.completions)
            assert _echoes(slave)
            with keyboard.unseen():
                assert not _echoes(slave)
                keyboard.answer("Allow? ")
                assert not _echoes(slave)
            assert _echoes(slave)
            assert seen == [True]
        os.close(master)

    def test_standard_input_may_be_closed(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setattr(sys, "stdin", None)
        with LineKeyboard(tmp_path, commands.completions).unseen():
            pass


def _next(lines: list[str]) -> str:
    if not lines:
        raise EOFError
    return lines.pop(0)


def _echoes(number: int) -> bool:
    return bool(termios.tcgetattr(number)[3] & termios.ECHO)


class TestHistory:
    def test_what_was_typed_is_kept_for_its_user_alone(self, tmp_path: Path) -> None:
        file = tmp_path / HISTORY
        for text in ("one\ntwo", "  ", "\x1b[2J"):
            MessageHistory(file).append(text)
        assert file.read_text() == "one two\n\\x1b[2J\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert MessageHistory(file).load() == ["one two", "\\x1b[2J"]

    def test_a_long_one_is_shortened(self, tmp_path: Path) -> None:
        file = tmp_path / HISTORY
        file.write_text("".join(f"line {number}\n" for number in range(3 * MOST_LINES)))
        newest = [f"line {number}" for number in range(2 * MOST_LINES, 3 * MOST_LINES)]
        assert MessageHistory(file).load() == newest
        assert file.read_text().splitlines() == newest

    @pytest.mark.parametrize("broken", ["a directory", "no text"])
    def test_one_that_cannot_be_used_is_not_in_the_way(self, tmp_path: Path, broken: str) -> None:
        file = tmp_path / HISTORY
        if broken == "a directory":
            file.mkdir()
        else:
            file.write_bytes(b"\xff\xfe")
        assert MessageHistory(file).load() == []
        MessageHistory(file).append("one")


def test_a_line_is_completed_to_commands_and_what_they_take() -> None:
    assert {"/model", "/memory", "/exit"} <= set(commands.completions("/m"))
    assert "/model anthropic:claude-haiku-4-5" in commands.completions("/model anth")
    assert "/help cost" in commands.completions("/help ")
    assert commands.completions("/cost ") == commands.completions("some text") == []


class TestTalking:
    """The loop, with a keyboard that is a text."""

    def test_one_line_after_the_other_until_there_is_no_more(self, chat: Chatting) -> None:
        done = chat.done(input=Terminal("Hello\n\n//slash\n/contxt\n/model nonsense\nWRITE-A-FILE\n"))
        assert done.out.startswith("Hello\n\n/slash\n\nThen The call was not run.")
        assert "did you mean /context?" in done.err
        assert "no model is named 'nonsense'" in done.err
        assert "write_file was refused: nobody can be asked here" in done.err
        assert done.err.count("> ") == 7
        assert done.session == chat.logs[0].stem

    def test_exit_leaves(self, chat: Chatting) -> None:
        done = chat(input=Terminal("/exit\nHello\n"))
        assert (done.code, done.out) == (0, "")
        assert chat.logs == []

    def test_what_is_no_command_is_answered_with_what_to_do(self, chat: Chatting) -> None:
        lines = "/modle x\n/usage\n/zzz\n/\n/cost please\n/model sonet\n/resume nosuch\n//zzz\n"
        done = chat(input=Terminal(lines))
        said = " ".join(done.err.split())
        assert "no command /modle; did you mean /model? /help lists all, and //modle is sent as a message" in said
        assert "no command /usage; did you mean /cost? /help" in said
        assert "no command /zzz; /help lists all, and //zzz is sent as a message" in said
        assert "a command has a name behind its slash; /help lists them" in said
        assert "/cost takes nothing behind its name, but 'please' stands there" in said
        assert "no model is named 'sonet'; did you mean anthropic:claude-sonnet-" in said
        assert "there is no session 'nosuch', nor any other yet >" in said
        assert done.out == "/zzz\n"
