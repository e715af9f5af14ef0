"""Logs are found by content, in a fixed order, each once; what cannot be read is said and the rest goes on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.report.logs.discovery import (
    EMPTY,
    MODULES,
    UNREADABLE,
    LogReader,
    home_sources,
    needed,
    part,
    places,
    records,
    sniff,
    sources,
)
from holdfast.report.logs.records import BrokenSource, LoggedRequest, Source
from tests.report.logs.claude_logs import START, Talk, used

unreadable = pytest.mark.skipif(
    not Path("/proc/self/mem").exists(), reason="there is no file here that opens and cannot be read (/proc/self/mem)"
)


def transcript(path: Path, session: str = "s1", agent: str = "", read: int = 5) -> Path:
    talk = Talk(session, agent)
    talk.asks(START)
    talk.answers(START + 1, used(read=read), id=f"msg_{path.name}")
    return talk.write(path)


def given(found: list[Source]) -> list[LoggedRequest | BrokenSource]:
    reading = LogReader()
    return [record for source in found for record in reading.records(source, lambda _: None)]


def names(found: list[Source], top: Path) -> list[str]:
    return [str(source.path.relative_to(top)) for source in found]


def test_there_is_a_reader_for_every_format() -> None:
    assert set(MODULES) == {"claude-code", "codex", "pi", "opencode", "bodies", "chat", "shapes", "store"}
    for name in MODULES:
        assert (part(name, "reading") is None) != (part(name, "read") is None)
        assert not needed(name, "is_mine")(Path("nothing.jsonl"), b"")


def test_a_named_file_is_told_by_what_it_holds_whatever_its_name(tmp_path: Path) -> None:
    path = transcript(tmp_path / "notes.txt")
    assert sniff(path) == "claude-code"
    assert sources([path]) == [
        Source(path=path, format="claude-code", size=path.stat().st_size, client="claude-code"),
    ]


def test_the_reader_is_the_one_of_the_format(tmp_path: Path) -> None:
    path = transcript(tmp_path / "s1.jsonl")
    told: list[int] = []
    [source] = sources([path])
    assert list(records(source, told.append)) == list(needed("claude-code", "reading")()(path, told.append))
    assert told == [path.stat().st_size] * 2


@pytest.mark.parametrize(
    "held", [b"hello\nthere\n", b"\x00\x01\x02" * 9000, b"[1, 2]\n", b'{"type": "other"}\n', b"\xff" * 200_000]
)
def test_a_named_file_of_no_known_format_is_an_error(tmp_path: Path, held: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(held)
    with pytest.raises(HoldfastError, match=r"log\.jsonl is of no known format; known are Claude Code transcripts"):
        sources([path])


@pytest.mark.parametrize("held", [b"", b"\n \n"])
def test_a_named_file_that_is_empty_is_no_error(tmp_path: Path, held: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(held)
    found = sources([path])
    assert [source.format for source in found] == [EMPTY]
    assert given(found) == []


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match=r"gone cannot be read \(No such file or directory\); check the path"):
        sources([tmp_path / "gone"])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HoldfastError, match="pipe is neither a file nor a directory"):
        sources([tmp_path / "pipe"])
    (tmp_path / "read.me").write_text("nothing")
    with pytest.raises(HoldfastError, match="holds no log of a known format; known are"):
        sources([tmp_path])
    (tmp_path / "round").symlink_to(tmp_path / "round")
    with pytest.raises(HoldfastError, match=r"round cannot be read \(Too many levels of symbolic links\)"):
        sources([tmp_path / "round"])


def test_the_files_of_a_directory_come_by_name_and_a_session_before_its_agents(tmp_path: Path) -> None:
    """Sub-agents stand beside the session's file (their lines name it), or in a directory of its name."""
    transcript(tmp_path / "p" / "b.jsonl", "b")
    transcript(tmp_path / "p" / "b" / "subagents" / "agent-2.jsonl", "b", "2")
    transcript(tmp_path / "p" / "b" / "subagents" / "agent-1.jsonl", "b", "1")
    transcript(tmp_path / "p" / "c.jsonl", "c")
    transcript(tmp_path / "p" / "a.jsonl", "a")
    transcript(tmp_path / "p" / "agent-8.jsonl", "c", "8")
    transcript(tmp_path / "p" / "agent-9.jsonl", "a", "9")
    transcript(tmp_path / "o" / ".hidden" / "z.jsonl", "z")
    (tmp_path / "p" / "b" / "subagents" / "agent-1.meta.json").write_text('{"agentType": "Plan"}')
    (tmp_path / "p" / "empty.jsonl").touch()
    (tmp_path / "p" / "junk.jsonl").write_bytes(b"\x00" * 100_000)
    (tmp_path / "p" / "image.png").write_bytes(b"\x89PNG")
    found = sources([tmp_path])
    assert names(found, tmp_path) == [
        "o/.hidden/z.jsonl",
        "p/a.jsonl",
        "p/agent-9.jsonl",
        "p/b.jsonl",
        "p/b/subagents/agent-1.jsonl",
        "p/b/subagents/agent-2.jsonl",
        "p/c.jsonl",
        "p/agent-8.jsonl",
    ]
    assert [(record.session, record.agent) for record in given(found) if isinstance(record, LoggedRequest)] == [
        *[("z", ""), ("a", ""), ("a", "9"), ("b", ""), ("b", "1"), ("b", "2"), ("c", ""), ("c", "8")],
    ]


