"""An envelope travels as JSON and comes back equal, or one sentence says why not."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.records.events import CATALOGUE, Envelope, Event, Ulids, decode, decode_payload, encode, encode_payload
from holdfast.records.events.calls import CacheBreak, LlmCallCompleted
from holdfast.records.events.sessions import TurnCancelled, TurnStarted
from holdfast.records.events.tools import SkillLoaded

ids = Ulids()


def envelope(payload: Event, **more: object) -> Envelope:
    values: dict[str, object] = {"id": ids.new(), "at": 1_780_000_000_000_001, "session": "s", "actor": "agent"}
    return Envelope.of(payload, **{**values, **more})  # type: ignore[arg-type]


LOADED = SkillLoaded(
    skill_id="pdf",
    skill_version="3",
    load_reason="on_demand",
    load_size_tokens=7,
    source="workspace",
    triggered_by_tool_use_id="toolu_1",
)


def test_its_json_has_the_designs_fields_and_the_bare_payload() -> None:
    event = envelope(LOADED, turn="t1", parent="01ARYZ6S410000000000000000")
    shape = msgspec.json.decode(encode(event))
    assert set(shape) == {
        "id", "at", "session", "turn", "parent", "type", "actor", "payload", "sensitivity",
    }  # fmt: skip
    assert shape["type"] == event.type == "skill.loaded"
    assert shape["sensitivity"] == "pseudonymous"
    assert shape["payload"] == msgspec.to_builtins(LOADED)
    assert decode(encode(event)) == event


def test_turn_and_parent_are_left_out_when_there_is_none() -> None:
    event = envelope(LOADED)
    assert not {"turn", "parent"} & set(msgspec.json.decode(encode(event)))
    assert decode(encode(event)) == event


@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(0, 2**62),
    st.decimals(0, 1000, places=9),
)
def test_any_payload_comes_back_equal(text: str, tokens: int, dollars: Decimal) -> None:
    for payload in (
        TurnStarted(text=text),
        LlmCallCompleted(call="c", model="m", input=tokens, read=0, output=1, writes=(("5m", tokens),), cost=dollars),
        CacheBreak(call="c", lane="l", cause="tools_changed", tokens=tokens, dollars=dollars),
    ):
        event = envelope(payload)
        assert decode(encode(event)) == event


def test_a_stricter_sensitivity_may_be_given_and_a_laxer_one_not() -> None:
    assert replace(envelope(TurnCancelled()), sensitivity="private").sensitivity == "private"
    with pytest.raises(HoldfastError, match=r"turn\.started cannot be pseudonymous; use private"):
        replace(envelope(TurnStarted(text="hello")), sensitivity="pseudonymous")


def test_prompt_text_cannot_be_decoded_into_a_less_than_private_envelope() -> None:
    data = encode(envelope(TurnStarted(text="hello"))).replace(b'"private"', b'"aggregatable"')
    with pytest.raises(HoldfastError, match="cannot be aggregatable"):
        decode(data)


def test_an_envelope_is_frozen() -> None:
    with pytest.raises(AttributeError):
        envelope(LOADED).session = "other"  # type: ignore[misc]


def test_an_unknown_type_is_told_with_the_nearest_name() -> None:
    with pytest.raises(HoldfastError, match=r"unknown event type 'skill\.load'; did you mean skill\.loaded\?"):
        decode_payload("skill.load", b"{}")
    with pytest.raises(HoldfastError, match="unknown event type 'zzz'; this version"):
        decode(encode(envelope(LOADED)).replace(b"skill.loaded", b"zzz"))


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        (b'"on_demand"', b'"sometimes"', "load_reason"),
        (b'"load_size_tokens":7', b'"load_size_tokens":-7', "load_size_tokens"),
        (b'"load_size_tokens":7', b'"load_size_tokens":"7"', "load_size_tokens"),
        (b'"source":"workspace",', b"", "source"),
        (b'"source"', b'"surprise":1,"source"', "surprise"),
        (b'"pdf"', b'"' + b"x" * 300 + b'"', "skill_id"),
    ],
)
def test_a_bad_payload_is_told_with_its_field(before: bytes, after: bytes, says: str) -> None:
    data = encode(envelope(LOADED))
    assert before in data
    with pytest.raises(HoldfastError, match=rf"payload of event skill\.loaded is not valid: .*{says}"):
        decode(data.replace(before, after))


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'"x"', b"\xff\xfe", b"{}", b'{"id":1}', b'{"a":' * 100_000],
)
def test_what_is_no_envelope_is_told_in_one_sentence(data: bytes) -> None:
    with pytest.raises(HoldfastError, match="an event envelope is not valid"):
        decode(data)


def test_an_id_that_is_no_ulid_is_told() -> None:
    event = envelope(LOADED)
    with pytest.raises(HoldfastError, match="give a ULID"):
        decode(encode(event).replace(event.id.encode(), b"42"))


def test_text_that_is_not_unicode_is_told() -> None:
    with pytest.raises(HoldfastError, match="lone surrogates"):
        encode_payload(TurnStarted(text="\ud83d"))


def test_every_type_can_be_decoded_by_name() -> None:
    for name in CATALOGUE:
        with pytest.raises(HoldfastError, match=f"payload of event {name} is not valid"):
            decode_payload(name, b"[]")
