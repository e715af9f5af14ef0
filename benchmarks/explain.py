"""`holdfast explain` on logs of growing size: how many megabytes a second, and whether memory stays the same.

The logs are made on the spot, in the forms of Claude Code's transcripts and of a recorder that keeps request bodies,
and read by the command itself in a process of its own.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks import Result

MODEL = "claude-opus-4-6"
START = 1_790_000_000.0
HEAD = 21_000  # tokens of tools and system text
LINES = (
    "The loader reads the file, checks every field and returns the record.",
    "def load(path):\n    with open(path) as file:\n        return parse(file.read())",
    'FAILED tests/test_loader.py::test_empty - ValueError: "no records"',
    "for name, value in sorted(settings.items()):\n    print(f'{name} = {value}')",
    "Prüfe die Grenzen, bevor du schreibst – und sag, was du getan hast.",
)


def run(*, quick: bool) -> Iterator[Result]:
    small, large = (60, 200) if quick else (100, 1_000)
    for name, make in (("Claude Code transcripts", transcripts), ("request bodies", bodies)):
        peaks = []
        for size in (small, large):
            with tempfile.TemporaryDirectory() as folder:
                written = make(Path(folder), size * 1_000_000)
                seconds, peak = explain(Path(folder))
            peaks.append(peak)
            note = f"{written / 1e6:,.0f} MB in {seconds:.1f} s, peak {peak / 1e6:.0f} MB"
            yield Result(f"{name}, {size} MB", written / 1e6 / seconds, "MB/s", 30, "higher", note)
        yield Result(f"{name}, peak memory at {large} MB against {small} MB", peaks[1] / peaks[0], "x", 1.2, "lower")


def explain(folder: Path) -> tuple[float, int]:
    """Seconds and peak memory of the command."""
    arguments = ["-m", "holdfast", "explain", str(folder), "--format", "json", "--output", os.devnull, "--quiet"]
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments])
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - begin
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"holdfast explain ended with {process.returncode}")
    return seconds, used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def transcripts(folder: Path, size: int) -> int:
    """Sessions of 150 requests, about a megabyte each; one in fifty requests reads less than it could."""
    return _files(folder, size, lambda chance, number: _transcript(chance, f"{number:08x}-0000"))


def bodies(folder: Path, size: int) -> int:
    """Sessions of 60 requests whose bodies grow to some hundred kilobytes, with what was billed for them."""
    return _files(folder, size, lambda chance, number: _recorded(chance, f"session-{number}"))


def _files(folder: Path, size: int, lines: Callable[[random.Random, int], Iterator[dict[str, Any]]]) -> int:
    written = number = 0
    while written < size:
        number += 1
        chance = random.Random(number)
        with (folder / f"{number:08x}.jsonl").open("wb") as file:
            for line in lines(chance, number):
                written += file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return written


def _text(chance: random.Random, chars: int) -> str:
    return "\n".join(chance.choices(LINES, k=max(1, chars // 70)))


def _billed(chance: random.Random, covered: int, grown: int) -> dict[str, Any]:
    read = HEAD if covered and chance.random() < 0.02 else covered
    written = max(HEAD, covered) + grown - read
    return {
        "input_tokens": 3,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
        "output_tokens": chance.randrange(20, 800),
        "service_tier": "standard",
    }


def _transcript(chance: random.Random, session: str) -> Iterator[dict[str, Any]]:
    at, covered, parent = START + chance.randrange(10**6), 0, None
    for number in range(150):
        at += chance.choice([5, 9, 20, 60, 290])
        said = {
            "tool_use_id": f"toolu_{number}",
            "type": "tool_result",
            "content": _text(chance, chance.randrange(9_000)),
        }
        about = {
            "isSidechain": False,
            "userType": "external",
            "cwd": "/work",
            "sessionId": session,
            "version": "2.1.325",
        }
        yield {
            "parentUuid": parent,
            **about,
            "type": "user",
            "message": {"role": "user", "content": [said]},
            "uuid": f"{session}-u{number}",
            "timestamp": _stamp(at),
            "toolUseResult": {"stdout": said["content"], "stderr": "", "interrupted": False},
        }
        usage = _billed(chance, covered, grown := chance.randrange(200, 2_500))
        covered = max(HEAD, covered) + grown
        content = (
            {"type": "text", "text": _text(chance, 300)},
            {"type": "tool_use", "id": f"toolu_{number + 1}", "name": "Bash", "input": {"command": _text(chance, 200)}},
        )
        for part, block in enumerate(content):
            message = {"id": f"msg_{session}_{number}", "type": "message", "role": "assistant", "model": MODEL}
            parent = f"{session}-a{number}-{part}"
            yield {
                "parentUuid": f"{session}-u{number}",
                **about,
                "type": "assistant",
                "message": message | {"content": [block], "stop_reason": None, "usage": usage},
                "requestId": f"req_{session}_{number}",
                "uuid": parent,
                "timestamp": _stamp(at + 3 + part),
            }


def _recorded(chance: random.Random, session: str) -> Iterator[dict[str, Any]]:
    at, covered = START + chance.randrange(10**6), 0
    tools = [{"name": f"tool_{n}", "description": _text(chance, 900), "input_schema": {}} for n in range(12)]
    system = [{"type": "text", "text": _text(chance, 14_000), "cache_control": {"type": "ephemeral"}}]
    messages: list[dict[str, Any]] = [{"role": "user", "content": _text(chance, 500)}]
    for number in range(60):
        at += chance.choice([5, 9, 20, 60, 290])
        marked = json.loads(json.dumps(messages[-1]))
        if isinstance(marked["content"], str):
            marked["content"] = [{"type": "text", "text": marked["content"]}]
        marked["content"][-1]["cache_control"] = {"type": "ephemeral"}
        body = {
            "model": MODEL,
            "max_tokens": 4_096,
            "system": system,
            "tools": tools,
            "messages": [*messages[:-1], marked],
        }
        usage = _billed(chance, covered, grown := chance.randrange(200, 2_500))
        covered = max(HEAD, covered) + grown
        yield {"session": session, "at": at, "path": "/v1/messages", "body": body, "usage": usage}
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "tool_1", "input": {"command": _text(chance, 200)}}
        found = _text(chance, chance.randrange(9_000))
        messages += [
            {"role": "assistant", "content": [{"type": "text", "text": _text(chance, 300)}, call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": found}]},
        ]


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
