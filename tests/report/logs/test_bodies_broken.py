"""Logs of request bodies: lines that cannot be read, files that are something else, what must not be shown."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdfast.report.logs import bodies, chat, shapes
from holdfast.report.logs.records import BrokenSource, LoggedRequest
from tests.report.logs.request_logs import AS_BILLED, BILLED, is_mine, records, requests, talk, write
from tests.shapes import FIXTURES


def test_usage_counts_where_the_body_is_lost(tmp_path: Path) -> None:
    told = {"session": "s", "model": "claude-opus-5-5", "usage": BILLED}
    lines: list[Any] = [
        {**told, "body": json.dumps(talk(0))[:80] + "… [cut]"},
        told,
        {**told, "body": b'{"model":"m","messages":[],"messages":[]}'.decode()},
    ]
    found = requests(bodies, write(tmp_path / "log.jsonl", lines))
    assert [(record.usage, record.body) for record in found] == [(AS_BILLED, None)] * 3
    assert is_mine(bodies, write(tmp_path / "log.jsonl", [told]))


DEEP = b"[" * 200_000 + b"]" * 200_000
BROKEN_LINES = [
    b"{",
    b"nonsense",
    b"[1, 2]",
    b'"text"',
    b"17",
    b"null",
    b'{"body": {"messages": [}',
    b'{"body": 5}',
    b'{"body": {"messages": "none"}}',
    b'{"messages": {"role": "user"}}',
    b'{"body": {"messages": [{"role": 5, "content": "x"}], "model": "m"}}',
    b'{"body": {"messages": [5], "model": "m"}}',
    b'{"body": {"model": "m", "messages": [], "messages": []}}',
    b'{"body": "{\\"messages\\": [{\\"role\\""}',
    b'{"body": {"messages": ' + DEEP + b"}}",
    DEEP,
    b'{"body": "\xff\xfe"}',
    b"\xff\xfe{\x00}\x00",
    b'{"body": {"messages": [{"role": "user", "content": "\xff"}], "model": "m"}, "x": \xff}',
]


def test_a_broken_line_is_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    good = {"body": talk(0), "usage": BILLED}
    lines = [line for bad in BROKEN_LINES for line in (good, bad)]
    path = write(tmp_path / "log.jsonl", [*lines, good])
    found = records(bodies, path)
    broken = {record.source: record.why for record in found if isinstance(record, BrokenSource)}
    assert list(broken) == [f"log.jsonl:{2 * number}" for number in range(1, len(BROKEN_LINES) + 1)]
    assert all(0 < len(why) < 300 for why in broken.values())
    assert sum(isinstance(record, LoggedRequest) for record in found) == len(BROKEN_LINES) + 1


def mutated(line: bytes, rng: Random) -> bytes:
    """A line with a few bytes cut out, put in or changed."""
    text = bytearray(line)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text))
        match rng.randrange(4):
            case 0:
                text[at] = rng.randrange(256)
            case 1:
                del text[at : at + rng.randint(1, 30)]
            case 2:
                text[at:at] = rng.choice(
                    (b'"', b"{", b"}", b"[", b"]", b",", b"\\", b"\\ud800", b"null", b"\xff", b"1e999")
                )
            case _:
                text[at:at] = text[rng.randrange(len(text)) :][:60]
        text = text or bytearray(b"x")
    return bytes(text).replace(b"\n", b" ")


@pytest.mark.parametrize("seed", range(4))
def test_whatever_happened_to_a_line_the_next_one_is_read(tmp_path: Path, seed: int) -> None:
    rng = Random(seed)
    recorded = [line for file in sorted(FIXTURES.glob("*.jsonl")) for line in file.read_bytes().splitlines()]
    good = {"session": "good", "body": talk(0), "usage": BILLED}
    lines = [line for each in rng.sample(recorded, 60) for line in (mutated(each, rng), good)]
    path = write(tmp_path / "log.jsonl", lines)
    is_mine(bodies, path)
    for module in (bodies, chat, shapes):
        found = records(module, path)
        assert {type(record) for record in found} <= {LoggedRequest, BrokenSource}
        if module is bodies:
            assert sum(isinstance(record, LoggedRequest) and record.session == "good" for record in found) == 60


def test_odd_but_readable_lines_are_read(tmp_path: Path) -> None:
    lone = b'{"body":{"model":"claude-x","messages":[{"role":"user","content":"\\ud83d"}]},"x":"\\ude00"}'
    twice = json.dumps({"body": talk(0)}).encode()[:-1] + b',"usage":{},"usage":' + json.dumps(BILLED).encode() + b"}"
    windows = json.dumps({"body": talk(0), "usage": BILLED}).encode() + b"\r"
    marked = b"\xef\xbb\xbf" + json.dumps({"body": talk(0), "usage": BILLED}).encode()
    spaced = json.dumps({"body": talk(0), "usage": BILLED}, indent=None, separators=(" , ", " : ")).encode()
    path = write(tmp_path / "log.jsonl", [marked, lone, twice, windows, b"", b"  ", spaced])
    found = requests(bodies, path)
    assert is_mine(bodies, path)
    assert [record.source.partition(":")[2] for record in found] == ["1", "2", "3", "4", "7"]
    assert b"\\ud83d" in (found[1].body or b"")
    assert [record.usage for record in found] == [AS_BILLED, None, AS_BILLED, AS_BILLED, AS_BILLED]


def test_no_credential_of_a_log_is_handed_on(tmp_path: Path) -> None:
    secret = "sk-very-secret-9"
    headers = {"Authorization": f"Bearer {secret}", "X-Api-Key": secret, "Cookie": secret, "x-goog-api-key": secret}
    lines: list[Any] = [
        {
            "headers": headers,
            "url": f"https://h/v1beta/models/g:generateContent?key={secret}",
            "body": {"contents": []},
        },
        {"headers": headers, "body": talk(0), "usage": BILLED},
        {"request": {"headers": headers, "url": f"https://h/v1/messages?key={secret}", "body": json.dumps(talk(0))}},
        {"headers": headers, "body": {"messages": [5]}},
        {"headers": headers, "url": f"https://h?key={secret}", **talk(0)},
    ]
    assert secret not in repr(records(bodies, write(tmp_path / "log.jsonl", lines)))


def test_other_files_are_not_taken_for_logs_of_requests(tmp_path: Path) -> None:
    others: list[list[Any]] = [
        [{"type": "user", "message": {"role": "user", "content": "Hi"}, "sessionId": "s"}],
        [{"timestamp": "x", "type": "response_item", "payload": {"type": "custom_tool_call", "input": "ls"}}],
        [{"type": "session", "version": 3, "id": "x"}, {"type": "message", "message": {"role": "user"}}],
        [{"event": "started"}, {"event": "stopped"}],
        [[1, 2, 3]],
        [{"input": "a question", "output": "an answer"}],
    ]
    for lines in others:
        assert not is_mine(bodies, write(tmp_path / "log.jsonl", lines)), lines
    assert not bodies.is_mine(tmp_path, b"")
    assert not is_mine(bodies, FIXTURES.parent / "traces" / "shapes.jsonl")
    assert is_mine(shapes, FIXTURES.parent / "traces" / "shapes.jsonl")


def test_a_first_line_longer_than_what_is_looked_at_is_recognised(tmp_path: Path) -> None:
    long = talk(0, first="long " * 40_000)
    for line in ({"body": long, "usage": BILLED}, {"body": json.dumps(long)}, {**long, "usage": BILLED}):
        assert is_mine(bodies, write(tmp_path / "log.jsonl", [line, line]))


def test_a_file_that_is_not_there_is_broken(tmp_path: Path) -> None:
    [record] = bodies.read(tmp_path / "none.jsonl", lambda _: None)
    assert isinstance(record, BrokenSource)
