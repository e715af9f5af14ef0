"""What may be shown of a prompt: shapes, never words; and never a credential, even where bodies are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core import redact
from holdfast.core.redact import diff, excerpt, mask


def test_the_shape_of_a_text_is_kept() -> None:
    assert mask("Current time: 2026-11-15T13:01") == "Xxxxxxx xxxx: 9999-99-99X99:99"
    assert mask("naïve 東京 ٣ — ½") == "xxxxx xx 9 · 9"


@given(st.text())
def test_no_letter_and_no_digit_survives(text: str) -> None:
    shown = mask(text)
    assert len(shown) == len(text)
    assert not {char for char in shown if char.isalnum()} - set("Xx9")


@given(st.binary(max_size=3_000), st.integers(-5, 4_000), st.booleans())
def test_an_excerpt_is_one_short_printable_line(raw: bytes, offset: int, keep: bool) -> None:
    shown = excerpt(raw, offset, keep_bodies=keep)
    assert len(shown) <= 2 * redact.AROUND + 2
    assert shown.isprintable()


def test_an_excerpt_says_where_there_is_more() -> None:
    text = "a" * 100 + "B" + "c" * 100
    assert excerpt(text, 100, around=3) == "…xxxXxx…"
    assert excerpt(text, 100, around=3, keep_bodies=True) == "…aaaBcc…"
    assert excerpt("ab", 1) == "xx"


SECRETS = [
    "sk-ant-api03-AbCdEf0123456789",
    "ghp_0123456789abcdefghijABCDEFGHIJ",
    "AKIAIOSFODNN7EXAMPLE",
    "Bearer opaque-token-of-mine",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl1",
    'password: "hunter2!"',
    "API_KEY=letmein",
    '"token":"abcdef"',
    "authorization: Basic dXNlcjpwYXNz",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("keep", [True, False])
def test_no_secret_survives_in_an_excerpt_or_a_diff(secret: str, keep: bool) -> None:
    value = secret.replace('"', " ").split()[-1].split("=")[-1]
    before = f"The weather was fine.\nuse {secret} for this\n"
    after = before.replace("fine", "wet").replace("for this", "for that")
    for offset in range(0, len(before), 5):
        assert value not in excerpt(before, offset, keep_bodies=keep)
    written = diff(before, after, 16, keep_bodies=keep)
    assert value not in written
    assert ("weather" in written) == keep


def test_a_secret_that_the_edge_of_a_window_cuts_does_not_survive() -> None:
    key = "sk-ant-" + "a1B2" * 100
    before = "x " + key + " end"
    for offset in range(0, len(before), 37):
        assert "a1B2" not in excerpt(before, offset, keep_bodies=True)
    long = "word " * 4_000 + key + " " + "word " * 4_000
    at = len("word " * 4_000) + redact.DIFF_WINDOW // 4 + 390  # the window begins inside the key
    assert "a1B2" not in diff(long, long[:at] + "!" + long[at:], at, keep_bodies=True)


def test_a_diff_shows_which_lines_changed_without_their_words() -> None:
    before = '{"text":"You help.\\nCurrent time: 13:01\\nBe brief."}'
    after = before.replace("13:01", "13:02")
    assert diff(before, after, before.index("1\\nBe")).splitlines()[3:] == [
        ' {"xxxx":"Xxx xxxx.',
        "-Xxxxxxx xxxx: 99:99",
        "+Xxxxxxx xxxx: 99:99",
        ' Xx xxxxx."}',
    ]
    assert "+Current time: 13:02" in diff(before, after, 30, keep_bodies=True)


def test_a_diff_is_bounded_whatever_comes_in() -> None:
    before = "\n".join(f"line {number}" for number in range(100_000))
    after = "\n".join(f"other {number} {'z' * 5_000}" for number in range(10_000))
    written = diff(before, after, 0)
    assert written.count("\n") <= redact.DIFF_LINES + 1
    assert max(map(len, written.splitlines())) <= redact.DIFF_WIDTH + 1
    assert diff(b"\xff\xfe\x00", None, 0)
    assert diff("same", "same", 0) == ""
