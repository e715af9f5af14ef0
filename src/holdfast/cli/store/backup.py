"""`holdfast store backup`: a copy of the store while it is used."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.tables import counted, printable
from holdfast.store import back_up

from ..store_options import print_json
from .access import Progress, configured, json_option, size


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--force", is_flag=True, help="Replace what stands there, once the copy was found to be whole.")
@json_option
def command(path: Path, force: bool, json_: bool) -> None:
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
