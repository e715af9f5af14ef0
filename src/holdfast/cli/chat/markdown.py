"""Markdown that arrives in pieces, for a terminal: blocks that are finished, and the one that may still change.

Needs `rich`, and is imported only where a terminal can show what it makes. Everything a model wrote stays to be read:
tags, images and definitions of links, which a page would hide, are shown as they are written.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, TableElement
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.code_block": "cyan",
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold",
        "markdown.h4": "italic",
        "markdown.h7": "italic dim",
        "markdown.item.bullet": "cyan",
        "markdown.item.number": "cyan",
        "markdown.block_quote": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
        "markdown.link": "underline",
        "markdown.link_url": "dim",
    }
)
"""Colours that can be read on a dark and on a light ground."""

LEAST = 10
"""Columns below which nothing is made narrower."""

LEAST_CELL = 5
"""Columns that a cell of a table needs to be read; with less the table is shown as it was written."""


def _parser() -> MarkdownIt:
    rules = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    return rules.disable(["reference", "image", "html_block", "html_inline"])


_PARSER = _parser()
_BLOCKS = _parser()
_BLOCKS.core.ruler.enableOnly(["normalize", "block"])


class GrowingMarkdown:
    """An answer as it comes. `feed` gives the blocks that can no longer change; `rest` is what may."""

    def __init__(self) -> None:
        self.rest = ""

    def feed(self, piece: str) -> list[str]:
        self.rest += piece
        if "\n" not in piece:
            return []
        # Of a line that is not complete it is not known what it is: `2` may become `2. second`.
        complete = self.rest[: self.rest.rindex("\n") + 1]
        begins = [token.map[0] for token in _BLOCKS.parse(complete) if token.map and not token.level]
        if len(begins) < 2:
            return []
        begins[0] = 0
        lines = [line + "\n" for line in self.rest.split("\n")]
        lines[-1] = lines[-1][:-1]
        finished = ["".join(lines[start:end]) for start, end in pairwise(begins)]
        self.rest = "".join(lines[begins[-1] :])
        return finished

    def close(self) -> str:
        rest, self.rest = self.rest, ""
        return rest


class _Code(CodeBlock):
    """Code in the terminal's own colours, indented: that can be seen without colours too."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip("\n")
        yield Padding(
            Syntax(code, self.lexer_name, theme="ansi_dark", background_color="default", word_wrap=True),
            (0, 0, 0, 2),
            expand=False,
        )


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = self.text.copy()
        text.justify = "left"
        yield text


class _Table(TableElement):
    """A table that folds long cells instead of cutting them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        header = [] if self.header is None or self.header.row is None else self.header.row.cells
        rows = [] if self.body is None else [row.cells for row in self.body.rows]
        if options.max_width < len(header) * (LEAST_CELL + 2):
            for row in (header, *rows):
                yield Text(" | ".join(cell.content.plain for cell in row), overflow="fold")
            return
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="markdown.table.header")
        for cell in header:
            table.add_column(cell.content, justify=cell.justify, overflow="fold", min_width=1)
        for row in rows:
            table.add_row(*(cell.content for cell in row))
        yield table


class MarkdownText(Markdown):
    """One block of Markdown, or several."""

    elements = Markdown.elements | {
        "fence": _Code,
        "code_block": _Code,
        "heading_open": _Heading,
        "table_open": _Table,
    }

    def __init__(self, source: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = [_without_doubles(token) for token in _PARSER.parse(source)]


def _without_doubles(token: Token) -> Token:
    """An address that is its own text is shown once."""
    if token.children:
        token.children = list(_single(token.children))
    return token


def _single(tokens: list[Token]) -> Iterator[Token]:
    skipping = False
    for index, token in enumerate(tokens):
        if token.type == "link_open":
            inner = tokens[index + 1] if index + 1 < len(tokens) else token
            skipping = (
                inner.type == "text" and str(token.attrs.get("href", "")).removeprefix("mailto:") == inner.content
            )
        if not (skipping and token.type in ("link_open", "link_close")):
            yield token
        if token.type == "link_close":
            skipping = False


def rendered(source: str, console: Console) -> list[list[Segment]]:
    """A block as lines for this console, without blank ones at the ends and blanks at their ends."""
    options = console.options.update(width=max(console.width, LEAST), height=None)
    lines = [_trimmed(line) for line in console.render_lines(MarkdownText(source), options, pad=False)]
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _trimmed(line: list[Segment]) -> list[Segment]:
    while line and not line[-1].text.strip():
        line.pop()
    if line:
        text, style, control = line[-1]
        line[-1] = Segment(text.rstrip(), style, control)
    return line
