"""read_file, write_file and list_dir on real files: pages, encodings, pictures, symlinks, and what is refused."""

from __future__ import annotations

import base64
import os
import re
import threading
import tracemalloc
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.config.sections.agent import OffloadSettings, ToolsSettings
from holdfast.facts.tokens import estimate
from holdfast.records import Image
from holdfast.tools.builtin import builtin_tools
from holdfast.tools.builtin.file_pages import FilePage, read_page
from holdfast.tools.contract import Cancel, ToolExecutionError
from tests.tools.builtins import Session, descriptors


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return Session(tmp_path)


def page(data: bytes, path: Path, **asked: int) -> FilePage:
    path.write_bytes(data)
    with path.open("rb") as file:
        return read_page(
            file,
            offset=asked.get("offset", 1),
            limit=asked.get("limit"),
            skip=asked.get("skip", 0),
            most=asked.get("most", 1000),
            check=lambda: None,
        )


def pages(session: Session, path: str, **first: int) -> str:
    """A whole file, read on and on as the notes say."""
    whole, asked = "", dict(first)
    for _ in range(200):
        said = session.says("read_file", path=path, **asked)
        text, _, note = said.rpartition("\n[") if said.endswith("]") and "\n[" in said else (said, "", "")
        on = re.search(r"Read on with offset=(\d+)(?:, start_char=(\d+))?\.", note)
        if on is None:
            return whole + (text + "\n" if note else text)
        asked = {**first, "offset": int(on[1]), "start_char": int(on[2] or 0)}
        whole += text if on[2] else text + "\n"
    raise AssertionError("the pages do not end")


class TestTheSet:
    def test_declares_itself_in_few_tokens(self) -> None:
        """Definitions are paid for on every turn."""
        tools = builtin_tools(ToolsSettings())
        texts = [f"{tool.name}{tool.description}{tool.input_schema.decode()}" for tool in tools]
        assert sum(map(estimate, texts)) < 700

    def test_is_what_the_dispatcher_needs(self) -> None:
        tools = {tool.name: tool for tool in builtin_tools(ToolsSettings())}
        assert {name: tool.effect for name, tool in tools.items()} == {
            "read_file": "read",
            "write_file": "write",
            "patch_file": "write",
            "list_dir": "read",
            "grep_files": "read",
            "run_command": "execute",
            "process_output": "read",
            "process_stop": "execute",
        }
        for tool in tools.values():
            assert tool.core
            assert tool.source == "builtin"
            schema = msgspec.json.decode(tool.input_schema)
            assert schema["additionalProperties"] is False
            assert {touch.member for touch in tool.paths} <= set(schema["properties"])
        outside = {name for name, tool in tools.items() for touch in tool.paths if touch.outside}
        assert outside == {"read_file", "run_command"}
        assert tools["run_command"].subject is not None
        assert tools["run_command"].subject({"command": "make", "cwd": "docs"}) == "cd -- docs && make"
        assert tools["write_file"].subject is not None
        assert tools["write_file"].subject({"path": "a", "content": "x"}) == "a"

    def test_is_the_same_every_time(self) -> None:
        def shown() -> list[tuple[str, str, bytes]]:
            return [(tool.name, tool.description, tool.input_schema) for tool in builtin_tools(ToolsSettings())]

        assert shown() == shown()


