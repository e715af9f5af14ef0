"""How much one gateway takes on: connections in all, and calls at once of one tenant."""

from __future__ import annotations

from holdfast.config.sections import Limits
from holdfast.wire import Dialect

from .problems import Answer, problem

RETRY_S = 1
"""Seconds after which a client may try again: calls end all the time."""


class Load:
    """What is under way."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._streams: dict[str, int] = {}

    def begin(self, tenant: str) -> bool:
        """One call more of a tenant, until its `end`; False where it has as many already as it may."""
        before = self._streams.get(tenant, 0)
        if before >= self._limits.streams_per_tenant:
            return False
        self._streams[tenant] = before + 1
        return True

    def end(self, tenant: str) -> None:
        self._streams[tenant] -= 1
        if not self._streams[tenant]:
            del self._streams[tenant]


def too_many_streams(style: Dialect, limits: Limits) -> Answer:
    most = limits.streams_per_tenant
    return problem(
        style,
        429,
        f"{most} calls of this key are open already (gateway.limits.streams_per_tenant); try again when one ends.",
        retry_after=RETRY_S,
    )


def too_many_connections(style: Dialect, limits: Limits) -> Answer:
    most = limits.connections
    return problem(
        style,
        503,
        f"{most} connections are open already (gateway.limits.connections); try again later.",
        retry_after=RETRY_S,
        close=True,
        refused="connections",
    )


def too_large(style: Dialect, limits: Limits) -> Answer:
    most = limits.body_bytes
    return problem(
        style,
        413,
        f"the request is larger than {most:,} bytes (gateway.limits.body_bytes); send less or raise the limit.",
        close=True,
    )
