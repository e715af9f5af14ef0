from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.store import SqliteStore, open_existing
from tests.report.worked import Worked, work


@pytest.fixture(scope="session")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Worked:
    return work(tmp_path_factory.mktemp("worked") / "holdfast.db")


@pytest.fixture
def store(worked: Worked) -> Iterator[SqliteStore]:
    opened = open_existing(worked.path)
    assert opened is not None
    with opened:
        yield opened
