"""What commands say and ask of repairs: the one sentence on what they would have saved, the option `--repair`."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import click

from holdfast.cli.tables import dollars
from holdfast.report import RepairSavings
from holdfast.report import sentence as said

LEVELS = ("on", "values", "suggest", "off")


class Level(click.Choice[str]):
    """A level of repairs, in letters of any case."""

    def __init__(self) -> None:
        super().__init__(LEVELS, case_sensitive=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            close = get_close_matches(str(value).lower(), LEVELS, n=1, cutoff=0.5)
            hint = f"did you mean {close[0]}?" if close else f"use one of {', '.join(LEVELS)}."
            if not close and ctx is not None and any(each.name == "client" for each in ctx.command.params):
                hint += f" If it is the client, put -- in front of it: --repair -- {value}"
            self.fail(f"{value!r} is no level of repairs; {hint}", param, ctx)


repair_option = click.option(
    "--repair",
    metavar="[LEVEL]",
    is_flag=False,
    flag_value="on",
    type=Level(),
    help="Repairs for this time: on (also without a word), values, suggest or off (cache.repair).",
)


def or_set(setting: str | None) -> str:
    """How a setting that does it instead is named behind a cure; for repairs with the command that writes it."""
    if not setting:
        return ""
    key, _, level = setting.partition(" = ")
    command = f" (`holdfast repair {level.strip(chr(34))}`)" if key == "cache.repair" else ""
    return f" Or set {setting}{command}."


def sentence(savings: RepairSavings) -> str:
    return said(savings, dollars)
