"""The traces the tests read: our own, which are always there, and recordings of real sessions, which may not be."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from holdfast.lab import Trace, read

ROOT = Path(__file__).parents[2]
OWN = ROOT / "tests" / "fixtures" / "traces"
# The recordings are not part of the repository.
RECORDED = Path(os.environ.get("HOLDFAST_TEST_TRACES") or ROOT.parent / "shared" / "traces")

needs_recordings = pytest.mark.skipif(
    not RECORDED.is_dir(), reason="the recorded traces are not on this machine (HOLDFAST_TEST_TRACES)"
)


@functools.cache
def _traces(folder: Path) -> dict[str, Trace]:
    return {trace.name: trace for trace in read(folder)}


def own(name: str) -> Trace:
    """One of our own traces by the name of its session."""
    return _traces(OWN)[name]


def recorded(name: str) -> Trace:
    return _traces(RECORDED)[name]
