"""What `holdfast doctor` looks at beyond its own files: upstreams, the gateway's port, clients and their logs.

An upstream gets a connection and, for https, a handshake: no request, no key.
"""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.cli.doctor_values import Line
from holdfast.cli.tables import counted, printable
from holdfast.config import Config
from holdfast.config.values import mask
from holdfast.errors import HoldfastError
from holdfast.gateway.launch import READ
from holdfast.gateway.reach import find, place
from holdfast.serving import listen
from holdfast.traces.logs.finding import home_sources

CONNECT_S = 1.2
VERSION_S = 1.3


def upstream(name: str, address: str) -> Iterator[Line]:
    """Whether a connection can be made; whatever stands behind it, nothing is asked of it."""
    shown, parts = printable(mask(address)), urlsplit(address)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=CONNECT_S) as plain:
            if parts.scheme == "https":
                with ssl.create_default_context().wrap_socket(plain, server_hostname=parts.hostname):
                    pass
    except ssl.SSLCertVerificationError as problem:
        why = f"{shown} answers with a certificate that is not trusted ({problem.verify_message})"
        yield Line("warning", "upstream", f"{name}: {why}", "check SSL_CERT_FILE, or whoever stands in between")
    except (OSError, UnicodeError) as problem:
        why = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        cure = f"check the network and upstream.{name}, or look with --offline"
        yield Line("warning", "upstream", f"{name}: {shown} cannot be reached ({printable(why)})", cure)
    else:
        yield Line("ok", "upstream", f"{name}: {shown} can be reached")


def port(config: Config) -> Iterator[Line]:
    chosen = config.settings.gateway
    if not chosen.port:
        yield Line("ok", "gateway", "takes a free port at each start (gateway.port = 0)")
        return
    try:
        listen(chosen.host.removeprefix("[").removesuffix("]"), chosen.port).close()
    except HoldfastError as problem:
        if find(config) is not None:
            yield Line("ok", "gateway", f"runs on {place(config)}")
        else:
            yield Line("warning", "gateway", str(problem).rstrip("."), "or set gateway.port")
        return
    yield Line("ok", "gateway", f"does not run; {place(config)} is free", "`holdfast serve` starts it")


def client(name: str, program: str) -> Iterator[Line]:
    """Its version, as it says it."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    said = ""
    try:
        with subprocess.Popen([program, "--version"], **quiet) as process:  # type: ignore[call-overload]
            try:
                out, _ = process.communicate(timeout=VERSION_S)
                said = next(iter(out.decode("utf-8", "replace").split("\n")), "").strip()[:60]
            except subprocess.TimeoutExpired:
                process.kill()
    except OSError as problem:
        yield Line("warning", "client", f"{name}: {printable(program)} does not start ({problem.strerror})")
        return
    version = printable(said) if said else "its version was not told in time"
    yield Line("ok", "client", f"{name}: {version}", f"`holdfast run -- {name}`")


def clients() -> dict[str, str]:
    """The known clients that are installed, with their programs."""
    found = {name: shutil.which(name) for name in READ}
    return {name: program for name, program in found.items() if program is not None}


def logs() -> Iterator[Line]:
    """What `holdfast explain` would read without a path."""
    found = home_sources(Path.home(), os.environ)
    kinds = Counter(source.format for source in found)
    size = sum(source.size for source in found) / 1e6
    if not found:
        yield Line("note", "logs", "no logs of known clients", "`holdfast explain PATH` reads others")
        return
    told = ", ".join(f"{kind} {number:,}" for kind, number in kinds.items())
    yield Line("ok", "logs", f"{counted(len(found), 'log')} ({told}; {size:,.1f} MB)", "`holdfast explain` reads them")
