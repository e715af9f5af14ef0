"""Which gateways of this home run, on whatever port: each has a file in HOLDFAST_HOME as long as it lives.

A file says where to ask, no more: a gateway that was killed leaves its file behind, and the port may be anybody's by
then. So whoever listens there has to prove that it knows the admin token, as `reach` asks for it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.config import Config
from holdfast.store import PRIVATE_FILE, make_private_directory

from . import reach
from .auth import serves

DIRECTORY = "gateways"
_MOST = 100


class Running(Struct, frozen=True, kw_only=True):
    """A gateway as its file has it. `serves` is where it forwards to and stores."""

    pid: int
    address: str
    started: float
    serves: str


class Found(Struct, frozen=True, kw_only=True):
    """A file that was found. `alive`: what answers there is that gateway; `same`: it does what the configuration here
    would have it do."""

    gateway: Running
    alive: bool
    same: bool


@contextlib.contextmanager
def announced(config: Config, address: str) -> Iterator[None]:
    """A gateway serves at this address meanwhile. Where that cannot be written down it serves all the same."""
    file = config.home / DIRECTORY / f"{os.getpid()}-{address.rpartition(':')[2]}.json"
    said = Running(pid=os.getpid(), address=address, started=time.time(), serves=serves(config.settings).decode())
    with contextlib.suppress(OSError):
        _forget_the_dead(config)
        make_private_directory(config.home)
        make_private_directory(file.parent)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(msgspec.json.encode(said))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def find_all(config: Config) -> list[Found]:
    """The gateways of this home, the one that was started last first."""
    found = []
    for gateway in (each for _, each in _files(config.home) if each is not None):
        alive = reach.proves(config, gateway.address, gateway.serves.encode())
        same = gateway.serves == serves(config.settings).decode()
        found.append(Found(gateway=gateway, alive=alive, same=same))
    return sorted(found, key=lambda each: -each.gateway.started)


def _files(home: Path) -> list[tuple[Path, Running | None]]:
    """The files, with None for one that cannot be read."""
    found: list[tuple[Path, Running | None]] = []
    with contextlib.suppress(OSError):
        for path in sorted((home / DIRECTORY).glob("*.json"))[:_MOST]:
            try:
                found.append((path, msgspec.json.decode(path.read_bytes(), type=Running)))
            except (OSError, msgspec.DecodeError, UnicodeDecodeError):
                found.append((path, None))
    return found


def _forget_the_dead(config: Config) -> None:
    """Remove files whose process is gone. One whose number another process has by now stays: nothing answers there."""
    for path, gateway in _files(config.home):
        if gateway is None or not _exists(gateway.pid):
            path.unlink(missing_ok=True)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError, ValueError):
        return False
    except OSError:
        return True
    return True
