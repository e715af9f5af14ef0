"""`holdfast repair`: how much of what clients do to their own prefix is repaired."""

from __future__ import annotations

import os
from collections.abc import Iterator

import click

from holdfast import observe
from holdfast.cli import tables
from holdfast.cli.asking import looking
from holdfast.cli.repair_words import LEVELS, sentence
from holdfast.cli.setup import use_configured_facts
from holdfast.config import Config, load_here
from holdfast.config.document import FILE
from holdfast.config.load import holdfast_home
from holdfast.config.writing import write_value

KEY = "cache.repair"
MEANINGS = {
    "on": "clocks, counters, memory and changing ends of the system text are moved to where they break nothing",
    "values": "times, dates, counters and UUIDs are moved; memory and other prose stays where the client puts it",
    "suggest": "only the order of tools and keys is repaired; what else would help is said, with its price",
    "off": "nothing is repaired and nothing suggested",
}


@click.command()
@click.argument("level", required=False, metavar="[on|values|suggest|off]", type=click.Choice(LEVELS))
def command(level: str | None) -> None:
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
    """
    if level is not None:
        file = holdfast_home(os.environ) / FILE
        write_value(file, "cache", "repair", level)
        click.echo(f'Wrote {KEY} = "{level}" to {tables.printable(file)}.')
    use_configured_facts()
    for line in _lines(load_here(), level):
        click.echo("\n".join(tables.wrapped(line, tables.width())))


def _lines(config: Config, written: str | None) -> Iterator[str]:
    level, origin = config.settings.cache.repair, config.origin(KEY)
    if written is not None and level != written:
        yield f'Here {KEY} is "{level}" all the same: {origin} wins over that file.'
    elif written is None:
        yield f'{KEY} = "{level}" ({origin})'
    yield f"{level}: {MEANINGS[level]}."
    for agent in config.agents:
        own = config.for_agent(agent).cache.repair
        if own != level:
            yield f'Agent {tables.printable(agent)}: "{own}".'
    if written is not None:
        yield "It holds for what is started from now on."
        return
    with looking() as store:
        found = None if store is None else observe.repair_savings(store, level)
    if found is not None:
        yield sentence(found)
