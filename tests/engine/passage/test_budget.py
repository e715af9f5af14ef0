"""What counts against the limit of our own work: processor time, more of it for what was never read, and no waiting."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.config.sections.server import GatewaySettings, LimitSettings
from holdfast.engine.passage.fail_open import Slow, TimeBudget
from tests.engine.driver import raw_of, talk
from tests.engine.passage.door import Door

LIMITS = LimitSettings(stages_ms=50, wait_ms=1_000)


def hurried() -> Door:
    return Door(gateway=GatewaySettings(limits=LIMITS))


def large() -> bytes:
    """A conversation of a megabyte that nobody has named."""
    request = json.loads(raw_of(talk(1)))
    said = [
        {"role": "user", "content": [{"type": "text", "text": f"part {part} " + "of it " * 1_600}]}
        for part in range(100)
    ]
    answer = {"role": "assistant", "content": [{"type": "text", "text": "Go on."}]}
    request["messages"] = [each for one in said for each in (one, answer)] + [{"role": "user", "content": "So?"}]
    return json.dumps(request, separators=(",", ":")).encode()


def working(door: Door, owner: Any, name: str, seconds: float, patch: pytest.MonkeyPatch) -> None:
    """Something takes so much of our own time whenever it is called."""
    does = getattr(owner, name)

    def slowly(*args: Any, **more: Any) -> Any:
        door.work += seconds
        return does(*args, **more)

    patch.setattr(owner, name, slowly)


@pytest.mark.parametrize(("seconds", "bypass"), [(0.4, None), (0.7, "slow")])
def test_what_was_never_read_may_take_longer(
    seconds: float, bypass: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    door, raw = hurried(), large()
    assert 900_000 < len(raw) < 1_100_000
    working(door, door.engine, "read", seconds, monkeypatch)
    assert door.begin(raw, session=None).bypass == bypass
    door.close()


def test_what_was_read_before_may_not(monkeypatch: pytest.MonkeyPatch) -> None:
    door, raw = hurried(), large()
    assert door.begin(raw, session=None).bypass is None
    working(door, door.engine, "read", 0.4, monkeypatch)
    longer = raw[:-2] + b',{"role":"assistant","content":"So."},{"role":"user","content":"And?"}]}'
    assert door.begin(longer, session=None).bypass == "slow"
    door.close()


@pytest.mark.parametrize("what", ["identities", "engine"])
def test_what_is_loaded_is_not_counted(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    door = hurried()
    working(door, getattr(door, what), "load", 1.0, monkeypatch)
    assert door.begin(raw_of(talk(1)), session=None).bypass is None
    assert door.work >= 1.0
    door.close()


@pytest.mark.parametrize(("seconds", "bypass"), [(0.9, None), (1.2, "slow")])
def test_waiting_is_no_work_but_has_an_end(seconds: float, bypass: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    door, waited = hurried(), [0.0]
    parse = door.engine.parse

    def waiting(*args: Any, **more: Any) -> Any:
        waited[0] += seconds
        return parse(*args, **more)

    door.passages.timers = replace(door.passages.timers, wall=lambda: waited[0])
    monkeypatch.setattr(door.engine, "parse", waiting)
    assert door.begin(raw_of(talk(1))).bypass == bypass
    door.close()


def test_only_work_of_this_thread_counts() -> None:
    budget = TimeBudget()
    time.sleep(0.06)
    budget.check(LIMITS)
    until = time.thread_time() + 0.06
    while time.thread_time() < until:
        pass
    with pytest.raises(Slow):
        budget.check(LIMITS)
    budget.check(replace(LIMITS, stages_ms=10_000))
