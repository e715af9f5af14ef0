"""What the commands that look at the store have in common: the window, JSON, and a database that is only read."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from holdfast import report
from holdfast.cli.setup import use_configured_facts
from holdfast.cli.tables import printable, uncut, width
from holdfast.config import load_config
from holdfast.errors import HoldfastError
from holdfast.store import SqliteStore, Store, open_existing

F = TypeVar("F", bound=Callable[..., Any])

_UNITS = {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([mhdw])")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Moment(click.ParamType[int]):
    """`24h`, `7d`, `today`, `2026-11-01` or `2026-11-01T09:30` as UTC microseconds; local time unless it names a zone.

    As the end of a window a plain date means all of its day.
    """

    name = "WHEN"

    def __init__(self, *, end: bool = False) -> None:
        self._end = end

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip()
        ago = _AGO.fullmatch(text.lower())
        try:
            if ago is not None:
                return max(0, round((time.time() - float(ago[1]) * _UNITS[ago[2]]) * 1_000_000))
            at = self._day(datetime.now().astimezone().date()) if text.lower() == "today" else self._calendar(text)
            return (at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{printable(text)!r} is no time; write 30m, 24h, 7d, 2w, today, 2026-11-01 or 2026-11-01T09:30",
                param,
                ctx,
            )

    def _calendar(self, text: str) -> datetime:
        if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
            return self._day(date.fromisoformat(text))
        return datetime.fromisoformat(text)

    def _day(self, day: date) -> datetime:
        """Midnight in local time, as clocks show it that day."""
        day += timedelta(days=1 if self._end else 0)
        return datetime.fromisoformat(f"{day}T00:00")


def json_option(command: F) -> F:
    return click.option("--json", "json_", is_flag=True, help="Print JSON.")(command)


def window_options(command: F) -> F:
    """`--since`, `--until`, `--tenant` and `--json`."""
    for option in (
        json_option,
        click.option("--tenant", metavar="ID", help="Only what belongs to this tenant."),
        click.option("--until", metavar="WHEN", type=Moment(end=True), help="Only before this; a date is included."),
        click.option(
            "--since", metavar="WHEN", type=Moment(), help="Only from here on, such as 24h, 7d, today, 2026-11-01."
        ),
    ):
        command = option(command)
    return command


def limit_option(default: int, noun: str) -> Callable[[F], F]:
    return click.option(
        "--limit", default=default, show_default=True, type=click.IntRange(1, 100_000), help=f"At most so many {noun}."
    )


def check_window(since: int | None, until: int | None) -> None:
    if since is not None and until is not None and since >= until:
        raise click.UsageError("--since is not before --until; choose an earlier --since or a later --until.")


def in_window(since: int | None, until: int | None) -> str:
    """Ends a sentence about nothing found."""
    if since is None and until is None:
        return " yet"
    wider = "a later --until" if since is None else "an earlier --since"
    return f" in this window; {wider} shows more"


@contextmanager
def looking(since: int | None = None, until: int | None = None) -> Iterator[SqliteStore | None]:
    """The configured store, to be read in this window; None where nothing was stored yet. What it is counted with is in
    place."""
    check_window(since, until)
    use_configured_facts()
    store = open_existing(load_config().settings.store.url)
    if store is None:
        yield None
        return
    with store:
        yield store


def whose(store: Store, tenant: str | None, *, events: bool = False) -> str | None:
    """The tenant that was named, by its id or a beginning of it: one that has calls, or with `events` those too."""
    return None if tenant is None else report.find_tenant(store, uncut(tenant), events=events)


def confirmed(question: str, nothing: str) -> None:
    """Ask for confirmation; raise with the text `nothing` unless the user agrees."""
    try:
        sure = click.confirm(question, err=True)
    except RuntimeError as problem:  # click.Abort at the end of standard input; also where there is none
        raise HoldfastError(f"{nothing}: nobody answered; --yes does it without asking") from problem
    if not sure:
        raise HoldfastError(nothing)


def session_of(store: Store, tenant: str | None, session: str | None) -> tuple[str | None, str | None]:
    """The tenant and the session that were named, each by its id or a beginning of it."""
    tenant = whose(store, tenant)
    if session is None:
        return tenant, None
    match = report.find(store, session, kind="session", tenant=tenant)
    return match.tenant, match.id


def nothing_yet() -> str:
    """Return the message for a database that does not exist."""
    url = printable(load_config().settings.store.url)
    return f"Nothing is stored yet in {url}. `holdfast serve` or `holdfast run -- CLIENT` stores what goes through."


def print_json(value: msgspec.Struct) -> None:
    """The value as JSON, in ASCII: what clients sent cannot speak to the terminal."""
    click.echo(as_json(value))


def as_json(value: msgspec.Struct, *, numbers: bool = False) -> str:
    """The same as text; dollars as numbers instead of texts, where that is asked for."""
    raw = msgspec.json.encode(value) if not numbers else msgspec.json.Encoder(decimal_format="number").encode(value)
    return re.sub(r"[^\x00-\x7e]", _escaped, msgspec.json.format(raw, indent=2).decode())


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))


def format_option(command: F) -> F:
    return click.option(
        "--format",
        "form",
        type=click.Choice(["table", "json", "html", "md"]),
        default="table",
        show_default=True,
        help="How the report is written.",
    )(command)


def write_report(
    report: msgspec.Struct,
    form: str,
    output: Path | None,
    page: str,
    texts: Mapping[str, Callable[[int | None], str]],
) -> Path | None:
    """A report in one form, to its file or to standard output; the file, where it went to one. `texts` make the other
    forms than JSON for so many columns. HTML on a terminal goes to the file `page`."""
    if form == "html" and output is None and sys.stdout is not None and sys.stdout.isatty():
        output = Path(page)
    text = as_json(report, numbers=True) if form == "json" else texts[form](width() if output is None else None)
    if output is None or str(output) == "-":
        click.echo(text)
        return None
    try:
        output.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise HoldfastError(
            f"the report cannot be written to {output} ({error.strerror or error}); choose another --output"
        ) from error
    return output
