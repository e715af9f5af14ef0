"""Recorded requests of real clients, answered by the simulator, as lines of logs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.records import Usage, usage
from holdfast.report.logs.lines import beginning
from holdfast.report.logs.records import BrokenSource, LoggedRequest, Record
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from tests.shapes import Shape, load

START = 1_790_000_000.0
BILLED = {
    "input_tokens": 3,
    "cache_read_input_tokens": 900,
    "cache_creation_input_tokens": 50,
    "cache_creation": {"ephemeral_5m_input_tokens": 40, "ephemeral_1h_input_tokens": 10},
    "output_tokens": 7,
}
AS_BILLED = usage(input=3, read=900, output=7, writes={"5m": 40, "1h": 10})
"""As Anthropic tells it, and what that is."""

KEYS = {"authorization": "Bearer k", "x-api-key": "k", "x-goog-api-key": "k"}


def asked(client: str, *runs: str) -> list[Shape]:
    """The model calls that a client was recorded with, in the order of the runs."""
    found = [shape for shape in load(client) if shape.dialect is not None and shape.body and shape.method == "POST"]
    return [shape for run in runs for shape in found if shape.run == run] if runs else found


def answered(shapes: Iterable[Shape]) -> Iterator[tuple[Shape, str, Usage]]:
    """Each request with the text of its response, and what was billed."""
    simulator = Simulator(clock=VirtualClock(START))
    for shape in shapes:
        path, _, query = shape.path.partition("?")
        asks = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
        headers = {name.lower(): value for name, value in shape.headers} | KEYS
        answer = simulator.answer(HttpRequest(shape.method, path, headers, asks, shape.body or b""))
        assert answer.status == 200, answer.body
        billed = simulator.journal.records()[-1].usage
        assert billed is not None
        yield shape, (b"".join(answer.chunks) if answer.chunks is not None else answer.body).decode(), billed


def body_of(shape: Shape) -> Any:
    return json.loads(shape.body or b"null")


def write(path: Path, lines: Iterable[Any]) -> Path:
    texts = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path.write_bytes(b"".join(text + b"\n" for text in texts))
    return path


def records(module: ModuleType, path: Path) -> list[Record]:
    """All that a reader gives, which tells of as many bytes as there are."""
    told: list[int] = []
    found = list(module.read(path, told.append))
    assert sum(told) == path.stat().st_size
    return found


def requests(module: ModuleType, path: Path) -> list[LoggedRequest]:
    found = records(module, path)
    broken = [record for record in found if isinstance(record, BrokenSource)]
    assert not broken
    return [record for record in found if isinstance(record, LoggedRequest)]


def lanes(found: Sequence[Record]) -> list[tuple[str, str]]:
    return [(record.session, record.agent) for record in found if isinstance(record, LoggedRequest)]


def is_mine(module: ModuleType, path: Path) -> bool:
    mine: bool = module.is_mine(path, beginning(path))
    return mine


def talk(turns: int, *, first: str = "Why is the sky blue?", system: str = "Be brief.") -> dict[str, Any]:
    """A body with so many answers in it."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": first}]
    for number in range(turns):
        messages.append({"role": "assistant", "content": f"{first}: answer {number}"})
        messages.append({"role": "user", "content": f"{first}: and then {number}?"})
    return {"model": "claude-opus-5-5", "max_tokens": 99, "system": system, "messages": messages}
