"""What is typed: lines, answers, a history that only its user can read; and the loop around it."""

from __future__ import annotations

import builtins
import io
import os
import pty
import stat
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli import run as main
from holdfast.cli.chat.prompt import HISTORY, MOST_LINES, Typed
from tests.cli.chats import Chatting, Done

readline = pytest.importorskip("readline")


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Standard output is a terminal; what `input` gives is put into the list."""
    lines: list[str] = []
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)  # pytest puts its own one back before every test
    monkeypatch.setattr(builtins, "input", lambda prompt="": _next(lines))
    yield lines
    readline.clear_history()
    readline.set_completer(None)


def _next(lines: list[str]) -> str:
    if not lines:
        raise EOFError
    return lines.pop(0)


class TestTyped:
    def test_a_backslash_goes_on_in_the_next_line(self, tmp_path: Path, terminal: list[str]) -> None:
        terminal += ["one\\", "two\\", "", "three"]
        typed = Typed(tmp_path, escapes=True)
        assert typed.line("> ") == "one\ntwo\n"
        assert typed.line("> ") == "three"
        with pytest.raises(EOFError):
            typed.line("> ")

    def test_what_was_typed_is_kept_for_its_user_alone(self, tmp_path: Path, terminal: list[str]) -> None:
        terminal += ["one\\", "two", "  ", "\x1b[2J", "y"]
        typed = Typed(tmp_path, escapes=True)
        for _ in range(3):
            typed.line("> ")
        assert typed.answer("Allow? ") == "y"
        assert (tmp_path / HISTORY).read_text() == "one two\n\\x1b[2J\n"
        assert stat.S_IMODE((tmp_path / HISTORY).stat().st_mode) == 0o600
        again = Typed(tmp_path, escapes=True)
        assert again is not typed
        assert [readline.get_history_item(number) for number in (1, 2)] == ["one two", "\\x1b[2J"]

    def test_a_long_history_is_shortened(self, tmp_path: Path, terminal: list[str]) -> None:
        (tmp_path / HISTORY).write_text("".join(f"line {number}\n" for number in range(3 * MOST_LINES)))
        Typed(tmp_path, escapes=True)
        assert (tmp_path / HISTORY).read_text().splitlines() == [
            f"line {number}" for number in range(2 * MOST_LINES, 3 * MOST_LINES)
        ]
        assert readline.get_current_history_length() == MOST_LINES

    @pytest.mark.parametrize("broken", ["a directory", "no text"])
    def test_a_history_that_cannot_be_used_is_not_in_the_way(
        self, tmp_path: Path, terminal: list[str], broken: str
    ) -> None:
        if broken == "a directory":
            (tmp_path / HISTORY).mkdir()
        else:
            (tmp_path / HISTORY).write_bytes(b"\xff\xfe")
        terminal += ["one"]
        assert Typed(tmp_path, escapes=True).line("> ") == "one"

    def test_without_a_terminal_the_prompt_goes_beside(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("one\n"))
        assert Typed(tmp_path, escapes=False).line("> ") == "one"
        said = capsys.readouterr()
        assert (said.out, said.err) == ("", "> ")
        assert not (tmp_path / HISTORY).exists()

    def test_what_is_typed_meanwhile_is_not_seen_but_an_answer_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        master, slave = pty.openpty()
        with open(slave, encoding="utf-8") as keyboard:  # noqa: PTH123  it has a number, no name
            monkeypatch.setattr(sys, "stdin", keyboard)
            seen: list[bool] = []
            monkeypatch.setattr(builtins, "input", lambda prompt="": seen.append(_echoes(slave)) or "y")
            typed = Typed(tmp_path, escapes=False)
            assert _echoes(slave)
            with typed.unseen():
                assert not _echoes(slave)
                typed.answer("Allow? ")
                assert not _echoes(slave)
            assert _echoes(slave)
            assert seen == [True]
        os.close(master)


def _echoes(number: int) -> bool:
    return bool(termios.tcgetattr(number)[3] & termios.ECHO)


class TestTalking:
    """The loop, with a keyboard that is a text."""

    @pytest.fixture
    def chat(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Chatting:
        return Chatting(tmp_path, monkeypatch, capsys)

    def talk(
        self, chat: Chatting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: str
    ) -> Done:
        monkeypatch.setattr(sys, "stdin", Tty(typed))
        code = main(["chat", "--simulate", "--script", str(chat.script)])
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    def test_one_line_after_the_other_until_there_is_no_more(
        self, chat: Chatting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        done = self.talk(chat, monkeypatch, capsys, "Hello\n\n//slash\n/contxt\n/model nonsense\nWRITE-A-FILE\n")
        assert done.code == 0
        assert done.out.startswith("Hello\n\n/slash\n\nThen The call was not run.")
        assert "did you mean /context?" in done.err
        assert "no model is named 'nonsense'" in done.err
        assert "write_file was refused: nobody can be asked here" in done.err
        assert done.err.count("> ") == 7
        assert done.session == chat.logs[0].stem

    def test_exit_leaves(
        self, chat: Chatting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        done = self.talk(chat, monkeypatch, capsys, "/exit\nHello\n")
        assert (done.code, done.out) == (0, "")
        assert chat.logs == []

    def test_what_is_no_command_is_answered_with_what_to_do(
        self, chat: Chatting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        lines = "/modle x\n/usage\n/zzz\n/\n/cost please\n/model sonet\n/resume nosuch\n//zzz\n"
        done = self.talk(chat, monkeypatch, capsys, lines)
        said = " ".join(done.err.split())
        assert "no command /modle; did you mean /model? /help lists all, and //modle is sent as a message" in said
        assert "no command /usage; did you mean /cost? /help" in said
        assert "no command /zzz; /help lists all, and //zzz is sent as a message" in said
        assert "a command has a name behind its slash; /help lists them" in said
        assert "/cost takes nothing behind its name, but 'please' stands there" in said
        assert "no model is named 'sonet'; did you mean anthropic:claude-sonnet-" in said
        assert "there is no session 'nosuch', nor any other yet >" in said
        assert done.out == "/zzz\n"
