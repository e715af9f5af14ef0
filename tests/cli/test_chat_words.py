"""What a chat says in plain lines: nothing that a terminal would obey, and costs one can check."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.agent.contract import CostLine
from holdfast.cli.chat.words import (
    TextCleaner,
    call_line,
    call_words,
    clean,
    cost_line,
    cost_lines,
    fitted,
    one_line,
    places,
    result_words,
)
from holdfast.records import Image, Text, ToolResult, ToolUse, usage
from holdfast.tools import ToolAnswer


def answer(text: str, *, error: bool = False, cancelled: bool = False, seconds: float = 0) -> ToolAnswer:
    result = ToolResult("c1", (Text(text),) if text else (), is_error=error)
    return ToolAnswer(result=result, tool="run_command", cancelled=cancelled, elapsed_us=int(seconds * 1_000_000))


class TestCleaning:
    @pytest.mark.parametrize(
        ("given", "shown"),
        [
            ("plain\n\ttext", "plain\n\ttext"),
            ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
            ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
            ("a\u202eb", r"a\u202eb"),
            ("\x9b2J", r"\x9b2J"),
            ("over\rwritten", r"over\rwritten"),
            ("lines\r\nend", "lines\nend"),
            ("half \ud83d", r"half \ud83d"),
            ("café\xa0: 漢字 👩\u200d💻", "café\xa0: 漢字 👩\u200d💻"),
        ],
    )
    def test_only_what_can_be_seen_passes(self, given: str, shown: str) -> None:
        assert clean(given) == shown

    def test_a_line_end_that_comes_in_two_pieces_is_one(self) -> None:
        cleaner = TextCleaner()
        assert cleaner.feed("one\r") + cleaner.feed("\ntwo") + cleaner.close() == "one\ntwo"

    def test_a_return_at_the_end_is_not_lost(self) -> None:
        cleaner = TextCleaner()
        assert cleaner.feed("one\r") + cleaner.close() == r"one\r"
        assert cleaner.close() == ""

    def test_one_line_has_no_breaks(self) -> None:
        assert one_line(" a\n\tb\x1b ") == r"a b\x1b"


class TestCost:
    LINE = CostLine(
        model="anthropic:claude-haiku-4-5",
        usage=usage(input=812, read=14_203, output=240, writes={"5m": 601}),
        calls=3,
        cost=Decimal("0.0031"),
        without=Decimal("0.0174"),
    )

    def test_a_line_says_what_was_read_written_and_paid(self) -> None:
        assert cost_line(self.LINE) == (
            "anthropic:claude-haiku-4-5 · 3 calls · in 812 · read 14,203 (91%) · written 601 · out 240 · "
            "$0.0031 (without cache $0.0174)"
        )

    def test_an_unknown_price_is_not_nothing(self) -> None:
        line = CostLine(model="local:x", usage=usage(input=5), cost=None)
        assert cost_line(line).endswith("out 0 · price unknown")

    def test_resets_and_breaks_are_named(self) -> None:
        line = CostLine(
            model="m:m", usage=usage(), cost=Decimal(0), resets=("compaction", "compaction", "model_switch"), breaks=2
        )
        assert cost_line(line).endswith("reset: compaction, model_switch · 2 breaks, see /cache")

    def test_it_is_parted_where_its_parts_are(self) -> None:
        assert cost_lines(self.LINE, 60) == [
            "anthropic:claude-haiku-4-5 · 3 calls · in 812",
            "read 14,203 (91%) · written 601 · out 240",
            "$0.0031 (without cache $0.0174)",
        ]


class TestCalls:
    @pytest.mark.parametrize(
        ("name", "given", "about"),
        [
            ("run_command", b'{"command":"ls -la","timeout_s":5}', "ls -la"),
            ("mcp__x__search", b'{"query":"a b"}', "a b"),
            ("mcp__x__search", b'{"query":"a","limit":2}', '{"query": "a", "limit": 2}'),
            ("process_list", b"{}", ""),
            ("broken", b'{"a":', '{"a":'),
            ("run_command", b'{"command":"echo \\u001b[2J"}', r"echo \x1b[2J"),
            (
                "delegate",
                b'{"tasks": [{"task": "Read it", "role": "reviewer"}, {"task": "Try it"}]}',
                "reviewer: Read it; helper: Try it",
            ),
            ("delegate", b'{"tasks": "all"}', "all"),
        ],
    )
    def test_a_call_says_what_it_is_about(self, name: str, given: bytes, about: str) -> None:
        assert call_words(ToolUse("c1", name, given)) == (name, about)

    def test_a_result_is_its_first_line_and_what_there_is_besides(self) -> None:
        assert result_words(answer("\n\nfirst\nsecond\nthird\n", seconds=2.25)) == ("first", "2 more lines, 2.2 s")
        assert result_words(answer("")) == ("no output", "")

    def test_an_image_is_named(self) -> None:
        result = ToolResult("c1", (Image(media_type="image/png", data="x"),))
        assert result_words(ToolAnswer(result=result, tool="shot")) == ("(image)", "")

    def test_errors_are_marked_once(self) -> None:
        call = ToolUse("c1", "run_command", b'{"command":"false"}')
        assert call_line(call, answer("exit code 1", error=True), None) == ("run_command  false", "error: exit code 1")
        assert call_line(call, answer("Error: no", error=True), None)[1] == "Error: no"
        assert call_line(None, answer("stopped", cancelled=True), None) == ("run_command", "cancelled: stopped")

    def test_both_lines_fit(self) -> None:
        call = ToolUse("c1", "run_command", b'{"command":"' + b"x" * 200 + b'"}')
        upper, lower = call_line(call, answer("y" * 200 + "\nmore"), 40)
        assert places(upper) <= 40
        assert upper.endswith("…")
        assert places(lower) <= 40
        assert lower.endswith("… (1 more line)")

    def test_wide_characters_take_two_places(self) -> None:
        assert fitted("漢字漢字", 8) == "漢字漢字"
        assert fitted("漢字漢字", 7) == "漢字漢…"
