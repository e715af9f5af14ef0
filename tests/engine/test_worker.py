"""Work that nobody waits for."""

from __future__ import annotations

import threading

import pytest

from holdfast.engine.worker import Worker


def test_it_is_done_in_order_and_all_of_it_when_flushed() -> None:
    behind, done = Worker("test"), list[int]()
    for number in range(50):
        assert behind.do(lambda number=number: done.append(number))
    behind.flush()
    assert done == list(range(50))
    assert behind.do(lambda: done.append(50))
    behind.flush()
    behind.flush()
    assert done[-1] == 50


def test_what_does_not_fit_is_refused_and_nobody_waits() -> None:
    gate, behind = threading.Event(), Worker("test", most=2)
    assert behind.do(lambda: gate.wait(30))
    assert behind.do(lambda: None)
    assert not behind.do(lambda: None)
    gate.set()
    behind.flush()
    assert behind.do(lambda: None)
    behind.flush()


def test_work_that_fails_is_logged_and_the_rest_is_done(caplog: pytest.LogCaptureFixture) -> None:
    behind, done = Worker("test"), list[int]()
    behind.do(lambda: 1 / 0)
    behind.do(lambda: done.append(1))
    behind.flush()
    assert done == [1]
    assert "ZeroDivisionError" in caplog.text
