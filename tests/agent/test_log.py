"""A session on disk: whole lines only, one writer, nothing thrown away."""

from __future__ import annotations

import errno
import json
import os
import random
import stat
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest

from holdfast.agent import log as module
from holdfast.agent.log import Log, find, listed, log_path, read_content, read_log
from holdfast.agent.log_content import read, to_line
from holdfast.agent.window.projection import project
from holdfast.agent.window.renderer import render
from holdfast.errors import HoldfastError
from holdfast.records.events import encode
from holdfast.records.events.sessions import TurnStarted
from tests.agent.stories import ID, STATIC, Story, call, started_turns


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home" / "sessions"


def written(home: Path, *texts: str) -> Path:
    log = Log.create(home, ID)
    log.append(started_turns(*texts))
    log.close()
    return log.path


class TestWriting:
    def test_an_event_is_a_line(self, home: Path) -> None:
        path = written(home, "a", "b\nc")
        lines = path.read_bytes().splitlines()
        assert [line[:-18] + b"}" for line in lines] == [encode(each) for each in started_turns("a", "b\nc")]
        assert all(json.loads(line)["crc"] == f"{crc32(line[:-18]):08x}" for line in lines)

    def test_what_was_appended_is_there_for_who_opens_it(self, home: Path) -> None:
        written(home, "a", "b")
        log = Log.open(home, ID)
        assert log.envelopes == started_turns("a", "b")
        log.append(started_turns("c"))
        assert len(log.envelopes) == 3
        assert read_log(log.path) == (*started_turns("a", "b"), *started_turns("c"))
        log.close()

    def test_nobody_else_may_read_it(self, home: Path) -> None:
        path = written(home, "a")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE(home.parent.stat().st_mode) == 0o700

    def test_a_directory_that_others_may_read_is_closed_to_them(self, home: Path) -> None:
        home.mkdir(parents=True, mode=0o755)
        written(home, "a")
        assert stat.S_IMODE(home.stat().st_mode) == 0o700

    def test_several_events_are_one_write(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log = Log.create(home, ID)
        writes: list[int] = []
        real = os.write

        def counted(descriptor: int, data: bytes) -> int:
            writes.append(len(data))
            return real(descriptor, data)

        monkeypatch.setattr(os, "write", counted)
        log.append(started_turns("a", "b", "c"))
        log.append([])
        monkeypatch.undo()
        log.close()
        assert len(writes) == 1

    def test_a_short_write_is_gone_on_with(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        log = Log.create(home, ID)
        real = os.write
        monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:7]))
        log.append(started_turns("a", "b"))
        monkeypatch.undo()
        log.close()
        assert read_log(log.path) == tuple(started_turns("a", "b"))

    def test_text_that_cannot_be_written_leaves_it_as_it_was(self, home: Path) -> None:
        log = Log.create(home, ID)
        log.append(started_turns("a"))
        with pytest.raises(HoldfastError, match="not valid Unicode"):
            log.append(started_turns("b", "\ud800"))
        log.append(started_turns("c"))
        log.close()
        assert [each.payload for each in read_log(log.path)] == [TurnStarted(text="a"), TurnStarted(text="c")]

    def test_an_id_is_taken_once(self, home: Path) -> None:
        written(home, "a")
        with pytest.raises(HoldfastError, match=f"session {ID} exists already"):
            Log.create(home, ID)

    def test_one_that_is_not_there_cannot_be_opened(self, home: Path) -> None:
        with pytest.raises(HoldfastError, match=f"there is no session {ID}"):
            Log.open(home, ID)

    def test_a_closed_one_takes_nothing(self, home: Path) -> None:
        log = Log.create(home, ID)
        log.close()
        log.close()
        assert log.closed
        with pytest.raises(HoldfastError, match="is closed"):
            log.append(started_turns("a"))

    def test_one_whose_session_never_began_leaves_nothing(self, home: Path) -> None:
        log = Log.create(home, ID)
        log.discard()
        log.discard()
        assert listed(home) == ()

    def test_a_place_where_nothing_can_be_kept_is_named(self, home: Path) -> None:
        home.parent.mkdir()
        home.write_text("a file")
        with pytest.raises(HoldfastError, match=f"session {ID} cannot be kept in"):
            Log.create(home, ID)

    def test_a_symlink_in_its_place_is_refused(self, home: Path, tmp_path: Path) -> None:
        home.mkdir(parents=True)
        (tmp_path / "other").write_bytes(b"")
        log_path(home, ID).symlink_to(tmp_path / "other")
        with pytest.raises(HoldfastError, match="cannot be opened"):
            Log.open(home, ID)


