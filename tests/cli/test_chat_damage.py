"""A session whose log was damaged on disk: `holdfast chat` goes on from what stands before, and says what was lost."""

from __future__ import annotations

import random
import re
import stat
import subprocess
import sys
from pathlib import Path
from zlib import crc32

import pytest

from holdfast.agent.log import Log, read_content, read_log
from holdfast.records.events.agent import TurnToolsAnswered
from holdfast.records.events.sessions import SessionSalvaged
from tests.cli.chats import Chatting

FLIPS = 24


@pytest.fixture
def session(chat: Chatting) -> str:
    first = chat("First words", "--yes")
    chat("--resume", first.session, "--yes", "RUN-A-COMMAND now")
    chat("--resume", first.session, "Third words")
    return first.session


def log_of(chat: Chatting, session: str) -> Path:
    return chat.home / "sessions" / f"{session}.jsonl"


def beginning(log: Path) -> int:
    """Bytes of the lines that were written when the session began."""
    lines = log.read_bytes().splitlines(keepends=True)
    return sum(len(line) for line in lines[: next(n for n, line in enumerate(lines) if b"turn.started" in line)])


def test_a_flipped_byte_anywhere_is_noticed_and_salvaged(chat: Chatting, session: str) -> None:
    log = log_of(chat, session)
    whole, begun = log.read_bytes(), beginning(log)
    draw = random.Random(7)
    places = [draw.randrange(begun, len(whole)) for _ in range(FLIPS)] + [len(whole) - 1, begun]
    for at in places:
        flipped = bytes([whole[at] ^ (1 << draw.randrange(8))])
        log.write_bytes(whole[:at] + flipped + whole[at + 1 :])
        damaged = log.read_bytes()
        done = chat("--resume", session, "Go on")
        # Where a result was left unanswered, the scripted model speaks of that.
        assert (done.code, "Go on" in done.out or "It said" in done.out) == (0, True), (at, flipped, done)
        line = whole[:at].count(b"\n") + 1
        assert f"session {session}: line {line} is damaged at byte" in done.err, (at, flipped, done.err)
        copy = Path(re.search(r"the whole file is kept as (\S+)", " ".join(done.err.split()))[1])  # type: ignore[index]
        assert copy.read_bytes() == damaged
        assert stat.S_IMODE(copy.stat().st_mode) == 0o600
        copy.unlink()
        content = read_content(log)
        assert content.damage is None
        assert log.read_bytes().startswith(b"".join(whole.splitlines(keepends=True)[: line - 1]))
        (salvaged,) = [each.payload for each in content.envelopes if isinstance(each.payload, SessionSalvaged)]
        assert salvaged.line == line
        assert not content.state.open_calls
        assert "is damaged" not in chat("--resume", session, "Again").err


@pytest.mark.parametrize("at", [0, 40, 1_000])
def test_a_damaged_beginning_is_refused_and_left_alone(chat: Chatting, session: str, at: int) -> None:
    log = log_of(chat, session)
    whole = log.read_bytes()
    assert at < beginning(log)
    log.write_bytes(whole[:at] + b"\0" + whole[at + 1 :])
    before = log.read_bytes()
    for option in ("--resume", "--fork"):
        done = chat(option, session, "Go on")
        assert done.code == 1
        assert "is damaged at byte" in done.err
        assert "before the session had begun" in done.err
        assert "Traceback" not in done.err
    assert log.read_bytes() == before
    assert not log.with_name(f"{log.name}.damaged").exists()
    listed = chat.done("--list")
    assert f"session {session}: line" in listed.err


def test_a_call_that_lost_its_answer_is_answered(chat: Chatting, session: str) -> None:
    log = log_of(chat, session)
    lines = log.read_bytes().splitlines(keepends=True)
    answered = next(n for n, line in enumerate(lines) if b"turn.tools_answered" in line)
    log.write_bytes(b"".join(lines[:answered]) + b"\xff" + b"".join(lines[answered:]))
    done = chat.done("--resume", session, "Go on")
    assert "not valid UTF-8" in done.err
    answers = [each.payload for each in read_log(log) if isinstance(each.payload, TurnToolsAnswered)]
    assert "it may have run in part or not at all" in answers[-1].messages


def test_a_fork_leaves_the_damaged_one_as_it_is(chat: Chatting, session: str) -> None:
    log = log_of(chat, session)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:-3]) + b"torn" + b"".join(lines[-3:]))
    before = log.read_bytes()
    done = chat.done("--fork", session, "Go on")
    assert f"session {session} stays as it is" in " ".join(done.err.split())
    assert log.read_bytes() == before
    assert any(isinstance(each.payload, SessionSalvaged) for each in read_log(log_of(chat, done.session)))


@pytest.mark.parametrize(
    ("known", "unknown"),
    [
        (b'"type":"turn.started"', b'"type":"turn.dreamt"'),
        (b'"type":"turn.started"', b'"mood":1,"type":"turn.started"'),
        (b'"reset":null', b'"reset":"summary_edited"'),
    ],
    ids=["event", "member", "value"],
)
def test_one_that_another_version_wrote_is_refused_and_left_alone(
    chat: Chatting, session: str, known: bytes, unknown: bytes
) -> None:
    log = log_of(chat, session)
    lines = log.read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if known in line)
    body = lines[number].replace(known, unknown).rpartition(b',"crc"')[0]
    lines[number] = b'%s,"crc":"%08x"}\n' % (body, crc32(body))
    log.write_bytes(b"".join(lines))
    before = log.read_bytes()
    for option in ("--resume", "--fork"):
        done = chat(option, session, "Go on")
        assert done.code == 1
        assert f"line {number + 1} of" in done.err
        assert "was written by another version of Holdfast" in " ".join(done.err.split())
    assert log.read_bytes() == before
    assert [path.name for path in log.parent.iterdir() if path.name.startswith(log.name)] == [log.name]


def test_the_list_names_a_damaged_one(chat: Chatting, session: str) -> None:
    log = log_of(chat, session)
    log.write_bytes(log.read_bytes() + b'{"type":"of another world"}\n')
    listed = chat("--list")
    assert "First words" in listed.out
    assert "--resume goes on from what stands before" in " ".join(listed.err.split())
    assert "lost: 1 event;" in " ".join(listed.err.split())


def test_a_second_process_is_kept_out_of_a_damaged_one(chat: Chatting, session: str) -> None:
    log = log_of(chat, session)
    log.write_bytes(log.read_bytes() + b"nonsense\n")
    before = log.read_bytes()
    held = Log.open(log.parent, session)
    try:
        assert "is in use by another process" in chat("--resume", session, "Hello").err
    finally:
        held.close()
    assert log.read_bytes() == before


def test_in_a_process_of_its_own(chat: Chatting, session: str) -> None:
    log = log_of(chat, session)
    damaged = log.read_bytes() + b"\0\0\n"
    log.write_bytes(damaged)
    command = [sys.executable, "-m", "holdfast", "chat", "--simulate", "--resume", session, "Go on"]
    done = subprocess.run(command, cwd=chat.workspace, env=chat.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "Go on" in done.stdout
    copy = log.with_name(f"{log.name}.damaged")
    assert copy.name in done.stderr
    assert copy.read_bytes() == damaged
