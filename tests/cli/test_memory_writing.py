"""`holdfast memory add`, `edit`, `forget`, `restore`, `history`: what is changed, and what is refused."""

from __future__ import annotations

import io
import json
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from holdfast.cli.memory import command, edit, texts
from holdfast.memory.knowledge import Knowledge
from holdfast.store import open_store
from tests.cli.commands import clean, holdfast, invoke, piped, refused, run, shell, shown
from tests.cli.knowledge import database, entries, entry, remember
from tests.cli.terminals import Program

Editor = Callable[[str], None]
pytestmark = pytest.mark.usefixtures("utc")


class TestAdd:
    def test_an_entry_belongs_to_the_project_unless_it_holds_everywhere(self, workspace: Path) -> None:
        out = piped(command, "add", "Tests", "make test", "--category", "Pattern", "--confidence", "0.5")
        made = entry(workspace, out.split()[1].rstrip(":"))
        assert (made.title, made.content, made.category, made.confidence) == ("Tests", "make test", "pattern", 0.5)
        assert (made.project, made.source) == (str(workspace.resolve()), "user")
        told = json.loads(piped(command, "add", "Brief", "Yes.", "--everywhere", "--source", "a friend", "--json"))
        assert (told["project"], told["source"], told["category"]) == (None, "a friend", "decision")
        told = json.loads(piped(command, "add", "Named", "Yes.", "--project", "org/repo", "--json"))
        assert told["project"] == "org/repo"

    @pytest.mark.parametrize(("placement", "when"), [("deltas", "from now on"), ("blocks", "within the hour")])
    def test_it_says_when_new_sessions_have_a_preference(
        self, placement: str, when: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOLDFAST_MEMORY_PLACEMENT", placement)
        out = piped(command, "add", "Brief", "Yes.", "--category", "preference", "--everywhere")
        assert f"(preference, everywhere; new sessions have it {when})" in out

    def test_the_text_comes_from_standard_input(self, workspace: Path) -> None:
        for arguments in (["add", "One", "-"], ["add", "Two"]):
            done = CliRunner().invoke(command, arguments, input="From a pipe.\r\nTwo lines.\n")
            assert done.exit_code == 0, done.output
        assert {each.content for each in entries(workspace)} == {"From a pipe.\nTwo lines."}

    def test_what_cannot_be_stored_is_refused_in_one_sentence(
        self, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert "8000" in refused("memory", "add", "Long", "x" * 1_000_000).replace(",", "")
        assert "title" in refused("memory", "add", "x" * 500, "y")
        assert "title" in refused("memory", "add", "\x1b", "y")
        assert "no text" in refused("memory", "add", "x", " \n")
        assert "category" in refused("memory", "add", "x", "y", "--category", "a\x1b[31mb")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\xff")))
        assert "standard input is not UTF-8 (byte 1)" in refused("memory", "add", "x", "-")
        assert not database(workspace).exists() or entries(workspace) == []

    def test_what_is_known_already_is_not_added_again(self, workspace: Path) -> None:
        id_ = remember(workspace, "Tests", "make test")
        said = refused("memory", "add", "tests", "Make test.", "--category", "pattern")
        assert f"{id_} says this already" in said
        assert f"holdfast memory edit {id_}" in said
        piped(command, "add", "Tests", "make test", "--project", "other")
        assert len(entries(workspace)) == 2

    def test_bytes_that_are_no_text_are_no_traceback(self, workspace: Path) -> None:
        done = shell(r"holdfast memory add $'a\xffb' $'c\xffd' --project $'\xff'", workspace)
        assert done.returncode in (0, 1)
        assert "Traceback" not in done.stderr

    def test_control_characters_never_reach_the_terminal(self) -> None:
        done = CliRunner().invoke(command, ["add", "Col\x1b[31mour", "Be\x07ll"])
        said = done.output + str(done.exception)
        assert "\x1b" not in said
        assert "\x07" not in said
        for line in shown(command, "list", columns=80):
            assert line.isprintable()


@pytest.fixture
def editor(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Somebody at a terminal, whose editor is a piece of Python that changes `text`."""
    monkeypatch.setattr(edit, "can_edit", lambda: True)
    monkeypatch.setenv("TMPDIR", str(workspace / "tmp"))
    monkeypatch.setattr(texts.tempfile, "tempdir", None)
    (workspace / "tmp").mkdir()
    monkeypatch.delenv("VISUAL", raising=False)

    def use(change: str) -> None:
        script = workspace / "editor.py"
        script.write_text(
            "import sys, pathlib\n"
            "path = pathlib.Path(sys.argv[-1])\n"
            "text = path.read_text(encoding='utf-8')\n"
            f"{change}\n"
            "path.write_text(text, encoding='utf-8')\n"
        )
        monkeypatch.setenv("EDITOR", f"'{sys.executable}' '{script}'")

    return use


def kept(workspace: Path) -> list[Path]:
    return list((workspace / "tmp").iterdir())


class TestEditor:
    def test_a_new_entry_is_written_in_it(self, workspace: Path, editor: Editor) -> None:
        editor("text = 'Written in an editor.'")
        piped(command, "add", "Title")
        assert [each.content for each in entries(workspace)] == ["Written in an editor."]
        assert kept(workspace) == []

    def test_it_opens_with_a_comment_that_is_taken_out(self, workspace: Path, editor: Editor) -> None:
        editor("assert 'This comment is taken out' in text; text = '# Own heading' + text")
        piped(command, "add", "Title")
        assert [each.content for each in entries(workspace)] == ["# Own heading"]
        editor("text = 'x' * 9000 + text")
        refused("memory", "add", "Long")
        [file] = kept(workspace)
        done = CliRunner().invoke(command, ["add", "Short", "-"], input=file.read_text().replace("x" * 8990, ""))
        assert (done.exit_code, entries(workspace)[0].content) == (0, "x" * 10)

    def test_nothing_written_is_nothing_added(self, workspace: Path, editor: Editor) -> None:
        editor("pass")
        assert "no text" in refused("memory", "add", "Title")
        assert kept(workspace) == []

    def test_an_entry_is_edited_as_markdown(self, workspace: Path, editor: Editor) -> None:
        id_ = remember(workspace, "Old title", "Old text.\n\n## A heading of its own", category="gotcha")
        editor(
            "text = text.replace('Old', 'New').replace('gotcha', 'pattern')"
            ".replace('confidence: 1.0', 'confidence: 0.5')"
        )
        out = piped(command, "edit", id_)
        made = entry(workspace, id_)
        assert (made.title, made.content) == ("New title", "New text.\n\n## A heading of its own")
        assert (made.category, made.confidence, made.revision) == ("pattern", 0.5, 2)
        assert made.project == str(workspace.resolve())
        assert "- title: Old title" in out
        assert kept(workspace) == []

    def test_whoever_edits_is_the_source_unless_the_text_names_another(self, workspace: Path, editor: Editor) -> None:
        id_ = remember(workspace, "Title", source="an agent")
        editor("text = text.replace('Some', 'Any')")
        piped(command, "edit", id_, "--source", "a friend")
        assert entry(workspace, id_).source == "a friend"
        editor("text = text.replace('Any', 'Some').replace('a friend', 'a colleague')")
        piped(command, "edit", id_)
        assert entry(workspace, id_).source == "a colleague"

    def test_it_can_be_moved_to_every_project(self, workspace: Path, editor: Editor) -> None:
        id_ = remember(workspace, "Title")
        editor(
            "text = '\\n'.join('- project: everywhere' if l.startswith('- project') else l for l in text.split('\\n'))"
        )
        piped(command, "edit", id_)
        assert entry(workspace, id_).project is None

    @pytest.mark.parametrize("change", ["pass", "text += '  \\n\\n'", "text = text.replace('\\n- id', '\\n* ID')"])
    def test_left_as_it_was_nothing_is_changed(self, workspace: Path, editor: Editor, change: str) -> None:
        id_ = remember(workspace, "Title")
        editor(change)
        assert "Nothing was changed" in piped(command, "edit", id_)
        assert (entry(workspace, id_).revision, kept(workspace)) == (1, [])

    @pytest.mark.parametrize(
        "change",
        [
            "text = text.replace('confidence: 1.0', 'confidence: many')",
            "text = text.replace('Some text.', 'x' * 9000)",
            "text = 'nothing that was meant'",
            "text = text + '\\n## Another\\n\\nText.\\n'",
            "path.write_bytes(b'\\xff'); raise SystemExit(0)",
        ],
    )
    def test_what_is_refused_is_not_lost(self, workspace: Path, editor: Editor, change: str) -> None:
        id_ = remember(workspace, "Title")
        editor(change)
        said = refused("memory", "edit", id_)
        [file] = kept(workspace)
        assert f"your text is kept in {file}" in said
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert entry(workspace, id_).revision == 1

    def test_what_was_kept_can_be_mended_and_imported(self, workspace: Path, editor: Editor) -> None:
        id_ = remember(workspace, "Title")
        editor("text = text.replace('Some text.', 'Better.').replace('confidence: 1.0', 'confidence: many')")
        refused("memory", "edit", id_)
        [file] = kept(workspace)
        file.write_text(file.read_text().replace("many", "0.25"))
        piped(command, "import", str(file))
        assert (entry(workspace, id_).content, entry(workspace, id_).confidence) == ("Better.", 0.25)

    def test_an_entry_that_was_changed_meanwhile_is_not_overwritten(self, workspace: Path, editor: Editor) -> None:
        id_ = remember(workspace, "Title")
        other = f"'{sys.executable}', '-m', 'holdfast', 'memory', 'edit', '{id_}', '--content', 'Theirs.'"
        editor(f"import subprocess; subprocess.run([{other}], check=True); text = text.replace('Some', 'My')")
        said = refused("memory", "edit", id_)
        assert "revision 2" in said
        assert "your text is kept in" in said
        assert entry(workspace, id_).content == "Theirs."

    def test_an_editor_that_fails_or_is_not_there(
        self, workspace: Path, editor: Editor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        id_ = remember(workspace, "Title")
        editor("raise SystemExit(3)")
        assert "ended with 3; nothing was changed" in refused("memory", "edit", id_)
        monkeypatch.setenv("EDITOR", "no-such-editor --wait")
        assert "'no-such-editor --wait' cannot be started" in refused("memory", "edit", id_)
        monkeypatch.setenv("EDITOR", "'unbalanced")
        assert "cannot be started" in refused("memory", "edit", id_)
        assert kept(workspace) == []

    @pytest.mark.parametrize("left", ["", "path.mkdir();"])
    def test_an_editor_that_takes_its_file_away(self, workspace: Path, editor: Editor, left: str) -> None:
        id_ = remember(workspace, "Title")
        editor(f"path.unlink(); {left} raise SystemExit(0)")
        assert "cannot be read" in refused("memory", "edit", id_)
        assert entry(workspace, id_).revision == 1

    @pytest.mark.slow
    @pytest.mark.usefixtures("interruptible")
    def test_ctrl_c_belongs_to_the_editor(self, workspace: Path) -> None:
        calm = workspace / "calm.sh"
        calm.write_text(
            'trap \'asked=1\' INT\necho ready\nwhile [ -z "$asked" ]; do sleep 0.05; done\necho Saved. > "$1"\n'
        )
        hasty = workspace / "hasty.sh"
        hasty.write_text('echo half > "$1"\necho ready\nexec sleep 60\n')
        environ = clean(workspace) | {"TERM": "xterm", "TMPDIR": str(workspace)}
        with Program("memory", "add", "Calm", cwd=workspace, environ=environ | {"EDITOR": f"sh {calm}"}) as program:
            program.until("ready")
            program.press_ctrl_c()
            assert program.ended() == 0
        with Program("memory", "add", "Hasty", cwd=workspace, environ=environ | {"EDITOR": f"sh {hasty}"}) as program:
            program.until("ready")
            program.press_ctrl_c()
            assert program.ended() == 1
            assert "was ended by signal 2; nothing was changed" in program.text.replace("\n", "")
            assert "your text is kept in" in program.text.replace("\n", "")
            assert "Traceback" not in program.text
        listed = holdfast("memory", "list", cwd=workspace)
        assert ("Calm" in listed.stdout, "Hasty" in listed.stdout) == (True, False)


class TestEdit:
    def test_options_change_what_they_name(self, workspace: Path) -> None:
        id_ = remember(workspace, "Title", "Text.", category="gotcha")
        out = piped(command, "edit", id_, "--content", "Another text.", "--confidence", "0.5")
        assert f"Changed {id_}, revision 2" in out
        assert "- Text." in out
        assert "+ Another text." in out
        made = entry(workspace, id_)
        assert (made.title, made.content, made.category, made.confidence) == ("Title", "Another text.", "gotcha", 0.5)
        assert json.loads(piped(command, "edit", id_, "--everywhere", "--json"))["project"] is None
        assert json.loads(piped(command, "edit", id_, "--project", "p", "--json"))["project"] == "p"
        done = CliRunner().invoke(command, ["edit", id_, "--content", "-"], input="From a pipe.")
        assert (done.exit_code, entry(workspace, id_).content) == (0, "From a pipe.")

    def test_what_cannot_be_is_refused(self, workspace: Path) -> None:
        id_ = remember(workspace, "Title", "Text.")
        assert f"Nothing was changed in {id_}." in piped(command, "edit", id_, "--content", "Text.")
        assert "there is no entry" in refused("memory", "edit", "k0000000", "--title", "x")
        assert "there is no entry" in refused("memory", "edit", "\x1b]0;x\x07", "--title", "x")
        piped(command, "forget", id_, "--yes")
        assert "is forgotten" in refused("memory", "edit", id_, "--title", "x")
        assert invoke(command, "edit", id_, "--everywhere", "--project", "p").exit_code == 2

    def test_without_a_terminal_it_wants_options(self, workspace: Path) -> None:
        done = invoke(command, "edit", remember(workspace, "Title"))
        assert (done.exit_code, "no terminal" in done.output) == (2, True)


class TestForget:
    def test_it_asks_and_takes_no_for_an_answer(self, workspace: Path) -> None:
        id_ = remember(workspace, "Title")
        for answer, code in (("n\n", 1), ("", 1), ("y\n", 0)):
            assert entry(workspace, id_).forgotten_at is None
            done = CliRunner().invoke(command, ["forget", id_], input=answer)
            assert done.exit_code == code, answer
        assert entry(workspace, id_).forgotten_at is not None

    def test_nobody_to_ask_is_said(self, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        id_ = remember(workspace, "Title")
        with monkeypatch.context() as closed:
            closed.setattr(sys, "stdin", None)
            code, out, err = run("memory", "forget", id_)
        assert (code, out, "nobody answered" in err) == (1, "", True)
        done = shell(f"HOME=$PWD/home holdfast memory forget {id_} </dev/null", workspace)
        assert (done.returncode, done.stdout) == (1, "")
        assert "nobody answered; --yes does it without asking" in done.stderr

    def test_all_or_none(self, workspace: Path) -> None:
        one, two = remember(workspace, "One"), remember(workspace, "Two")
        assert "there is no entry" in refused("memory", "forget", one, "k0000000", "--yes")
        assert entry(workspace, one).forgotten_at is None
        assert "Forgot 2 entries" in piped(command, "forget", one, two, one, "--yes")
        assert "forgotten already" in refused("memory", "forget", one, "--yes")
        assert piped(command, "restore", one, one.upper()).count("Restored") == 1
        assert "Forgot 1 entry" in piped(command, "forget", one, one.upper(), "--yes")
        assert "Erased 1 entry" in piped(command, "forget", one, one.upper(), "--erase", "--yes")

    def test_of_very_many_some_are_named(self, workspace: Path) -> None:
        with open_store(database(workspace)) as store:
            known = Knowledge(store, "local")
            ids = [known.add(f"Entry {number}", "Text.").id for number in range(25)]
        done = CliRunner().invoke(command, ["forget", *ids], input="n\n")
        assert (done.output.count("Entry "), "and 5 more" in done.output) == (20, True)
        out = piped(command, "forget", *ids, "--yes")
        assert "Forgot 25 entries." in out
        assert not any(id_ in out for id_ in ids)
        assert "and 5 more are forgotten" in refused("memory", "forget", *ids, "--yes")

    def test_it_can_be_taken_back(self, workspace: Path) -> None:
        id_ = remember(workspace, "Title")
        piped(command, "forget", id_, "--yes")
        assert f"Restored {id_}: Title" in piped(command, "restore", id_)
        assert entry(workspace, id_).forgotten_at is None
        assert "not forgotten" in refused("memory", "restore", id_)

    def test_what_is_erased_is_gone(self, workspace: Path) -> None:
        one, two = remember(workspace, "One", "unrepeatable"), remember(workspace, "Two", "unrepeatable")
        piped(command, "forget", two, "--yes")
        assert "for good" in piped(command, "forget", one, two, "--erase", "--yes")
        for job in (["show", one], ["history", two], ["restore", one]):
            assert "there is no entry" in refused("memory", *job)
        assert entries(workspace) == []


def test_the_beginning_of_an_id_is_enough(workspace: Path) -> None:
    with open_store(database(workspace)) as store:
        for id_ in ("k4r00000", "k4r90000", "k4r91111"):
            Knowledge(store, "local").add(f"Entry {id_}", "Text.", id=id_)
        Knowledge(store, "other").add("Theirs", "Text.", id="k4r01111")
    assert "Entry k4r00000" in piped(command, "show", "K4RO")
    assert "Revision 1" in piped(command, "history", "k4r0")
    assert "k4r00000: " in piped(command, "why", "k4r0")
    assert "Changed k4r00000" in piped(command, "edit", "k4r0", "--confidence", "0.5")
    piped(command, "forget", "k4r0", "--yes")
    assert "Restored k4r00000" in piped(command, "restore", "k4r0")
    assert "fits more than one entry; there are k4r90000, k4r91111" in refused("memory", "show", "k4r9")
    assert "there is no entry 'k4'" in refused("memory", "show", "k4")
    assert "there is no entry 'k55'" in refused("memory", "show", "k55")


class TestHistory:
    def test_one_line_stands_without_its_place(self, workspace: Path) -> None:
        id_ = remember(workspace, "Title", "Before.")
        out = piped(command, "edit", id_, "--content", "After.")
        assert out.splitlines()[1:] == ["  - Before.", "  + After."]
        text = "\n".join(map(str, range(20)))
        piped(command, "edit", id_, "--content", text)
        assert "@@ -9" in piped(command, "edit", id_, "--content", text.replace("11", "eleven"))

    def test_every_change_with_its_lines(self, workspace: Path) -> None:
        id_ = remember(workspace, "Title", "One.\nTwo.\nThree.", source="an agent")
        piped(command, "edit", id_, "--content", "One.\n2.\nThree.", "--category", "gotcha")
        piped(command, "forget", id_, "--yes")
        piped(command, "restore", id_)
        lines = piped(command, "history", id_).splitlines()
        heads = [line.split()[2] for line in lines if line.startswith("Revision")]
        assert heads == ["added", "edited", "forgotten", "restored"]
        assert "by an agent" in lines[0]
        assert {"  - Two.", "  + 2.", "  - category: decision", "  + category: gotcha"} <= set(lines)
        told = json.loads(piped(command, "history", id_, "--json"))
        assert [each["operation"] for each in told["revisions"]] == ["add", "edit", "forget", "restore"]
        assert told["revisions"][0]["entry"]["content"] == "One.\nTwo.\nThree."

    def test_an_import_that_takes_it_back_has_restored_it(self, workspace: Path) -> None:
        id_ = remember(workspace, "Title")
        file = workspace / "notes.md"
        piped(command, "export", str(file))
        piped(command, "forget", id_, "--yes")
        piped(command, "import", str(file), "--force")
        last = piped(command, "history", id_).splitlines()[-1]
        assert (last.split()[2], last.endswith(" by import")) == ("restored", True)


@pytest.mark.slow
def test_two_processes_may_write_at_once(workspace: Path) -> None:
    environ = clean(workspace)
    arguments: list[Any] = [sys.executable, "-m", "holdfast", "memory", "add"]
    started = [
        subprocess.Popen(
            [*arguments, f"Entry {number}", "Text."], cwd=workspace, env=environ, stdout=subprocess.DEVNULL
        )
        for number in range(3)
    ]
    assert [each.wait(60) for each in started] == [0, 0, 0]
    listed = json.loads(holdfast("memory", "list", "--json", cwd=workspace).stdout)
    assert len(listed["entries"]) == 3
