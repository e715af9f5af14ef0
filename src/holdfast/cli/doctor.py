"""`holdfast doctor`: whether configuration, store, upstreams, clients and facts are well, and what to do if not."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import click

from holdfast.doctor import DoctorReport, examine
from holdfast.wording import counted

from . import tables
from .explain.words import TIPS, tip_told
from .store_options import json_option, print_json


@click.command()
@json_option
@click.option("--offline", is_flag=True, help="Connect to nothing but this machine.")
@click.pass_context
def command(ctx: click.Context, json_: bool, offline: bool) -> None:
    """Check configuration, home, store, upstreams, clients, and the dates of facts and prices.

    Each line is ok, a note, a warning or a problem, with what to do about it; then come the tips for long-running
    agents that the store shows a reason for. The exit code is 1 if there is a problem, otherwise 0. To an upstream a
    connection is made (to the proxy, where there is one) and nothing is asked of it; no key is sent or shown.

    \b
    Examples:
      holdfast doctor
      holdfast doctor --offline
      holdfast doctor --json
    """
    logging.disable(logging.WARNING)  # what is not known of a model is a line of its own
    ctx.call_on_close(lambda: logging.disable(logging.NOTSET))
    report = examine(offline=offline)
    if json_:
        print_json(report)
    else:
        tables.show(_text(report, tables.width()))
    if report.problems:
        ctx.exit(1)


def _text(report: DoctorReport, room: int | None) -> Iterator[str]:
    for line in report.lines:
        cure = f"; {line.cure}" if line.cure else ""
        yield from tables.wrapped(f"{line.state:8} {line.topic}: {line.what}{cure}", room, indent=" " * 9)
    if report.tips:
        yield ""
        yield f"{TIPS}:"
        for each in report.tips:
            yield from tables.wrapped(f"  {each.tip}: {tip_told(each)}", room, indent="    ")
    yield ""
    if not report.problems and not report.warnings:
        yield "All is well."
    else:
        states = (report.problems, "problem"), (report.warnings, "warning")
        counts = [counted(number, noun) for number, noun in states if number]
        yield f"{' and '.join(counts)}."
