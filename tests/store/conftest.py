from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.store import SqliteStore, open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "holdfast.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with open_store(path) as opened:
        yield opened
