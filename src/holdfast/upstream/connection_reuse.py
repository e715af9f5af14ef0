"""Whether a request on a pooled connection can have reached the provider, where the connection ended without an answer.

The provider may close an idle connection at any time, also while a request is on its way to it. Two cases are certain:

- The connection had ended, or something unasked had come, before the request was written.
- The connection ended before the provider's system had acknowledged a single byte of the request. What arrives is
  acknowledged with whatever is sent next, an end (FIN) included, and after 40 milliseconds by itself; so a provider
  that has read a request and worked on it has acknowledged it.

Everything else may have been processed: a provider that acknowledges a request and ends without an answer, a connection
that is new, and all that happens where the system does not tell what was acknowledged (other than Linux).
"""

from __future__ import annotations

import socket
import struct
import sys
from typing import Self

_PEEK: int | None = socket.MSG_PEEK | socket.MSG_DONTWAIT if hasattr(socket, "MSG_DONTWAIT") else None
_TCP_INFO: int | None = socket.TCP_INFO if sys.platform == "linux" else None
_BYTES_ACKED = 120  # of `struct tcp_info`, since Linux 4.1
_SIZE = _BYTES_ACKED + 8


class Reuse:
    """The socket of a connection that is used again, from before a request is written until its answer begins."""

    def __init__(self, watched: socket.socket) -> None:
        self._socket = watched
        self._acknowledged = self._bytes_acked()

    @classmethod
    def watching(cls, used: socket.socket) -> Self | None:
        """Watch a connection by its socket; None where that is not possible."""
        try:  # a second descriptor: the transport closes its own as soon as the connection ends
            return None if _PEEK is None else cls(used.dup())
        except OSError:
            return None

    def is_over(self) -> bool:
        """Whether the connection cannot be used: it has ended, or holds something that nobody asked for."""
        assert _PEEK is not None
        try:
            self._socket.recv(1, _PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def is_unread(self, error: Exception) -> bool:
        """Whether the provider has read nothing of the request, which ended with this error."""
        if isinstance(error, TimeoutError):  # the connection has not ended
            return False
        return self._acknowledged is not None and self._bytes_acked() == self._acknowledged

    def close(self) -> None:
        self._socket.close()

    def _bytes_acked(self) -> int | None:
        if _TCP_INFO is None:
            return None
        try:
            info = self._socket.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _SIZE)
        except OSError:
            return None
        return None if len(info) < _SIZE else int(struct.unpack_from("Q", info, _BYTES_ACKED)[0])
