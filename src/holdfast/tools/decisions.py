"""Decisions that hold for ever: one private file in HOLDFAST_HOME, by workspace, tool and subject.

Whatever is wrong with the file, it says nothing: then the user is asked again. It never allows by mistake.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.errors import HoldfastError
from holdfast.notices import warn_once

from .safe_files import open_file, put_file
from .text_limits import mend

try:
    import fcntl
except ImportError:  # no advisory locks here: the last of two processes wins
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

FILE = "confirmations.json"
_PRIVATE = 0o600
_LARGEST = 10_000_000
_PATIENCE_S = 2.0


class Kept(Struct, frozen=True):
    """One decision. Without a subject it covers every call of the tool."""

    workspace: str
    tool: str
    subject: str | None
    allowed: bool

    @property
    def about(self) -> tuple[str, str, str | None]:
        return self.workspace, self.tool, self.subject


class _File(Struct, frozen=True):
    decisions: tuple[Kept, ...] = ()


class Remembered:
    """The file. Other processes may change it at any time, so it is read whenever it is asked."""

    def __init__(self, home: Path) -> None:
        self._home = home

    def find(self, workspace: Path, tool: str, subject: str | None) -> bool | None:
        """What was decided for this tool and subject; a refusal wins."""
        about = (mend(str(workspace)), tool, subject)
        found = {each.allowed for each in self._read() if each.about == about}
        return None if not found else found == {True}

    def keep(self, workspace: Path, tool: str, subject: str | None, allowed: bool) -> bool:
        """Write a decision down; whether that was possible."""
        made = Kept(mend(str(workspace)), tool, subject, allowed)
        try:
            self._home.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._alone():
                others = tuple(each for each in self._read() if each.about != made.about)
                data = msgspec.json.encode(_File((*others, made)))
                put_file(self._real(), (FILE,), msgspec.json.format(data, indent=1) + b"\n", mode=_PRIVATE)
        except (OSError, HoldfastError, UnicodeEncodeError) as problem:
            logger.warning("a decision could not be kept in %s (%s): it holds for this session", FILE, problem)
            return False
        return True

    def _real(self) -> Path:
        return Path(os.path.realpath(self._home))

    def _read(self) -> tuple[Kept, ...]:
        try:
            with open_file(self._real(), (FILE,)) as file:
                found = os.fstat(file.fileno())
                if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
                    warn_once(logger, "%s may be written by others and is not believed; remove it", FILE)
                    return ()
                data = file.read(_LARGEST + 1)
            return msgspec.json.decode(data, type=_File).decisions if len(data) <= _LARGEST else ()
        except FileNotFoundError:
            return ()
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            warn_once(logger, "%s cannot be read (%s): the user is asked again", FILE, problem)
            return ()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time, so that none loses another's decision."""
        lock = os.open(self._real() / f"{FILE}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        try:
            until = time.monotonic() + _PATIENCE_S
            while fcntl is not None:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > until:
                        raise
                    time.sleep(0.01)
            yield
        finally:
            os.close(lock)
