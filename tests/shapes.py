"""The recorded requests of real clients, as values. Tests build on these instead of hand-made bodies.

`fixtures/shapes/README.md` says where they come from and what in them is the clients' own.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import msgspec
import pytest

FIXTURES = Path(__file__).parent / "fixtures" / "shapes"
# The recordings themselves are not part of the repository.
SOURCE = Path(os.environ.get("HOLDFAST_TEST_RECORDINGS") or Path(__file__).parents[2] / "shared" / "shapes")
needs_recordings = pytest.mark.skipif(
    not SOURCE.is_dir(), reason="the recordings the fixtures were made from are not on this machine"
)


class Shape(msgspec.Struct, frozen=True):
    """One request as a client sent it. `at` counts seconds from the first request of the run."""

    client: str
    run: str
    n: int
    at: float
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes | None

    @property
    def dialect(self) -> str | None:
        """The wire dialect that the path tells, None where it is no model call."""
        path = self.path.partition("?")[0]
        if path.endswith("/messages"):
            return "anthropic"
        if path.endswith("/chat/completions"):
            return "openai_chat"
        if path.endswith("/responses"):
            return "openai_responses"
        return "gemini" if path.endswith((":generateContent", ":streamGenerateContent")) else None

    @property
    def id(self) -> str:
        """For `pytest.mark.parametrize(ids=…)`."""
        return f"{self.client}/{self.run or 'run'}/{self.n}"

    def header(self, name: str) -> str | None:
        """The first value of a header, whatever the case of its name."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


@functools.cache
def _all() -> tuple[Shape, ...]:
    shapes = []
    for path in sorted(FIXTURES.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            body = record.pop("body")
            headers = tuple((name, value) for name, value in record.pop("headers"))
            raw = None if body is None else body.encode("utf-8", "surrogatepass")
            shapes.append(Shape(**record, headers=headers, body=raw))
    return tuple(shapes)


def load(client: str | None = None) -> list[Shape]:
    """All recorded requests, or those of one client, in the order of their recording."""
    found = [shape for shape in _all() if client in (None, shape.client)]
    if not found:
        raise LookupError(f"no recorded client {client!r}; there are {sorted({s.client for s in _all()})}")
    return found


def conversations() -> dict[tuple[str, str], list[Shape]]:
    """The requests by client and run, each run in its order."""
    runs: dict[tuple[str, str], list[Shape]] = {}
    for shape in _all():
        runs.setdefault((shape.client, shape.run), []).append(shape)
    return runs
