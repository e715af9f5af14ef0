"""Fuzzes a real gateway process: `python -m tests.gateway.fuzzing --count 50000`.

Requests come from a seed, which is printed; the same seed, count of connections and settings make the same requests.
The first request that goes wrong ends it, is made smaller and is written to a file that can be sent again with netcat.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.request import urlopen

from .fuzzing_cases import BASES, MOST_BYTES, Author, Case
from .fuzzing_oracle import FAILED, fault
from .fuzzing_process import Served, served
from .fuzzing_shrinking import shrunk
from .fuzzing_wire import Client, Heard, Provider

CONNECTIONS = 4
MOST_RSS = 800 * 2**20
_ALARMS = ("Traceback", "untouched", "identify failed", "answer failed", "finish failed", "cut failed", "tell failed")
"""What the log must not have. An engine that failed on a request says so to the client too; a provider's answer that
cannot be read is its own matter."""


class Failure(AssertionError):
    """A request that went wrong."""


class Fuzz:
    """One run: authors on connections of their own, until so many requests are sent or one of them goes wrong."""

    def __init__(self, seed: str, home: Path, *, repair: str = "suggest", connections: int = CONNECTIONS) -> None:
        self.seed, self.home, self.repair, self.connections = seed, home, repair, connections
        self.done = 0
        self.statuses: Counter[str] = Counter()
        self.failed: tuple[Case, str] | None = None
        self.goes_on = False
        self.slowest = (0.0, "")
        self._stop = threading.Event()

    def run(self, count: int, progress: float = 0.0) -> None:
        with Provider() as provider, served(self.home, self._environ(provider.port)) as gateway:
            shares = [
                count // self.connections + (index < count % self.connections) for index in range(self.connections)
            ]
            threads = [
                threading.Thread(target=self._connection, args=(index, share, provider, gateway.port), daemon=True)
                for index, share in enumerate(shares)
            ]
            for thread in threads:
                thread.start()
            try:
                self._wait(threads, count, progress, gateway)
            finally:
                self._stop.set()
                for thread in threads:
                    thread.join(70)
            if self.failed is not None:
                raise Failure(self._report(provider, gateway.port))
            self._judge(provider, gateway)

    def _environ(self, port: int) -> dict[str, str]:
        return {
            **{f"HOLDFAST_UPSTREAM_{name.upper()}": f"http://127.0.0.1:{port}{base}" for name, base in BASES.items()},
            "HOLDFAST_CACHE_REPAIR": self.repair,
            "HOLDFAST_GATEWAY_LIMITS_BODY_BYTES": str(MOST_BYTES),
            "HOLDFAST_GATEWAY_LIMITS_STAGES_MS": "5000",  # a busy machine is no reason to let requests pass by
        }

    def _connection(self, index: int, share: int, provider: Provider, port: int) -> None:
        author, client = Author(f"{self.seed}/{self.repair}", str(index)), Client(port)
        for _ in range(share):
            if self._stop.is_set():
                break
            case, began = author.next(), time.monotonic()
            try:
                found = ask(case, provider, client, self.statuses)
            except Exception as error:  # noqa: BLE001  whatever it is, it is the gateway's or ours, and is told
                found = f"{type(error).__name__}: {error}"
            self.slowest = max(self.slowest, (time.monotonic() - began, f"{case.number.decode()} {case.target}"))
            if found == FAILED and self.goes_on:
                (self.home / f"failed-{case.number.decode()}.http").write_bytes(b"".join(case.pieces()))
            elif found is not None:
                self.failed = self.failed or (case, found)
                self._stop.set()
                break
            self.done += 1
        client.close()

    def _wait(self, threads: list[threading.Thread], count: int, progress: float, gateway: Served) -> None:
        told, began = time.monotonic(), time.monotonic()
        while any(thread.is_alive() for thread in threads):
            threads[0].join(0.2) if threads[0].is_alive() else time.sleep(0.05)
            if gateway.process.poll() is not None:
                raise Failure(f"the gateway ended with {gateway.process.returncode}: {gateway.log.read_text()[-2000:]}")
            if progress and time.monotonic() - told > progress:
                told = time.monotonic()
                rate = self.done / (told - began)
                sys.stderr.write(f"\r{self.done:,} of {count:,}  {rate:,.0f}/s  {gateway.rss >> 20} MB ")
                sys.stderr.flush()

    def _judge(self, provider: Provider, gateway: Served) -> None:
        """What has to be true afterwards."""
        with urlopen(f"{gateway.address}/healthz", timeout=10) as answer:
            health = answer.read()
        problems = [] if b'"ok"' in health else [f"GET /healthz: {health!r}"]
        lines = gateway.log.read_text().splitlines()
        problems += [f"in the log: {line}" for line in lines if any(word in line for word in _ALARMS)][:5]
        problems += [f"{gateway.rss >> 20} MB in memory"] if gateway.rss > MOST_RSS else []
        problems += [f"{len(provider.strays)} requests came without a number"] if provider.strays else []
        if problems:
            raise Failure(f"seed {self.seed}, {self.done:,} requests: " + "; ".join(problems))

    def _report(self, provider: Provider, port: int) -> str:
        assert self.failed is not None
        case, problem = self.failed

        def again(each: Case) -> str | None:
            client = Client(port)
            try:
                return ask(each, provider, client, Counter())
            finally:
                client.close()

        smaller, alone = shrunk(case, problem, again)
        path = self.home / "request.http"
        path.write_bytes(b"".join(smaller.pieces()))
        told = "which fails by itself" if alone else "which needs the requests before it"
        command = f"python -m tests.gateway.fuzzing --seed {self.seed} --repair {self.repair}"
        return f"{problem}\n{case.method} {case.target}, number {case.number.decode()}, is in {path}, {told}\n{command}"


def ask(case: Case, provider: Provider, client: Client, statuses: Counter[str]) -> str | None:
    """Send a request and judge it."""
    provider.answers[case.number] = case.said
    heard: Heard | None = None
    if case.manner == "leaves":
        client.close()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before it was all sent
        client.send(case.pieces())
    if case.manner != "leaves":
        heard = client.hear(case.method)
        statuses[str(heard.status)] += 1
        statuses["planned"] += heard.header(b"x-holdfast-plan") is not None
        statuses["repaired"] += heard.header(b"x-holdfast-repairs") is not None
        statuses["bypassed " + (heard.header(b"x-holdfast-bypassed") or b"-").decode()] += 1
    else:
        client.close()
    got = provider.take(case.number)
    if heard is not None and len(got) == 1 and got[0].body != case.body:
        statuses["changed"] += 1
    return fault(case, got, heard)


def main() -> None:
    parser = argparse.ArgumentParser(description="Fuzz a gateway on this machine.")
    parser.add_argument("--count", type=int, default=int(os.environ.get("FUZZ", "50000")))
    parser.add_argument("--seed", default=str(time.time_ns() % 10**9))
    parser.add_argument("--repair", choices=("suggest", "on", "off"), help="one setting only; half of each otherwise")
    parser.add_argument("--keep", help="directory for what is written; a new one otherwise")
    parser.add_argument("--go-on", action="store_true", help="keep requests the engine failed on, and go on")
    asked = parser.parse_args()
    home = Path(asked.keep or tempfile.mkdtemp(prefix="holdfast-fuzz-"))
    settings = [asked.repair] if asked.repair else ["suggest", "on"]
    print(f"seed {asked.seed}, {asked.count:,} requests", flush=True)  # noqa: T201
    for repair in settings:
        (home / repair).mkdir(parents=True, exist_ok=True)
        fuzz = Fuzz(asked.seed, home / repair, repair=repair)
        fuzz.goes_on = asked.go_on
        try:
            fuzz.run(asked.count // len(settings), progress=1.0)
        except (Failure, KeyboardInterrupt) as end:
            sys.exit(f"\n{str(end) or 'stopped'} after {fuzz.done:,} requests with repairs {repair}")
        slowest = f"{fuzz.slowest[1]} took {fuzz.slowest[0]:.2f} s"
        print(f"\nrepairs {repair}: {dict(sorted(fuzz.statuses.items()))}; {slowest}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
