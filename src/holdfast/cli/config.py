"""`holdfast config show`: every setting and where it came from."""

from __future__ import annotations

import json
import shutil
import sys

import click

from holdfast.config import Config, as_json, as_text, load_config, printable, quoted
from holdfast.errors import HoldfastError

from . import completion


@click.group()
def command() -> None:
    """Show every setting and where it came from.

    Settings come from holdfast.toml (in HOLDFAST_HOME, then in the current directory), from [agents.NAME]
    blocks, from variables such as HOLDFAST_CACHE_STRATEGY, and from flags; later ones win.

    \b
    Examples:
      holdfast config show
      holdfast config show --changed
    """


def _assignments(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, object]:
    flags: dict[str, object] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise click.BadParameter(f"{quoted(text)} is not of the form KEY=VALUE, such as cache.strategy=zones")
        flags[key.strip()] = value
    return flags


@command.command()
@click.option("--agent", metavar="NAME", shell_complete=completion.agents, help="Show what holds for this agent.")
@click.option("--json", "json_", is_flag=True, help="Print JSON.")
@click.option(
    "--set",
    "flags",
    metavar="KEY=VALUE",
    multiple=True,
    callback=_assignments,
    shell_complete=completion.settings,
    help="Set a value; may be repeated.",
)
@click.option("--changed", is_flag=True, help="Leave out defaults.")
def show(agent: str | None, json_: bool, flags: dict[str, object], changed: bool) -> None:
    """Print every value and where it came from.

    \b
    Examples:
      holdfast config show --changed
      holdfast config show --agent scout --json
      holdfast config show --set cache.strategy=zones
    """
    config = load_config(flags)
    if agent is not None:
        _known(config, agent)
    if json_:
        click.echo(json.dumps(as_json(config, agent, changed=changed), indent=2))
        return
    width = shutil.get_terminal_size().columns if sys.stdout and sys.stdout.isatty() else None
    click.echo("\n".join(as_text(config, agent, changed=changed, width=width)))


def _known(config: Config, agent: str) -> None:
    if agent in config.agents:
        return
    names = ", ".join(printable(name) for name in config.agents)
    cure = f"known agents are {names}" if names else "no holdfast.toml has an [agents.NAME] block"
    raise HoldfastError(f"there are no settings for an agent named {printable(agent)}; {cure}")
