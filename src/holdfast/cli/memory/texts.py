"""Texts that come in and go out: files, standard input, the editor. What was typed is never lost."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import click

from holdfast.cli import tables
from holdfast.cli.tables import printable
from holdfast.errors import HoldfastError

from .access import plain

MOST_BYTES = 50_000_000
"""More than any memory; a file named by mistake may be larger."""

STANDARD = "-"


def read(name: str) -> str:
    """The text of a file, or of standard input for `-`."""
    where = "standard input" if name == STANDARD else printable(name)
    try:
        data = _standard_input() if name == STANDARD else _file(Path(name))
    except (OSError, ValueError) as problem:
        raise HoldfastError(
            f"{where} cannot be read ({_reason(problem)}); name a text file, or - for standard input"
        ) from problem
    if len(data) > MOST_BYTES:
        raise HoldfastError(f"{where} has more than {MOST_BYTES // 1_000_000} MB; that is more than memory can be")
    return _decoded(data, where)


def _standard_input() -> bytes:
    if sys.stdin is None:
        return b""
    return sys.stdin.buffer.read(MOST_BYTES + 1)


def _file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def _decoded(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as problem:
        raise HoldfastError(f"{where} is not UTF-8 (byte {problem.start:,}); save it as UTF-8") from problem


def write(text: str, name: str) -> None:
    """To a file, whole or not at all; for `-` to standard output: to the byte in a pipe, and on a terminal without what
    could speak to it."""
    if name != STANDARD:
        _write(text.encode("utf-8"), Path(name))
    elif tables.width() is None:
        click.echo(text.encode("utf-8"), nl=False)
    else:
        click.echo("\n".join(plain(text)))


def _write(data: bytes, path: Path) -> None:
    try:
        if path.exists() and not path.is_file():  # a pipe, a device, a directory; /dev/stdout leads nowhere by name
            path.write_bytes(data)
            return
        path = path.resolve()
        descriptor, beside = tempfile.mkstemp(prefix=f".{path.name[:64]}.", dir=path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            if path.exists():  # who could read it still can; a new one is for its owner alone
                Path(beside).chmod(stat.S_IMODE(path.stat().st_mode))
            Path(beside).replace(path)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise
    except (OSError, RuntimeError, ValueError) as problem:
        raise HoldfastError(f"{printable(path)} cannot be written ({_reason(problem)}); name another file") from problem


def _reason(problem: Exception) -> str:
    return (problem.strerror if isinstance(problem, OSError) else None) or printable(problem)


def can_edit() -> bool:
    """Return whether an editor can be opened: input and output are a terminal."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


class DraftFile:
    """A text in a file of its own, to open in the editor. It is removed once it was used or if it is unchanged;
    otherwise it stays, and the error names it."""

    def __init__(self, text: str, name: str) -> None:
        self._before = text
        descriptor, path = tempfile.mkstemp(prefix=f"holdfast-{name}-", suffix=".md")
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
        self.path = Path(path)

    def edited(self) -> str:
        """The text as it was saved."""
        editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
        try:
            command = shlex.split(editor)
            with _ctrl_c_is_the_editors():
                code = subprocess.run([*command, str(self.path)], check=False).returncode
        except (OSError, ValueError) as problem:
            raise HoldfastError(
                f"the editor {printable(editor)!r} cannot be started ({_reason(problem)}); set EDITOR to another one"
            ) from problem
        if code:
            how = f"ended with {code}" if code > 0 else f"was ended by signal {-code}"
            raise HoldfastError(f"the editor {printable(editor)!r} {how}; nothing was changed")
        return self.text()

    def text(self) -> str:
        return read(str(self.path))

    def removed(self) -> None:
        with contextlib.suppress(OSError):  # whatever the editor has made of it
            self.path.unlink()

    def is_worth_keeping(self) -> bool:
        try:
            saved = self.path.read_bytes()
        except OSError:
            return False
        return bool(saved.strip()) and saved != self._before.encode("utf-8")


@contextlib.contextmanager
def drafting(text: str, name: str, advice: str) -> Iterator[DraftFile]:
    """Yield a draft to use. After an error the file stays, and the message has the advice what to do with it."""
    try:
        draft = DraftFile(text, name)
    except OSError as problem:
        raise HoldfastError(
            f"no file for the editor can be made in {printable(tempfile.gettempdir())} ({_reason(problem)}); "
            "mend that or set TMPDIR"
        ) from problem
    try:
        yield draft
    except BaseException as problem:
        if not draft.is_worth_keeping():
            draft.removed()
            raise
        place = f"your text is kept in {printable(draft.path)}"
        if isinstance(problem, HoldfastError):
            raise HoldfastError(f"{str(problem).rstrip('.')}\n{place}; {advice}") from problem
        click.echo(f"holdfast: {place}", err=True)
        raise
    draft.removed()


@contextlib.contextmanager
def _ctrl_c_is_the_editors() -> Iterator[None]:
    """A terminal sends Ctrl-C to both of us. It is for the editor, which knows what to do with it; a handler of
    Python's own is not inherited, as ignoring it would be."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
