"""The order of keys, told without the keys and given to a value that came in another."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.wire.key_order import LONGEST, in_order, order_of

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30)


def shuffled(value: Any, chance: Any) -> Any:
    if isinstance(value, dict):
        return {key: shuffled(value[key], chance) for key in sorted(value, key=lambda _: chance.random())}
    return [shuffled(each, chance) for each in value] if isinstance(value, list) else value


def written(value: Any, **how: Any) -> bytes:
    return json.dumps(value, **how).encode()


@pytest.mark.slow
@given(st.dictionaries(st.text(), VALUES, min_size=1), st.dictionaries(st.text(), VALUES), st.randoms())
def test_any_order_is_found_again(own: dict[str, Any], others: dict[str, Any], chance: Any) -> None:
    def parts(own: dict[str, Any], others: dict[str, Any]) -> list[bytes]:
        return [written(own), *(written({key: value})[1:-1] for key, value in others.items())]

    order = order_of(parts(own, others))
    if order is None:
        assert len(written(own)) > LONGEST // 4
        return
    found = in_order(parts(shuffled(own, chance), shuffled(others, chance)), order)
    assert json.dumps(json.loads(found[0])) == json.dumps(own)
    assert json.dumps([json.loads(b"{" + part + b"}") for part in found[1:]]) == json.dumps(
        [{key: value} for key, value in others.items()]
    )


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_arguments_within_a_string_are_spelled_as_they_were(separators: tuple[str, str]) -> None:
    def call(arguments: dict[str, Any]) -> bytes:
        text = json.dumps(arguments, separators=separators, ensure_ascii=False)
        return written({"function": {"name": "f", "arguments": text}, "id": "c"}, ensure_ascii=False)

    first = {"path": "ä.py", "lines": {"to": 9, "from": 1}, "tags": ["a", "b"]}
    other = {"tags": ["a", "b"], "lines": {"from": 1, "to": 9}, "path": "ä.py"}
    order = order_of([call(first)])
    assert order is not None
    found = in_order([call(other)], order)
    assert json.loads(found[0]) == json.loads(call(first))


def test_arguments_in_a_spelling_of_their_own_have_no_order() -> None:
    assert order_of([written({"arguments": '{"a":  1,\n"b": 2}'})]) is None


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 3}),
        ({"a": {"x": 1, "y": 2}}, {"a": 1}),
        ({"a": 1}, {"a": {"x": 1, "y": 2}}),
        ({"arguments": '{"a":1,"b":2}'}, {"arguments": "text"}),
        ({"arguments": "text"}, {"arguments": '{"a":1,"b":2}'}),
    ],
)
def test_the_order_of_another_value_does_not_fit(first: dict[str, Any], other: dict[str, Any]) -> None:
    order = order_of([written(first)])
    assert order is not None
    assert in_order([written(other)], order) is None


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1,"a":2}',
        b"{",
        b'{"a":[1,',
        b'{"a":' * 60 + b"1" + b"}" * 60,
        written({str(number): number for number in range(300)}),
        written({"list": [{"a": 1, "b": 2}] * 2_000}),
    ],
)
def test_what_is_too_large_or_cannot_be_read_has_none(raw: bytes) -> None:
    assert order_of([raw]) is None


def test_broken_orders_fit_nothing() -> None:
    for order in (b"\x02\x00\x00", b"\x02\x00\x05", b"\x02\x00", b"\x02", b"", b"\x02\x01\x00\x00"):
        assert in_order([b'{"a":1,"b":2}'], order) is None