class TestFullDisk:
    SCRIPT = """
import resource, sys
from pathlib import Path
from holdfast.agent.log import Log
from holdfast.errors import HoldfastError
from tests.agent.stories import started_turns
log = Log.create(Path(sys.argv[1]), "full")
log.append(started_turns("a"))
size = log.path.stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 40, resource.RLIM_INFINITY))
try:
    log.append(started_turns("b", "c"))
except HoldfastError as error:
    print(error)
print(log.path.stat().st_size == size, len(log.envelopes))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.append(started_turns("d"))
"""

    def test_half_an_event_is_taken_back(self, home: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-c", self.SCRIPT, str(home)],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            check=True,
        )
        assert "session full cannot be written to" in done.stdout
        assert done.stdout.endswith("True 1\n")
        assert [each.payload for each in read_log(log_path(home, "full"))] == [
            TurnStarted(text="a"),
            TurnStarted(text="d"),
        ]

    def test_what_could_not_be_taken_back_is_before_the_next_write(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = Log.create(home, ID)
        log.append(started_turns("a"))
        real = os.write

        def half(fd: int, data: bytes) -> int:
            if len(data) < 40:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(fd, bytes(data)[:-20])

        def refused(fd: int, length: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "write", half)
        monkeypatch.setattr(os, "ftruncate", refused)
        with pytest.raises(HoldfastError, match="No space left"):
            log.append(started_turns("b"))
        with pytest.raises(HoldfastError, match="Input/output error"):
            log.append(started_turns("c"))
        monkeypatch.undo()
        log.append(started_turns("d"))
        log.close()
        assert [each.payload for each in read_log(log.path)] == [TurnStarted(text="a"), TurnStarted(text="d")]

    def test_a_log_that_was_removed_takes_nothing_more(self, home: Path) -> None:
        log = Log.create(home, ID)
        log.append(started_turns("a"))
        log.path.unlink()
        with pytest.raises(HoldfastError, match="removed"):
            log.append(started_turns("b"))
        assert len(log.envelopes) == 1
        log.close()

    def test_where_links_are_not_counted_nothing_counts_as_removed(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = os.fstat
        monkeypatch.setattr(os, "fstat", lambda fd: os.stat_result((*real(fd)[:3], 0, *real(fd)[4:])))
        assert len(read_log(written(home, "a", "b"))) == 2


class TestLocking:
    def test_one_writer_at_a_time(self, home: Path) -> None:
        log = Log.create(home, ID)
        with pytest.raises(HoldfastError, match=f"session {ID} is in use by another process"):
            Log.open(home, ID)
        log.close()
        Log.open(home, ID).close()

    def test_another_process_is_kept_out_and_a_killed_one_lets_go(self, home: Path) -> None:
        script = (
            "import sys; from pathlib import Path; from holdfast.agent.log import Log; "
            f"log = Log.open(Path(sys.argv[1]), {ID!r}); print('held', flush=True); sys.stdin.read()"
        )
        written(home, "a")
        with subprocess.Popen(
            [sys.executable, "-c", script, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout.readline() == "held\n"
            with pytest.raises(HoldfastError, match="in use by another process"):
                Log.open(home, ID)
            assert read_log(log_path(home, ID)) == tuple(started_turns("a"))
            other.kill()
            other.wait()
        Log.open(home, ID).close()

    def test_where_there_are_no_locks_it_goes_without(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "fcntl", None)
        one = Log.create(home, ID)
        two = Log.open(home, ID)
        one.append(started_turns("a"))
        one.close()
        two.close()
        assert read_log(log_path(home, ID)) == tuple(started_turns("a"))

    def test_a_file_system_without_locks_is_no_obstacle(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        class NoLocks:
            LOCK_EX = LOCK_NB = 0

            @staticmethod
            def flock(descriptor: int, how: int) -> None:
                raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr(module, "fcntl", NoLocks)
        log = Log.create(home, ID)
        log.append(started_turns("a"))
        log.close()
        assert read_log(log_path(home, ID)) == tuple(started_turns("a"))


class TestTornEnds:
    def test_a_line_that_was_begun_is_cut_off_and_kept_beside_it(self, home: Path) -> None:
        path = written(home, "a", "b")
        whole = path.read_bytes()
        path.write_bytes(whole[:-9])
        log = Log.open(home, ID)
        assert log.envelopes == started_turns("a", "b")[:1]
        log.append(started_turns("a", "c")[1:])
        log.close()
        assert [each.payload for each in read_log(path)] == [TurnStarted(text="a"), TurnStarted(text="c")]
        beside = path.with_name(path.name + ".torn")
        assert beside.read_bytes() == to_line(started_turns("a", "b")[1])[:-9] + b"\n"
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600

    def test_several_torn_ends_are_all_kept(self, home: Path) -> None:
        path = written(home, "a")
        for junk in (b'{"id":"x', b"\0\0\0\0", b'{"id":"y', b'{"exit_code":-', b"{\0\0"):
            with path.open("ab") as file:
                file.write(junk)
            Log.open(home, ID).close()
        assert read_log(path) == tuple(started_turns("a"))
        assert path.with_name(path.name + ".torn").read_bytes() == (
            b'{"id":"x\n\0\0\0\0\n{"id":"y\n{"exit_code":-\n{\0\0\n'
        )

    def test_only_the_line_break_is_missing(self, home: Path) -> None:
        path = written(home, "a", "b")
        path.write_bytes(path.read_bytes()[:-1])
        assert read_log(path) == tuple(started_turns("a", "b"))
        log = Log.open(home, ID)
        log.append(started_turns("c"))
        log.close()
        assert read_log(path) == (*started_turns("a", "b"), *started_turns("c"))
        assert not path.with_name(path.name + ".torn").exists()

    def test_reading_changes_nothing(self, home: Path) -> None:
        path = written(home, "a")
        torn = path.read_bytes() + b'{"id'
        path.write_bytes(torn)
        assert read_log(path) == tuple(started_turns("a"))
        assert path.read_bytes() == torn

    def test_an_empty_log_is_no_error(self, home: Path) -> None:
        written(home)
        assert read_log(log_path(home, ID)) == ()

    def test_a_cut_that_cannot_be_kept_is_not_made(self, home: Path) -> None:
        path = written(home, "a")
        path.write_bytes(path.read_bytes() + b'{"id')
        path.with_name(path.name + ".torn").mkdir()
        with pytest.raises(HoldfastError, match="torn end of session"):
            Log.open(home, ID)
        assert path.read_bytes().endswith(b'{"id')

    def test_a_session_killed_at_any_byte_goes_on_from_its_last_whole_event(self, home: Path) -> None:
        story = Story().begin().says("a").send().answer("A", call("t1")).results("ok").says("b").send().answer("B")
        log = Log.create(home, ID)
        log.append(story.envelopes)
        log.close()
        whole = log.path.read_bytes()
        ends = [index for index, byte in enumerate(whole) if byte == 10]
        for cut in range(0, len(whole), 7):
            log.path.write_bytes(whole[:cut])
            kept = sum(end <= cut for end in ends)  # the line break itself may be missing
            expected = project(story.envelopes[:kept])
            assert project(read_log(log.path)) == expected
            opened = Log.open(home, ID)
            assert project(opened.envelopes) == expected
            opened.append(story.envelopes[kept:])
            opened.close()
            again = read_log(log.path)
            assert again == tuple(story.envelopes)
            assert render(project(again).window, STATIC) == story.render()


DEEP = b'{"a":' * 5_000 + b"1" + b"}" * 5_000


class TestDamage:
    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            (b"nonsense", "it is not valid JSON"),
            (b"[]", "it is no event"),
            (to_line(started_turns("a", "b")[1])[:-9], "it is not valid JSON"),
            (to_line(started_turns("a", "b")[1])[:-1].replace(b'"b"', b'"\xff"'), "it is not valid UTF-8"),
            (to_line(started_turns("a", "b")[1])[:-1].replace(b'"b"', b'"\0"'), "it is not valid JSON"),
            (to_line(started_turns("a", "b")[1])[:-1].replace(b'"b"', b'"c"'), "its checksum does not fit"),
            (encode(started_turns("a", "b")[1]).replace(b"turn.started", b"turn.dreamt"), "unknown event type"),
            (DEEP, "nested too deeply"),
        ],
    )
    def test_what_stands_before_it_is_read_and_the_file_is_copied_before_it_is_cut(
        self, home: Path, line: bytes, reason: str
    ) -> None:
        path = written(home, "a", "b", "c", "d")
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(lines[0] + line + b"\n" + b"".join(lines[2:]))
        before = path.read_bytes()
        assert read_log(path) == tuple(started_turns("a"))
        damage = read_content(path).damage
        assert reason in damage.reason
        assert damage.line == 2
        assert len(lines[0]) <= damage.byte <= len(lines[0]) + len(line)
        log = Log.open(home, ID)
        assert log.envelopes == started_turns("a")
        assert log.damage == damage
        with pytest.raises(HoldfastError, match="copy it before anything is appended"):
            log.append(started_turns("x"))
        assert path.read_bytes() == before
        copy = log.cut_damage()
        assert copy.name == f"{ID}.jsonl.damaged"
        assert copy.read_bytes() == before
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        log.append(started_turns("a", "x")[1:])
        log.close()
        assert read_content(path).damage is None
        assert read_log(path) == tuple(started_turns("a", "x"))

    def test_what_another_version_wrote_is_no_damage_and_stays(self, home: Path) -> None:
        path = written(home, "a", "b")
        first = path.read_bytes().splitlines(keepends=True)[0]
        body = encode(started_turns("a", "b")[1]).replace(b"turn.started", b"turn.dreamt")[:-1]
        path.write_bytes(first + b'%s,"crc":"%08x"}\n' % (body, crc32(body)) + first)
        before = path.read_bytes()
        for look in (read_content, lambda _: Log.open(home, ID)):
            with pytest.raises(HoldfastError, match=r"line 2 of .* was written by another version of Holdfast"):
                look(path)
        assert path.read_bytes() == before

    def test_what_is_lost_is_counted(self, home: Path) -> None:
        path = written(home, "a", "b", "c", "d")
        path.write_bytes(path.read_bytes().replace(b'"text":"b"', b'"text":"B"'))
        damage = read_content(path).damage
        assert (damage.events, damage.turns) == (3, 3)
        assert damage.lost == "3 events, among them the beginning of 3 turns"

    def test_a_second_damage_has_a_copy_of_its_own(self, home: Path) -> None:
        path = written(home, "a", "b")
        for name in ("damaged", "damaged.2"):
            with path.open("ab") as file:
                file.write(b"nonsense\n")
            log = Log.open(home, ID)
            assert log.cut_damage() == path.with_name(f"{path.name}.{name}")
            log.close()
        assert listed(home) == (ID,)

    def test_a_copy_that_cannot_be_made_leaves_the_file_as_it_is(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = written(home, "a")
        path.write_bytes(path.read_bytes() + b"nonsense\n")
        before = path.read_bytes()
        log = Log.open(home, ID)

        def full(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(HoldfastError, match="cannot be copied: No space left"):
            log.cut_damage()
        assert path.read_bytes() == before
        assert [each.name for each in home.iterdir()] == [path.name]
        log.close()

    def test_lines_of_older_logs_have_no_checksum(self, home: Path) -> None:
        path = written(home, "a")
        path.write_bytes(b"".join(encode(each) + b"\n" for each in started_turns("a", "b")))
        assert read_log(path) == tuple(started_turns("a", "b"))


class TestEveryByte:
    STORY = Story().begin().says("a").send().answer("A", call("t1")).results("ok").says("b").send().answer("B")

    def test_a_flip_is_noticed_in_the_line_where_it_is(self, home: Path) -> None:
        """But for the last line break: without it the line is whole."""
        whole = b"".join(map(to_line, self.STORY.envelopes))
        draw = random.Random(3)
        for at in range(len(whole)):
            content = read(whole[:at] + bytes([whole[at] ^ (1 << draw.randrange(8))]) + whole[at + 1 :], "log")
            line = whole.count(b"\n", 0, at)
            assert content.damage is not None, at
            assert content.damage.line == line + 1
            assert content.envelopes == tuple(self.STORY.envelopes[:line])
            assert content.state == project(self.STORY.envelopes[:line])

    @pytest.mark.parametrize("junk", [b"\0", b"\xff", b'"', b"{"])
    def test_one_more_is_too(self, home: Path, junk: bytes) -> None:
        whole = b"".join(map(to_line, self.STORY.envelopes))
        for at in range(0, len(whole), 3):
            content = read(whole[:at] + junk + whole[at:], "log")
            line = whole.count(b"\n", 0, at)
            assert content.damage is not None, at
            assert content.envelopes == tuple(self.STORY.envelopes[: content.damage.line - 1])
            assert content.damage.line in (line + 1, line)

    def test_one_line_break_more_parts_a_line_or_none(self, home: Path) -> None:
        whole = b"".join(map(to_line, self.STORY.envelopes))
        for at in range(len(whole)):
            content = read(whole[:at] + b"\n" + whole[at:], "log")
            line = whole.count(b"\n", 0, at)
            between = at == 0 or b"\n" in whole[at - 1 : at + 1]
            assert (content.damage is None) is between
            assert content.envelopes == tuple(self.STORY.envelopes[: None if between else line])

    def test_without_checksums_what_is_read_is_still_a_session(self, home: Path) -> None:
        whole = b"".join(encode(each) + b"\n" for each in self.STORY.envelopes)
        draw = random.Random(5)
        for at in range(0, len(whole), 2):
            content = read(whole[:at] + bytes([whole[at] ^ (1 << draw.randrange(8))]) + whole[at + 1 :], "log")
            line = whole.count(b"\n", 0, at)
            assert content.envelopes[:line] == tuple(self.STORY.envelopes[:line])
            assert content.state == project(content.envelopes)


class TestNames:
    @pytest.mark.parametrize(
        "id", ["", "../x", "a/b", "/etc/passwd", ".", "..", ".hidden", "a b", "a\0", "ü", "x" * 65, "a\n"]
    )
    def test_what_could_be_a_path_is_no_id(self, home: Path, id: str) -> None:
        with pytest.raises(HoldfastError, match="no id of a session"):
            Log.create(home, id)
        assert not home.exists()

    @pytest.mark.parametrize("id", ["a", "A-b_c.d", "x" * 64, "01JCSESSION0000000000000000"])
    def test_plain_ids_are(self, home: Path, id: str) -> None:
        assert log_path(home, id).parent == home

    def test_sessions_are_listed_and_nothing_else(self, home: Path) -> None:
        assert listed(home) == ()
        for name in ("b", "a.jsonl", "c"):
            Log.create(home, name).close()
        (home / "c.jsonl.torn").write_bytes(b"x")
        (home / "notes.txt").write_bytes(b"x")
        (home / "d e.jsonl").write_bytes(b"x")
        (home / "dir.jsonl").mkdir()
        assert listed(home) == ("a.jsonl", "b", "c")

    def test_a_unique_beginning_is_enough(self, home: Path) -> None:
        for name in ("abc", "abd", "ab", "x1"):
            Log.create(home, name).close()
        assert find(home, "x") == "x1"
        assert find(home, "abc") == "abc"
        assert find(home, "ab") == "ab"

    def test_more_than_one_are_listed(self, home: Path) -> None:
        for number in range(12):
            Log.create(home, f"s{number:02d}").close()
        with pytest.raises(HoldfastError, match=r"12 sessions begin with 's': s00, s01, .* and 4 more; give more"):
            find(home, "s")

    def test_none_is_an_error(self, home: Path) -> None:
        with pytest.raises(HoldfastError, match=r"no session in .* begins with 'x'"):
            find(home, "x")

    def test_what_cannot_be_listed_or_read_is_named(self, home: Path) -> None:
        home.parent.mkdir()
        home.write_text("a file")
        with pytest.raises(HoldfastError, match="cannot be listed"):
            listed(home)
        with pytest.raises(HoldfastError, match="cannot be read"):
            read_log(home / "x.jsonl")
