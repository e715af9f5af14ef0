"""All checks of an installation, one after the other or side by side, and what they come to."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from msgspec import Struct

from holdfast.config import Config, configured_facts, holdfast_home, load_config, resolve
from holdfast.errors import HoldfastError
from holdfast.facts import use
from holdfast.report import TipAdvice

from . import machine, models, network
from .checks import Check, CheckResult, checked, side_by_side

MOST_PROBLEMS = 20
"""Problems of the configuration that are reported one by one."""
TIMEOUT_S = 1.7
"""Seconds that all checks of upstreams, gateways and clients may take together."""


class DoctorReport(Struct, frozen=True):
    """The results in the order of the checks, the tips that apply, and how many problems and warnings there are."""

    lines: tuple[CheckResult, ...]
    tips: tuple[TipAdvice, ...]
    problems: int
    warnings: int


def examine(*, offline: bool) -> DoctorReport:
    """All checks. One after the other what is quick, side by side what waits for others."""
    lines = checked("python", machine.python)
    config, results = _configuration()
    lines += results
    lines += checked("home", partial(machine.home, config.home))
    lines += checked("store", partial(machine.store, config))
    try:
        lines += _together(side_by_side(_outside(config, offline), TIMEOUT_S))
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
        results, advised = models.stored(config)
        tips.extend(advised)
        return results

    lines += checked("facts", partial(models.dates, datetime.now(UTC).date()))
    lines += checked("floor", partial(models.floors, config))
    if not any(line.state == "problem" and line.topic == "store" for line in lines):
        lines += checked("store", stored)
    states = [line.state for line in lines]
    return DoctorReport(tuple(lines), tuple(tips), states.count("problem"), states.count("warning"))


def _together(lines: list[CheckResult]) -> list[CheckResult]:
    """Where no upstream can be reached, for the same reason, the network is missing, and one line says so."""
    upstreams = [line for line in lines if line.topic == "upstream"]
    reasons = {line.what.partition(network.UNREACHED)[2] or line.what.partition(": ")[2] for line in upstreams}
    if len(upstreams) < 2 or len(reasons) > 1 or any(line.state == "ok" for line in upstreams):
        return lines
    first = upstreams[0].what.partition(": ")[2]
    what = f"none of {len(upstreams)} can be reached; the first: {first}"
    cure = "check the network and [upstream]; without one, look with --offline"
    one = CheckResult("warning", "upstream", what, cure if network.UNREACHED in first else upstreams[0].cure)
    place = lines.index(upstreams[0])
    return [*lines[:place], one, *(line for line in lines[place:] if line.topic != "upstream")]


def _configuration() -> tuple[Config, list[CheckResult]]:
    """The configuration; where it cannot be used, its problems and the defaults for everything else."""
    try:
        config = load_config()
        use(configured_facts(config))
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
