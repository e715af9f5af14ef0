"""When two JSON texts are the same value."""

from __future__ import annotations

import pytest

from holdfast.records import NotJson, canonical_json, decode_string, encode_string


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a": [1, 2]}', b'{"a":[1,2]}'),
        (b'"\\u00e9"', '"é"'.encode()),
        (b'"a\\/b"', b'"a/b"'),
        (b'"\\ud83d\\ude00"', '"😀"'.encode()),
        (b'"\\u0041"', b'"A"'),
        (b'"\\n"', b'"\\u000a"'),
        (b" [ ] ", b"[]"),
        (b'"\\ud83d"', b'"\\uD83D"'),
    ],
)
def test_spacing_and_escapes_do_not_matter(one: bytes, other: bytes) -> None:
    assert canonical_json(one) == canonical_json(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}'),
        (b"1E5", b"100000"),
        (b"1.0", b"1"),
        (b"1e5", b"1E5"),
        (b"-0", b"0"),
        (b'"a"', b'"A"'),
        (b"[]", b"{}"),
        (b"null", b'"null"'),
        (b'"\\\\ud83d"', b'"\\ud83d"'),
    ],
)
def test_key_order_and_the_text_of_numbers_do(one: bytes, other: bytes) -> None:
    assert canonical_json(one) != canonical_json(other)


@pytest.mark.parametrize("raw", [b'{"a":1,"a":1}', b'{"x":{"a":1,"\\u0061":2}}', b'[{"k":[],"k":[]}]'])
def test_duplicate_keys_are_refused(raw: bytes) -> None:
    with pytest.raises(NotJson, match="duplicate key"):
        canonical_json(raw)


@pytest.mark.parametrize(
    ("raw", "reason", "offset"),
    [
        (b"", "expected a value", 0),
        (b"[1,]", "expected a value", 3),
        (b"[1 2]", "expected a comma", 2),
        (b'{"a"}', "expected a key", 1),
        (b'{"a":1,}', "expected a key", 7),
        (b"[1}", "mismatched bracket", 2),
        (b"{]", "mismatched bracket", 1),
        (b"1 2", "text after the value", 1),
        (b'"\xff"', "not UTF-8", 1),
        (b'"\\x"', "expected a value", 0),
        (b'"\\u12g4"', "expected a value", 0),
        (b'"a\nb"', "expected a value", 0),
        (b"01", "text after the value", 1),
        (b"nul", "expected a value", 0),
    ],
)
def test_anything_else_is_named_with_its_offset(raw: bytes, reason: str, offset: int) -> None:
    with pytest.raises(NotJson, match=reason) as caught:
        canonical_json(raw)
    assert caught.value.offset == offset


def test_depth_is_not_limited_by_the_interpreter() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert canonical_json(deep) == deep


@pytest.mark.parametrize(
    "text", ["", "plain", 'quote " backslash \\', "é😀", "\x00\x7f", "half \ud83d", "\udc00\ud83d"]
)
def test_string_literals_round_trip(text: str) -> None:
    literal = encode_string(text)
    assert decode_string(literal) == text
    assert canonical_json(literal) == literal
