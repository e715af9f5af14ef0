"""Other gateways, measured as ours is: LiteLLM's proxy and Headroom, each in an environment of its own.

`make bench-peers` installs them below `.peers/`. One that is not there, or does not start, is skipped by name.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks import Result
from benchmarks.gateway import KB, bare, gateway, upstream
from benchmarks.gateway_bodies import Texts
from benchmarks.gateway_load import Address, Connection, Tally, quantile
from benchmarks.gateway_measure import CONNECTIONS, conversation, latency, ratios, throughput
from benchmarks.gateway_servers import Server, cores, pinned_here

from . import headroom, litellm

PEERS = (litellm, headroom)
FASTER = {"LiteLLM": 10.0}
"""How many times a peer's throughput ours must be."""


def run(*, quick: bool) -> Iterator[Result]:
    texts, (_, load, _) = Texts(), cores()
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(upstream())
        peers = list(_started(stack, provider, texts))
        if not peers:
            return
        relay, ours = stack.enter_context(bare(provider)), stack.enter_context(gateway(provider))
        stack.enter_context(pinned_here(load))
        servers = [relay, ours, *peers]
        times = latency(servers, texts, "peer", 100 * KB, 1 if quick else 2)
        rounds, seconds = (2, 1.5) if quick else (4, 3.0)
        rates = throughput(servers, provider, texts, 100 * KB, rounds=rounds, seconds=seconds)
        for server in servers:
            p50 = 1e3 * quantile(times[server.name].warm.seconds, 0.5)
            yield Result(
                f"{server.name}: 100 kB, p50", p50, "ms", None, "lower", f"{server.resident():.0f} MB in memory"
            )
        for server in servers:
            rate = rates[server.name]
            name = f"{server.name}: 100 kB, {CONNECTIONS} connections"
            yield Result(name, rate.rate, "/s", None, "higher", f"{rate.cost:.1f} ms each; busy: {rate.shares}")
        for peer in peers:
            times_faster = statistics.median(ratios(rates, "gateway", peer.name))
            yield Result(f"gateway over {peer.name}", times_faster, "x", FASTER.get(peer.name), "higher")


def _started(stack: contextlib.ExitStack, provider: Server, texts: Texts) -> Iterator[Server]:
    """The peers that are installed and answer."""
    for peer in PEERS:
        if not Path(peer.PROGRAM).exists():
            print(f"  {peer.NAME} is skipped: it is not installed (make bench-peers)", flush=True)
            continue
        try:
            server = stack.enter_context(peer.running(provider, cores()[0]))
            _asked_once(server, texts)
        except (OSError, RuntimeError) as error:
            print(f"  {peer.NAME} is skipped: {error}", flush=True)
            continue
        print(f"  {peer.NAME} {peer.version()}", flush=True)
        yield server


def _asked_once(server: Server, texts: Texts) -> None:
    """Fails where a peer does not answer a request as it should."""
    connection = Connection(server.port)
    try:
        talk = conversation(texts, "first", 100 * KB)
        connection.ask(Address(server.port, server.name).request(talk.name, talk.body()), Tally())
    finally:
        connection.close()
