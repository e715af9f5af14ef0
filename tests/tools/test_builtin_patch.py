"""patch_file: one exact piece, and the rest of the file byte for byte as it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.builtin.patch import patch
from holdfast.tools.contract import ToolExecutionError
from holdfast.tools.workspace import Workspace
from tests.tools.builtins import Session


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


def test_replaces_the_one_place(session: Session) -> None:
    path = session.root / "a.py"
    path.write_text("x = 1\ny = 2\nz = 3\n")
    path.chmod(0o640)
    output = session.does("patch_file", path="a.py", old="y = 2\n", new="y = 20\nw = 4\n")
    assert output.content == "Patched a.py: 1 replacement at line 2."
    assert output.files_modified == ("a.py",)
    assert path.read_text() == "x = 1\ny = 20\nw = 4\nz = 3\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_several_places_need_replace_all(session: Session) -> None:
    path = session.root / "a.py"
    path.write_text("a\nb\na\na\n")
    assert session.refuses("patch_file", path="a.py", old="a", new="c") == (
        "old occurs 3 times in a.py, at lines 1, 3, 4; take in more of the text around the one that is meant, or set "
        "replace_all."
    )
    assert path.read_text() == "a\nb\na\na\n"
    said = session.says("patch_file", path="a.py", old="a", new="c", replace_all=True)
    assert said == "Patched a.py: 3 replacements at lines 1, 3, 4."
    assert path.read_text() == "c\nb\nc\nc\n"


def test_what_is_not_there_is_told_with_the_nearest(session: Session) -> None:
    (session.root / "a.py").write_text("import os\n\ndef total(values):\n\treturn sum(values)\n")
    refused = session.refuses("patch_file", path="a.py", old="def totals(value):", new="x")
    assert refused == "old was not found in a.py. The nearest is line 3: def total(values):"
    refused = session.refuses("patch_file", path="a.py", old="def total(values):\n    return sum(values)", new="x")
    assert refused == "old was not found in a.py. It stands at line 3 with other white space; copy it exactly."
    refused = session.refuses("patch_file", path="a.py", old="0123456789" * 5, new="x")
    assert refused == "old was not found in a.py. Nothing in it is like it; read the file again."


def test_line_ends_of_the_file_are_kept(session: Session) -> None:
    path = session.root / "dos.txt"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    session.does("patch_file", path="dos.txt", old="one\ntwo\n", new="1\n2\n2.5\n")
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2.5\r\nthree\r\n"
    session.does("patch_file", path="dos.txt", old="three", new="3\n4")
    assert path.read_bytes() == b"\xef\xbb\xbf1\r\n2\r\n2.5\r\n3\r\n4\r\n"


def test_mixed_line_ends_stay_mixed(session: Session) -> None:
    path = session.root / "mixed.txt"
    path.write_bytes(b"a\nb\r\nc\nd\n")
    session.does("patch_file", path="mixed.txt", old="b\nc\n", new="B\nC\n")
    assert path.read_bytes() == b"a\nB\r\nC\r\nd\n"
    session.does("patch_file", path="mixed.txt", old="a\n", new="A\n")
    assert path.read_bytes() == b"A\nB\r\nC\r\nd\n"


def test_bytes_that_are_not_utf8_survive(session: Session) -> None:
    path = session.root / "latin.c"
    path.write_bytes(b"/* J\xfcrgen */\nint x;\n")
    session.does("patch_file", path="latin.c", old="int x;", new="int größe;")
    assert path.read_bytes() == b"/* J\xfcrgen */\n" + "int größe;\n".encode()


def test_what_cannot_be_patched_is_refused(session: Session) -> None:
    (session.root / "a").write_text("text")
    (session.root / "binary").write_bytes(b"a\0b")
    (session.root / "big").write_bytes(b"a" * (16 * 1024 * 1024 + 1))
    assert "same" in session.refuses("patch_file", path="a", old="t", new="t")
    assert "binary" in session.refuses("patch_file", path="binary", old="a", new="b")
    assert "16 MB" in session.refuses("patch_file", path="big", old="a", new="b")
    assert "surrogate" in session.refuses("patch_file", path="a", old="t", new="\udcff")
    assert "No such file" in session.refuses("patch_file", path="missing", old="t", new="b")
    assert "outside" in session.refuses("patch_file", path="../a", old="t", new="b")


def test_a_change_in_between_is_not_overwritten(session: Session) -> None:
    """Somebody saves the file after it was read and before it is written."""
    path = session.root / "a.txt"
    path.write_text("one\n")

    class Changing(Workspace):
        reads = 0

        def open_read(self, named: str, *, outside: bool = False):  # type: ignore[no-untyped-def]
            self.reads += 1
            if self.reads == 2:
                path.write_text("one\nsomebody else's\n")
            return super().open_read(named, outside=outside)

    session.workspace = Changing(session.root)
    assert "changed by somebody else" in session.refuses("patch_file", path="a.txt", old="one", new="1")
    assert path.read_text() == "one\nsomebody else's\n"


@given(
    st.text(alphabet="ab\n", max_size=30),
    st.text(alphabet="ab\n", min_size=1, max_size=3),
    st.text(alphabet="ab\n", max_size=3),
)
def test_does_what_replace_does(content: str, old: str, new: str) -> None:
    try:
        patched = patch(content, old, new, "f", everywhere=True)
    except ToolExecutionError:
        assert old not in content or old == new
        return
    assert patched.text == content.replace(old, new)
    assert len(patched.lines) == content.count(old)
    with_crlf = patch(content.replace("\n", "\r\n"), old, new, "f", everywhere=True)
    if "\n" in content:
        assert with_crlf.text == patched.text.replace("\n", "\r\n")
