"""Events of tools reach the bus and the store, whatever a tool put into them."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.records.events import Bus, decode, encode
from holdfast.records.events.tools import McpToolsChanged, ToolCalled, ToolCompleted, ToolOffloaded
from holdfast.store import open_store
from holdfast.tools.journal import ToolJournal


def test_an_event_carries_session_turn_actor_and_time() -> None:
    bus = Bus()
    listening = bus.subscribe()
    ToolJournal(bus, "s", now=lambda: 5).emit(
        ToolCalled(tool="t", tool_use_id="u", input="{}"), turn="t1", actor="agent"
    )
    (envelope,) = listening.drain()
    assert (envelope.session, envelope.turn, envelope.actor, envelope.at) == ("s", "t1", "agent", 5)
    assert decode(encode(envelope)) == envelope


def test_what_the_catalogue_would_refuse_is_mended() -> None:
    bus = Bus()
    listening = bus.subscribe()
    emit = ToolJournal(bus, "s\ud800").emit
    bad = "\ud800" * 5_000
    emit(ToolCompleted(tool=bad, tool_use_id=bad, output=bad, metadata=bad, files_modified=(bad, "fine")), turn=bad)
    emit(McpToolsChanged(server="x" * 300, added=("y" * 300,), removed=("fine",)))
    emit(ToolOffloaded(tool="t", tool_use_id="u", characters=5, path="/" + "p" * 5_000))
    completed, changed, offloaded = listening.drain()
    assert all(decode(encode(each)) == each for each in (completed, changed, offloaded))
    assert isinstance(completed.payload, ToolCompleted)
    assert len(completed.payload.tool) == 256
    assert completed.payload.output == "�" * 5_000
    assert completed.payload.files_modified[1] == "fine"
    assert isinstance(changed.payload, McpToolsChanged)
    assert changed.payload.added == ("y" * 255 + "…",)


def test_nothing_that_goes_wrong_is_raised(caplog: pytest.LogCaptureFixture) -> None:
    bus = Bus()
    emit = ToolJournal(bus, "s").emit
    emit(ToolOffloaded(tool="t", tool_use_id="u", characters=-1, path="p"))
    emit(ToolCalled(tool=5, tool_use_id=None, input={}))  # type: ignore[arg-type]
    emit("no event")  # type: ignore[arg-type]
    assert caplog.text.count("could not be emitted") == 3
    bus.close()
    emit(ToolCalled(tool="t", tool_use_id="u", input=""))
    ToolJournal(None, "s").emit(ToolCalled(tool="t", tool_use_id="u", input=""))


def test_events_are_kept_for_the_tenant_and_a_closed_store_is_no_error(tmp_path: Path) -> None:
    store = open_store(tmp_path / "h.db")
    emit = ToolJournal(None, "s", store=store, tenant="me").emit
    emit(ToolCalled(tool="t", tool_use_id="u", input="\ud800"))
    store.flush()
    (envelope,) = store.events("me", session="s")
    assert envelope.payload == ToolCalled(tool="t", tool_use_id="u", input="�")
    assert not list(store.events("you", session="s"))
    store.close()
    emit(ToolCalled(tool="t", tool_use_id="u", input=""))
