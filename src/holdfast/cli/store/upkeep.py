"""`holdfast store check`: whether the store is whole."""

from __future__ import annotations

import re
import time
from pathlib import Path

import click
from msgspec import Struct

from holdfast.cli.tables import printable
from holdfast.errors import HoldfastError
from holdfast.gateway import AGENT, RetentionPeriod
from holdfast.store import SMALL, Pruned, StoreInUseError, alone, back_up, blobs_of, check, open_store, vacuum
from holdfast.wording import counted

from ..store_options import confirmed, json_option, print_json
from .access import Progress, configured, room, size


@click.command()
@json_option
def check_command(json_: bool) -> int:
    """Check the store: every page, the sums, every blob.

    Nothing is changed, and a gateway may go on. Blobs that nobody owns any more are named; `holdfast store prune`
    removes them. The exit code is 1 if something is damaged: then `holdfast store backup` of an earlier day helps, or
    another store.url.

    \b
    Examples:
      holdfast store check
      holdfast store check --json
    """
    _, path = configured()
    result = check(path, blobs_of(path), Progress())
    if json_:
        print_json(result)
        return 1 if result.damage else 0
    for line in result.damage:
        click.echo(printable(f"damaged: {line}"))
    for line in result.leftovers:
        click.echo(printable(f"left over: {line}"))
    state = f"{counted(len(result.damage), 'problem')}" if result.damage else "whole"
    summary = (
        f"{size(result.size)}, {counted(result.pages, 'page')} ({result.free_pages:,} free), schema {result.schema}"
    )
    click.echo(printable(f"{result.path}: {state}; {summary}, {counted(result.blobs, 'blob')}."))
    return 1 if result.damage else 0


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace what stands there, once the copy was found to be whole.")
@json_option
def backup(path: Path, force: bool, json_: bool) -> None:
    """Copy the store to PATH, and its blobs to PATH.blobs.

    The copy is of one moment, however much is written meanwhile, and is checked page by page and blob by blob before it
    takes its name. It can be used as a store (store.url = "sqlite:///PATH"). Conversations of Holdfast's agent
    (HOLDFAST_HOME/sessions), offloaded results and break reports are plain files and not in it.

    \b
    Examples:
      holdfast store backup ~/backups/holdfast-2026-11-01.db
      holdfast store backup ~/backups/holdfast.db --force
    """
    _, store = configured()
    progress = Progress()
    copy = back_up(
        store, path, force=force, progress=lambda what, done, all_: progress(f"{what}: {done:,} of {all_:,}")
    )
    if json_:
        print_json(copy)
    else:
        target = path.expanduser().resolve()
        click.echo(printable(f"{target}: {size(target.stat().st_size)}, {counted(copy.blobs, 'blob')}, checked."))


_DAY_S = 86_400
_NAMES = ("call", "break", "event", "lane", "session")
_AGE = re.compile(r"(\d{1,6})\s*([dw]?)")


@click.command()
@click.option("--older-than", "age", metavar="AGE", help="Such as 30d or 8w, at least 1d (store.retention).")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def prune(age: str | None, dry_run: bool, yes: bool, json_: bool) -> None:
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
    keeps = RetentionPeriod.configured(config)
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
        pruned = store.prune(
            before, keep=keep, keep_client=AGENT, progress=lambda what, count: progress(f"{count:,} {what} removed")
        )
        store.give_back()
    _say(pruned, json_, f"Removed what was older than {old} ({size(was)} before, {size(room(path))} now):")


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


class _Vacuumed(Struct, frozen=True):
    path: str
    before: int
    after: int


@click.command()
@json_option
def vacuum_command(json_: bool) -> None:
    """Give the room of what was removed back to the disk.

    The file is written anew, without gaps, for which the disk needs as much room again. Stores of 0.1.0 need this once;
    later ones give room back by themselves when something is removed. While a gateway uses the store, only what holds
    nobody up is done.

    \b
    Examples:
      holdfast store vacuum
    """
    _, path = configured()
    before, progress = room(path), Progress()

    def going_on() -> int:
        progress("writing the store anew")
        return 0

    try:
        with alone(path):
            pass
        vacuum(path, busy_timeout=5.0, progress=going_on)
    except StoreInUseError as problem:
        with open_store(path) as store:
            if not store.gives_back() and before > SMALL:
                raise HoldfastError(f"{problem}: to write {size(before)} anew would hold up its writes") from problem
            store.give_back()
    after = room(path)
    if json_:
        print_json(_Vacuumed(str(path), before, after))
    else:
        click.echo(printable(f"{path}: {size(before)} before, {size(after)} now."))
