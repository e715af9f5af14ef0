"""The thin shell of the configuration: the one place that opens `holdfast.toml`."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from holdfast.config.document import FILE, ConfigDocument, MalformedError, parse, printable
from holdfast.config.resolution import Config, resolve
from holdfast.errors import HoldfastError, wrong_argument

_LARGEST = 1_000_000  # bytes; a configuration is never this large, a file named by mistake may be


def load(
    *,
    workspace: Path | None,
    home: Path | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object] = {},
) -> Config:
    """The configuration of a workspace; `home` defaults to HOLDFAST_HOME, then to `~/.holdfast`."""
    user_home = _user_home(environ)
    home = home or holdfast_home(environ)
    documents: list[ConfigDocument] = []
    unread: list[str] = []
    folders = [home] if workspace is None or _same(home, workspace) else [home, workspace]
    for folder in folders:
        try:
            documents.extend(_read(folder / FILE, workspace=folder is not home))
        except HoldfastError as problem:
            unread.append(str(problem))
    return resolve(documents, environ, flags, home=home, user_home=user_home, workspace=workspace, unread=unread)


def load_config(flags: Mapping[str, object] = {}) -> Config:
    """The configuration of the current directory, as the command line sees it."""
    if not isinstance(flags, Mapping):
        raise wrong_argument(
            "load_config", flags, "settings by name, such as load_config({'cache.strategy': 'economic'})"
        )
    try:
        workspace = Path.cwd()
    except FileNotFoundError as problem:
        raise HoldfastError("the current directory no longer exists; change to one that does") from problem
    return load(workspace=workspace, home=None, environ=os.environ, flags=flags)


def _user_home(environ: Mapping[str, str]) -> Path:
    if named := environ.get("HOME"):
        return Path(_usable(named, "HOME"))
    try:
        return Path.home()
    except RuntimeError as problem:
        raise HoldfastError("there is no home directory; set HOME") from problem


def _usable(path: str, variable: str) -> str:
    """Settings and reports are UTF-8 in lines: a path that cannot stand in them is refused at once."""
    if any(char < " " or char == "\x7f" or "\ud800" <= char <= "\udfff" for char in path):  # surrogates: no UTF-8
        raise HoldfastError(f"{variable} has characters that cannot be printed ({path!a}); set it to another directory")
    return path


def holdfast_home(environ: Mapping[str, str]) -> Path:
    """HOLDFAST_HOME, or `~/.holdfast`; nothing is opened."""
    user_home = _user_home(environ)
    named = _usable(environ.get("HOLDFAST_HOME", "").strip(), "HOLDFAST_HOME")
    if not named:
        return user_home / ".holdfast"
    if named == "~" or named.startswith("~/"):
        return user_home / named[2:]
    return Path(named).absolute()


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _read(path: Path, *, workspace: bool) -> list[ConfigDocument]:
    """The file, or nothing where there is none; a HoldfastError where it cannot be used."""
    where = printable(path)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise HoldfastError(f"{where}: this is a directory, not a file; remove or rename it")
        if not stat.S_ISREG(status.st_mode):
            raise HoldfastError(f"{where}: this is not a regular file; remove or rename it")
        if status.st_size > _LARGEST:
            raise HoldfastError(f"{where}: the file is larger than 1 MB; it cannot be a configuration")
        text = path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except UnicodeDecodeError as problem:
        raise HoldfastError(f"{where}: the file is not UTF-8 (byte {problem.start}); save it as UTF-8") from problem
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise HoldfastError(f"{where}: the file cannot be read ({reason}); mend or remove it") from problem
    try:
        return [parse(where, text, workspace=workspace)]
    except MalformedError as problem:
        place = where if problem.line is None else f"{where}:{problem.line}"
        reason = printable(problem.reason)
        raise HoldfastError(f"{place}: this is not valid TOML ({reason}); mend that line") from problem
