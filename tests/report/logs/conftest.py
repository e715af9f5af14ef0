from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.logs.opencode_logs import Base, Store, Tree


@pytest.fixture(params=["database", "early database", "files"])
def opencode(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Where opencode keeps its sessions, or did."""
    if request.param == "files":
        return Tree(tmp_path / "storage")
    return Base(tmp_path / "opencode.db", early=request.param == "early database")
