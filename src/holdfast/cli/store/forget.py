"""`holdfast store forget`: everything of one tenant, gone."""

from __future__ import annotations

import shutil
import sqlite3
from glob import escape
from pathlib import Path

import click
from msgspec import Struct

from holdfast.agent import DAMAGED, SUFFIX, TORN
from holdfast.cli.tables import printable, uncut
from holdfast.config import Config
from holdfast.engine import Reports
from holdfast.engine.identity import LOCAL
from holdfast.errors import HoldfastError
from holdfast.gateway import SESSIONS
from holdfast.store import alone, blobs_of, tenant_removal
from holdfast.tools import directory_of

from ..chat.keyboard import HISTORY
from ..store_options import confirmed, json_option, print_json
from .access import configured

_NAMED = 5


class Forgotten(Struct, frozen=True):
    """Rows by table, and files that were removed."""

    tenant: str
    rows: dict[str, int]
    blobs: int
    logs: int
    offloaded: int
    reports: int
    others: int


class ForgottenAccount(Struct, frozen=True):
    """The tenant that was named, and those of other login tokens of its account."""

    tenants: list[Forgotten]


@click.command()
@click.argument("tenant")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@json_option
def command(tenant: str, yes: bool, json_: bool) -> None:
    """Remove everything of one tenant, for good.

    TENANT is its name as `holdfast sessions` and `holdfast bill --by session` show it, or the beginning of it; `local`
    is this user with Holdfast's own agent. Gone are its sessions, calls, breaks, events, sums, ledgers, edits, blobs,
    what was learned and remembered of it, conversations of the agent, offloaded results and break reports, also from
    free pages and logs of the store; and all of that of other login tokens of its account. Backups and files that were
    exported elsewhere are not known and stay, and so do USER.md and MEMORY.md of workspaces.

    Nobody else may use the store meanwhile: end `holdfast serve` first. It could write again what it has in memory.

    \b
    Examples:
      holdfast store forget t-3f9a2c
      holdfast store forget local --yes
    """
    config, path = configured()
    name = _found(tenant_removal.tenants(path), uncut(tenant))
    with alone(path) as connection:
        names = tenant_removal.account(connection, name)
        if not yes:
            for each in names:
                for table, number in tenant_removal.count(connection, each).items():
                    click.echo(f"  {number:>9,}  {table}", err=True)
            confirmed(f"Remove everything of {printable(', '.join(names))} for good?", "nothing was removed")
        removals = [_forget(config, path, connection, each) for each in names]
    if json_:
        print_json(ForgottenAccount(removals))
        return
    for removal in removals:
        click.echo(printable(f"Forgot {removal.tenant}:"))
        files = {"blobs": removal.blobs, "conversations": removal.logs, "offloaded results": removal.offloaded}
        for noun, number in (*removal.rows.items(), *files.items(), ("break reports", removal.reports)):
            if number:
                click.echo(f"  {number:>9,}  {noun}")


def _forget(config: Config, path: Path, connection: sqlite3.Connection, tenant: str) -> Forgotten:
    sessions = tenant_removal.sessions(connection, tenant)
    others = [other for other in tenant_removal.owners(connection) if other != tenant]
    claimed = {each for other in others for each in tenant_removal.sessions(connection, other)}
    # Files first: if this is interrupted, the rows still say what is to be removed when it is done again.
    logs, offloaded, more = _files(config, tenant, sessions, claimed)
    reports = Reports.configured(config).forget(tenant)
    blobs = tenant_removal.forget_blobs(blobs_of(path), tenant)
    return Forgotten(tenant, tenant_removal.forget(connection, tenant), blobs, logs, offloaded, reports, more)


def _found(names: list[str], text: str) -> str:
    fitting = [text] if text in names else [name for name in names if name.startswith(text)]
    if len(fitting) == 1:
        return fitting[0]
    shown = ", ".join(printable(name[:24]) for name in (fitting or names)[:_NAMED]) or "none"
    problem = "fits more than one tenant" if fitting else "is no tenant of this store"
    raise HoldfastError(f"{printable(text)!r} {problem}; there are {shown}")


def _files(config: Config, tenant: str, sessions: set[str], claimed: set[str]) -> tuple[int, int, int]:
    """Remove logs and offloaded results; for this user also conversations that are in no store, and what was typed."""
    home, logs, offloaded, others = config.home, 0, 0, 0
    folder = home / SESSIONS
    own = set(sessions)
    if tenant == LOCAL:
        own |= {file.name.removesuffix(SUFFIX) for file in folder.glob(f"*{SUFFIX}")} - claimed
        others += _removed(home / HISTORY)
    for session in own:
        if "/" not in session and session not in ("", ".", ".."):
            logs += _removed(folder / f"{session}{SUFFIX}")
            others += _removed(folder / f"{session}{SUFFIX}{TORN}")
            others += sum(map(_removed, folder.glob(f"{escape(session)}{SUFFIX}{DAMAGED}*")))
        results = directory_of(home, session, tenant)
        if results.is_dir():
            offloaded += sum(1 for each in results.rglob("*") if each.is_file())
            shutil.rmtree(results)
    return logs, offloaded, others


def _removed(path: Path) -> int:
    if not path.is_file():
        return 0
    path.unlink()
    return 1
