"""A gateway that runs already: whether it is this installation's and goes where this one's would; what it saw of a run.

Whoever listens on a port may say that it is Holdfast and would be given the keys of every client. So it must prove that
it knows the admin token, and is asked for that in a way that does not tell the token.
"""

from __future__ import annotations

import hmac
import secrets
from http.client import HTTPException
from typing import Any, get_args
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

import msgspec

from holdfast.config import Config, secret
from holdfast.core.repairs import Mode
from holdfast.serving import is_loopback

from .assembly import ACCESS_KEY, ADMIN_TOKEN
from .auth import proof, serves
from .runs import Seen

PATIENCE_S = 2.0
_MOST = 10_000_000
_open = build_opener(ProxyHandler({})).open  # this machine is not behind a proxy
_LEVELS = get_args(Mode)
_UNREACHABLE = (OSError, ValueError, HTTPException, msgspec.MsgspecError)


def place(config: Config) -> str:
    """Where the gateway of this installation listens when it runs."""
    chosen = config.settings.gateway
    host = chosen.host.removeprefix("[").removesuffix("]")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{host}]:{chosen.port}" if ":" in host else f"http://{host}:{chosen.port}"


def find(config: Config) -> str | None:
    """The address of this installation's gateway, if it runs; with its access key where it needs one."""
    chosen = config.settings.gateway
    if not chosen.port:
        return None
    address = place(config)
    if not proves(config, address, serves(config.settings)):
        return None
    if is_loopback(chosen.host.removeprefix("[").removesuffix("]")):
        return address
    return f"{address}/k/{secret(config.home, ACCESS_KEY)}"


def proves(config: Config, address: str, serves: bytes) -> bool:
    """Whether who listens at an address knows the admin token of this home, and serves so."""
    nonce = secrets.token_hex(16)
    try:
        token = (config.home / ADMIN_TOKEN).read_text("utf-8").strip()
        said = _get(f"{address}/healthz?nonce={nonce}")
        wanted = proof(token, nonce, int(address.rpartition(":")[2]), serves)
    except _UNREACHABLE:
        return False
    given = said.get("proof") if isinstance(said, dict) else None
    return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


def answers(config: Config) -> bool:
    """Whether a gateway, anybody's, listens where this installation's would."""
    try:
        said = _get(f"{place(config)}/healthz") if config.settings.gateway.port else None
    except _UNREACHABLE:
        return False
    return isinstance(said, dict) and "status" in said


def ails(address: str) -> tuple[str | None, bool]:
    """What a gateway says of itself: why it stores nothing, if it does not; and whether it is switched off."""
    try:
        said = _get(f"{address}/healthz")
    except _UNREACHABLE:
        return None, False
    reason = said.get("reason") if isinstance(said, dict) else None
    return (str(reason) if reason else None), isinstance(said, dict) and said.get("mode") == "off"


def repair_level(address: str) -> str | None:
    """How much a gateway repairs (`cache.repair`), as it says itself; None where it does not."""
    try:
        said = _get(f"{address}/healthz")
    except _UNREACHABLE:
        return None
    level = said.get("repair") if isinstance(said, dict) else None
    return level if level in _LEVELS else None


def seen(config: Config, run: str) -> Seen | None:
    """What the gateway that runs saw of a run; None where that was nothing, or it ended meanwhile."""
    try:
        token = (config.home / ADMIN_TOKEN).read_text("utf-8").strip()
        return msgspec.convert(_get(f"{place(config)}/runs/{run}", token), Seen)
    except _UNREACHABLE:
        return None


def begin(config: Config, run: str, directory: str, client: str = "") -> None:
    """Tell the gateway that runs which client is about to be started and where. Without that its requests name no
    project, and those that go by the name of an SDK no client."""
    try:
        token = (config.home / ADMIN_TOKEN).read_text("utf-8").strip()
        _get(f"{place(config)}/runs/{run}", token, msgspec.json.encode({"directory": directory, "client": client}))
    except _UNREACHABLE:
        return


def _get(address: str, token: str | None = None, data: bytes | None = None) -> Any:
    """Ask for something; with `data`, put it there."""
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    asked = Request(address, data, headers, method="GET" if data is None else "PUT")
    try:
        with _open(asked, timeout=PATIENCE_S) as response:
            return msgspec.json.decode(response.read(_MOST))
    except HTTPError as problem:
        if problem.code != 503:  # a gateway whose store is damaged says so, and serves
            raise
        with problem:
            return msgspec.json.decode(problem.read(_MOST))
