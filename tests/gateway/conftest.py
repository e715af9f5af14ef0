"""Gateways are tested without what the machine has configured."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("HOLDFAST_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
