"""A wrong event is refused where it is made, so that a log stays readable."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.records.events import Bus, Envelope, Ulids
from holdfast.records.events.sessions import TurnStarted


def envelope(payload: Any, **changes: Any) -> Envelope:
    head: dict[str, Any] = {"id": Ulids().new(), "at": 1, "session": "s", "actor": "user"}
    return Envelope.of(payload, **{**head, **changes})


def test_a_right_event_passes() -> None:
    assert envelope(TurnStarted()).type == "turn.started"


@pytest.mark.parametrize(
    ("field", "value"), [("actor", "robot"), ("at", 1.5), ("at", "now"), ("session", None), ("turn", 3), ("id", 7)]
)
def test_a_wrong_envelope_names_the_field(field: str, value: object) -> None:
    with pytest.raises(HoldfastError, match=rf"turn\.started is not valid.*{field}"):
        envelope(TurnStarted(), **{field: value})


def test_a_wrong_payload_names_the_event() -> None:
    from holdfast.records.events.calls import LlmCallStarted

    wrong: Any = 3
    with pytest.raises(HoldfastError, match=r"llm\.call_started is not valid.*lane"):
        envelope(LlmCallStarted(call="c", lane=wrong, model="m"))


def test_something_else_is_no_event() -> None:
    with pytest.raises(HoldfastError, match="no event"):
        envelope({"type": "turn.started"})


def test_the_bus_takes_envelopes_only() -> None:
    wrong: Any = TurnStarted()
    with Bus() as bus, pytest.raises(HoldfastError, match=r"Envelope\.of"):
        bus.publish(wrong)
