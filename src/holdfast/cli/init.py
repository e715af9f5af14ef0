"""`holdfast init`: a commented holdfast.toml to begin with."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

import click

from holdfast.cli.tables import printable
from holdfast.config import FILE, KEYS, as_toml, holdfast_home
from holdfast.errors import HoldfastError
from holdfast.store import make_private_directory
from holdfast.wording import counted


@click.command()
@click.option(
    "--path", metavar="DIR", type=click.Path(path_type=Path), help="Directory of the file (the current directory)."
)
@click.option("--global", "global_", is_flag=True, help="For every workspace: the file in HOLDFAST_HOME.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def command(path: Path | None, global_: bool, force: bool) -> None:
    """Write a commented holdfast.toml: every setting with its meaning and default.

    Every key is commented out, so the file changes nothing until you remove the mark before one. Holdfast works without
    such a file. One that is there is never overwritten without --force.

    \b
    Examples:
      holdfast init
      holdfast init --global
      holdfast init --path ~/project --force
    """
    if path is not None and global_:
        raise click.UsageError("--path and --global are two places; choose one of them.")
    file = (holdfast_home(os.environ) if global_ else path or Path()) / FILE
    if global_:
        _make(file.parent)
    _write(file, as_toml(workspace=not global_).encode(), force=force)
    click.echo(f"Wrote {printable(file)}: {counted(_keys(global_), 'setting')}, all at their defaults.")
    click.echo("")
    click.echo("What to do next:")
    click.echo("  open it and remove the # before what you want to change")
    click.echo("  holdfast config show --changed   what is set, and where")
    click.echo("  holdfast doctor                  whether configuration, store, upstreams and clients are well")


def _keys(global_: bool) -> int:
    return sum(global_ or not key.guarded for key in KEYS.values())


def _make(directory: Path) -> None:
    try:
        make_private_directory(directory)
    except OSError as problem:
        raise _refused(directory, problem) from problem


def _write(file: Path, data: bytes, *, force: bool) -> None:
    """The whole file or nothing; without `force`, only where there is none."""
    beside = file.with_name(f".{FILE}.{secrets.token_hex(4)}")
    mode = None
    try:
        mode = file.stat().st_mode
        if stat.S_ISDIR(mode):
            raise HoldfastError(f"{printable(file)} is a directory; remove or rename it")
        if not force:
            raise _there(file)
    except FileNotFoundError:
        pass
    except OSError as problem:
        raise _refused(file, problem) from problem
    try:
        with beside.open("xb") as writing:
            if mode is not None and stat.S_ISREG(mode):
                os.fchmod(writing.fileno(), stat.S_IMODE(mode))  # who may read it stays as it was
            writing.write(data)
            writing.flush()
            os.fsync(writing.fileno())
        if force:
            beside.replace(file)
        else:
            _put(beside, file, data)
    except FileExistsError as problem:
        raise _there(file) from problem
    except OSError as problem:
        raise _refused(file, problem) from problem
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _put(beside: Path, file: Path, data: bytes) -> None:
    """Link the file into place; fails if another process was first."""
    try:
        os.link(beside, file)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        with file.open("xb") as writing:
            writing.write(data)


def _there(file: Path) -> HoldfastError:
    return HoldfastError(f"{printable(file)} is there already and was left as it is; --force replaces it")


def _refused(file: Path, problem: OSError) -> HoldfastError:
    why = problem.strerror or str(problem)
    return HoldfastError(
        f"{printable(file)} cannot be written ({why}); choose another place with --path or HOLDFAST_HOME"
    )
