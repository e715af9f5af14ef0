"""What a client asks in headers of ours, pre-flight, and requests beside the conversation."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal

import msgspec
import pytest

from holdfast.config.sections.server import GatewaySettings
from holdfast.core.repairs import NAMES
from holdfast.engine.passage import without_ours
from holdfast.engine.passage.client_request import Incoming, Wishes, wishes
from holdfast.engine.passage.response_headers import LONGEST_VALUE, header
from holdfast.wire import DIALECTS
from tests import shapes
from tests.engine.driver import MODELS, ON, clocked, raw_of, talk
from tests.engine.passage.door import Door

HOLD = GatewaySettings(preflight="hold", preflight_usd=0.001)
WARN = GatewaySettings(preflight="warn", preflight_usd=0.001)


def test_what_is_not_understood_is_overlooked() -> None:
    wrong = {
        "x-holdfast": "maybe",
        "x-holdfast-skip": "everything, ,tool_order",
        "x-holdfast-reset": "mood",
        "x-holdfast-preflight": "yes",
        "x-holdfast-colour": "blue",
    }
    assert wishes(wrong) == wishes({}) == Wishes()


def test_what_is_understood() -> None:
    asked = {
        "x-holdfast": " Off",
        "x-holdfast-skip": "tool-order , Key-Order, nothing",
        "x-holdfast-reset": " compaction ",
        "x-holdfast-preflight": "SEND",
    }
    assert wishes(asked) == Wishes(off=True, skip=frozenset({"tool-order", "key-order"}), reset="compaction", send=True)
    assert wishes({"x-holdfast-skip": "all"}).skip == NAMES


def test_headers_of_ours_are_not_forwarded() -> None:
    headers = [(b"X-Holdfast", b"off"), (b"x-holdfast-key", b"k"), (b"X-Api-Key", b"k"), (b"x-hold", b"on")]
    assert without_ours(headers) == [(b"X-Api-Key", b"k"), (b"x-hold", b"on")]


def test_of_headers_that_come_twice_the_first_counts() -> None:
    twice = ((b"X-Holdfast-Session", b"a"), (b"x-holdfast-session", b"b"))
    assert Incoming("POST", "/", "", twice, b"").named() == {"x-holdfast-session": "a"}


@pytest.mark.parametrize(("name", "value"), [("skip", "nonsense"), ("reset", "mood"), ("switch", "on"), ("colour", "")])
def test_a_wrong_header_does_not_cost_the_request(door: Door, name: str, value: str) -> None:
    passage, exchange = door.send(raw_of(talk(0)), **{name: value})
    assert passage.bypass is None
    assert passage.prepared.reset is None
    assert exchange.answer.status == 200


def test_repairs_are_left_on_request(doors: Callable[..., Door]) -> None:
    def second(skip: str) -> bytes:
        door = doors(ON)
        door.send(clocked(0, 0))
        return door.send(clocked(1, 1), skip=skip)[0].raw

    assert b"Current values" in second("tool-order")
    assert b"Current values" not in second("volatile-value")
    assert b"Current values" not in second("all")


def test_how_likely_a_prediction_is(doors: Callable[..., Door]) -> None:
    """Entries for five minutes are mostly there until the end, and sometimes for a little longer."""
    door = doors()
    told = []
    for turns, pause in enumerate((0.0, 60.0, 280.0, 310.0)):
        door.clock.advance(pause)
        passage, _ = door.send(raw_of(talk(turns, system=("All of this stays as it is. " * 2_000,))))
        told.append(dict(passage.response_headers())[b"x-holdfast-prediction"])
    assert [b"likely" in each for each in told] == [False, False, True, True]
    assert told[2].endswith(b"; likely=0.92")
    assert told[3].startswith(b"read=0; ")
    assert told[3].endswith(b"; likely=0.36")


def test_a_repair_is_told(doors: Callable[..., Door]) -> None:
    door = doors(ON)
    door.send(clocked(0, 0))
    assert (b"x-holdfast-repairs", b"volatile-value") in door.send(clocked(1, 1))[0].response_headers()


def test_a_reset_is_announced(door: Door) -> None:
    door.send(raw_of(talk(2)))
    passage, _ = door.send(raw_of(talk(1, system=("Another text. " * 1_000,))), reset="volatile_system_changed")
    assert passage.prepared.reset == "volatile_system_changed"
    assert (b"x-holdfast-reset", b"volatile_system_changed") in passage.response_headers()
    door.rows()
    assert [(found.cause, found.reason) for found in door.store.breaks()] == [(None, "volatile_system_changed")]


def test_headers_of_a_plan(doors: Callable[..., Door]) -> None:
    door = doors()
    passage, _ = door.send(raw_of(talk(0)))
    told = dict(passage.response_headers())
    assert set(told) == {b"x-holdfast-call", b"x-holdfast-plan", b"x-holdfast-prediction"}
    assert told[b"x-holdfast-call"] == (passage.call or "").encode()
    assert told[b"x-holdfast-plan"].startswith(b"economic; ")
    assert told[b"x-holdfast-prediction"].startswith(b"read=0; write=")
    assert passage.call in [row.id for row in door.rows()]
    quiet = doors(gateway=GatewaySettings(headers=False))
    assert quiet.send(raw_of(talk(0)))[0].response_headers() == []
    assert quiet.send(raw_of(talk(0)), switch="off")[0].response_headers() == []


def test_a_header_is_one_short_line_of_plain_characters() -> None:
    name, value = header(b"x-holdfast-plan", "a\r\nset-cookie: b\0ü" + "c" * 5_000)
    assert (name, value[:20]) == (b"x-holdfast-plan", b"a??set-cookie: b??cc")
    assert len(value) == LONGEST_VALUE


# Pre-flight


@pytest.mark.parametrize("dialect", MODELS)
def test_a_turn_that_costs_too_much_is_held(doors: Callable[..., Door], dialect: str) -> None:
    door = doors(gateway=HOLD)
    passage = door.begin(raw_of(talk(0), dialect), dialect)
    assert passage.held.status == 428
    headers = dict(passage.held.headers)
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"x-should-retry"] == b"false"
    assert headers[b"x-holdfast-call"] == (passage.call or "").encode()
    assert b"above the limit of $0.001" in headers[b"x-holdfast-warning"]
    error = DIALECTS[dialect].read_error(428, passage.held.body)
    assert "`x-holdfast-preflight: send`" in error.message
    assert "Nothing was sent" in error.message
    json.loads(passage.held.body)
    (event,) = [event for event in door.told() if event.type == "gateway.preflight"]
    told = event.payload
    assert (told.action, told.call, told.limit) == ("held", passage.call, Decimal("0.001"))
    assert told.dollars > told.limit
    passage.finish()
    passage.cut("late")
    assert [(row.status, row.error) for row in door.rows()] == [("failed", "held by pre-flight")]
    assert door.engine.ledger(passage.lane, now=door.clock.now()).last is None
    experience = door.engine.state.tenant(passage.lane.tenant).experience
    assert experience.client("cli").reserved == 0


def test_who_wants_no_headers_is_told_of_it_in_the_body_alone(doors: Callable[..., Door]) -> None:
    passage = doors(gateway=msgspec.structs.replace(HOLD, headers=False)).begin(raw_of(talk(0)))
    assert passage.held.headers == ((b"content-type", b"application/json"), (b"x-should-retry", b"false"))
    assert b"`x-holdfast-preflight: send`" in passage.held.body


@pytest.mark.parametrize("session", ["s", None], ids=["named", "by its chain"])
def test_what_was_held_is_released(doors: Callable[..., Door], session: str | None) -> None:
    door = doors(gateway=HOLD)
    held = door.begin(raw_of(talk(0)), session=session)
    assert held.held is not None
    passage, exchange = door.send(raw_of(talk(0)), session=session, preflight="send")
    assert passage.held is None
    assert passage.lane == held.lane  # the same request, sent again
    assert exchange.record.usage is not None
    assert b"x-holdfast-warning" in dict(passage.response_headers())
    actions = [event.payload.action for event in door.told() if event.type == "gateway.preflight"]
    assert actions == ["held", "released"]
    assert [row.status for row in door.rows()] == ["failed", "settled"]
    assert passage.prepared.verdict.explained


def test_a_turn_that_costs_too_much_is_sent_with_a_warning(doors: Callable[..., Door]) -> None:
    door = doors(gateway=WARN)
    passage, _ = door.send(raw_of(talk(0)))
    warning = dict(passage.response_headers())[b"x-holdfast-warning"]
    assert warning.startswith(b"this turn is predicted to cost $0.009")
    (event,) = [event for event in door.told() if event.type == "gateway.preflight"]
    assert event.payload.action == "warned"
    assert [row.status for row in door.rows()] == ["settled"]


@pytest.mark.parametrize(
    "gateway",
    [
        GatewaySettings(preflight="hold", preflight_usd=1.0),
        GatewaySettings(preflight="hold"),
        GatewaySettings(preflight="off", preflight_usd=0.0),
    ],
    ids=["below the limit", "no limit", "off"],
)
def test_other_turns_just_go(doors: Callable[..., Door], gateway: GatewaySettings) -> None:
    door = doors(gateway=gateway)
    passage, _ = door.send(raw_of(talk(0)))
    assert passage.held is None
    assert b"x-holdfast-warning" not in dict(passage.response_headers())
    assert not [event for event in door.told() if event.type == "gateway.preflight"]


def test_a_warm_turn_is_not_held(doors: Callable[..., Door]) -> None:
    door = doors(gateway=GatewaySettings(preflight="hold", preflight_usd=0.005))
    assert door.begin(raw_of(talk(0))).held is not None
    door.send(raw_of(talk(0)), preflight="send")
    assert door.send(raw_of(talk(1)))[0].held is None


# Beside the conversation

TITLES = [shape for shape in shapes.load("opencode-1.18") if shape.dialect == "anthropic"]


def test_a_title_goes_as_it_is_and_leaves_no_trace_in_a_lane(door: Door) -> None:
    """opencode asks for a title first, under the session of the conversation."""
    passages = []
    for shape in TITLES[:3]:
        headers = tuple((name.encode(), value.encode()) for name, value in shape.headers)
        incoming = Incoming("POST", shape.path.partition("?")[0], "", headers, shape.body or b"")
        passages.append(door.passages.begin(incoming, DIALECTS["anthropic"]))
        door.clock.advance(1)
    sides = [passage for passage in passages if passage.identity is not None and passage.identity.side]
    assert len(sides) == 1
    side = sides[0]
    assert side.raw is side.incoming.body
    assert (side.verbatim, side.prepared, side.bypass, side.held) == (True, None, None, None)
    assert side.response_headers() == [(b"x-holdfast-call", (side.call or "").encode())]
    side.answer(200, [(b"content-type", b"application/json")])
    side.feed(b'{"type":"message","id":"m","model":"x","usage":{"input_tokens":30,"output_tokens":4}}')
    side.finish()
    (row,) = [row for row in door.rows() if row.kind == "side"]
    assert row.status == "settled"
    assert (row.usage.input, row.usage.output) == (30, 4)
    assert row.id == side.call
    ledger = door.engine.ledger(side.lane, now=door.clock.now())
    assert (ledger.requests, ledger.last) == (0, None)
    assert not [event for event in door.told() if event.type == "gateway.bypassed"]


def test_a_probe_that_is_to_be_left_alone_is_told_as_such(door: Door) -> None:
    raw = raw_of(talk(0, system=("x",)), "anthropic", max_tokens=1)
    probe = msgspec.json.encode(
        {**json.loads(raw), "tools": [], "messages": [{"role": "user", "content": "quota"}], "max_tokens": 1}
    )
    side, _ = door.send(probe)
    off, _ = door.send(probe, switch="off")
    assert side.identity.side
    assert [(row.kind, row.status) for row in door.rows()] == [("side", "settled"), ("bypassed", "settled")]
    assert door.engine.ledger(off.lane, now=door.clock.now()).last is None
