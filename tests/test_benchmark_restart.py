"""What restarts of a gateway cost, as money: the quick form of the benchmark keeps its limits."""

from __future__ import annotations

import pytest

from benchmarks import restart


@pytest.mark.slow
def test_a_restart_costs_next_to_nothing() -> None:
    results = list(restart.run(quick=True))
    assert len(results) == len(restart.CLIENTS) * len(restart.LIMITS)
    assert [(result.name, result.value, result.note) for result in results if not result.kept] == []
