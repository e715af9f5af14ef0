"""What the gateway costs: latency, throughput and memory, beside a bare Starlette and aiohttp relay and no server.

Gateway, relay and direct requests take turns with the same growing conversations. The gateway runs as users run it:
`holdfast serve`, default settings, SQLite on disk. Its engine must have planned what is measured, so requests that
went past it are counted.
"""

from __future__ import annotations

import contextlib
import random
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import Result
from benchmarks.gateway_bodies import Conversation, Texts
from benchmarks.gateway_load import Address, Crowd, Tally, quantile
from benchmarks.gateway_measure import CONNECTIONS, Timed, latency, ratios, throughput
from benchmarks.gateway_servers import Server, cores, described, pinned_here, python, running_program

KB = 1_000
LANES, PER_LANE = 2_000, 10
WAITING = 16  # connections in the memory run
TENANTS = 20
LONGEST = 120.0  # seconds of the memory run; a slow gateway gets through fewer rounds


def run(*, quick: bool) -> Iterator[Result]:
    _, load, _ = cores()
    texts = Texts()
    with upstream() as provider, pinned_here(load):
        with bare(provider) as relay, gateway(provider) as ours:
            servers = [provider, relay, ours]
            yield from _latencies(servers, texts, quick=quick)
            yield from _streams(servers, texts, conversations=1 if quick else 3)
            yield from _throughput(servers, texts, quick=quick)
        with gateway(provider) as ours:
            yield from _memory(ours, texts, lanes=LANES // 10 if quick else LANES)


def upstream() -> contextlib.AbstractContextManager[Server]:
    return running_program("direct", python("benchmarks.gateway_upstream"), cores()[2])


def bare(provider: Server) -> contextlib.AbstractContextManager[Server]:
    return running_program("bare", python("benchmarks.gateway_relay", f"http://127.0.0.1:{provider.port}"), cores()[0])


@contextlib.contextmanager
def gateway(provider: Server) -> Iterator[Server]:
    """`holdfast serve` with an empty home of its own."""
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        env = {"HOLDFAST_HOME": folder, "HOLDFAST_UPSTREAM_ANTHROPIC": f"http://127.0.0.1:{provider.port}"}
        command = python("holdfast", "serve", "--port", "0")
        with running_program("gateway", command, cores()[0], env=env, cwd=Path(folder)) as server:
            yield server


def _latencies(servers: Sequence[Server], texts: Texts, *, quick: bool) -> Iterator[Result]:
    few = 3 if quick else 15
    found = latency(servers, texts, "small", 100 * KB, few)
    yield from _added("100 kB", found, 1.5, described())
    yield from _added("100 kB, session unnamed", latency(servers, texts, "chain", 100 * KB, few, session=False))
    yield from _added("1 MB", latency(servers, texts, "large", 1_000 * KB, 1 if quick else 5), 5.0)


def _added(what: str, found: dict[str, Timed], limit: float | None = None, note: str = "") -> Iterator[Result]:
    """What the gateway adds over the bare relay, in milliseconds."""
    times = {name: [1e3 * quantile(timed.warm.seconds, share) for share in (0.5, 0.9)] for name, timed in found.items()}
    for position, share in enumerate(("p50", "p90")):
        beside = ", ".join(f"{name} {values[position]:.2f}" for name, values in times.items())
        added = times["gateway"][position] - times["bare"][position]
        said = f"{beside}; {note}" if note and not position else beside
        yield Result(f"added, {what}, {share}", added, "ms", None if position else limit, "lower", said)
    first = {name: 1e3 * quantile(timed.cold.seconds, 0.5) for name, timed in found.items()}
    counted = _past(found["gateway"].warm)
    yield Result(f"added, {what}, first of a lane, p50", first["gateway"] - first["bare"], "ms", None, "lower", counted)


def _past(tally: Tally) -> str:
    """How many requests the engine did not plan; nothing to say where it planned all."""
    return f"{tally.unplanned} of {len(tally.seconds)} requests went past the engine" if tally.unplanned else ""


def _streams(servers: Sequence[Server], texts: Texts, *, conversations: int) -> Iterator[Result]:
    spent = {server.name: server.cpu() for server in servers}
    found = latency(servers, texts, "stream", 100 * KB, conversations, stream=True, requests=9)
    firsts = {who: timed.warm.first for who, timed in found.items()}
    events = {who: timed.warm.lags for who, timed in found.items()}
    for name, times, share in (
        ("first byte, p50", firsts, 0.5),
        ("event, p50", events, 0.5),
        ("event, p99", events, 0.99),
    ):
        values = {who: 1e3 * quantile(seconds, share) for who, seconds in times.items()}
        beside = ", ".join(f"{who} {value:.2f}" for who, value in values.items())
        added = values["gateway"] - values["bare"]
        yield Result(f"added, stream of 200 events, {name}", added, "ms", None, "lower", beside)
    each = {s.name: 1e3 * (s.cpu() - spent[s.name]) / (9 * conversations) for s in servers}
    beside = ", ".join(f"{who} {value:.1f}" for who, value in each.items())
    yield Result("processor time of a stream", each["gateway"], "ms", None, "lower", beside)


def _throughput(servers: Sequence[Server], texts: Texts, *, quick: bool) -> Iterator[Result]:
    provider, relay, ours = servers
    rounds, seconds = (3, 1.0) if quick else (9, 2.0)
    rates = throughput([relay, ours], provider, texts, 100 * KB, rounds=rounds, seconds=seconds)
    floor = throughput([provider], provider, texts, 100 * KB, rounds=3, seconds=1.0)["direct"]
    found, other = rates["gateway"], rates["bare"]
    share = statistics.median(ratios(rates, "gateway", "bare"))
    note = f"gateway {found.rate:.0f}/s, bare {other.rate:.0f}/s, direct {floor.rate:.0f}/s"
    yield Result(f"throughput, 100 kB, {CONNECTIONS} connections", share, "x", 0.4, "higher", note)
    for who, rate in (("gateway", found), ("bare", other)):
        busy = f"busy: {rate.shares}; p50 {1e3 * quantile(rate.tally.seconds, 0.5):.0f} ms"
        yield Result(f"processor time of a request, {who}", rate.cost, "ms", None, "lower", busy)
    past, asked = found.tally.unplanned, len(found.tally.seconds)
    yield Result("requests past the engine", 100 * past / asked, "%", 1.0, "lower", f"{past} of {asked}")


def _memory(ours: Server, texts: Texts, *, lanes: int) -> Iterator[Result]:
    """All lanes alive at once, 20 to 100 kB each, every one asked once a round, in another order each time."""
    chance = random.Random(11)
    talks = [Conversation(texts, f"m{i}", chance.randrange(20 * KB, 100 * KB)) for i in range(lanes)]
    tally, seconds, sizes = Tally(), 0.0, list[float]()
    while len(sizes) < PER_LANE and (seconds < LONGEST or len(sizes) < 2):
        chance.shuffle(talks)
        found, took = _round(ours, talks)
        seconds += took
        tally.add_all(found)
        sizes.append(ours.resident())
    rounds, half = len(sizes), (len(sizes) + 1) // 2
    shown = {1: sizes[0], half: sizes[half - 1], rounds: sizes[-1]}
    note = ", ".join(f"{size:.0f} MB after {round_ * lanes:,}" for round_, size in shown.items())
    if rounds < PER_LANE:
        note += f"; stopped after {seconds:.0f} s"
    name, full = f"memory after {rounds * lanes:,} requests in {lanes:,} lanes", lanes == LANES
    yield Result(name, sizes[-1], "MB", 250 if full else None, "lower", note)
    name = f"memory after {rounds * lanes:,} over {half * lanes:,}"
    yield Result(name, sizes[-1] / sizes[half - 1], "x", 1.1 if full else None, "lower")
    yield Result("requests per second meanwhile", len(tally.seconds) / seconds, "/s", None, "higher", _past(tally))


def _round(ours: Server, talks: list[Conversation]) -> tuple[Tally, float]:
    address, left = Address(ours.port, "memory"), iter(talks)

    def following(number: int) -> bytes | None:
        talk = next(left, None)
        if talk is None:
            return None
        request = address.request(talk.name, talk.body(), key=f"bench{int(talk.name[1:]) % TENANTS}")
        talk.grow()
        return request

    return Crowd(ours.port, WAITING, following).run()