def test_sessions_of_a_directory_come_by_when_they_began_and_of_copies_the_largest_first(tmp_path: Path) -> None:
    for name, start, turns in (("d", 0, 3), ("c", 100, 1), ("b", 100, 4), ("a", 200, 1)):
        talk = Talk(name)
        talk.notes(START + 900)
        talk.asks(START + start)
        for turn in range(turns):
            talk.answers(START + start + 1 + turn, used(read=1), id=f"msg_{name}{turn}")
        talk.lines.insert(0, talk.lines.pop(-1 - turns))
        talk.write(tmp_path / f"{name}.jsonl")
        transcript(tmp_path / name / "subagents" / "agent-1.jsonl", name, "1")
    found = sources([tmp_path])
    assert [source.path.name for source in found if source.path.parent == tmp_path] == [
        *["d.jsonl", "b.jsonl", "c.jsonl", "a.jsonl"],
    ]
    assert [source.path.parts[-3] for source in found if source.path.parent != tmp_path] == ["d", "b", "c", "a"]
    assert names(found[:2], tmp_path) == ["d.jsonl", "d/subagents/agent-1.jsonl"]


def test_each_file_is_read_once_and_links_that_go_round_are_not_followed_twice(tmp_path: Path) -> None:
    path = transcript(tmp_path / "deep" / "er" / "s1.jsonl")
    (tmp_path / "deep" / "er" / "up").symlink_to(tmp_path)
    (tmp_path / "deep" / "again.jsonl").symlink_to(path)
    (tmp_path / "deep" / "nowhere.jsonl").symlink_to(tmp_path / "gone")
    (tmp_path / "deep" / "self.jsonl").symlink_to(tmp_path / "deep" / "self.jsonl")
    assert len(sources([tmp_path, path, tmp_path / "deep"])) == 1


@unreadable
def test_a_file_that_cannot_be_read_is_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    transcript(tmp_path / "a.jsonl", "a")
    (tmp_path / "b.jsonl").symlink_to("/proc/self/mem")
    transcript(tmp_path / "c.jsonl", "c")
    found = sources([tmp_path])
    assert [source.format for source in found] == [UNREADABLE, "claude-code", "claude-code"]
    broken, first, last = given(found)
    assert isinstance(first, LoggedRequest)
    assert isinstance(last, LoggedRequest)
    assert broken == BrokenSource("b.jsonl", "cannot be read (Input/output error)")
    with pytest.raises(HoldfastError, match=r"b\.jsonl cannot be read \(Input/output error\); check the path"):
        sources([tmp_path / "b.jsonl"])


def test_a_directory_that_may_not_be_listed_is_said(tmp_path: Path) -> None:
    transcript(tmp_path / "a.jsonl", "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b").chmod(0)
    if os.access(tmp_path / "b", os.R_OK):
        pytest.skip("this user may read every directory; run the tests as another one")
    found = sources([tmp_path])
    (tmp_path / "b").chmod(0o700)
    assert [source.format for source in found] == [UNREADABLE, "claude-code"]


