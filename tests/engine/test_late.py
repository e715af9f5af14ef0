"""What is encoded when it is written says the same with and without a listener, and is encoded once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import asdict

from holdfast.records.events import Bus
from holdfast.store import CallDraft
from holdfast.store.sqlite import writer as writer_module

from .driver import Driver, talk


def stored(path: Path, bus: Bus | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows and the events of a session with a break, an abandoned and a failed call; ids by their order."""
    driver = Driver(path=path, bus=bus)
    calls = [driver.send(talk(turns), 30, turn=f"turn-{turns}")[0].call for turns in range(3)]
    for error in ("", "overloaded_error"):
        prepared = driver.prepare(talk(3))
        driver.bill(prepared).abandon()
        driver.engine.abandon(prepared, now=driver.now, error=error)
        calls.append(prepared.call)
    driver.wait(4_000)
    calls.append(driver.send(talk(3))[0].call)
    driver.restart()
    found, events = driver.store.calls("t"), driver.store.events("t", "s")
    driver.close()
    assert [row.id for row in found] == calls
    assert [event.id for event in events] == sorted(event.id for event in events)
    rows = [{**asdict(row), "id": calls.index(row.id)} for row in found]
    told = [asdict(event) for event in events]
    for each in told:
        payload = {"type": each["payload"].type, **asdict(each["payload"])}
        call = payload.get("call", UNSET)
        each |= {"id": None, "payload": payload | ({} if call is UNSET else {"call": calls.index(str(call))})}
    return rows, told


def test_without_a_listener_the_same_is_stored_as_with_one(tmp_path: Path) -> None:
    with Bus() as bus:
        at_once = stored(tmp_path / "a.db", bus)
    later = stored(tmp_path / "b.db", None)
    assert later[0] == at_once[0]
    assert later[1] == at_once[1]
    assert {row["status"] for row in later[0]} == {"settled", "abandoned", "failed"}
    assert {"cache.break", "llm.call_failed"} <= {each["payload"]["type"] for each in later[1]}


def test_a_call_that_is_over_before_it_was_written_is_encoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "LINGER", 60.0)
    driver, made, encoded = Driver(path=tmp_path / "h.db"), [], CallDraft.encoded
    monkeypatch.setattr(CallDraft, "encoded", lambda draft: made.append(draft) or encoded(draft))
    prepared = driver.send(talk(0))[0]
    assert made == []
    driver.restart()
    row = driver.store.call("t", prepared.call)
    assert row.status == "settled"
    assert len(made) == 1
    driver.close()
