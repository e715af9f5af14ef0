"""`holdfast doctor`: whether configuration, store, upstreams, clients and facts are well, and what to do if not."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
from msgspec import Struct

from holdfast.cli.setup import use_configured_facts
from holdfast.config import Config, holdfast_home, load_config, resolve
from holdfast.errors import HoldfastError
from holdfast.report import TipAdvice

from .. import tables
from ..explain.words import TIPS, tip_told
from ..store_options import print_json
from . import facts, machine, network
from .findings import Check, CheckResult, checked, side_by_side

MOST_PROBLEMS = 20
"""Problems of the configuration that are told one by one."""
PATIENCE_S = 1.7
"""Seconds that all that is asked of others may take together."""


class DoctorReport(Struct, frozen=True):
    lines: tuple[CheckResult, ...]
    tips: tuple[TipAdvice, ...]
    problems: int
    warnings: int


@click.command()
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
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
        for line in _text(report, tables.width()):
            click.echo(line)
    if report.problems:
        ctx.exit(1)


def examine(*, offline: bool) -> DoctorReport:
    """All checks. One after the other what is quick, side by side what waits for others."""
    lines = checked("python", machine.python)
    config, results = _configuration()
    lines += results
    lines += checked("home", partial(machine.home, config.home))
    lines += checked("store", partial(machine.store, config))
    try:
        lines += _together(side_by_side(_outside(config, offline), PATIENCE_S))
    finally:
        network.end_clients()
    if offline:
        lines.append(CheckResult("note", "upstream", "not looked at (--offline)"))
    lines += checked("certificates", network.certificates)
    lines += checked("keys", partial(machine.keys, os.environ))
    lines += checked("subscriptions", partial(machine.subscriptions, config))
    lines += checked("extras", machine.extras)
    tips: list[TipAdvice] = []

    def stored() -> list[CheckResult]:
        results, advised = facts.stored(config)
        tips.extend(advised)
        return results

    lines += checked("facts", partial(facts.dates, datetime.now(UTC).date()))
    lines += checked("floor", partial(facts.floors, config))
    if not any(line.state == "problem" and line.topic == "store" for line in lines):
        lines += checked("store", stored)
    states = [line.state for line in lines]
    return DoctorReport(tuple(lines), tuple(tips), states.count("problem"), states.count("warning"))


def _together(lines: list[CheckResult]) -> list[CheckResult]:
    """Where no upstream can be reached, for the same reason, the network is missing, and one line says so."""
    upstreams = [line for line in lines if line.topic == "upstream"]
    reasons = {_reason(line.what) for line in upstreams}
    if len(upstreams) < 2 or len(reasons) > 1 or any(line.state == "ok" for line in upstreams):
        return lines
    first = upstreams[0].what.partition(": ")[2]
    what = f"none of {len(upstreams)} can be reached; the first: {first}"
    cure = "check the network and [upstream]; without one, look with --offline"
    one = CheckResult("warning", "upstream", what, cure if network.UNREACHED in first else upstreams[0].cure)
    place = lines.index(upstreams[0])
    return [*lines[:place], one, *(line for line in lines[place:] if line.topic != "upstream")]


def _reason(what: str) -> str:
    """Why an upstream cannot be reached, without its name and address."""
    return what.partition(network.UNREACHED)[2] or what.partition(": ")[2]


def _configuration() -> tuple[Config, list[CheckResult]]:
    """The configuration; where it cannot be used, its problems and the defaults for everything else."""
    try:
        use_configured_facts()
        config = load_config()
    except HoldfastError as problem:
        problems = str(problem).splitlines()
        lines = [CheckResult("problem", "configuration", line) for line in problems[:MOST_PROBLEMS]]
        if len(problems) > MOST_PROBLEMS:
            more = f"{len(problems) - MOST_PROBLEMS:,} more like these"
            lines.append(CheckResult("problem", "configuration", more, "`holdfast config show` lists them all"))
        home = holdfast_home(os.environ)
        return resolve([], {}, {}, home=home, user_home=Path.home(), workspace=None), lines
    return config, checked("configuration", partial(machine.configuration, config))


def _outside(config: Config, offline: bool) -> list[tuple[str, Check]]:
    checks: list[tuple[str, Check]] = [("gateway", partial(network.gateways, config))]
    if not offline:
        upstream = config.settings.upstream
        for name in upstream.__struct_fields__:
            checks.append((f"upstream: {name}", partial(network.upstream, name, getattr(upstream, name))))
    programs = network.clients()
    checks += [(f"client: {name}", partial(network.client, name, program)) for name, program in programs.items()]
    if not programs:
        checks.append(
            ("client", lambda: [CheckResult("note", "client", "no known client is on PATH", "any command will do")])
        )
    return [*checks, ("logs", network.logs)]


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
        counts = [tables.counted(number, what) for number, what in _counts(report) if number]
        yield f"{' and '.join(counts)}."


def _counts(report: DoctorReport) -> tuple[tuple[int, str], ...]:
    return (report.problems, "problem"), (report.warnings, "warning")
