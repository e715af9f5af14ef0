"""`holdfast skills usage`: the table, its JSON twin, windows, and where there is nothing to count."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast import cli
from holdfast.cli.skills import command
from holdfast.cli.skills.usage import COLUMNS, STORED
from holdfast.store import open_store
from holdfast.store import operations as op
from tests.cli.commands import invoke, piped, refused, shown, use
from tests.report.skill_sessions import HOUR, NOON, Session, worked
from tests.store.samples import call


@pytest.fixture(autouse=True)
def database(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = worked(workspace / "h.db")
    use(path, monkeypatch)
    return path


def test_a77_loads_by_reason_and_what_was_preloaded_for_nothing() -> None:
    title, pdf, forms, review, total, empty, share, never = piped(command, "usage").splitlines()
    assert title.split("  ")[0] == "SKILL"
    assert all(column.title in title for column in COLUMNS)
    assert pdf.split()[:7] == ["pdf", "3", "2", "1", "1", "3,600", "3"]
    assert forms.split()[:7] == ["forms", "1", "1", "0", "0", "1,200", "1"]
    assert review.split()[:7] == ["review", "2", "0", "-", "2", "600", "2"]
    assert total.split()[:7] == ["total", "6", "3", "1", "3", "5,400", "3"]
    assert empty == ""
    assert share == "Preloaded bodies: 3, of which the agent asked for 1 (33.3%)."
    assert never == "Preloaded and never asked for: forms."


def test_json_has_the_same_figures() -> None:
    found = json.loads(piped(command, "usage", "--json"))
    assert found["window"] == {"start": None, "end": None}
    assert [each["skill"] for each in found["skills"]] == ["pdf", "forms", "review"]
    assert found["total"]["loads"] == {"always": 3, "on_demand": 3}
    assert found["total"]["referenced_share"] == pytest.approx(1 / 3)
    assert found["never_referenced"] == ["forms"]


def test_the_window_selects() -> None:
    early = json.loads(piped(command, "usage", "--since", "2026-11-14T12:00", "--until", "2026-11-14T13:00", "--json"))
    assert early["total"]["loads"] == {"always": 2, "on_demand": 1}
    late = piped(command, "usage", "--since", "2026-11-14T14:00")
    assert late.splitlines()[-1] == "No body was preloaded: all were loaded because the agent asked."
    assert piped(command, "usage", "--until", "2026-11-13").startswith(
        "No skill was loaded in this window; a later --until shows more. "
    )
    assert "; an earlier --since shows more. " in piped(command, "usage", "--since", "2027-01-01")
    backwards = invoke(command, "usage", "--since", "2027-01-02", "--until", "2027-01-01")
    assert (backwards.exit_code, "--since is not before --until" in backwards.output) == (2, True)


def test_the_tenant_selects(database: Path) -> None:
    with open_store(database) as store:
        store.write(op.PutCall(call(tenant="caller"))).result()
    for given in ("t2", "t2…", "t2..."):  # it has events and no calls
        found = json.loads(piped(command, "usage", "--tenant", given, "--json"))
        assert (found["total"]["sessions"], found["total"]["referenced_share"]) == (1, None)
    assert piped(command, "usage", "--tenant", "call").startswith("No skill was loaded yet. ")
    assert refused("skills", "usage", "--tenant", "nobody") == (
        "holdfast: 'nobody' is no tenant that has calls or events; there are caller, t1, t2\n"
    )
    assert "'t' fits more than one tenant; there are t1, t2" in refused("skills", "usage", "--tenant", "t")


@pytest.mark.parametrize("columns", [20, 40, 60, 80])
def test_it_fits_the_terminal(database: Path, columns: int) -> None:
    with open_store(database) as store:
        Session(store, "s", at=NOON + HOUR).preload(*(f"a-skill-with-a-long-name-{number}" for number in range(9)))
        store.flush()
    lines = shown(command, "usage", columns=columns)
    assert [line for line in lines if len(line) > columns] == []
    if columns >= 60:
        assert "PRELOADED" in lines[0]
        assert "ON DEMAND" in lines[0]


def test_names_in_events_cannot_speak_to_the_terminal(database: Path) -> None:
    with open_store(database) as store:
        Session(store, "s").preload("evil\x1b[31m\nname")
        store.flush()
    for arguments in ([], ["--json"]):
        assert "\x1b" not in piped(command, "usage", *arguments)
    assert "evil?[31m?name" in piped(command, "usage")


def test_where_there_is_no_database_none_is_made(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(workspace / "none" / "h.db", monkeypatch)
    assert piped(command, "usage") == f"Nothing is stored yet in sqlite:///{workspace / 'none' / 'h.db'}. {STORED}\n"
    assert "holdfast serve" not in STORED
    found = json.loads(piped(command, "usage", "--json", "--tenant", "anyone"))
    assert (found["skills"], found["total"]["referenced_share"]) == ([], None)
    assert found["total"]["loads"] == {"always": 0, "on_demand": 0}
    assert not (workspace / "none").exists()


def test_a_database_without_skills(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(workspace / "empty.db").close()
    use(workspace / "empty.db", monkeypatch)
    assert piped(command, "usage") == f"No skill was loaded yet. {STORED}\n"


def test_it_works_while_somebody_writes(database: Path) -> None:
    with open_store(database) as store:
        Session(store, "at-work").load("fresh")
        store.flush()
        assert "fresh" in piped(command, "usage")


def test_a_store_that_is_no_database_is_one_sentence(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (workspace / "other.db").write_text("this is no database, only text" * 100)
    use(workspace / "other.db", monkeypatch)
    assert cli.run(["skills", "usage"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
