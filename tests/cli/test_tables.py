"""Tables and figures as a terminal shows them."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from holdfast.cli import tables
from holdfast.cli.store_options import print_json
from holdfast.cli.tables import Column, cost, cut, dollars, printable, short_ids, table, wrapped
from tests.cli.commands import clean
from tests.skills.skill_files import write_skill


class Said(msgspec.Struct):
    text: str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0", "$0.00"),
        ("0.00000001", "<$0.0001"),
        ("0.00005", "$0.0001"),
        ("0.0123", "$0.0123"),
        ("1", "$1.00"),
        ("1234567.891", "$1,234,567.89"),
        ("-0.5", "-$0.5000"),
        ("-0.00000001", "-<$0.0001"),
    ],
)
def test_dollars(value: str, text: str) -> None:
    assert dollars(Decimal(value)) == text


def test_dollars_with_a_sign_and_without_a_price() -> None:
    assert [dollars(Decimal(each), signed=True) for each in ("0.5", "-0.5", "0")] == ["+$0.5000", "-$0.5000", "$0.00"]
    assert dollars(None) == "unknown"
    assert [cost(None, 1), cost(None, 0), cost(Decimal(2), 1), cost(Decimal(2), 0)] == [
        "unknown",
        "-",
        "$2.00+",
        "$2.00",
    ]


def test_ids_are_as_long_as_it_takes_to_tell_them_apart() -> None:
    ids = ["01KA3ZJ9QW000000AA", "01KA3ZJ9QW000000AB", "5f0c7c1e-0000-4000", "s1", "s1"]
    short = short_ids(ids)
    assert list(short.values()) == ["01KA3ZJ9QW000000AA", "01KA3ZJ9QW000000AB", "5f0c7c1e-0", "s1"]
    assert short_ids(["session-1", "session-10", "session-1-and-more"])["session-1-and-more"] == "session-1-"


def test_the_year_is_shown_where_it_is_another() -> None:
    now = datetime.now(UTC)
    assert tables.day(datetime(2001, 2, 3, 12, tzinfo=UTC)).startswith("2001-02-03 ")
    assert tables.day(now) == now.astimezone().strftime("%m-%d %H:%M")


def test_columns_go_by_rank_and_text_is_cut_before_that() -> None:
    columns = [Column("A", 0, least=4), Column("B", 2, right=True), Column("C", 1)]
    rows = [("long enough", "1,000", "ccc"), ("short", "2", "-")]
    assert list(table(columns, rows, None))[1] == "long enough  1,000  ccc"
    assert list(table(columns, rows, 20))[1:3] == ["long en…  1,000  ccc", "short         2  -"]
    assert list(table(columns, rows, 12))[1] == "long e…  ccc"
    assert list(table(columns, rows, 1))[1] == "lon…", "one column is always shown"


def test_columns_that_say_nothing_go() -> None:
    columns = [Column("A", 0), Column("B", 1, always=False)]
    assert list(table(columns, [("a", "-"), ("a", "")], None)) == ["A", "a", "a"]
    assert list(table(columns, [("a", "-"), ("a", "b")], None)) == ["A  B", "a  -", "a  b"]
    assert list(table(columns, [], None)) == ["A"]


def test_wide_characters_and_accents_take_the_places_they_take() -> None:
    columns = [Column("A", 0), Column("B", 1)]
    lines = list(table(columns, [("漢字", "x"), ("e\u0301", "x"), ("abcd", "x")], None))
    assert lines[1:] == ["漢字  x", "e\u0301     x", "abcd  x"]
    assert cut("漢字漢字", 6) == "漢字…"
    assert cut("漢字漢字", 6, tail=True) == "…漢字"


def test_a_column_may_keep_the_end_of_its_cells() -> None:
    columns = [Column("A", 0), Column("B", 1, least=4, tail=True)]
    assert list(table(columns, [("a", "one/two/three")], 10))[1] == "a  …/three"


@pytest.mark.parametrize(("encoding", "mark"), [("utf-8", "…"), ("latin-1", "..."), ("ascii", "..."), ("cp1252", "…")])
def test_a_cut_is_marked_as_the_terminal_can_show_it(encoding: str, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert cut("abcdefgh", 6) == f"{'abcdefgh'[: 6 - len(mark)]}{mark}"
    assert cut("abcdefgh", 6, tail=True).startswith(mark)
    assert len(cut("abcdefgh", 2)) == 2
    assert tables.uncut(cut("abcdefgh", 6)) == "abcdefgh"[: 6 - len(mark)]


def test_a_terminal_of_another_alphabet_gets_its_table(tmp_path: Path) -> None:
    write_skill(tmp_path / ".holdfast" / "skills", "pdf", description="Words of a description. " * 10)
    ours, theirs = os.openpty()
    environment = {**clean(tmp_path), "PYTHONIOENCODING": "latin-1", "COLUMNS": "80"}
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "holdfast", "skills", "list"],
                cwd=tmp_path,
                env=environment,
                stdout=theirs,
                stderr=subprocess.PIPE,
                check=False,
            )
            said = terminal.read(4_096)
        finally:
            os.close(theirs)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"Words of a desc" in said
    assert b"...  .holdfast/skills/pdf" in said


def test_text_of_clients_stays_on_its_line_and_in_its_alphabet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printable("a\x1b[31m\r\nb\u202ec\x7f") == "a?[31m??b?c?"
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert printable("é…") == "\\xe9\\u2026"


def test_paragraphs_fit_and_are_one_line_in_a_pipe() -> None:
    text = "word " * 30 + "x" * 50
    assert max(map(len, wrapped(text, 40, indent="    "))) <= 40
    assert len(wrapped(text, None)) == 1


def test_json_is_ascii_and_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    said = Said("Jürgen 🙂 \x7f\x9b\x1b\u202e")
    print_json(said)
    text = capsys.readouterr().out
    assert text.isascii()
    assert text.replace("\n", "").isprintable()
    assert json.loads(text) == {"text": said.text}
