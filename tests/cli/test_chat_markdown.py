"""Markdown in pieces: nothing is lost, and what is printed can no longer change."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.segment import SegmentLines

from holdfast.cli.chat.markdown import THEME, GrowingMarkdown, rendered

LONG = "Superlongwordthatdoesnotfit" * 4
SOURCE = f"""# Title

Some *text* with `code`, Vec<String> & <div>html</div>, ![a picture](http://x/y.png) and <https://example.org>.
A [link](https://e.org/x).

1. one
2. two
   - nested

     a paragraph

```python
def f(x):
\treturn "{"a long line " * 12}"
```

| Name | Value | More |
|:-----|------:|------|
| a | 1 | {LONG} |
| b | 22 | x |

> a quote

Setext
------

- [ ] task

[1]: https://reference.org
"""


def console(width: int, *, colours: bool = False) -> Console:
    return Console(
        file=io.StringIO(), width=width, force_terminal=True, no_color=not colours, theme=THEME, highlight=False
    )


def shown(source: str, width: int) -> str:
    growing = GrowingMarkdown()
    blocks = [*growing.feed(source), growing.close()]
    plain = console(width)
    return "\n".join("".join(segment.text for segment in line) for block in blocks for line in rendered(block, plain))


class TestGrowing:
    def test_a_block_is_finished_when_the_next_one_has_begun(self) -> None:
        growing = GrowingMarkdown()
        assert growing.feed("First par") == []
        assert growing.feed("agraph.\n\n") == []
        assert growing.feed("Second") == []
        assert growing.feed(" one.\n") == ["First paragraph.\n\n"]
        assert growing.rest == "Second one.\n"
        assert growing.close() == "Second one.\n"

    def test_a_line_that_is_not_complete_decides_nothing(self) -> None:
        growing = GrowingMarkdown()
        assert growing.feed("1. one\n\n2") == []
        assert growing.feed(". two\n") == []
        assert growing.close() == "1. one\n\n2. two\n"

    def test_code_with_blank_lines_is_one_block(self) -> None:
        growing = GrowingMarkdown()
        assert growing.feed("```\na\n\n\nb\n") == []
        assert growing.feed("```\nText\n") == ["```\na\n\n\nb\n```\n"]

    @given(st.lists(st.sampled_from(list(SOURCE)) | st.text("#*-|`>1. \n\x0b\u2028ab", max_size=9), max_size=60))
    def test_whatever_comes_nothing_is_lost(self, pieces: list[str]) -> None:
        growing = GrowingMarkdown()
        blocks = [block for piece in pieces for block in growing.feed(piece)]
        assert "".join([*blocks, growing.close()]) == "".join(pieces)

    def test_pieces_of_any_size_give_the_same_blocks(self) -> None:
        whole, single = GrowingMarkdown(), GrowingMarkdown()
        at_once = [*whole.feed(SOURCE), whole.close()]
        one_by_one = [block for char in SOURCE for block in single.feed(char)]
        assert [*one_by_one, single.close()] == at_once


class TestRendered:
    @pytest.mark.parametrize("width", [120, 80, 40, 20])
    def test_every_word_can_be_read_at_any_width(self, width: int) -> None:
        text = "".join(shown(SOURCE, width).split())
        for word in ("Title", "Vec<String>", "<div>html</div>", "picture", "http://x/y.png", "reference.org", LONG):
            assert "".join(word.split()) in text, word
        assert text.count("alongline") == 12

    @pytest.mark.parametrize("width", [80, 40])
    def test_no_line_is_longer_than_the_terminal(self, width: int) -> None:
        assert max(map(len, shown(SOURCE, width).split("\n"))) <= width

    def test_an_address_that_is_its_own_text_is_shown_once(self) -> None:
        assert shown("See <https://example.org> and [this](https://e.org).", 80) == (
            "See https://example.org and this (https://e.org)."
        )

    def test_a_table_has_columns(self) -> None:
        assert shown("| A | B |\n|---|--:|\n| x | 1 |\n| yy | 22 |\n", 40) == "A    B\nx    1\nyy  22"

    def test_a_table_without_room_for_its_columns_is_shown_as_it_was_written(self) -> None:
        table = "|" + "A|" * 12 + "\n|" + "-|" * 12 + "\n|" + "x|" * 12
        assert shown(table, 50) == f"{' | '.join('A' * 12)}\n{' | '.join('x' * 12)}"

    def test_code_keeps_its_lines_and_is_indented(self) -> None:
        assert shown("```\na = 1\n\n  b = 2\n```", 40) == "  a = 1\n\n    b = 2"

    def test_colours_are_left_out_where_they_are_not_wanted(self) -> None:
        printed = []
        for colours in (True, False):
            screen = console(40, colours=colours)
            screen.print(SegmentLines(rendered("```python\ndef f(): pass\n```", screen), new_lines=True))
            printed.append(screen.file.getvalue())  # type: ignore[attr-defined]
        colour = re.compile(r"\x1b\[(?:[0-9;]*;)?[39]\d[;m]").search
        assert [colour(text) is not None for text in printed] == [True, False]
