"""Tables that scroll inside their box on a narrow screen, and can be sorted where a script may run."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from . import texts
from .markup import Child, Markup, tag


class Column(NamedTuple):
    title: str
    number: bool = False
    wrap: bool = False
    note: str = ""


class Cell(NamedTuple):
    """What is shown, and the value it is sorted by."""

    shown: Child
    value: float | int | str | Decimal | None = None


def table(caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, filtered: bool = False) -> Markup:
    """The first column names its row. A column that says nothing in any row is left out."""
    said = [place for place in range(len(columns)) if any(row[place].shown != texts.NONE for row in rows)]
    columns, rows = [columns[place] for place in said], [[row[place] for place in said] for row in rows]
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


def _cells(columns: Sequence[Column], row: Sequence[Cell]) -> list[Markup]:
    cells = []
    for number, (column, cell) in enumerate(zip(columns, row, strict=True)):
        kind = "number" if column.number else "wrap" if column.wrap else None
        value = None if cell.value is None else str(cell.value)
        if number == 0:
            cells.append(tag("th", cell.shown, scope="row", class_=kind, data_v=value))
        else:
            cells.append(tag("td", cell.shown, class_=kind, data_v=value))
    return cells
