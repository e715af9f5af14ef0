"""Values as people read them in a terminal: tables that fit its width, dollars, shares, local times, safe text."""

from __future__ import annotations

import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import click

from holdfast import wording
from holdfast.wording import UNKNOWN, dollars

AT_LIST_PRICE = "at list price"
STARRED = f"* {AT_LIST_PRICE}: a subscription pays."
"""Below a table in which such dollars have a star."""

GAP = "  "
LEAST_ID = 10
"""Characters of an id that are shown at least; of a ULID, its time to the millisecond."""


class Column(NamedTuple):
    """A column of a table. `rank` is its priority on a narrow terminal; `least` the width its cells may be cut to.

    Unless `always`, it is left out without notice if all its cells are empty. With `tail` the end of a cut cell is
    kept.
    """

    title: str
    rank: int
    right: bool = False
    least: int | None = None
    always: bool = True
    tail: bool = False


def width(*, err: bool = False) -> int | None:
    """The width of the terminal on standard output, or error; None in a pipe, which gets everything."""
    stream = sys.stderr if err else sys.stdout
    if stream is None or not stream.isatty():
        return None
    return shutil.get_terminal_size().columns


def show(lines: Iterable[str]) -> None:
    """Print the lines."""
    for line in lines:
        click.echo(line)


def say(text: str) -> None:
    """Print a paragraph that fits the terminal."""
    show(wrapped(text, width()))


def remark(text: str) -> None:
    """Print a note on standard error, where it is not part of the output."""
    click.echo(f"holdfast: {printable(text)}", err=True)


def printable(text: object) -> str:
    """One line that the terminal can show, whatever a client put into its words."""
    encoding = _encoding()
    return wording.printable(text).encode(encoding, "backslashreplace").decode(encoding)


def table(
    columns: Sequence[Column], rows: Iterable[Sequence[object]], room: int | None, *, whole: str = "JSON"
) -> Iterator[str]:
    """The rows as lines. Columns that do not fit are left out and named at the end, with what shows the `whole`; cut
    cells end in `…`."""
    cells = [[printable(cell) for cell in row] for row in rows]
    used = [i for i, column in enumerate(columns) if column.always or any(row[i] not in ("", "-") for row in cells)]
    columns, cells = [columns[index] for index in used], [[row[index] for index in used] for row in cells]
    natural = [
        max(_columns(cell) for cell in (column.title, *(row[index] for row in cells)))
        for index, column in enumerate(columns)
    ]
    widths = _fitted(columns, natural, room)
    for row in ([column.title for column in columns], *cells):
        line = (_cell(row[index], size, columns[index]) for index, size in widths.items())
        yield GAP.join(line).rstrip()
    if len(widths) < len(columns):
        missing = ", ".join(column.title for index, column in enumerate(columns) if index not in widths)
        yield ""
        yield from wrapped(
            f"Left out for want of room: {missing}; a wider terminal, a pipe or {whole} shows them.", room
        )


def _fitted(columns: Sequence[Column], natural: Sequence[int], room: int | None) -> dict[int, int]:
    """The columns that are shown and how wide, in their order."""
    if room is None:
        return dict(enumerate(natural))
    smallest = [
        size if column.least is None else min(size, max(column.least, len(column.title)))
        for column, size in zip(columns, natural, strict=True)
    ]
    by_rank = sorted(range(len(columns)), key=lambda index: columns[index].rank)
    shown: list[int] = []
    for index in by_rank:
        if not shown or sum(smallest[i] + len(GAP) for i in (*shown, index)) - len(GAP) <= room:
            shown.append(index)
    spare = room - sum(smallest[index] + len(GAP) for index in shown) + len(GAP)
    widths = {index: smallest[index] for index in sorted(shown)}
    for index in shown:
        more = max(0, min(spare, natural[index] - smallest[index]))
        widths[index] += more
        spare -= more
    return widths


def _cell(text: str, size: int, column: Column) -> str:
    if _columns(text) > size:
        text = cut(text, size, tail=column.tail)
    space = " " * (size - _columns(text))
    return space + text if column.right else text + space


def cut(text: str, size: int, *, tail: bool = False) -> str:
    """The beginning of a text and `…`, or this and its end, in so many columns."""
    mark = _mark(_encoding())[:size]
    rest, used = "", 0
    for character in reversed(text) if tail else text:
        used += _columns(character)
        if used > size - len(mark):
            break
        rest = character + rest if tail else rest + character
    return mark + rest if tail else rest + mark


def uncut(text: str) -> str:
    """An id as it was typed from a table, without the mark of a cut."""
    return text.removesuffix("...").rstrip("…")


@cache
def _mark(encoding: str) -> str:
    """Return the ellipsis for cut text, in ASCII if the terminal cannot show it."""
    try:
        return "…".encode(encoding).decode(encoding)
    except UnicodeError:
        return "..."


def _encoding() -> str:
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _columns(text: str) -> int:
    """Places that a text takes in a terminal: East Asian characters take two, accents of their own none."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) != 0 for character in text)


def wrapped(text: str, room: int | None, *, indent: str = "") -> list[str]:
    """A paragraph in lines that fit, one in a pipe; what follows the first is indented."""
    if room is None:
        return [printable(text)]
    return textwrap.wrap(printable(text), room, subsequent_indent=indent, break_on_hyphens=False)


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Map each id to its shortest unique prefix."""
    distinct = sorted(set(ids))
    size = dict.fromkeys(distinct, LEAST_ID)
    for one, other in pairwise(distinct):
        shared = next(
            (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
        )
        size[one], size[other] = max(size[one], shared + 1), max(size[other], shared + 1)
    return {each: each[: size[each]] for each in distinct}


def several(tenants: Iterable[str]) -> dict[str, str]:
    """Beginnings of the tenants' ids; nothing where there is only one."""
    short = short_ids(tenants)
    return short if len(short) > 1 else {}


def count(number: int) -> str:
    return f"{number:,}"


def share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def saving(saved: Decimal) -> str:
    """`$0.25 less than`, `$1.25 more than`, `as much as`."""
    return f"{dollars(abs(saved))} {'less' if saved > 0 else 'more'} than" if saved else "as much as"


def cost(value: Decimal | None, unpriced: int, estimated: int = 0, *, at_list: bool = False) -> str:
    """What calls cost; `+` where some have no known price, `~` where a part is estimated, `-` where none was
    answered, `*` where a subscription pays for some and the dollars are at list price."""
    if value is None:
        return UNKNOWN if unpriced else "-"
    return ("~" if estimated else "") + dollars(value) + ("+" if unpriced else "") + ("*" if at_list else "")


def priced(cost: Decimal | None, at_list: Decimal | None, estimated: int = 0) -> str:
    """Dollars, with `~` where a part is estimated, and how much of them nobody is billed for."""
    paid = ("~" if estimated else "") + dollars(cost)
    if cost is None or at_list is None:
        return paid
    if at_list == cost:
        return f"{paid} {AT_LIST_PRICE} (a subscription pays)"
    return f"{paid} ({dollars(at_list)} of it {AT_LIST_PRICE}: a subscription pays)"


def day(at: datetime) -> str:
    """A moment in local time, to the minute; the year only if it is another."""
    local = at.astimezone()
    form = "%m-%d %H:%M" if local.year == datetime.now(local.tzinfo).year else "%Y-%m-%d %H:%M"
    return local.strftime(form)


def instant(at: datetime) -> str:
    """A moment in local time, to the second."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
