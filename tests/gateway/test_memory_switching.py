"""Memory that is switched off and on again for conversations that have some: a reason each time, and the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import report
from holdfast.simulator.server import running as simulating
from tests.simulator.served import Response

from .gate import Gated, eventually, gated
from .test_memory import ON, QUESTION, Kept, ask, learn

TURNS = (QUESTION, "So.", "Go on.", "So.", "More.", "So.", "Even more.", "So.", "And now?")
RESET = "x-holdfast-reset"


@contextmanager
def opened(home: Path, upstream: str, **flags: Any) -> Iterator[Gated]:
    with gated(home, upstream, **{**ON, **flags}) as gate:
        yield gate


def reset(response: Response) -> str | None:
    return response.headers.get(RESET)


def unmarked(value: Any) -> Any:
    """A body without its markers, and with every text as a list of blocks."""
    if isinstance(value, dict):
        return {key: unmarked(each) for key, each in value.items() if key != "cache_control"}
    return [unmarked(each) for each in value] if isinstance(value, list) else value


def broken(gate: Gated, calls: int) -> list[tuple[str | None, str | None]]:
    """Cause and reason of every break and reset, when so many calls are stored."""
    store = gate.gateway.store
    assert store is not None
    eventually(lambda: len(store.calls()) >= calls and all(call.status == "settled" for call in store.calls()))
    return [(each.cause, each.reason) for each in report.breaks(store).breaks]


@pytest.mark.parametrize("how", [{"memory__inject": False}, {"memory__inject_tenants": "somebody"}], ids=["all", "one"])
def test_switched_off_in_the_settings(tmp_path: Path, how: dict[str, Any]) -> None:
    simulator = Kept()
    with simulating(simulator) as upstream:
        with opened(tmp_path, upstream) as gate:
            learn(gate)
            ask(gate, *TURNS[:1])
            assert reset(ask(gate, *TURNS[:3])) is None
            given = unmarked(simulator.last)
        with opened(tmp_path, upstream, **how) as gate:
            off = ask(gate, *TURNS[:5])
            assert (reset(off), off.headers.get("x-holdfast-memory")) == ("bypassed", None)
            assert b"Small commits" not in simulator.bodies[-1]
            assert reset(ask(gate, *TURNS[:7])) is None
            assert broken(gate, 4) == [(None, "bypassed")]
        with opened(tmp_path, upstream, **how) as gate:  # a lane without memory stays one after a restart
            assert reset(ask(gate, *TURNS[:7])) is None
        with opened(tmp_path, upstream) as gate:
            again = ask(gate, *TURNS)
            assert (reset(again), again.headers["x-holdfast-memory"]) == ("bypassed", "stable; deltas=1")
            found = unmarked(simulator.last)
            assert found["system"] == given["system"]
            assert found["messages"][0] == given["messages"][0]
            assert {reason for _, reason in broken(gate, 6)} == {"bypassed"}


def test_switched_off_for_single_requests_also_after_a_restart(tmp_path: Path) -> None:
    simulator, off = Kept(), {"x-holdfast-memory": "off"}
    with simulating(simulator) as upstream:
        with opened(tmp_path, upstream) as gate:
            learn(gate)
            ask(gate, *TURNS[:1])
        with opened(tmp_path, upstream) as gate:
            assert reset(ask(gate, *TURNS[:3], **off)) == "bypassed"
        with opened(tmp_path, upstream) as gate:
            assert reset(ask(gate, *TURNS[:5], **off)) is None
            assert reset(ask(gate, *TURNS[:7], **off)) is None
            assert reset(ask(gate, *TURNS[:7])) == "bypassed"
            assert reset(ask(gate, *TURNS)) is None
            assert {reason for _, reason in broken(gate, 6)} == {"bypassed"}


def test_a_conversation_that_never_had_any_departs_from_nothing(tmp_path: Path) -> None:
    with simulating(Kept()) as upstream:
        with opened(tmp_path, upstream) as gate:
            assert reset(ask(gate, *TURNS[:1])) is None
            assert reset(ask(gate, *TURNS[:3], **{"x-holdfast-memory": "off"})) is None
            assert reset(ask(gate, *TURNS[:5])) is None
        with opened(tmp_path, upstream, memory__inject=False) as gate:
            assert reset(ask(gate, *TURNS[:7])) is None
            assert broken(gate, 4) == []
