"""`holdfast store prune`: remove what is old."""

from __future__ import annotations

import re
import time

import click

from holdfast.cli.tables import counted
from holdfast.errors import HoldfastError
from holdfast.gateway import AGENT, Retention
from holdfast.store import Pruned, open_store

from ..store_options import print_json
from .access import Progress, configured, confirmed, json_option, room, size

_DAY_S = 86_400
_NAMES = ("call", "break", "event", "lane", "session")
_AGE = re.compile(r"(\d{1,6})\s*([dw]?)")


@click.command()
@click.option("--older-than", "age", metavar="AGE", help="Such as 30d or 8w, at least 1d (store.retention).")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def command(age: str | None, dry_run: bool, yes: bool, json_: bool) -> None:
    """Remove what is old from the store, and give its room back.

    Calls, breaks and events go, and with its last call a lane with ledger, edits, injected texts and blobs; with its
    last lane a session. What was used since stays, and so do sums for bills, memory, and the conversations of
    Holdfast's own agent. A gateway may go on meanwhile.

    \b
    Examples:
      holdfast store prune --dry-run
      holdfast store prune --older-than 30d
      holdfast store prune --yes
    """
    config, path = configured()
    keeps = Retention.configured(config)
    days = keeps.days if age is None else _days(age)
    if not days:
        raise HoldfastError("store.retention is 0: everything is kept; --older-than says what is old")
    before = round((time.time() - days * _DAY_S) * 1_000_000)
    keep, old = keeps.agent_sessions(), counted(days, "day")
    with open_store(path) as store:
        would = store.would_prune(before, keep=keep, keep_client=AGENT)
        if dry_run:
            _say(would, json_, f"Older than {old}, and would be removed:")
            return
        if not yes and any(getattr(would, f"{name}s") for name in _NAMES):
            confirmed(f"Remove {_named(would)} older than {old}?", "nothing was removed")
        progress, was = Progress(), room(path)
        done = store.prune(
            before, keep=keep, keep_client=AGENT, progress=lambda what, count: progress(f"{count:,} {what} removed")
        )
        store.give_back()
    _say(done, json_, f"Removed what was older than {old} ({size(was)} before, {size(room(path))} now):")


def _days(age: str) -> int:
    match = _AGE.fullmatch(age.strip().lower())
    if match is None or not int(match[1]):
        raise click.UsageError(f"{age!r} is no age; write 30d or 8w, at least 1d.")
    return int(match[1]) * (7 if match[2] == "w" else 1)


def _named(pruned: Pruned) -> str:
    return ", ".join(counted(getattr(pruned, f"{name}s"), name) for name in _NAMES)


def _say(pruned: Pruned, json_: bool, sentence: str) -> None:
    if json_:
        print_json(pruned)
    else:
        click.echo(f"{sentence} {_named(pruned)}.")
