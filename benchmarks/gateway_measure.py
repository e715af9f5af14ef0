"""Latency and throughput of several servers, taking turns; used for the gateway and for its peers."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.gateway_bodies import Conversation, Texts
from benchmarks.gateway_load import Address, Connection, Crowd, Tally
from benchmarks.gateway_servers import Server, processor_time

REQUESTS = 24
"""Requests of a conversation; the first is cold. Half of what they add is below the size that is asked for."""

ADDED = 3_050  # bytes that a turn adds, about
PAUSE = 0.002
"""Seconds after an answer: what a server does behind it is its throughput's cost, not the next one's latency."""

CONNECTIONS = 24


def conversation(texts: Texts, name: str, size: int, *, stream: bool = False) -> Conversation:
    return Conversation(texts, name, size - ADDED * REQUESTS // 2, stream=stream)


@dataclass
class Timed:
    """The tallies of one server: requests in a warm lane, and the first ones."""

    warm: Tally = field(default_factory=Tally)
    cold: Tally = field(default_factory=Tally)


def latency(
    servers: Sequence[Server],
    texts: Texts,
    label: str,
    size: int,
    conversations: int,
    *,
    stream: bool = False,
    session: bool = True,
    requests: int = REQUESTS,
) -> dict[str, Timed]:
    """The same conversations with every server, a request at a time; servers take turns, each round another first."""
    found = {server.name: Timed() for server in servers}
    open_ = {server.name: Connection(server.port) for server in servers}
    try:
        for number in range(conversations):
            talk = conversation(texts, f"{label}{number}", size, stream=stream)
            for step in range(requests):
                body = talk.body()
                for turn in range(len(servers)):
                    server = servers[(turn + step) % len(servers)]
                    request = Address(server.port, server.name).request(talk.name, body, session=session)
                    timed = found[server.name]
                    open_[server.name].ask(request, timed.warm if step else timed.cold)
                    time.sleep(PAUSE)
                talk.grow()
    finally:
        for connection in open_.values():
            connection.close()
    return found


@dataclass
class Rate:
    """Throughput of one server, slice by slice; processor seconds of the server, of the load and of the provider."""

    slices: list[float] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    server: float = 0.0
    load: float = 0.0
    provider: float = 0.0

    def add(self, other: Rate) -> None:
        self.slices += other.slices
        self.tally.add_all(other.tally)
        self.seconds += other.seconds
        self.server += other.server
        self.load += other.load
        self.provider += other.provider

    @property
    def rate(self) -> float:
        return statistics.median(self.slices)

    @property
    def cost(self) -> float:
        """Milliseconds of processor time per request."""
        return 1e3 * self.server / len(self.tally.seconds)

    @property
    def shares(self) -> str:
        """How busy each one was."""
        parts = (("server", self.server), ("load", self.load), ("provider", self.provider))
        return ", ".join(f"{name} {100 * spent / self.seconds:.0f}%" for name, spent in parts)


class _Lanes:
    """A conversation for each connection. A connection asks until its conversation has had `most` requests."""

    def __init__(self, server: Server, texts: Texts, name: str, size: int, connections: int) -> None:
        self._address = Address(server.port, server.name)
        self._talks = [conversation(texts, f"{name}.{number}", size) for number in range(connections)]
        self._asked = [0] * connections
        self.most = 1

    def next(self, number: int) -> bytes | None:
        if self._asked[number] >= self.most:
            return None
        talk = self._talks[number]
        if self._asked[number]:
            talk.grow()
        self._asked[number] += 1
        return self._address.request(talk.name, talk.body())


def throughput(
    servers: Sequence[Server],
    provider: Server,
    texts: Texts,
    size: int,
    *,
    rounds: int,
    seconds: float,
    connections: int = CONNECTIONS,
) -> dict[str, Rate]:
    """Requests per second of each server with all connections busy, in slices that take turns.

    Every connection has a lane of its own whose first request is not counted: lanes are warm.
    """
    rates = {server.name: Rate() for server in servers}
    for round_ in range(-1, rounds):
        for server in servers:
            lanes = _Lanes(server, texts, f"t{round_}", size, connections)
            found = _slice(server, provider, lanes, connections, seconds)
            if round_ >= 0:  # the first one warms the server up
                rates[server.name].add(found)
    return rates


def _slice(server: Server, provider: Server, lanes: _Lanes, connections: int, seconds: float) -> Rate:
    crowd = Crowd(server.port, connections, lanes.next)
    crowd.run()
    lanes.most = REQUESTS
    before = server.cpu(), processor_time(os.getpid()), provider.cpu()
    tally, took = crowd.run(seconds)
    return Rate(
        slices=[len(tally.seconds) / took],
        tally=tally,
        seconds=took,
        server=server.cpu() - before[0],
        load=processor_time(os.getpid()) - before[1],
        provider=provider.cpu() - before[2],
    )


def ratios(rates: Mapping[str, Rate], one: str, other: str) -> Iterator[float]:
    """How much faster `one` was than `other`, slice by slice."""
    return (a / b for a, b in zip(rates[one].slices, rates[other].slices, strict=True))
