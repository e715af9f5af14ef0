from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.store import SqliteStore, open_existing
from tests.report.workday import Workday, work


@pytest.fixture(scope="session")
def workday(tmp_path_factory: pytest.TempPathFactory) -> Workday:
    return work(tmp_path_factory.mktemp("workday") / "holdfast.db")


@pytest.fixture
def store(workday: Workday) -> Iterator[SqliteStore]:
    opened = open_existing(workday.path)
    assert opened is not None
    with opened:
        yield opened
