"""opencode's database is read without being changed; what cannot be read is named and the rest goes on."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from holdfast.report.logs.opencode import is_mine, reading
from holdfast.report.logs.records import BrokenSource, LoggedRequest
from tests.report.logs.claude_logs import START, text
from tests.report.logs.log_records import counts, given, is_read_without_being_held, split
from tests.report.logs.opencode_logs import Base, Store, Tree, start, talk, used

# The database of somebody else


def test_a_database_that_is_at_rest_is_left_as_it_is(tmp_path: Path) -> None:
    base = Base(tmp_path / "opencode.db")
    base.connection.execute("PRAGMA journal_mode = WAL")
    talk(base)
    path = base.save()
    assert [each.name for each in tmp_path.iterdir()] == ["opencode.db"]
    before = path.read_bytes()
    assert is_mine(path, start(path))
    assert len(given(reading(), path)) == 2
    assert [each.name for each in tmp_path.iterdir()] == ["opencode.db"]
    assert path.read_bytes() == before


def test_a_database_in_use_is_read_with_what_is_not_yet_in_its_file(tmp_path: Path) -> None:
    base = Base(tmp_path / "opencode.db")
    base.connection.execute("PRAGMA journal_mode = WAL")
    base.connection.execute("PRAGMA wal_autocheckpoint = 0")
    talk(base)
    base.connection.commit()
    logged = base.path.with_name("opencode.db-wal")
    before = base.path.read_bytes(), logged.read_bytes()
    told: list[int] = []
    records = reading()(base.path, told.append)
    first = next(iter(records))
    assert isinstance(first, LoggedRequest)
    base.answers("ses_000001", START + 90, used(7))  # nobody waits for the reader
    base.connection.commit()
    assert len(split(records)[0]) == 1  # and it goes on with what was there
    assert is_mine(base.path, start(base.path))
    assert sum(told) == len(before[0])
    assert base.path.read_bytes() == before[0]
    assert logged.read_bytes().startswith(before[1])
    base.connection.close()


def test_other_databases_are_not_taken_for_it(tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.executescript("CREATE TABLE session (id); CREATE TABLE message (id); CREATE TABLE part (id);")
    connection.close()
    torn = tmp_path / "torn.db"
    torn.write_bytes(b"SQLite format 3\0" + b"\x07" * 5000)
    text_file = tmp_path / "text.db"
    text_file.write_text("{}")
    for path in (other, torn, text_file):
        assert not is_mine(path, start(path))
    assert not is_mine(tmp_path, b"")
    (tmp_path / "storage" / "message" / "drafts").mkdir(parents=True)
    assert not is_mine(tmp_path / "storage", b"")


# What is broken


BROKEN = {
    '{"role":"assistant","tok': "not JSON",
    "[]": "Expected `object`, got `array`",
    '{"role":7}': "Expected `str`, got `int` - at `$.role`",
    '{"role":"assistant","tokens":[]}': "Expected `object`, got `array`",
    '{"role":"assistant","tokens":{"output":-1}}': "`int` >= 0 - at `$.output`",
    '{"role":"assistant","tokens":{"input":"12"}}': "Expected `int`, got `str`",
    '{"role":"assistant","tokens":{"cache":{"read":1.5}}}': "Expected `int`",
    '{"role":"assistant","tokens":' + "[" * 5000 + "]" * 5000 + "}": "",
}


def test_what_cannot_be_read_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    base = Base(tmp_path / "opencode.db")
    session = base.session()
    for number, row in enumerate(BROKEN):
        base.add("message", f"msg_bad{number}", session, 1_000 * (START + number), 0, row)
        base.answers(session, START + number + 0.5, used(100 + number))
    base.add("message", "msg_blob", session, 1_000 * (START + 90), 0, b'{"role":"assistant","modelID":"\xff\xfe"}')
    base.add("message", "msg_when", session, "soon", 0, "{}")
    base.answers(session, START + 95, used(500))
    found, broken = split(reading()(base.save(), lambda _: None))
    assert counts(found) == [(100 + number, 0, 0, 0) for number in range(len(BROKEN))] + [(500, 0, 0, 0)]
    names = [f"opencode.db:msg_bad{number}" for number in range(len(BROKEN))]
    assert [each.source for each in broken[:-2]] == names
    assert all(why in each.why for each, why in zip(broken, BROKEN.values(), strict=False))
    assert broken[-2:] == [
        BrokenSource("opencode.db:msg_blob", "not UTF-8"),
        BrokenSource("opencode.db:msg_when", "`time_created` is no number"),
    ]


def test_files_that_cannot_be_read_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    tree = Tree(tmp_path / "storage")
    session = talk(tree)
    for number, row in enumerate(BROKEN):
        (tree.path / "message" / session / f"msg_9{number}.json").write_text(row, "utf-8")
    (tree.path / "session" / "global" / "ses_bad.json").write_text("[]", "utf-8")
    (tree.path / "part" / "msg_000004" / "prt_0.json").write_text("no part", "utf-8")
    (tree.path / "message" / session / "msg_8.json").mkdir()
    later = tree.answers(session, START + 50, used(7))
    found, broken = split(reading()(tree.path, lambda _: None))
    assert [each.source.rpartition("/")[2] for each in found][-1] == f"{later}.json"
    assert len(found) == 3
    assert broken[0] == BrokenSource("session/global/ses_bad.json", "not a session (Expected `object`, got `array`)")
    assert {each.source for each in broken[1:]} == {
        f"message/{session}/msg_8.json",
        *(f"message/{session}/msg_9{number}.json" for number in range(len(BROKEN))),
    }


@pytest.mark.parametrize("keep", [100, 4096, 9000, 20_000, -4096])
def test_a_database_that_is_cut_is_named(tmp_path: Path, keep: int) -> None:
    base = Base(tmp_path / "opencode.db")
    for number in range(20):
        base.answers(base.session(START + number), START + 100, used(100 + number))
    path = base.save()
    path.write_bytes(path.read_bytes()[:keep])
    found, broken = split(reading()(path, lambda _: None))
    assert len(found) < 20
    assert broken
    assert all("cannot be read" in each.why for each in broken)


def test_a_database_that_is_not_there_is_named(tmp_path: Path) -> None:
    (broken,) = reading()(tmp_path / "opencode.db", lambda _: None)
    assert broken == BrokenSource("opencode.db", "cannot be read (No such file or directory)")
    assert not list(tmp_path.iterdir())


def test_memory_does_not_grow_with_the_sessions(opencode: Store) -> None:
    session = opencode.session()
    for number in range(150):
        message = opencode.answers(session, START + 10 * number, used(100 + number))
        opencode.part(session, message, START + 10 * number, {"type": "text", "text": text(80_000)})
    path = opencode.save()
    size = 150 * 80_000
    is_read_without_being_held(reading, path, 150, size // 3)
