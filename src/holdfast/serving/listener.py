"""A listening socket with helpful errors, and the address to give to clients."""

from __future__ import annotations

import errno
import ipaddress
import socket

from holdfast.errors import HoldfastError

BACKLOG = 2048


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 is a free one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a name"
        raise HoldfastError(f"the host {host!r} is not known ({reason}); choose another with `--host`.") from error
    listener = socket.socket(family, kind, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        listener.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise HoldfastError(
                f"port {port} on {host} is in use; choose another with `--port`, or `--port 0` for a free one."
            ) from error
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise HoldfastError(
            f"cannot listen on {host} port {port} ({reason}); choose others with `--host` and `--port`."
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    """The address to give to clients."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
