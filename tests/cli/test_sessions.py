"""`holdfast sessions`: the list, its JSON twin, windows, and where there is nothing to list."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from holdfast import cli
from holdfast.cli.sessions import COLUMNS, command
from holdfast.cli.store_options import Moment
from holdfast.store import open_store
from holdfast.store import operations as op
from tests.cli.commands import invoke, output, piped, shown, use
from tests.report.workday import CHAT, CODING, NEW
from tests.store.samples import call

pytestmark = pytest.mark.usefixtures("workday_store")

DAY = 86_400_000_000


def test_a_pipe_gets_a_line_for_each_session_with_everything() -> None:
    head, *rows = piped(command).splitlines()
    assert [title for title in head.split("  ") if title.strip()] != []
    assert all(column.title in head for column in COLUMNS)
    assert [row.split()[0] for row in rows[:4]] == [CODING[:10], NEW, CHAT, CODING[:10]]
    assert rows[-1] == "4 sessions. The price of 1 call is unknown. `holdfast show SESSION` shows one."
    assert "unknown" in rows[1]
    assert "$0.00" not in rows[1]


def test_numbers_stand_under_each_other() -> None:
    head, *rows = piped(command).splitlines()
    end = head.index("PROMPT") + len("PROMPT")
    assert all(row[end - 1].isdigit() and row[end] == " " for row in rows[:4])
    assert "170,752" in rows[0]


def test_json_has_the_same_sessions_with_exact_figures() -> None:
    found = json.loads(piped(command, "--json"))
    assert [each["id"] for each in found["sessions"]] == [CODING, NEW, CHAT, CODING]
    assert found["window"] == {"start": None, "end": None}
    assert found["sessions"][1]["cost"] is None
    assert found["sessions"][0]["started"] == "2027-01-15T19:09:16Z"


@pytest.mark.parametrize("json_", [False, True])
def test_what_a_client_calls_itself_cannot_speak_to_the_terminal(json_: bool) -> None:
    text = piped(command, *(["--json"] if json_ else []))
    assert "\x1b" not in text
    assert ("evil\\u001b[31m\\nagent" if json_ else "evil?[31m?agent") in text


@pytest.mark.parametrize("columns", [20, 40, 80, 100, 140, 300])
def test_the_table_fits_the_terminal_and_says_what_it_left_out(columns: int) -> None:
    lines = shown(command, columns=columns)
    assert max(map(len, lines)) <= columns
    text = " ".join(lines)
    missing = [column.title for column in COLUMNS if column.title not in lines[0]]
    assert all(title in text for title in missing)
    assert ("Left out" in text) is bool(missing)
    assert lines[1].startswith(CODING[:10]), "ids stay usable"


def test_the_window_and_the_tenant_select() -> None:
    assert CODING[:10] in piped(command, "--since", "2027-01-15", "--until", "2027-01-15")
    assert piped(command, "--until", "2027-01-14").startswith("No session has a call in this window")
    only = piped(command, "--tenant", "t-o", "--json")
    assert {each["tenant"] for each in json.loads(only)["sessions"]} == {"t-one"}
    assert "TENANT" not in piped(command, "--tenant", "t-one")
    assert "2 sessions, the newest; --limit shows more." in piped(command, "--limit", "2")
    refused = invoke(command, "--tenant", "x")
    assert str(refused.exception).startswith("'x' is no tenant that has calls")


def test_wrong_windows_are_refused() -> None:
    backwards = invoke(command, "--since", "2027-01-02", "--until", "2027-01-01")
    assert (backwards.exit_code, "--since is not before --until" in backwards.output) == (2, True)
    for text in ("yesterweek", "24x", "2026-13-40", "\x1b[2J"):
        refused = invoke(command, "--since", text)
        assert refused.exit_code == 2
        assert "is no time; write 30m, 24h, 7d" in refused.output
        assert "\x1b" not in refused.output


def test_times_as_people_write_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def at(text: str, *, end: bool = False) -> int:
        return Moment(end=end).convert(text, None, None)

    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        now = time.time() * 1_000_000
        assert abs(now - DAY - at("24h")) < 60_000_000
        assert abs(at("1d") - at("24h")) < 60_000_000
        assert at("999999999w") == 0
        assert abs(now - DAY * 3.5 - at("0.5W")) < 60_000_000
        assert at("2026-11-02") == 1_793_595_600_000_000  # midnight in New York
        assert at("2026-11-02", end=True) == at("2026-11-03")
        assert at("2026-11-01", end=True) - at("2026-11-01") == DAY + 3_600_000_000  # the clock goes back
        assert at("2026-11-02T10:00") == at("2026-11-02") + 36_000_000_000
        assert at("2026-11-02T05:00Z") == at("2026-11-02")
        assert at("today") <= now < at("today", end=True)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_where_there_is_no_database_none_is_made(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workspace / "none" / "h.db"
    use(path, monkeypatch)
    said = piped(command)
    assert said.startswith(f"Nothing is stored yet in sqlite:///{path}. `holdfast serve`")
    assert json.loads(piped(command, "--json", "--since", "7d"))["sessions"] == []
    assert not path.parent.exists()


def test_an_empty_database_has_no_sessions_yet(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(workspace / "h.db").close()
    use(workspace / "h.db", monkeypatch)
    assert piped(command) == "No session has a call yet.\n"


def test_it_works_while_somebody_writes(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(workspace / "h.db", monkeypatch)
    with open_store(workspace / "h.db") as store:
        store.write(op.PutCall(call(session="at-work"))).result()
        assert "at-work" in piped(command)
        store.write(op.PutCall(call(session="at-work"))).result()
        assert json.loads(piped(command, "--json"))["sessions"][0]["calls"] == 2


def test_it_is_a_command_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert "1 session, the newest" in output("sessions", "--limit", "1")
    assert cli.run(["sessions", "--tenant", "x"]) == 1
    assert capsys.readouterr().err.startswith("holdfast: 'x' is no tenant")
    assert "holdfast sessions --since 7d" in piped(command, "--help")
