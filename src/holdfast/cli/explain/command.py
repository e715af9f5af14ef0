"""`holdfast explain`: what broke the cache, from the logs that are already there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from holdfast.cli.setup import use_configured_facts
from holdfast.config import load_config
from holdfast.facts import SERVICES
from holdfast.lab import facts_of
from holdfast.report import pages
from holdfast.report.explainer import Explainer, ExplainReport, RequestWindow, list_logs, unreadable
from holdfast.report.logs import KNOWN, in_words, megabytes
from holdfast.wording import counted

from .. import completion, tables
from ..store_options import Moment, check_window, format_option, limit_option, write_report
from . import markdown, table
from .log_reader import LogProgress, read, tell_broken
from .words import cents

TOO_DEAR = 3
INTERRUPTED = 130
PAGE = "holdfast-explain.html"
_NAMED = 5  # broken lines that are named on the terminal


class Dollars(click.ParamType[Decimal]):
    name = "USD"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        try:
            amount = Decimal(str(value).strip().removeprefix("$"))
        except InvalidOperation:
            amount = Decimal("NaN")
        if not amount.is_finite() or amount < 0:
            self.fail(f"{tables.printable(value)!r} is no amount; write dollars such as 0.50", param, ctx)
        return amount


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@format_option
@click.option("--json", "json_", is_flag=True, help="The same as --format json.")
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path), help="Write the report here.")
@click.option("--fail-over", metavar="USD", type=Dollars(), help="Exit with 3 if breaks (not resets) lost more.")
@click.option("--since", metavar="WHEN", type=Moment(), help="Only from here on, such as 24h, 7d, 2026-11-01.")
@click.option("--until", metavar="WHEN", type=Moment(end=True), help="Only before this; a date is included.")
@click.option(
    "--session",
    metavar="ID",
    shell_complete=completion.sessions,
    help="Only the session with this id, or those that begin with it.",
)
@click.option("--model", default="", metavar="NAME", help="The model of requests whose log names none.")
@click.option(
    "--tier",
    metavar="NAME",
    type=click.Choice(sorted(SERVICES), case_sensitive=False),
    help=f"The service tier of requests whose log does not say it: {', '.join(sorted(SERVICES))}.",
)
@click.option(
    "--min-tokens", default=0, show_default=True, type=click.IntRange(0), help="A break loses more tokens than this."
)
@limit_option(20, "rows in each table")
@click.option("--quiet", is_flag=True, help="Nothing but the report: no progress, no notes.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    form: str,
    json_: bool,
    output: Path | None,
    fail_over: Decimal | None,
    since: int | None,
    until: int | None,
    session: str | None,
    model: str,
    tier: str | None,
    min_tokens: int,
    limit: int,
    quiet: bool,
) -> None:
    """Say what broke the cache, what it cost, what to do: from logs that are already there.

    PATH is a log or a directory of logs; without one, those that known clients keep under your home directory. Read
    are Claude Code transcripts, Codex rollouts, pi and opencode sessions, the gateway's store, JSONL of request bodies
    (with or without usage), OpenAI chat JSON and shape traces. Nothing is sent anywhere.

    A break is a request that read less from the cache than the request before it in its conversation had covered.
    LOST is what those tokens were billed beyond the price of reading them. A reset is a break with a reason, such as
    a compaction: listed, but not counted as a break.

    \b
    Examples:
      holdfast explain
      holdfast explain ~/.claude/projects --since 7d
      holdfast explain requests.jsonl --format html --output report.html
      holdfast explain session.jsonl --fail-over 0.50 --format md
      holdfast explain chats.jsonl --model openai:gpt-5.5
      holdfast explain nightly.jsonl --tier batch
    """
    check_window(since, until)
    if quiet:  # what the library warns of, such as a model without facts, is a note too
        logging.disable(logging.WARNING)
        ctx.call_on_close(lambda: logging.disable(logging.NOTSET))
    form = "json" if json_ else form
    use_configured_facts()
    if model:
        facts_of(model)  # refuses one of which nothing is known
    sources = list_logs(paths)
    window = RequestWindow(None if since is None else since / 1e6, None if until is None else until / 1e6, session)
    explainer = Explainer(
        min_tokens=min_tokens, model=model, tier=tier or "", window=window, settings=load_config().settings
    )
    reached = read(sources, explainer, quiet=quiet)
    report = explainer.result(reached.files)
    if reached.stopped:
        report = replace(report, partial=True)
    nothing = if_nothing(report, reached, window)
    if nothing is not None and form == "table":
        tables.say(nothing)
    else:
        _write(report, form, output, limit, home=not paths, quiet=quiet)
        if nothing is not None and not quiet:
            tables.remark(nothing)
    if not quiet:
        _notes(report, explainer, reached, form)
    if reached.stopped:
        ctx.exit(INTERRUPTED)
    lost = report.totals.break_cost_usd or Decimal(0)
    if fail_over is not None and lost > fail_over:
        tables.remark(f"breaks lost {cents(lost)}, more than the {cents(fail_over)} of --fail-over")
        ctx.exit(TOO_DEAR)


def if_nothing(
    report: ExplainReport, reached: LogProgress, window: RequestWindow, filters: str = "--session, --since or --until"
) -> str | None:
    """Return the message for a report without requests, None if it has some; raises if nothing could be read."""
    if report.sessions:
        return None
    if not reached.files:
        return (
            "No logs of known clients were found under your home directory. Name a log or a directory of logs, such as "
            f"`holdfast explain requests.jsonl`: {KNOWN} are read. `holdfast run -- CLIENT` makes a log of any client, "
            "and `holdfast demo` shows a session made on the spot."
        )
    if report.broken:
        raise unreadable(report)
    logs = in_words(reached.files)
    if window != RequestWindow():
        return f"No request in {logs} fits {filters}; without them all are read."
    return f"No request was found in {logs}."


def _write(report: ExplainReport, form: str, output: Path | None, limit: int, *, home: bool, quiet: bool) -> None:
    texts: dict[str, Callable[[int | None], str]] = {
        "html": lambda room: pages.explain_page(report),
        "md": lambda room: "\n".join(markdown.text(report, limit)),
        "table": lambda room: "\n".join(table.text(report, room, limit, home=home)),
    }
    file = write_report(report, form, output, PAGE, texts)
    if file is not None and not quiet:
        tables.remark(f"the report is in {file}")


def _notes(report: ExplainReport, explainer: Explainer, reached: LogProgress, form: str) -> None:
    """What does not belong into the report, on standard error."""
    if form in ("json", "html") and report.read:
        tables.remark(f"read {in_words(report.read)}")
    if report.broken:
        tell_broken(report.broken, report.broken_lines[:_NAMED])
    if report.tier_unlisted:
        which = ", ".join(report.tier_unlisted[:_NAMED]) + (", …" if len(report.tier_unlisted) > _NAMED else "")
        tables.remark(f"no price of the tier {report.tier} is known for {which}: standard prices stand in")
    sessions = explainer.sessions
    if sessions.repeated:
        which = counted(len(sessions.repeated), "session")
        tables.remark(f"{which} in logs of two kinds, such as the gateway's store and a client's own, counted once")
    if sessions.copied:
        tables.remark(f"{counted(sessions.copied, 'request')} in two files, counted once")
    if reached.stopped:
        tables.remark(
            f"interrupted: this is what was found in the first {megabytes(reached.bytes)} of {megabytes(reached.total)}"
        )
