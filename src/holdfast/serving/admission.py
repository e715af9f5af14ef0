"""Which connections of a server count: those whose requests it serves, and those that wait to be admitted.

A connection waits until a request of it is let in; who sends nothing, or nothing that is let in, keeps waiting. Waiting
connections take no place of those that are served: one peer has a number of them, and its oldest goes for a new one.
"""

from __future__ import annotations

import ipaddress
from typing import Protocol


class Connection(Protocol):
    """The methods of a connection used here."""

    @property
    def idle(self) -> bool:
        """Whether no request of it is being answered."""
        ...

    def abort(self) -> None:
        """Close it at once."""
        ...


class Admission:
    """The connections of one server. `silent_s` are the seconds in which one that waits has to send something."""

    def __init__(self, *, most: int, waiting_per_peer: int, silent_s: float) -> None:
        self.silent_s = silent_s
        self._most, self._per_peer = most, waiting_per_peer
        self._admitted: set[Connection] = set()
        self._waiting: dict[Connection, str] = {}  # the oldest first, with their peers
        self._peers: dict[str, dict[Connection, None]] = {}

    def arrived(self, connection: Connection, address: str) -> None:
        """A new connection waits. Where its peer, or all together, have as many as they may, the oldest is closed."""
        peer = peer_of(address)
        same = self._peers.get(peer, {})
        if len(same) >= self._per_peer:
            self._close_one(same)
        elif len(self._waiting) >= self._most:
            self._close_one(self._waiting)
        self._waiting[connection] = peer
        self._peers.setdefault(peer, {})[connection] = None

    def admit(self, connection: Connection) -> bool:
        """Let a connection in until it ends; False where as many are in as may be."""
        if connection not in self._admitted:
            if len(self._admitted) >= self._most:
                return False
            self._forget(connection)
            self._admitted.add(connection)
        return True

    def has(self, connection: Connection) -> bool:
        """Whether a connection was admitted."""
        return connection in self._admitted

    def left(self, connection: Connection) -> None:
        """A connection has ended."""
        self._forget(connection)
        self._admitted.discard(connection)

    def _close_one(self, those: dict[Connection, str] | dict[Connection, None]) -> None:
        """The oldest without a request, otherwise the oldest."""
        chosen = next((each for each in those if each.idle), None) or next(iter(those))
        self._forget(chosen)
        chosen.abort()

    def _forget(self, connection: Connection) -> None:
        peer = self._waiting.pop(connection, None)
        if peer is None:
            return
        del self._peers[peer][connection]
        if not self._peers[peer]:
            del self._peers[peer]


def peer_of(address: str) -> str:
    """Whom an address belongs to: itself, or the /64 that one customer has of IPv6."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv4Address):
        return address
    return str(ip.ipv4_mapped or ipaddress.ip_network((ip, 64), strict=False))
