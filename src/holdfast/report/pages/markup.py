"""HTML that is escaped by construction: every text becomes harmless on its way into an element or an attribute.

Only what `tag` and `trusted` made is HTML; whatever else comes in is text. Characters that cannot be seen, or that turn
the reading direction, are spelled out, so that what stands in a log is what people see.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple, Union

from . import texts

VOID = frozenset({"meta", "br", "hr", "input"})
SHAPES = frozenset({"rect", "line", "circle", "path"})

_SPELLED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})  # controls, invisible format, lone surrogates, line separators


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = Union[str, int, None, Iterable["Child"]]  # noqa: UP007  (a recursive alias needs the older spelling)


def trusted(text: str) -> Markup:
    """Mark our own style or script as safe markup."""
    return Markup(text)


def visible(text: str) -> str:
    """The text with everything invisible spelled out as in source code."""
    if text.isprintable():
        return text
    return "".join(_spelled(character) for character in text)


def _spelled(character: str) -> str:
    if character.isprintable():
        return character
    if unicodedata.category(character) in _SPELLED or ord(character) & 0xFFFE == 0xFFFE:
        return character.encode("unicode_escape").decode("ascii")
    return character


def escaped(child: Child) -> str:
    """A child of an element as HTML."""
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child
    if isinstance(child, str):
        return html.escape(visible(child))
    if isinstance(child, int):
        return str(child)
    return "".join(escaped(each) for each in child)


def tag(name: str, /, *children: Child, **attributes: str | int | bool | None) -> Markup:
    """An element. `class_` is `class`, `data_v` is `data-v`; an attribute that is None or False is left out."""
    attribute_text = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{html.escape(visible(str(value)))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    if name in VOID:
        return Markup(f"<{name}{attribute_text}>")
    if name in SHAPES and not children:
        return Markup(f"<{name}{attribute_text}/>")
    return Markup(f"<{name}{attribute_text}>{escaped(children)}</{name}>")


def joined(*children: Child) -> Markup:
    return Markup(escaped(children))


class TableColumn(NamedTuple):
    title: str
    number: bool = False
    wrap: bool = False
    note: str = ""


class Cell(NamedTuple):
    """The content, and the value to sort by."""

    shown: Child
    value: float | int | str | Decimal | None = None


def table(
    caption: str, columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], *, filtered: bool = False
) -> Markup:
    """The first column names its row. A column that says nothing in any row is left out."""
    used = [place for place in range(len(columns)) if any(row[place].shown != texts.NONE for row in rows)]
    columns, rows = [columns[place] for place in used], [[row[place] for place in used] for row in rows]
    titles = [
        tag("th", column.title, scope="col", class_="number" if column.number else None, title=column.note or None)
        for column in columns
    ]
    body = [tag("tr", _cells(columns, row)) for row in rows]
    inner = tag(
        "table", tag("caption", caption), tag("thead", tag("tr", titles)), tag("tbody", body), class_="sorted",
        data_filter=caption if filtered else None,
    )  # fmt: skip
    return tag("div", inner, class_="scroll", role="region", aria_label=caption, tabindex=0)


def _cells(columns: Sequence[TableColumn], row: Sequence[Cell]) -> list[Markup]:
    cells = []
    for number, (column, cell) in enumerate(zip(columns, row, strict=True)):
        kind = "number" if column.number else "wrap" if column.wrap else None
        value = None if cell.value is None else str(cell.value)
        if number == 0:
            cells.append(tag("th", cell.shown, scope="row", class_=kind, data_v=value))
        else:
            cells.append(tag("td", cell.shown, class_=kind, data_v=value))
    return cells
