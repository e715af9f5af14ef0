"""`holdfast store check`: whether the store is whole."""

from __future__ import annotations

import click

from holdfast.cli.tables import counted, printable
from holdfast.store import blobs_of, check

from ..store_options import print_json
from .access import Progress, configured, json_option, size


@click.command()
@json_option
def command(json_: bool) -> int:
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
    what = f"{size(result.size)}, {counted(result.pages, 'page')} ({result.free_pages:,} free), schema {result.schema}"
    click.echo(printable(f"{result.path}: {state}; {what}, {counted(result.blobs, 'blob')}."))
    return 1 if result.damage else 0
