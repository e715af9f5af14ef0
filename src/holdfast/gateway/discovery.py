"""Running gateways: those of this home, whether they are its own, and their health reports.

Each gateway has a file in HOLDFAST_HOME while it runs, whatever its port. A file is only an address: a killed gateway
leaves its file behind, and another program may use the port by then. Anyone who listens on a port could claim to be
Holdfast and would get the keys of every client. So a gateway must prove that it knows the admin token, in a way that
does not reveal the token.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
from msgspec import Struct

from holdfast.config import Config, secret
from holdfast.core.repairs import Mode
from holdfast.errors import HoldfastError
from holdfast.serving import is_loopback
from holdfast.store import PRIVATE_FILE, make_private_directory
from holdfast.upstream import UpstreamError, fetch, parse_address

from .assembly import ACCESS_KEY, ADMIN_TOKEN
from .auth import proof, serves
from .runs import RunSummary

DIRECTORY = "gateways"
TIMEOUT_S = 2.0
_MOST_FILES = 100
_MOST_BYTES = 10_000_000
_LEVELS = get_args(Mode)
_NO_ANSWER = (OSError, ValueError, HoldfastError, UpstreamError, msgspec.MsgspecError)


def address(config: Config) -> str:
    """Where the gateway of this installation listens when it runs."""
    gateway = config.settings.gateway
    host = gateway.host.removeprefix("[").removesuffix("]")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{gateway.port}" if ":" in host else f"http://{host}:{gateway.port}"


def find(config: Config) -> str | None:
    """The address of this installation's gateway, if it runs; with its access key where it needs one."""
    gateway = config.settings.gateway
    if not gateway.port:
        return None
    base = address(config)
    if not proves(config, base, serves(config.settings)):
        return None
    if is_loopback(gateway.host.removeprefix("[").removesuffix("]")):
        return base
    return f"{base}/k/{secret(config.home, ACCESS_KEY)}"


def proves(config: Config, address: str, serves: bytes) -> bool:
    """Whether who listens at an address knows the admin token of this home, and serves so."""
    nonce = secrets.token_hex(16)
    try:
        expected = proof(_token(config), nonce, int(address.rpartition(":")[2]), serves)
        health = _get(address, f"/healthz?nonce={nonce}")
    except _NO_ANSWER:
        return False
    answered = health.get("proof") if isinstance(health, dict) else None
    return isinstance(answered, str) and hmac.compare_digest(answered.encode("utf-8", "replace"), expected.encode())


def answers(config: Config) -> bool:
    """Return whether any gateway listens at this installation's address."""
    return bool(config.settings.gateway.port) and "status" in _health(address(config))


def problem_and_switch(address: str) -> tuple[str | None, bool]:
    """Return why a gateway stores nothing, if so, and whether it is switched off."""
    health = _health(address)
    return str(health.get("reason") or "") or None, health.get("mode") == "off"


def repair_level(address: str) -> str | None:
    """How much a gateway repairs (`cache.repair`), as it says itself; None where it does not."""
    level = _health(address).get("repair")
    return level if level in _LEVELS else None


def run_summary(config: Config, run: str) -> RunSummary | None:
    """What the gateway that runs saw of a run; None where that was nothing, or it ended meanwhile."""
    try:
        return msgspec.convert(_get(address(config), f"/runs/{run}", _token(config)), RunSummary)
    except _NO_ANSWER:
        return None


def begin_run(config: Config, run: str, directory: str, client: str = "") -> None:
    """Say to the gateway that runs which client is about to be started and where. Without that its requests name no
    project, and those that go by the name of an SDK no client."""
    start = msgspec.json.encode({"directory": directory, "client": client})
    with contextlib.suppress(*_NO_ANSWER):
        _get(address(config), f"/runs/{run}", _token(config), start)


def _token(config: Config) -> str:
    return (config.home / ADMIN_TOKEN).read_text("utf-8").strip()


def _health(address: str) -> dict[str, Any]:
    """Return a gateway's health report, empty if it does not answer."""
    try:
        health = _get(address, "/healthz")
    except _NO_ANSWER:
        return {}
    return health if isinstance(health, dict) else {}


def _get(address: str, target: str, token: str | None = None, data: bytes = b"") -> Any:
    """Ask for something; with `data`, put it there."""
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    to = parse_address("gateway", address)
    status, body = fetch(to, "PUT" if data else "GET", target, headers, data, seconds=TIMEOUT_S, most=_MOST_BYTES)
    if status not in (200, 503):  # 503: a gateway whose store is damaged says so, and serves
        raise ValueError(f"status {status}")
    return msgspec.json.decode(body)


class GatewayFile(Struct, frozen=True, kw_only=True):
    """A gateway as its file has it."""

    pid: int
    address: str
    started: float
    serves: str  # where it forwards to and stores


class GatewayStatus(Struct, frozen=True, kw_only=True):
    """A gateway that has a file."""

    gateway: GatewayFile
    alive: bool  # whether what answers there is that gateway
    same: bool  # whether it does what the configuration here would have it do


@contextlib.contextmanager
def announced(config: Config, address: str) -> Iterator[None]:
    """A gateway serves at this address meanwhile. Where that cannot be written down it serves all the same."""
    file = config.home / DIRECTORY / f"{os.getpid()}-{address.rpartition(':')[2]}.json"
    record = GatewayFile(pid=os.getpid(), address=address, started=time.time(), serves=serves(config.settings).decode())
    with contextlib.suppress(OSError):
        _remove_dead_files(config)
        make_private_directory(config.home)
        make_private_directory(file.parent)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE_FILE)
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(msgspec.json.encode(record))
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def find_all(config: Config) -> list[GatewayStatus]:
    """The gateways of this home, the one that was started last first."""
    configured = serves(config.settings).decode()
    gateways = [
        GatewayStatus(
            gateway=gateway,
            alive=proves(config, gateway.address, gateway.serves.encode()),
            same=gateway.serves == configured,
        )
        for _, gateway in _files(config.home)
        if gateway is not None
    ]
    return sorted(gateways, key=lambda each: -each.gateway.started)


def _files(home: Path) -> list[tuple[Path, GatewayFile | None]]:
    """The files, with None for one that cannot be read."""
    files: list[tuple[Path, GatewayFile | None]] = []
    with contextlib.suppress(OSError):
        for path in sorted((home / DIRECTORY).glob("*.json"))[:_MOST_FILES]:
            try:
                files.append((path, msgspec.json.decode(path.read_bytes(), type=GatewayFile)))
            except (OSError, msgspec.DecodeError, UnicodeDecodeError):
                files.append((path, None))
    return files


def _remove_dead_files(config: Config) -> None:
    """Remove files of processes that are gone. If the pid was reused, the file stays: nothing answers there."""
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
