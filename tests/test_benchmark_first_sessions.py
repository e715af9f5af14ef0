"""What sessions cost from the first request on: the benchmark runs, on our own small sessions too."""

from __future__ import annotations

import math

import pytest

from benchmarks import first_sessions, recordings
from benchmarks.first_session_clients import JUDGED, OTHERS, Recorded, one_shots


@pytest.mark.slow
def test_every_figure_of_the_quick_form_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "FOLDER", recordings.OWN)
    recordings.traces.cache_clear()
    try:
        results = list(first_sessions.run(quick=True))
    finally:
        recordings.traces.cache_clear()
    names = [result.name for result in results]
    assert len(set(names)) == len(names) == len(JUDGED) + 1 + 2 + 1 + 4 + 3
    assert [result.name for result in results if not math.isfinite(result.value) or result.value < 0] == []


@pytest.mark.parametrize("client", [*JUDGED, *OTHERS], ids=lambda client: client.name)
def test_a_client_that_is_left_alone_pays_what_it_pays_alone(client: Recorded) -> None:
    """Both sides are counted alike: where the engine plans nothing, there is no difference."""
    requests = client.session(first_sessions.LENGTH)
    ours, _ = first_sessions.through(requests, settings=first_sessions.ALONE)
    assert ours.paid == first_sessions.alone(requests).paid > 0


def test_one_shots_share_the_file_and_nothing_behind_it() -> None:
    first, second = (request.raw for request in one_shots(2, 100, marked=True))
    same = next(at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other)
    assert first[:same].endswith(b"question ")
    assert b"the file" in first[:same]
    assert first[:same].count(b"cache_control") == 2
