"""What the commands that look after the store have in common."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from holdfast.cli.tables import printable
from holdfast.config import Config, load_config
from holdfast.errors import HoldfastError
from holdfast.store import path_of

_EVERY_S = 1.0


def configured() -> tuple[Config, Path]:
    """The configuration, and the file of the store, which is there."""
    config = load_config()
    path = path_of(config.settings.store.url)
    if not path.is_file() or not path.stat().st_size:
        raise HoldfastError(f"nothing is stored yet in {path}")
    return config, path


def room(path: Path) -> int:
    """Bytes that the store takes on the disk: its file, and the log of what was written last."""
    log = path.with_name(path.name + "-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0)


def size(count: int) -> str:
    for unit, bytes_ in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= bytes_:
            return f"{count / bytes_:,.1f} {unit}"
    return f"{count:,} bytes"


class Progress:
    """Shows the progress of long work on standard error, at most one line per second."""

    def __init__(self) -> None:
        self._said = time.monotonic()
        self._shown = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        now = time.monotonic()
        if now - self._said >= _EVERY_S:
            self._said = now
            end = "\r" if self._shown else "\n"
            click.echo(f"holdfast: {printable(text)}…{' ' * 10 if self._shown else ''}{end}", nl=False, err=True)