class TestReading:
    def test_a_short_file_is_its_text_and_nothing_else(self, session: Session) -> None:
        (session.root / "a.txt").write_text("one\ntwo\n")
        output = session.does("read_file", path="a.txt")
        assert output.content == "one\ntwo\n"
        assert "exempt_from_offload" not in output.metadata

    def test_offset_and_limit_choose_lines(self, session: Session) -> None:
        (session.root / "a.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
        assert session.says("read_file", path="a.txt", offset=3, limit=2) == (
            "line 3\nline 4\n[Lines 3-4 of 10. Read on with offset=5.]"
        )
        assert session.says("read_file", path="a.txt", offset=9) == "line 9\nline 10\n[Lines 9-10, to the end.]"
        assert session.says("read_file", path="a.txt", offset=10, limit=1) == "line 10\n[Line 10, to the end.]"
        assert session.says("read_file", path="a.txt", offset=9, limit=1).endswith("Read on with offset=10.]")

    def test_a_number_that_json_writes_as_a_fraction_is_one_too(self, session: Session) -> None:
        (session.root / "a.txt").write_text("1\n2\n3\n")
        assert session.says("read_file", path="a.txt", offset=2.0, limit=1.0).startswith("2\n[Line 2 of 3.")

    def test_past_the_end_says_how_long_the_file_is(self, session: Session) -> None:
        (session.root / "a.txt").write_text("one\ntwo")
        (session.root / "b.txt").write_text("one\n")
        assert session.refuses("read_file", path="a.txt", offset=3).endswith("the file has 2 lines.")
        assert session.refuses("read_file", path="b.txt", offset=2).endswith("the file has 1 line.")
        assert session.refuses("read_file", path="b.txt", offset=10**9).endswith("the file has 1 line.")
        assert session.refuses("read_file", path="b.txt", start_char=9).endswith("line 1, which has 3 characters.")

    def test_c40_a_page_stays_below_the_limit_of_results(self, session: Session) -> None:
        text = "".join(f"line {n} of the file\n" for n in range(20_000))
        (session.root / "long.txt").write_text(text)
        first = session.says("read_file", path="long.txt")
        assert 14_000 < len(first) <= 15_000
        assert "of 20000. Read on with offset=" in first
        asked = session.says("read_file", path="long.txt", limit=20_000)
        assert 14_000 < len(asked) <= 15_000
        assert session.says("read_file", path="long.txt", limit=3).startswith("".join(text.splitlines(True)[:3]))
        assert pages(session, "long.txt") == text

    def test_the_page_follows_the_settings(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("x" * 99 + "\n" + ("y" * 99 + "\n") * 500)
        for offload in (
            OffloadSettings(read_chars=2_000),
            OffloadSettings(max_result_chars=2_000),
            OffloadSettings(per_tool={"read_file": 2_000}),
            OffloadSettings(hard_cap_chars=2_000),
        ):
            said = Session(tmp_path, ToolsSettings(offload=offload)).says("read_file", path="a.txt")
            assert 1_500 < len(said) <= 2_000

    def test_a_megabyte_in_one_line_can_be_paged(self, session: Session) -> None:
        line = "".join(f"é{n:07d}" for n in range(131_072))
        (session.root / "line.json").write_text(f"{line}\nend\n")
        first = session.says("read_file", path="line.json")
        assert "[Line 1 of 2, up to character 14750 of line 1. Read on with offset=1, start_char=14750.]" in first
        assert pages(session, "line.json", limit=10) == f"{line}\nend\n"
        said = session.says("read_file", path="line.json", start_char=len(line) - 8)
        assert said == f"{line[-8:]}\nend\n[Lines 1-2, from character 1048569 of line 1, to the end.]"

    def test_a_page_of_a_gigabyte_comes_at_once(self, session: Session) -> None:
        path = session.root / "huge.log"
        with path.open("wb") as file:
            file.write(b"a line of text\n" * 10_000)
            file.truncate(1 << 30)
        said = session.says("read_file", path="huge.log", offset=3, limit=1)
        assert said == "a line of text\n[Line 3. Read on with offset=4.]"

    @pytest.mark.slow
    def test_the_end_of_a_gigabyte_is_found_without_holding_it(self, session: Session) -> None:
        path = session.root / "huge.log"
        with path.open("wb") as file:
            file.write(b"a line of text\n" * 10_000)
            file.truncate(1 << 30)
            file.seek(0, os.SEEK_END)
            file.write(b"\nlast\n")
        tracemalloc.start()
        try:
            assert session.says("read_file", path="huge.log", offset=10_002) == "last\n[Line 10002, to the end.]"
            assert tracemalloc.get_traced_memory()[1] < 20_000_000
        finally:
            tracemalloc.stop()

    async def test_a_search_for_a_far_line_can_be_cancelled(self, session: Session) -> None:
        path = session.root / "huge.log"
        with path.open("wb") as file:
            file.write(b"text\n" * 10_000)
            file.truncate(1 << 30)
        cancel = Cancel()
        cancel.set()
        with pytest.raises(ToolExecutionError, match="cancelled"):
            await session.call("read_file", cancel=cancel, path="huge.log", offset=10_002)

    def test_crlf_is_shown_as_line_feeds_and_told(self, session: Session) -> None:
        (session.root / "dos.txt").write_bytes(b"one\r\ntwo\r\n")
        assert session.says("read_file", path="dos.txt") == "one\ntwo\n[Lines end in CRLF in the file.]"

    def test_a_byte_order_mark_is_left_out(self, session: Session) -> None:
        (session.root / "bom.txt").write_bytes(b"\xef\xbb\xbfone\n")
        assert session.says("read_file", path="bom.txt") == "one\n"

    def test_bytes_that_are_not_utf8_are_marked(self, session: Session) -> None:
        (session.root / "latin.txt").write_bytes("Grüße aus Köln\n".encode("latin-1"))
        assert session.says("read_file", path="latin.txt") == (
            "Gr\ufffd\ufffde aus K\ufffdln\n[\ufffd stands for bytes that are not UTF-8.]"
        )
        (session.root / "honest.txt").write_text("a \ufffd of its own\n")
        assert session.says("read_file", path="honest.txt") == "a \ufffd of its own\n"

    def test_an_empty_file_says_so(self, session: Session) -> None:
        (session.root / "empty").touch()
        assert session.says("read_file", path="empty") == "[The file is empty.]"
        assert "0 lines" in session.refuses("read_file", path="empty", offset=2)

    def test_what_is_no_text_is_named(self, session: Session) -> None:
        (session.root / "program").write_bytes(b"\x7fELF\0\0\0")
        (session.root / "packed").write_bytes(bytes(range(128, 256)) * 4)
        (session.root / "wide.txt").write_bytes("hello\n".encode("utf-16"))
        (session.root / "dir").mkdir()
        os.mkfifo(session.root / "fifo")
        assert "program is a binary file" in session.refuses("read_file", path="program")
        assert "packed is a binary file" in session.refuses("read_file", path="packed")
        assert "iconv" in session.refuses("read_file", path="wide.txt")
        assert session.refuses("read_file", path="dir") == "dir is a directory; list it with list_dir."
        assert session.refuses("read_file", path=".") == ". is a directory; list it with list_dir."
        assert "fifo" in session.refuses("read_file", path="fifo")

    def test_a_missing_file_names_those_like_it(self, session: Session) -> None:
        (session.root / "src").mkdir()
        (session.root / "src/parser.py").touch()
        assert session.refuses("read_file", path="src/parsers.py") == (
            "src/parsers.py does not exist. Near it: src/parser.py."
        )
        assert session.refuses("read_file", path="nowhere/a.py") == "nowhere/a.py does not exist."

    def test_a_picture_comes_as_one(self, session: Session) -> None:
        heads = {
            "image/png": b"\x89PNG\r\n\x1a\n",
            "image/jpeg": b"\xff\xd8\xff\xe0",
            "image/gif": b"GIF89a",
            "image/webp": b"RIFF\x10\0\0\0WEBP",
        }
        for kind, head in heads.items():
            data = head + bytes(50_000)
            (session.root / "picture").write_bytes(data)
            output = session.does("read_file", path="picture")
            assert output.content == (Image(media_type=kind, data=base64.b64encode(data).decode()),)
            assert output.metadata["exempt_from_offload"] is True
        (session.root / "picture").write_bytes(heads["image/png"] + bytes(4_000_000))
        assert "4000008 bytes" in session.refuses("read_file", path="picture")

    def test_an_offloaded_result_is_read_like_a_file(self, tmp_path: Path) -> None:
        work, kept = tmp_path / "work", tmp_path / "kept"
        work.mkdir()
        kept.mkdir()
        (kept / "result.txt").write_text("".join(f"row {n}\n" for n in range(10_000)))
        session = Session(work, offloads=[kept])
        output = session.does("read_file", path=str(kept / "result.txt"))
        assert isinstance(output.content, str)
        assert output.content.startswith("row 0\n")
        assert "Read on with offset=" in output.content
        assert output.metadata["exempt_from_offload"] is True
        assert pages(session, str(kept / "result.txt")).endswith("row 9999\n")
        (kept / "longer.txt").write_text("row\n" * 50_000)
        most = session.says("read_file", path=str(kept / "longer.txt"), limit=50_000)
        assert 99_000 < len(most) <= 100_000
        for tool in ("list_dir", "grep_files"):
            assert "outside the workspace" in session.refuses(tool, path=str(kept), pattern="row")
        assert "outside the workspace" in session.refuses("write_file", path=str(kept / "a"), content="")

    def test_a_symlink_leads_nowhere_else(self, session: Session, tmp_path_factory: pytest.TempPathFactory) -> None:
        secret = tmp_path_factory.mktemp("outside") / "secret"
        secret.write_text("secret")
        (session.root / "link").symlink_to(secret)
        (session.root / "up").symlink_to(secret.parent)
        (session.root / "inner").symlink_to("real.txt")
        (session.root / "real.txt").write_text("inside\n")
        assert "out of the workspace" in session.refuses("read_file", path="link")
        assert "out of the workspace" in session.refuses("read_file", path="up/secret")
        assert "out of the workspace" in session.refuses("list_dir", path="up")
        assert "out of the workspace" in session.refuses("write_file", path="up/new", content="x")
        assert session.says("read_file", path="inner") == "inside\n"

    @given(
        st.text(alphabet="ab€😀\r\n\n\n", max_size=80).map(lambda text: text.replace("\r\n", "\n").replace("\r", "")),
        st.integers(3, 20),
        st.none() | st.integers(1, 3),
    )
    def test_pages_put_together_are_the_file(
        self, tmp_path_factory: pytest.TempPathFactory, text: str, most: int, limit: int | None
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "generated.txt"
        whole, at, skip = "", 1, 0
        for _ in range(200):
            one = page(text.encode(), path, offset=at, skip=skip, most=most, **({"limit": limit} if limit else {}))
            assert len(one.text) <= most
            whole += one.text
            if one.next_line is None:
                break
            assert (one.next_line, one.next_char) > (at, skip)
            at, skip = one.next_line, one.next_char
        assert whole == text

    @given(st.binary(max_size=60), st.integers(2, 20))
    def test_any_bytes_give_pages_that_end(
        self, tmp_path_factory: pytest.TempPathFactory, data: bytes, most: int
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "generated.bin"
        whole, at, skip = "", 1, 0
        for _ in range(200):
            one = page(data, path, offset=at, skip=skip, most=most)
            whole += one.text
            if one.next_line is None:
                break
            at, skip = one.next_line, one.next_char
        shown = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\0", "\ufffd")
        assert whole.replace("\r\n", "\n") == shown.replace("\r\n", "\n")

    def test_reading_leaves_nothing_open(self, session: Session) -> None:
        (session.root / "a.txt").write_text("text\n")
        session.says("read_file", path="a.txt")
        before = descriptors()
        for _ in range(5):
            session.says("read_file", path="a.txt")
            session.refuses("read_file", path="b.txt")
            session.says("list_dir", path=".", depth=3)
        assert descriptors() == before


class TestWriting:
    def test_makes_a_file_and_its_directories(self, session: Session) -> None:
        output = session.does("write_file", path="a/b/c.txt", content="one\ntwo")
        assert output.content == "Wrote a/b/c.txt (2 lines)."
        assert output.files_modified == ("a/b/c.txt",)
        assert (session.root / "a/b/c.txt").read_text() == "one\ntwo"

    def test_keeps_the_permissions_of_a_file(self, session: Session) -> None:
        path = session.root / "run.sh"
        path.write_text("old")
        path.chmod(0o750)
        session.does("write_file", path="run.sh", content="new")
        assert path.stat().st_mode & 0o777 == 0o750
        assert [item.name for item in session.root.iterdir()] == ["run.sh"]

    def test_writes_what_it_is_given(self, session: Session) -> None:
        for content in ("", "\n", "a\r\nb", "\ufeffx", "\0", "😀", "x" * 300_000):
            session.does("write_file", path="f", content=content)
            assert (session.root / "f").read_bytes() == content.encode()

    def test_refuses_what_no_file_can_hold(self, session: Session) -> None:
        (session.root / "dir").mkdir()
        assert "surrogate" in session.refuses("write_file", path="f", content="x\ud800")
        assert session.refuses("write_file", path="dir", content="x")
        assert session.refuses("write_file", path="../f", content="x")
        assert not (session.root / "f").exists()

    def test_a_reader_sees_the_old_or_the_new(self, session: Session) -> None:
        path = session.root / "f"
        path.write_text("a" * 100_000)
        seen: set[str] = set()
        over = threading.Event()

        def look() -> None:
            while not over.is_set():
                text = path.read_text()
                seen.add(f"{len(text)}{text[:1]}{text[-1:]}")

        reader = threading.Thread(target=look)
        reader.start()
        try:
            for n in range(50):
                session.does("write_file", path="f", content=("b" if n % 2 else "a") * 100_000)
        finally:
            over.set()
            reader.join()
        assert seen <= {"100000aa", "100000bb"}


class TestListing:
    def test_names_what_is_there(self, session: Session) -> None:
        (session.root / "src/deep/er").mkdir(parents=True)
        (session.root / "src/a.py").touch()
        (session.root / "src/deep/b.py").touch()
        (session.root / "README").touch()
        (session.root / "link").symlink_to("/etc/passwd")
        os.mkfifo(session.root / "pipe")
        assert session.says("list_dir", path=".") == ("README\nlink -> /etc/passwd\npipe (not a regular file)\nsrc/")
        assert session.says("list_dir", path="src", depth=2) == "a.py\ndeep/\n  b.py\n  er/"
        assert session.refuses("list_dir", path="README") == "README is a file; read it with read_file."
        assert "cannot be used: No such file" in session.refuses("list_dir", path="nowhere")
        assert session.says("list_dir", path="src/deep/er") == "[The directory is empty.]"

    def test_does_not_open_what_holds_thousands_unless_asked(self, session: Session) -> None:
        (session.root / "node_modules/left").mkdir(parents=True)
        (session.root / ".git").mkdir()
        (session.root / ".git/HEAD").touch()
        assert session.says("list_dir", path=".", depth=5) == ".git/\nnode_modules/"
        assert session.says("list_dir", path="node_modules") == "left/"

    def test_is_bounded_and_shows_the_near_levels_first(self, session: Session) -> None:
        for name in ("aaa", "zzz"):
            (session.root / name).mkdir()
        for n in range(1500):
            (session.root / "aaa" / f"{n:04d}").touch()
        said = session.says("list_dir", path=".", depth=3).splitlines()
        assert "zzz/" in said
        assert said[-1] == "[Stopped at 1000 entries; list a directory below for the rest.]"
        assert "  [502 more]" in said
        assert len(said) < 1010

    def test_strange_names_stay_on_their_line(self, session: Session) -> None:
        Path(os.fsdecode(os.fsencode(session.root) + b"/bad\xff")).touch()
        (session.root / "two\nlines").touch()
        said = session.says("list_dir", path=".")
        assert said.splitlines() == ["bad\\udcff", "two\\nlines"]
        said.encode("utf-8")

    def test_passes_over_what_is_closed(self, tmp_path: Path) -> None:
        from holdfast.tools.workspace import Workspace

        (tmp_path / "home/secrets").mkdir(parents=True)
        (tmp_path / "home/secrets/key").write_text("needle")
        (tmp_path / "a.txt").write_text("needle")
        session = Session(tmp_path)
        session.workspace = Workspace(tmp_path, closed=[tmp_path / "home"])
        assert session.says("list_dir", path=".", depth=4) == "a.txt\nhome/ (not readable)"
        assert session.run(session.said("grep_files", pattern="needle")) == "a.txt\n1:needle"
