"""Gateways are tested without what the machine has configured, and before a provider that says OK."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .gate import OK, Gated, Provider, gated


@pytest.fixture(autouse=True)
def nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("HOLDFAST_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider(OK) as provider:
        yield provider


@pytest.fixture
def gate(provider: Provider, tmp_path: Path) -> Iterator[Gated]:
    with gated(tmp_path, provider.address) as gate:
        yield gate
