"""Before the first request everything is loaded that is loaded on first use, however long that takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partialmethod
from typing import Any

import pytest

from holdfast.engine.passage import Passage, Passages, Timers
from holdfast.engine.passage.warmup import warm_up
from holdfast.wire import DIALECTS


def slow(passages: Passages, begin: Callable[..., None], *given: Any, **options: Any) -> None:
    """Passages of a machine on which hours go by whenever somebody looks at a clock, if they are not given one."""
    hours = iter(range(0, 10**9, 3_600))
    timers = Timers(lambda: float(next(hours)), lambda: float(next(hours)))
    begin(passages, *given, **{"timers": timers, **options})


def test_a_slow_machine_is_warmed_up_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    passages: list[Passage] = []
    enter = Passage.enter

    def watched(passage: Passage) -> None:
        enter(passage)
        passages.append(passage)

    monkeypatch.setattr(Passage, "enter", watched)
    monkeypatch.setattr(Passages, "__init__", partialmethod(slow, Passages.__init__))
    warm_up.__wrapped__()
    assert [(passage.bypass, passage.prepared is None) for passage in passages] == [(None, False)] * len(passages)
    assert {passage.dialect.name for passage in passages} == {name for name in DIALECTS if name != "openrouter"}
