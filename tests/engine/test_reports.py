"""Break reports on disk: private, bounded, whole lines only, and never in the way."""

from __future__ import annotations

import json
import logging
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TimedOut
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.breaks import Finding
from holdfast.core.cures import Cure
from holdfast.core.divergence import Divergence, place
from holdfast.engine.byte_diff import ByteDiff
from holdfast.engine.reports import Reports
from holdfast.store.rows import Break

BEFORE = '{"type":"text","text":"You help.\\nCurrent time: 13:01\\nSecret plans."}'
AFTER = BEFORE.replace("13:01", "13:02")
NOON = int(datetime(2026, 11, 15, 12, tzinfo=UTC).timestamp() * 1_000_000)
DAY = 86_400_000_000


def row(number: int = 0, *, at: int = NOON, **more: Any) -> Break:
    known: dict[str, Any] = {"tenant": "t", "id": f"B{number:04}", "call": "c", "session": "s", "lane": "l", "at": at}
    known |= {"model": "anthropic:claude-opus-4-6", "cause": "system_prompt_changed", "tokens": 9_000}
    known |= {"dollars": Decimal("0.05175"), "path": "system[0]", "offset": 912, "owner": "host"}
    return Break(**(known | more))


FOUND = Finding(
    cause="system_prompt_changed",
    reason=None,
    tokens=9_000,
    dollars=Decimal("0.05175"),
    expected=9_000,
    read=0,
    divergence=Divergence(what="changed", block=3, section="system", kept=400, behind=8_600),
)
CURE = Cure("clock", "Move it.", 'cache.repair = "on"')


def write(reports: Reports, number: int = 0, **more: Any) -> Path | None:
    difference = ByteDiff(before=BEFORE.encode(), after=AFTER.encode(), place=place(BEFORE, AFTER))
    return reports.write(row(number, **more), FOUND, cure=CURE, difference=difference)


def lines(directory: Path) -> list[dict[str, Any]]:
    files = sorted(directory.glob("*.jsonl"))
    return [json.loads(line) for path in files for line in path.read_text("utf-8").splitlines()]


def test_a_report_is_a_line_in_the_file_of_its_day_with_its_diff_beside_it(tmp_path: Path) -> None:
    directory = tmp_path / "home" / "cache-breaks"
    assert write(Reports(directory)) == directory / "2026-11-15.jsonl"
    (line,) = lines(directory)
    assert line["at"] == "2026-11-15T12:00:00.000000+00:00"
    assert (line["cause"], line["tokens"], line["dollars"]) == ("system_prompt_changed", 9_000, "0.05175")
    assert (line["path"], line["offset"], line["owner"]) == ("system[0]", 912, "host")
    assert (line["cure"], line["advice"], line["config"]) == ("clock", "Move it.", 'cache.repair = "on"')
    assert (line["section"], line["what"], line["behind"]) == ("system", "changed", 8_600)
    assert len(line["before"]) == len(line["after"]) == 64
    assert line["before"] != line["after"]
    diff = (directory / line["diff"]).read_text("utf-8").splitlines()
    assert diff[:2] == ["--- before", "+++ after"]
    assert [each for each in diff[3:] if each[0] in "+-"] == ["-Xxxxxxx xxxx: 99:99", "+Xxxxxxx xxxx: 99:99"]


@pytest.mark.parametrize("keep_bodies", [False, True])
def test_words_of_the_prompt_stand_in_it_only_if_bodies_are_kept(tmp_path: Path, keep_bodies: bool) -> None:
    write(Reports(tmp_path / "b", keep_bodies=keep_bodies))
    written = "".join(path.read_text("utf-8") for path in (tmp_path / "b").iterdir())
    assert ("Current time: 13:02" in written) == keep_bodies
    assert ("Secret plans" in written) == keep_bodies


def test_only_this_user_can_read_them(tmp_path: Path) -> None:
    directory = tmp_path / "home" / "cache-breaks"
    write(Reports(directory))
    assert {stat.S_IMODE(path.stat().st_mode) for path in (directory, directory.parent)} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {0o600}
    assert len(list(directory.iterdir())) == 3  # the day, the diff, the lock


def test_days_are_those_of_utc(tmp_path: Path) -> None:
    reports = Reports(tmp_path / "b")
    midnight = NOON + DAY // 2
    assert write(reports, 1, at=midnight - 1) == tmp_path / "b" / "2026-11-15.jsonl"
    assert write(reports, 2, at=midnight) == tmp_path / "b" / "2026-11-16.jsonl"