def test_a_directory_that_cannot_be_listed_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transcript(tmp_path / "a.jsonl", "a")
    (tmp_path / "b").mkdir()
    listing = Path.iterdir

    def iterdir(path: Path):  # type: ignore[no-untyped-def]
        if path.name == "b":
            raise PermissionError(13, "Permission denied")
        return listing(path)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    broken, first = given(sources([tmp_path]))
    assert isinstance(first, LoggedRequest)
    assert broken == BrokenSource("b", "cannot be read (Permission denied)")


def test_a_file_that_vanishes_between_finding_and_reading_is_said(tmp_path: Path) -> None:
    transcript(tmp_path / "a.jsonl", "a")
    transcript(tmp_path / "b.jsonl", "b")
    found = sources([tmp_path])
    (tmp_path / "a.jsonl").unlink()
    broken, last = given(found)
    assert broken == BrokenSource("a.jsonl", "cannot be read (No such file or directory)")
    assert isinstance(last, LoggedRequest)


def test_logs_of_known_clients_are_found_under_the_home_directory(tmp_path: Path) -> None:
    assert home_sources(tmp_path, {}) == []
    transcript(tmp_path / ".claude" / "projects" / "-work" / "s1.jsonl")
    (tmp_path / ".claude" / "projects" / "-work" / "s1" / "tool-results").mkdir(parents=True)
    (tmp_path / ".claude" / "projects" / "-work" / "s1" / "tool-results" / "x.json").write_text('{"messages": []}')
    found = home_sources(tmp_path, {})
    assert names(found, tmp_path) == [".claude/projects/-work/s1.jsonl"]
    assert [source.client for source in found] == ["claude-code"]


def test_the_variable_that_moves_claude_codes_home_is_respected(tmp_path: Path) -> None:
    transcript(tmp_path / ".claude" / "projects" / "-work" / "s1.jsonl")
    transcript(tmp_path / "elsewhere" / "projects" / "-work" / "s2.jsonl")
    (tmp_path / "other").mkdir()
    for value in (str(tmp_path / "elsewhere"), "~/elsewhere"):
        found = home_sources(tmp_path, {"CLAUDE_CONFIG_DIR": value})
        assert names(found, tmp_path) == ["elsewhere/projects/-work/s2.jsonl"]
    assert home_sources(tmp_path, {"CLAUDE_CONFIG_DIR": str(tmp_path / "other")}) == []


def test_every_known_client_has_its_places(tmp_path: Path) -> None:
    def where(**environ: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, place in places(tmp_path, environ):
            found.setdefault(name, []).append(str(place.relative_to(tmp_path)))
        return found

    assert where() == {
        "claude-code": [".claude/projects", ".config/claude/projects"],
        "codex": [".codex/sessions", ".codex/archived_sessions"],
        "pi": [".pi/agent/sessions"],
        "opencode": [".local/share/opencode/storage", ".local/share/opencode/opencode.db"],
        "store": [".holdfast/holdfast.db"],
    }
    moved = where(
        CODEX_HOME="~/cx",
        PI_CODING_AGENT_DIR=str(tmp_path / "pi"),
        XDG_DATA_HOME=str(tmp_path / "data"),
        HOLDFAST_HOME=str(tmp_path / "hf"),
        OPENCODE_DB="own.db",
    )
    assert moved["codex"] == ["cx/sessions", "cx/archived_sessions"]
    assert moved["pi"] == ["pi/sessions"]
    assert moved["opencode"] == ["data/opencode/storage", "data/opencode/own.db"]
    assert moved["store"] == ["hf/holdfast.db"]
    assert where(PI_CODING_AGENT_SESSION_DIR=str(tmp_path / "ps"))["pi"] == ["ps"]
    assert where(HOLDFAST_STORE_URL=f"sqlite:///{tmp_path}/gate%20way.db")["store"] == ["gate way.db"]


def test_a_configuration_that_cannot_be_read_hides_no_logs(tmp_path: Path) -> None:
    (tmp_path / ".holdfast").mkdir()
    (tmp_path / ".holdfast" / "holdfast.toml").write_text("not = [valid")
    transcript(tmp_path / ".claude" / "projects" / "-work" / "s1.jsonl")
    assert len(home_sources(tmp_path, {})) == 1
