"""`holdfast repair`: how much of what clients do to their own prefix is repaired."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click
from msgspec import Struct
from msgspec.structs import replace

from holdfast import report
from holdfast.cli import tables
from holdfast.cli.repair_words import Level, sentence
from holdfast.cli.setup import use_configured_facts
from holdfast.config import FILE, Config, holdfast_home, load_config, resolve, write_value
from holdfast.gateway import discovery

from .store_options import json_option, looking, print_json

KEY = "cache.repair"
MEANINGS = {
    "on": "clocks, counters, memory and changing ends of the system text are moved to where they break nothing",
    "values": "times, dates, counters and UUIDs are moved; memory and other prose stays where the client puts it",
    "suggest": "only the order of tools and keys is repaired; what else would help is said, with its price",
    "off": "nothing is repaired and nothing suggested",
}


class RunningGateway(Struct, frozen=True):
    """A gateway that was started with another level than the one that was written; None where it does not say which."""

    address: str
    level: str | None


class LevelReport(Struct, frozen=True):
    """The level that holds here and where it comes from, those of agents that have their own, what was written where,
    the gateways that keep another level until they are started again, and what repairs would have saved."""

    level: str
    origin: str
    agents: dict[str, str]
    written: str | None = None
    file: str | None = None
    gateways: tuple[RunningGateway, ...] = ()
    repairs: report.RepairSavings | None = None


@click.command()
@click.argument("level", required=False, metavar="[on|values|suggest|off]", type=Level())
@json_option
def command(level: str | None, json_: bool) -> None:
    """Say, or set, how much is repaired of what breaks the cache in a client's prompts.

    A clock, a counter or a memory in the head of a prompt makes the provider read all of it anew. `values` moves single
    unambiguous values (a time, a date, a counter, a UUID) behind the newest message, `on` memory and changing ends of
    the system text as well; the model is told the present value all the same. `suggest`, the default, repairs order
    only, and says what the rest would save.

    With a word, the setting cache.repair is written to holdfast.toml in HOLDFAST_HOME; everything else in that file
    stays as it is. Gateways that run keep theirs until they are started again. Without one, the level is shown, where
    it comes from, and what repairs would have saved so far.

    \b
    Examples:
      holdfast repair
      holdfast repair values
      holdfast repair on
      holdfast repair --json
    """
    file = None if level is None else _write(level)
    use_configured_facts()
    report_ = _report(load_config(), level, file)
    if json_:
        print_json(report_)
        return
    for line in _lines(report_):
        tables.say(line)


def _write(level: str) -> str:
    """Write the setting and return the file. Fails first if the environment has an invalid setting."""
    home = holdfast_home(os.environ)
    resolve((), os.environ, {}, home=home, user_home=home, workspace=None)
    write_value(home / FILE, "cache", "repair", level)
    return tables.printable(home / FILE)


def _report(config: Config, written: str | None, file: str | None) -> LevelReport:
    level = config.settings.cache.repair
    own = {agent: config.for_agent(agent).cache.repair for agent in config.agents}
    levels = LevelReport(
        level=level,
        origin=str(config.origin(KEY)),
        agents={agent: other for agent, other in own.items() if other != level},
        written=written,
        file=file,
    )
    if written is not None:
        return replace(levels, gateways=tuple(_keeping(config, written)))
    with looking() as store:
        return levels if store is None else replace(levels, repairs=report.repair_savings(store, level))


def _keeping(config: Config, written: str) -> Iterator[RunningGateway]:
    """The gateways of this home that run with another level."""
    for each in discovery.find_all(config):
        level = discovery.repair_level(each.gateway.address) if each.alive else written
        if level != written:
            yield RunningGateway(each.gateway.address, level)


def _lines(levels: LevelReport) -> Iterator[str]:
    level, written = levels.level, levels.written
    if written is not None:
        yield f'Wrote {KEY} = "{written}" to {levels.file}.'
    else:
        yield f'{KEY} = "{level}" ({levels.origin})'
    if written is not None and level != written:
        yield f'Here {KEY} is "{level}" all the same: {levels.origin} wins over that file.'
    yield f"{level}: {MEANINGS[level]}."
    for agent, own in levels.agents.items():
        yield f'Agent {tables.printable(agent)}: "{own}".'
    for each in levels.gateways:
        other = "its level" if each.level is None else f'"{each.level}"'
        yield f"The gateway on {tables.printable(each.address)} keeps {other} until it is started again."
    if written == level:
        yield "It holds for what is started from now on."
    if levels.repairs is not None:
        yield sentence(levels.repairs)
