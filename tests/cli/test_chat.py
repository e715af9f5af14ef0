"""`holdfast chat` without a terminal: answers on standard output, all else beside it, sessions that go on."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.agent.log import Log
from holdfast.cli import run as main
from holdfast.cli.chat import command as chat_module
from holdfast.cli.chat.loop import parted
from holdfast.cli.chat.screen import PlainScreen
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running
from tests.cli.chats import Chatting
from tests.cli.commands import Terminal

COST = re.compile(
    r"^anthropic:claude-haiku-5-5 · (\d) calls? · in [\d,]+ · read [\d,]+ \(\d+%\) · written [\d,]+ · ", re.M
)


class TestOneMessage:
    def test_it_is_answered_and_that_is_all_of_standard_output(self, chat: Chatting) -> None:
        done = chat("Hello", "*you*")
        assert (done.code, done.out) == (0, "Hello *you*\n")
        found = COST.search(done.err)
        assert found[1] == "1"
        assert re.search(r"\$0\.\d{4} \(without cache \$0\.\d{4}\)$", done.err, re.M)
        assert done.session == chat.logs[0].stem

    def test_what_is_piped_in_is_one_message(self, chat: Chatting) -> None:
        assert chat(input="one\n\n  two\n/usr/bin is a path\n").out == "one\n\n  two\n/usr/bin is a path\n"

    def test_a_dash_stands_for_what_is_piped_in(self, chat: Chatting) -> None:
        assert chat("Look at", "-", input="this change").out == "Look at this change\n"

    def test_one_that_is_too_long_for_the_model_is_told_by_its_length(self, chat: Chatting) -> None:
        done = chat("--model", "anthropic:claude-haiku-4-5", input="word " * 250_000)
        found = re.search(
            r"^- The conversation has ([\d,]+) tokens; a summary would not make it shorter", done.err, re.M
        )
        assert int(found[1].replace(",", "")) > 250_000

    def test_without_a_dash_nothing_is_read(self, chat: Chatting) -> None:
        assert chat("Only this", input="not this").out == "Only this\n"

    def test_two_slashes_begin_a_message_with_one(self, chat: Chatting) -> None:
        assert chat("//help me").out == "/help me\n"

    @pytest.mark.parametrize("input", ["", " \n\n"])
    def test_nothing_to_say_is_wrong_usage(self, chat: Chatting, input: str) -> None:
        done = chat(input=input)
        assert done.code == 2
        assert "there is nothing to say" in done.err
        assert chat.logs == []

    def test_a_turn_that_fails_says_why_and_so_does_the_exit_code(self, chat: Chatting) -> None:
        done = chat("CALL-NOTHING")
        assert (done.code, done.out) == (1, "")
        assert "holdfast: anthropic:claude-haiku-5-5 answered 500" in done.err
        assert "no_such_tool" in done.err

    def test_control_characters_of_the_model_are_seen_not_obeyed(self, chat: Chatting) -> None:
        assert chat("SPEAK-TO-THE-TERMINAL").out == "a\\x1b[2Jb\\x07\n"

    def test_markdown_stays_as_it_was_written(self, chat: Chatting) -> None:
        done = chat("SHOW-MARKDOWN")
        assert done.out.startswith("# A title\n\nSome **bold** text and a Vec<String>.\n\n| Name | Value |\n")
        assert done.out.endswith("- item 59\n")
        assert "\x1b" not in done.out + done.err

    def test_help_has_examples(self, chat: Chatting) -> None:
        done = chat.done("--help", simulate=False)
        assert "holdfast chat --resume\n" in done.out
        assert "git diff | holdfast chat" in done.out


class TestParted:
    @pytest.mark.parametrize(
        ("text", "parts"),
        [
            ("a\nb\n", ["a\nb"]),
            ("a\n/cost\nb\n/model x:y\n", ["a", "/cost", "b", "/model x:y"]),
            ("\n\n  a\n\n/cost", ["  a", "/cost"]),
            ("/etc/passwd\n/unknown\n//cost\n", ["/etc/passwd\n/unknown\n//cost"]),
            ("/COST\n /cost\n", ["/COST", " /cost"]),
            ("/quit", ["/quit"]),
            ("", []),
        ],
    )
    def test_commands_part_one_message_from_the_next(self, text: str, parts: list[str]) -> None:
        assert parted(text) == parts


class TestTools:
    def test_where_nobody_can_be_asked_a_call_is_refused_and_that_is_said(self, chat: Chatting) -> None:
        done = chat.done("WRITE-A-FILE")
        assert "holdfast: write_file was refused: nobody can be asked here; --yes allows all tools" in done.err
        assert "nobody can be asked here" in done.out
        assert not (chat.workspace / "notes.txt").exists()

    def test_yes_allows_all(self, chat: Chatting) -> None:
        done = chat("--yes", "WRITE-A-FILE")
        assert (chat.workspace / "notes.txt").read_text() == "one\ntwo\n"
        assert re.search(r"^\* write_file  notes\.txt: ", done.err, re.M)
        assert COST.search(done.err)

    def test_a_guide_is_for_the_model_and_only_named_to_the_user(self, chat: Chatting) -> None:
        done = chat.done("--yes", input="WRITE-A-FILE\n/cost\nWRITE-A-FILE\n")
        lines = [line for line in done.err.split("\n") if line.startswith("* write_file")]
        assert lines == [
            "* write_file  notes.txt: Wrote notes.txt (2 lines). (with a guide)",
            "* write_file  notes.txt: Wrote notes.txt (2 lines).",
        ]
        assert "[Tool Guide" not in done.err
        answers = [line for line in chat.logs[0].read_text().split("\n") if '"turn.tools_answered"' in line]
        assert ["[Tool Guide - shown once per session]" in line for line in answers] == [True, False]

    def test_a_call_is_a_line_beside_the_answer(self, chat: Chatting) -> None:
        done = chat("--yes", "RUN-A-COMMAND")
        assert done.out.startswith("I shall run it.\n\nIt said from the command")
        assert re.search(r"^\* run_command  echo from the command: from the command", done.err, re.M)


class TestSessions:
    def test_the_newest_goes_on(self, chat: Chatting) -> None:
        first = chat("First words")
        chat("Other words")
        again = chat("--resume", "--", "More words")
        assert again.session != first.session
        assert len(chat.logs) == 2
        assert "In all: 2 turns" in chat("--resume", input="/cost").out

    def test_more_than_one_word_behind_resume_is_a_message(self, chat: Chatting) -> None:
        first = chat("First words")
        again = chat("--resume", "More words")
        assert (again.out, again.session) == ("More words\n", first.session)

    def test_a_word_that_is_no_id_is_a_message_too(self, chat: Chatting) -> None:
        first = chat("First words")
        again = chat("--resume", "More")
        assert (again.out, again.session) == ("More\n", first.session)
        assert "In all: 2 turns" in chat("--resume", "/cost").out
        assert chat("--resume", "Still", "more").out == "Still more\n"
        assert "there is no session '0zz'" in chat("--resume", "0zz", "words").err

    def test_of_a_model_that_is_named_the_key_is_looked_for(self, chat: Chatting, served: Simulator) -> None:
        chat("First words", simulate=False)
        done = chat("--resume", "--model", "openai:gpt-5.2", "Hello", simulate=False)
        assert (done.code, done.out) == (1, "")
        assert "there is no key for openai" in done.err

    def test_how_to_go_on_is_said_so_that_it_works_from_there(self, chat: Chatting, served: Simulator) -> None:
        other = chat.root / "else where"
        other.mkdir()
        assert re.search(r"^Go on with: holdfast chat --resume \w+$", chat("Hi", simulate=False).err, re.M)
        elsewhere = chat("Hi", "--simulate", "--workspace", str(other), simulate=False).err
        assert f"Go on with: holdfast chat --simulate --workspace '{other}' --resume " in elsewhere

    def test_one_goes_on_by_the_beginning_of_its_id(self, chat: Chatting) -> None:
        first = chat("First words")
        chat("Other words")
        assert chat(f"--resume={first.session[:24].lower()}…", input="More words").session == first.session

    def test_a_fork_leaves_the_first_as_it_was(self, chat: Chatting) -> None:
        first = chat("First words")
        before = chat.logs[0].read_bytes()
        forked = chat("--fork", first.session, "Other words")
        assert forked.session != first.session
        assert (chat.home / "sessions" / f"{first.session}.jsonl").read_bytes() == before
        assert "In all: 2 turns" in chat("--resume", forked.session, input="/cost").out

    def test_they_are_listed_with_what_was_said_first(self, chat: Chatting) -> None:
        assert "There are no sessions of this workspace yet" in chat("--list").out
        first = chat("First words")
        listed = chat("--list").out
        assert first.session[:10] in listed
        assert "First words" in listed
        assert "$0.00" in listed
        other = chat.root / "elsewhere"
        other.mkdir()
        assert "There are no sessions" in chat("--list", "--workspace", str(other)).out

    def test_one_of_another_workspace_is_sent_there(self, chat: Chatting) -> None:
        first = chat("First words")
        other = chat.root / "elsewhere"
        other.mkdir()
        refused = chat("--workspace", str(other), "--resume", first.session, "Hello")
        assert refused.code == 1
        assert f"works in {chat.workspace}; go on with it there, or with --workspace {chat.workspace}" in refused.err
        assert chat("--workspace", str(chat.workspace), "--resume", first.session, "Hello").code == 0

    def test_an_unknown_id_gets_near_ones(self, chat: Chatting) -> None:
        assert "nor any other yet" in chat("--resume", "0nothing", "Hello").err
        first = chat("First words")
        wrong = chat("--resume", first.session[:-1] + "!", "Hello")
        assert wrong.code == 1
        assert f"{first.session} (First words)" in wrong.err
        chat("Other words")
        assert "2 sessions begin with '0'" in chat("--resume", "0", "Hello").err

    def test_without_any_there_is_nothing_to_resume(self, chat: Chatting) -> None:
        done = chat("Hello", "--resume")
        assert done.code == 1
        assert "there is no session of this workspace to resume" in done.err

    def test_one_that_is_in_use_is_refused(self, chat: Chatting) -> None:
        first = chat("First words")
        log = Log.open(chat.home / "sessions", first.session)
        try:
            done = chat("--resume", first.session, "Hello")
        finally:
            log.close()
        assert done.code == 1
        assert f"session {first.session} is in use by another process; close it there, or fork it" in done.err

    def test_one_in_which_nothing_was_said_leaves_nothing_behind(self, chat: Chatting) -> None:
        done = chat.done(input="/help\n/exit\n")
        assert "--resume" not in done.err
        assert chat.logs == []


class TestProblems:
    @pytest.mark.parametrize(
        ("arguments", "code", "said"),
        [
            (("Hi",), 1, "no model is chosen; name one with `holdfast chat --model anthropic:claude-haiku-4-5`"),
            (
                ("Hi", "--model", "anthropic:claude-haiku-4-5"),
                1,
                "there is no key for anthropic; set ANTHROPIC_API_KEY",
            ),
            (("Hi", "--model", "gemini:gemini-3-flash"), 1, "set GEMINI_API_KEY or GOOGLE_API_KEY in the environment"),
            (("Hi", "--model", "nonsense"), 1, "provider:name"),
            (("Hi", "--model", "sonnet"), 1, "'sonnet' may be one of anthropic:claude-sonnet-"),
            (
                ("Hi", "--model", "antropic:claude-haiku-4-5"),
                1,
                "there is no provider 'antropic'; did you mean anthropic:claude-haiku-4-5? Models are named",
            ),
            (("Hi", "--model", "claude-sonet-5-5"), 1, "no model is named 'claude-sonet-5-5'; did you mean anthropic:"),
            (("Hi", "--model", "anthropic:"), 1, "'anthropic:' names no model"),
            (("Hi", "--model", ":", "--simulate"), 1, "':' names no model"),
            (("Hi", "--agent", "reviewer"), 1, "there is no agent 'reviewer'; none is configured"),
            (("Hi", "--workspace", "nowhere"), 1, "nowhere cannot be worked in (No such file or directory)"),
            (("Hi", "--script", "x.yaml"), 2, "--script belongs to --simulate"),
            (("Hi", "--resume", "a", "--fork", "b"), 2, "--resume and --fork are two things to do"),
            (("Hi", "--simulate", "--script", "missing.yaml"), 1, "missing.yaml` cannot be read"),
        ],
    )
    def test_they_say_what_to_do(self, chat: Chatting, arguments: tuple[str, ...], code: int, said: str) -> None:
        done = chat(*arguments, simulate=False)
        assert done.code == code
        assert said in done.err
        assert done.out == ""
        assert chat.logs == []

    def test_a_server_that_cannot_be_started_is_told_and_not_in_the_way(self, chat: Chatting) -> None:
        chat.home.mkdir(parents=True)
        (chat.home / "holdfast.toml").write_text('[mcp.servers.lost]\ncommand = "no-such-program-here"\n')
        done = chat("Hello")
        assert (done.code, done.out) == (0, "Hello\n")
        assert "MCP server lost is not connected" in done.err

    def test_a_server_that_was_not_approved_is_named(self, chat: Chatting) -> None:
        (chat.workspace / ".mcp.json").write_text('{"mcpServers": {"theirs": {"command": "no-such-program-here"}}}')
        done = chat("Hello")
        assert done.out == "Hello\n"
        assert "holdfast mcp --approve theirs" in done.err

    def test_a_list_of_servers_that_cannot_be_read_is_told(self, chat: Chatting) -> None:
        (chat.workspace / ".mcp.json").write_text("{")
        assert "this is not valid JSON" in chat("Hello").err

    def test_a_store_that_cannot_be_opened_is_told_and_not_in_the_way(
        self, chat: Chatting, served: Simulator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOLDFAST_STORE_URL", f"sqlite:///{chat.root}")
        done = chat("Hello", simulate=False)
        assert (done.code, done.out) == (0, "Hello\n")
        assert "going on in memory" in done.err


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulator]:
    """A provider on this machine that the configuration leads to."""
    simulator = Simulator()
    with running(simulator) as address:
        monkeypatch.setenv("HOLDFAST_UPSTREAM_ANTHROPIC", address)
        monkeypatch.setenv("HOLDFAST_AGENT_MODEL", "anthropic:claude-haiku-4-5")
        yield simulator


class TestBookkeeping:
    def told(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
        assert main(arguments) == 0
        return capsys.readouterr().out

    def test_other_commands_show_what_was_said_here(
        self, chat: Chatting, served: Simulator, capsys: pytest.CaptureFixture[str]
    ) -> None:
        done = chat("Hello", simulate=False)
        assert (done.code, done.out) == (0, "Hello\n")
        assert done.session[:10] in self.told(capsys, "sessions")
        assert "1 call" in self.told(capsys, "show", done.session)
        assert "claude-haiku-4-5" in self.told(capsys, "bill", "--by", "model")

    def test_what_the_provider_forgot_is_a_break_with_its_price(self, chat: Chatting, served: Simulator) -> None:
        (chat.workspace / "AGENTS.md").write_text("A rule that every agent has to know. " * 600)
        chat(input="One\n/cost\nTwo", simulate=False)
        served.reset()
        done = chat("--resume", input="Three\n/cache", simulate=False)
        assert re.search(r"^Break at \d\d:\d\d:\d\d: \w+, [\d,]+ tokens, \$0\.\d+", done.out, re.M)
        assert "1 break, see /cache" in done.err

    def test_what_is_simulated_is_on_no_bill(self, chat: Chatting, capsys: pytest.CaptureFixture[str]) -> None:
        chat("Hello")
        assert "Nothing is stored yet" in self.told(capsys, "sessions")

    def test_a_model_without_a_key_is_not_changed_to(self, chat: Chatting, served: Simulator) -> None:
        done = chat(input="/model openai:gpt-5.2\nHello", simulate=False)
        assert (done.code, done.out) == (1, "Hello\n")
        assert "there is no key for openai; set OPENAI_API_KEY" in done.err
        assert "anthropic:claude-haiku-4-5 · 1 call" in done.err

    def test_settings_of_an_agent_count(self, chat: Chatting, served: Simulator) -> None:
        (chat.workspace / "holdfast.toml").write_text(
            '[agents.reviewer.agent]\nmodel = "anthropic:claude-sonnet-4-6"\n'
        )
        done = chat("Hello", "--agent", "reviewer", simulate=False)
        assert "claude-haiku-4-5" in done.err  # the variable wins over the file, for every agent
        assert "there are reviewer" in chat("Hello", "--agent", "riviewer", simulate=False).err


class TestScreens:
    @pytest.mark.usefixtures("capsys")
    def test_a_pipe_gets_plain_lines(self) -> None:
        assert isinstance(chat_module.screen_here(), PlainScreen)

    @pytest.mark.parametrize(("term", "plain"), [("xterm", False), ("dumb", True), ("", True)])
    def test_a_terminal_gets_what_it_understands(self, monkeypatch: pytest.MonkeyPatch, term: str, plain: bool) -> None:
        monkeypatch.setattr(sys, "stdout", Terminal())
        monkeypatch.setenv("TERM", term)
        assert isinstance(chat_module.screen_here(), PlainScreen) is plain

    def test_without_the_library_it_is_plain_and_says_so(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys, "stdout", Terminal())
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setitem(sys.modules, "holdfast.cli.chat.terminal", None)
        assert isinstance(chat_module.screen_here(), PlainScreen)
        assert "pip install 'holdfast[agent]'" in capsys.readouterr().err


@pytest.mark.slow
class TestPrograms:
    def program(self, chat: Chatting, *arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "holdfast", "chat", "--simulate", "--script", str(chat.script), *arguments],
            capture_output=True,
            text=True,
            check=False,
            **more,  # type: ignore[call-overload]
        )

    def test_a_directory_that_is_gone_is_said(self, chat: Chatting) -> None:
        gone = chat.root / "gone"
        gone.mkdir()
        command = [sys.executable, "-c", f"import os; os.rmdir({str(gone)!r}); from holdfast.cli import main; main()"]
        done = subprocess.run([*command, "chat", "Hi"], cwd=gone, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert "the current directory no longer exists" in done.stderr

    def test_a_closed_input_is_nothing_to_say(self, chat: Chatting) -> None:
        done = self.program(chat, stdin=subprocess.DEVNULL)
        assert done.returncode == 2
        assert "there is nothing to say" in done.stderr

    def test_a_terminal_without_the_characters_gets_their_numbers(self, chat: Chatting) -> None:
        environ = {**chat.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
        done = self.program(chat, "caf\xe9 \U0001f600", env=environ, encoding="utf-8")
        assert done.returncode == 0, done.stderr
        assert done.stdout == "caf\\xe9 \\U0001f600\n"

    def test_who_stops_reading_ends_it_and_the_session_goes_on(self, chat: Chatting) -> None:
        command = [sys.executable, "-m", "holdfast", "chat", "--simulate", "--script", str(chat.script), "TALK-ON"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as run:
            assert run.stdout.read(4) == b"This"
            run.stdout.close()
            said = run.stderr.read().decode()
        assert run.returncode == 1, said
        assert "Traceback" not in said
        assert chat("--resume", input="/cost").code == 0


FINDING = """
rules:
  - when: {tool_result: discover_tools}
    say: Found.
  - when: {contains: FIND-ONE}
    call: {tool: discover_tools, input: {query: "search the text of files for a pattern", limit: 1}}
  - when: {contains: FIND-TWO}
    call: {tool: discover_tools, input: {query: "select:grep_files,list_dir"}}
  - when: {contains: FIND-NONE}
    call: {tool: discover_tools, input: {query: "select:no_such_tool"}}
