"""Checks beyond our own files: upstreams, the gateway's port, clients and their logs.

An upstream gets a connection and, for https, a handshake: no request, no key. If the gateway would use a proxy, only
the proxy gets a connection, and nothing is sent.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from holdfast.config import Config
from holdfast.errors import HoldfastError
from holdfast.gateway import READ, discovery
from holdfast.report.logs import home_sources
from holdfast.serving import listen
from holdfast.upstream import VARIABLES, proxy_for, shown_address, trust
from holdfast.wording import counted, printable

from .checks import CheckResult

CONNECT_S = 1.2
VERSION_S = 1.3
UNREACHED = " cannot be reached "


def upstream(name: str, address: str) -> Iterator[CheckResult]:
    """Report whether a connection can be made; nothing is sent."""
    shown = printable(shown_address(address))
    try:
        parts, through = urlsplit(address), None
        host, port = _host(parts)
        proxy = proxy_for(parts.scheme, host)
        if proxy is not None:
            through = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
            host, port = _host(through)
    except ValueError:  # whose words may hold a part of a password
        cure = f"mend upstream.{name}; in names and passwords write / : @ as %2F %3A %40"
        yield CheckResult("warning", "upstream", f"{name}: {shown} is no address that can be used", cure)
        return
    shown += "" if through is None else f" by way of the proxy {printable(shown_address(through.geturl()))}"
    try:
        with socket.create_connection((host, port), timeout=CONNECT_S) as plain:
            if parts.scheme == "https" and through is None:
                with (trust().context or ssl.create_default_context()).wrap_socket(plain, server_hostname=host):
                    pass
    except ssl.SSLCertVerificationError as problem:
        why = f"{shown} answers with a certificate that is not trusted ({problem.verify_message})"
        cure = f"if a proxy of your network signs it, name its authority's file in one of {', '.join(VARIABLES)}"
        yield CheckResult("warning", "upstream", f"{name}: {why}", cure)
    except (OSError, UnicodeError) as problem:
        cure = f"check the network and upstream.{name}, or look with --offline"
        yield CheckResult("warning", "upstream", f"{name}: {shown}{UNREACHED}({_why(problem)})", cure)
    else:
        yield CheckResult("ok", "upstream", f"{name}: {shown} can be reached")


def certificates() -> Iterator[CheckResult]:
    """The variables that name further authorities, where one of them cannot be used."""
    for problem in trust().problems:
        cure = "correct the path or unset the variable; the system's own authorities are trusted without it"
        yield CheckResult("warning", "certificates", printable(problem), cure)


def _host(parts: SplitResult) -> tuple[str, int]:
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _why(problem: Exception) -> str:
    if isinstance(problem, TimeoutError):
        return f"no answer within {CONNECT_S:g} seconds"
    if isinstance(problem, ssl.SSLError):
        return "what answers does not speak TLS"
    if isinstance(problem, UnicodeError):
        return "this is no name of a host"
    return printable(getattr(problem, "strerror", None) or str(problem) or type(problem).__name__)


def gateways(config: Config) -> Iterator[CheckResult]:
    """The gateways of this home that run, on any port, and those that ended without saying so; then the port that is
    configured, unless one of them has it."""
    configured = False
    for each in discovery.find_all(config):
        where = f"{printable(each.gateway.address)} (process {each.gateway.pid})"
        if not each.alive:
            cure = "nothing; `holdfast show` has its last calls as `unknown` once another was started"
            yield CheckResult("note", "gateway", f"the one on {where} was killed, or does not answer", cure)
        elif each.same:
            configured = configured or each.gateway.address == discovery.address(config)
            yield from _running(each.gateway, where)
        else:
            cure = "it was started with other settings; `holdfast run` does not use it"
            yield CheckResult("note", "gateway", f"runs on {where}, and forwards or stores elsewhere", cure)
    if not configured:
        yield from port(config)


def _running(gateway: discovery.GatewayFile, where: str) -> Iterator[CheckResult]:
    reason, off = discovery.problem_and_switch(gateway.address)
    if off:
        finding = f"runs on {where}, switched off: it relays every request as it comes and stores nothing"
        yield CheckResult("warning", "gateway", finding, f"`kill -USR2 {gateway.pid}` turns it on")
    elif reason is not None:
        yield CheckResult("warning", "gateway", f"runs on {where} and stores nothing", printable(reason))
    else:
        yield CheckResult("ok", "gateway", f"runs on {where}")


def port(config: Config) -> Iterator[CheckResult]:
    chosen = config.settings.gateway
    if not chosen.port:
        yield CheckResult("ok", "gateway", "takes a free port at each start (gateway.port = 0)")
        return
    try:
        listen(chosen.host.removeprefix("[").removesuffix("]"), chosen.port).close()
    except HoldfastError as problem:
        if discovery.find(config) is not None:
            yield CheckResult("ok", "gateway", f"runs on {discovery.address(config)}")
        else:
            yield CheckResult("warning", "gateway", str(problem).rstrip("."), "or set gateway.port")
        return
    yield CheckResult(
        "ok", "gateway", f"does not run; {discovery.address(config)} is free", "`holdfast serve` starts it"
    )


def client(name: str, program: str) -> Iterator[CheckResult]:
    """Report a client's version, as printed by its program."""
    line = ""
    try:
        with subprocess.Popen(
            [program, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            _ASKED.add(process)
            try:
                out, _ = process.communicate(timeout=VERSION_S)
                line = next(iter(out.decode("utf-8", "replace").split("\n")), "").strip()[:60]
            except subprocess.TimeoutExpired:
                _end(process)
            finally:
                _ASKED.discard(process)
    except OSError as problem:
        yield CheckResult("warning", "client", f"{name}: {printable(program)} does not start ({problem.strerror})")
        return
    version = printable(line) if line else "its version was not told in time"
    yield CheckResult("ok", "client", f"{name}: {version}", f"`holdfast run -- {name}`")


_ASKED: set[subprocess.Popen[bytes]] = set()
"""Clients that have not answered yet."""


def end_clients() -> None:
    """End all clients that have not answered, with their child processes."""
    for process in tuple(_ASKED):
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def clients() -> dict[str, str]:
    """The known clients that are installed, with their programs."""
    programs = {name: shutil.which(name) for name in READ}
    return {name: program for name, program in programs.items() if program is not None}


def logs() -> Iterator[CheckResult]:
    """What `holdfast explain` would read without a path."""
    sources = home_sources(Path.home(), os.environ)
    kinds = Counter(source.format for source in sources)
    size = sum(source.size for source in sources) / 1e6
    if not sources:
        yield CheckResult("note", "logs", "no logs of known clients", "`holdfast explain PATH` reads others")
        return
    counts = ", ".join(f"{kind} {number:,}" for kind, number in kinds.items())
    yield CheckResult(
        "ok", "logs", f"{counted(len(sources), 'log')} ({counts}; {size:,.1f} MB)", "`holdfast explain` reads them"
    )
