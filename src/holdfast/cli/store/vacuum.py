"""`holdfast store vacuum`: give the room of what was removed back to the disk."""

from __future__ import annotations

import click
from msgspec import Struct

from holdfast.cli.tables import printable
from holdfast.errors import HoldfastError
from holdfast.store import SMALL, StoreInUseError, alone, open_store, vacuum

from ..store_options import print_json
from .access import Progress, configured, json_option, room, size


class _Vacuumed(Struct, frozen=True):
    path: str
    before: int
    after: int


@click.command()
@json_option
def command(json_: bool) -> None:
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
