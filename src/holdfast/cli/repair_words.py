"""What commands say and ask of repairs: the one sentence on what they would have saved, the option `--repair`."""

from __future__ import annotations

import click

from holdfast.cli.tables import dollars
from holdfast.observe import RepairSavings
from holdfast.observe.repair_savings import sentence as said

LEVELS = ("on", "values", "suggest", "off")

repair_option = click.option(
    "--repair",
    metavar="[LEVEL]",
    is_flag=False,
    flag_value="on",
    type=click.Choice(LEVELS),
    help="Repairs for this time: on (also without a word), values, suggest or off (cache.repair).",
)


def sentence(found: RepairSavings) -> str:
    return said(found, dollars)
