"""What the machine has configured is nothing to these tests."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("HOLDFAST_"):
            monkeypatch.delenv(name)