def test_the_oldest_go_first_each_with_its_diff(tmp_path: Path) -> None:
    directory = tmp_path / "b"
    reports = Reports(directory, keep=5)
    for number in range(9):
        write(reports, number, at=NOON + number // 3 * DAY)  # three days of three
        ids = [line["id"] for line in lines(directory)]
        assert ids == [f"B{each:04}" for each in range(max(0, number - 4), number + 1)]
        assert {path.name for path in directory.glob("*.diff")} == {line["diff"] for line in lines(directory)}
    assert not (directory / "2026-11-15.jsonl").exists()  # a whole day is gone


@pytest.mark.parametrize(("keep", "left"), [(0, 0), (1, 1)])
def test_none_or_one_may_be_kept(tmp_path: Path, keep: int, left: int) -> None:
    reports = Reports(tmp_path / "b", keep=keep)
    assert [write(reports, number) is not None for number in range(3)] == [keep > 0] * 3
    assert len(lines(tmp_path / "b")) == left
    assert reports.lost == 0


def test_a_lower_limit_takes_effect_on_what_is_there(tmp_path: Path) -> None:
    for number in range(6):
        write(Reports(tmp_path / "b"), number)
    write(Reports(tmp_path / "b", keep=2), 6)
    assert [line["id"] for line in lines(tmp_path / "b")] == ["B0005", "B0006"]


def test_what_a_crash_left_of_a_line_does_not_spoil_the_next(tmp_path: Path) -> None:
    reports = Reports(tmp_path / "b")
    path = write(reports, 1)
    with path.open("ab") as file:
        file.write(b'{"id":"half')
    write(reports, 2)
    first, half, second = path.read_text("utf-8").splitlines()
    assert [json.loads(line)["id"] for line in (first, second)] == ["B0001", "B0002"]
    assert half == '{"id":"half'


def test_a_foreign_name_in_a_line_removes_nothing_else(tmp_path: Path) -> None:
    directory = tmp_path / "b"
    directory.mkdir()
    precious = tmp_path / "precious"
    precious.write_text("keep me")
    (directory / "2026-01-01.jsonl").write_text('{"diff":"../precious"}\nnot json\n{"diff":7}\n')
    write(Reports(directory, keep=1))
    assert precious.exists()
    assert len(lines(directory)) == 1


def test_what_cannot_be_written_is_counted_and_warned_about_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    reports = Reports(tmp_path / "file" / "b")
    with caplog.at_level(logging.WARNING):
        assert [write(reports, number) for number in range(3)] == [None] * 3
    assert reports.lost == 3
    (record,) = caplog.records
    assert "cache.breaks.dir" in record.getMessage()
    (tmp_path / "file").unlink()
    assert write(reports, 4) is not None  # and it recovers


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    directory = tmp_path / "b"
    directory.mkdir()
    (tmp_path / "elsewhere").write_text("mine")
    (directory / "2026-11-15.jsonl").symlink_to(tmp_path / "elsewhere")
    reports = Reports(directory)
    assert write(reports) is None
    assert reports.lost == 1
    assert (tmp_path / "elsewhere").read_text() == "mine"


_FULL = """
import resource, signal, sys
from pathlib import Path
from tests.engine.test_reports import Reports, lines, write
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
reports = Reports(Path(sys.argv[1]))
write(reports, 1)
size = (Path(sys.argv[1]) / "2026-11-15.jsonl").stat().st_size
resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, resource.RLIM_INFINITY))
assert write(reports, 2) is None
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert reports.lost == 1
write(reports, 3)
assert [line["id"] for line in lines(Path(sys.argv[1]))] == ["B0001", "B0003"]
"""


def test_a_disk_that_is_full_in_the_middle_of_a_line_leaves_no_half_of_it(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    run([sys.executable, "-c", _FULL, str(tmp_path / "b")])


_MANY = """
import sys
from pathlib import Path
from tests.engine.test_reports import Reports, write
reports = Reports(Path(sys.argv[1]), keep=40)
for number in range(25):
    assert write(reports, int(sys.argv[2]) * 100 + number) is not None
"""


def test_threads_and_processes_write_whole_lines_and_keep_the_limit(tmp_path: Path) -> None:
    directory = tmp_path / "b"
    with ThreadPoolExecutor(4) as pool:
        for future in [
            pool.submit(run, [sys.executable, "-c", _MANY, str(directory), str(number)]) for number in range(1, 4)
        ]:
            future.result()
    assert len(lines(directory)) == 40
    reports = Reports(directory, keep=40)
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda number: write(reports, 900 + number), range(30)))
    ids = [line["id"] for line in lines(directory)]
    assert len(ids) == len(set(ids)) == 40
    assert sum(name.startswith("B09") for name in ids) == 30
    assert {path.name for path in directory.glob("*.diff")} == {line["diff"] for line in lines(directory)}


def test_nobody_writes_while_another_process_holds_the_lock(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    reports = Reports(tmp_path / "b")
    write(reports, 1)
    with (tmp_path / "b" / ".lock").open("rb") as held, ThreadPoolExecutor(1) as pool:
        fcntl.flock(held, fcntl.LOCK_EX)
        waiting = pool.submit(write, reports, 2)
        with pytest.raises(TimedOut):
            waiting.result(timeout=0.2)
        assert len(lines(tmp_path / "b")) == 1
        fcntl.flock(held, fcntl.LOCK_UN)
        assert waiting.result() is not None
    assert len(lines(tmp_path / "b")) == 2


def test_a_file_that_another_process_has_cut_is_counted_anew(tmp_path: Path) -> None:
    directory = tmp_path / "b"
    reports = Reports(directory, keep=3)
    for number in range(3):
        write(reports, number)
    write(Reports(directory, keep=1), 3)
    for number in range(4, 8):
        write(Reports(directory, keep=100), number, path="p" * 500)
    write(reports, 8)
    assert [line["id"] for line in lines(directory)] == ["B0006", "B0007", "B0008"]


def run(command: list[str]) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_names_from_outside_are_bounded_and_stay_in_the_directory(tmp_path: Path) -> None:
    path = write(Reports(tmp_path / "b"), id="../../" + "x" * 5_000, model="m\ud800" * 5_000, path="p" * 9_999)
    assert path.stat().st_size < 8_000
    assert {each.parent for each in tmp_path.rglob("*.diff")} == {tmp_path / "b"}


def test_without_texts_there_is_no_diff(tmp_path: Path) -> None:
    reports = Reports(tmp_path / "b")
    reports.write(row(cause=None, reason="priced_edit"), FOUND)
    (line,) = lines(tmp_path / "b")
    assert line["reason"] == "priced_edit"
    assert not {"cause", "diff", "before", "cure"} & set(line)
