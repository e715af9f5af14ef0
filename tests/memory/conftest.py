"""A store of each test's own, and what stands on one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store import SqliteStore, open_store
from tests.memory.memory_door import MemoryDoor
from tests.memory.surfacing_bench import Bench, bench


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with open_store(tmp_path / "holdfast.db") as opened:
        yield opened


@pytest.fixture
def door(tmp_path: Path) -> Iterator[MemoryDoor]:
    made = MemoryDoor(tmp_path / "m.db")
    yield made
    made.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path) as made:
        yield made