"""


class TestFindingTools:
    """What discover_tools found is told by name, whatever the model reads: a reference, an item behind it, schemas."""

    @pytest.mark.parametrize(
        "model",
        ["anthropic:claude-opus-4-6", "anthropic:claude-haiku-5-5", "openai:gpt-6.1-sol", "gemini:gemini-2.5-pro"],
    )
    @pytest.mark.parametrize("carrier", ["auto", "redeclare"])
    def test_a_user_sees_the_names_of_what_was_found(self, chat: Chatting, model: str, carrier: str) -> None:
        chat.home.mkdir(parents=True)
        (chat.home / "holdfast.toml").write_text(
            f'[tools.deferral]\nalways = ["grep_files"]\ncarrier = "{carrier}"\n', "utf-8"
        )
        chat.script.write_text(FINDING, "utf-8")
        done = chat("--model", model, "FIND-ONE")
        assert (done.code, done.out) == (0, "Found.\n")
        assert re.search(r"^\* discover_tools .*: found grep_files$", done.err, re.M), done.err
        done = chat("--model", model, "FIND-TWO")
        assert re.search(r"^\* discover_tools .*: found grep_files, list_dir$", done.err, re.M), done.err
        done = chat("--model", model, "FIND-NONE")
        assert re.search(r"^\* discover_tools .*: There is no tool named no_such_tool", done.err, re.M), done.err
