"""What restarts of the gateway cost: conversations whose gateway ends after every fourth call, by SIGTERM or kill -9.

A gateway is a process with a home of its own, the provider a simulator in another process that lives on, and its bill
counts. The same requests go through a gateway that is never restarted; the three take turns, call by call.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from benchmarks import Result
from benchmarks.gateway_servers import Server, clean_environment, free_port, python, running_program
from benchmarks.restart_clients import CLIENTS, MODEL, Client
from holdfast import facts

CALLS, EVERY = range(60), 4
DELAY = "0.1"  # seconds before the first token, in which what is written behind a request gets to the disk
QUICK = range(40, 49)
"""A conversation that begins with most of a megabyte, so that a few calls show what is lost."""
LIMITS = {"SIGTERM": 1.02, "kill -9": 1.06}
"""The cost over that of no restart, by what ends the gateway."""
_ENDINGS = {"none": None, "SIGTERM": signal.SIGTERM, "kill -9": signal.SIGKILL}


@dataclass(frozen=True)
class Bill:
    """What one conversation cost, in tokens at the price of plain input; output is the same for all and left out."""

    cost: float
    bypassed: int


def run(*, quick: bool) -> Iterator[Result]:
    calls = QUICK if quick else CALLS
    for client in CLIENTS:
        bills = compare(client, calls)
        base = bills["none"]
        for ending, limit in LIMITS.items():
            bill = bills[ending]
            note = f"{bill.cost:,.0f} over {base.cost:,.0f} tokens; bypassed {bill.bypassed} and {base.bypassed}"
            yield Result(f"{client.name}, {ending}", bill.cost / base.cost, "x", limit, "lower", note)


def compare(client: Client, calls: range, every: int = EVERY) -> dict[str, Bill]:
    """The bills of one client's conversation, from its request of one number to another, by what ended its gateway
    after every so many calls."""
    with contextlib.ExitStack() as stack:
        provider = stack.enter_context(_simulator())
        arms = {
            name: stack.enter_context(contextlib.closing(_Arm(name, client, provider, number)))
            for name, number in _ENDINGS.items()
        }
        for count, number in enumerate(calls):
            body = client.body(number)
            for arm in arms.values():
                if count and count % every == 0:
                    arm.start()
                arm.ask(body)
                if (count + 1) % every == 0 and number != calls[-1]:
                    arm.end()  # at once: what is written behind the answer may not be on the disk yet
        return {name: arm.bill() for name, arm in arms.items()}


class _Arm:
    """A conversation through gateways that follow on each other in one home."""

    def __init__(self, name: str, client: Client, provider: Server, ending: signal.Signals | None) -> None:
        self._client, self._provider, self._ending = client, provider, ending
        self._name, self._key = name.replace(" ", ""), f"sk-{name}"
        self._folder = tempfile.TemporaryDirectory(prefix="holdfast-bench-")
        self._bypassed = 0
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start a gateway, if there is none."""
        if self._process is not None:
            return
        own = {"HOLDFAST_HOME": self._folder.name, "HOLDFAST_CACHE_REPAIR": self._client.repair}
        own["HOLDFAST_UPSTREAM_ANTHROPIC"] = f"http://127.0.0.1:{self._provider.port}"
        process = self._process = subprocess.Popen(
            python("holdfast", "serve", "--port", "0"),
            cwd=self._folder.name,
            env={**clean_environment(), **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdout is not None
        said = process.stdout.readline().decode()
        if not said.startswith("listening on "):
            raise RuntimeError(f"the gateway did not start: {said!r}")
        self._port = int(said.rpartition(":")[2])

    def end(self) -> None:
        """End the gateway as this arm does; where it is never ended it goes on."""
        if self._ending is not None:
            self._end(self._ending)

    def _end(self, number: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None and process.stdout is not None:
            process.send_signal(number)
            process.wait(60)
            process.stdout.close()

    def ask(self, body: bytes) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        headers = {"x-api-key": self._key, "anthropic-version": "2023-06-01"}
        headers |= {"content-type": "application/json"}
        if self._client.named:
            headers["x-claude-code-session-id"] = self._name
        try:
            connection.request("POST", "/v1/messages", body, headers)
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError(f"the gateway answered {answer.status}: {said[:300]!r}")
        self._bypassed += answer.getheader("x-holdfast-bypassed") is not None

    def bill(self) -> Bill:
        """What the provider counted."""
        connection = http.client.HTTPConnection("127.0.0.1", self._provider.port, timeout=60)
        try:
            connection.request("GET", "/_sim/requests")
            records = json.loads(connection.getresponse().read())["requests"]
        finally:
            connection.close()
        model, cost = facts.model(f"anthropic:{MODEL}"), 0.0
        mine = sha256(self._key.encode()).hexdigest()[:12]  # as the simulator tells workspaces apart
        for usage in (record["usage"] for record in records if record["workspace"] == mine):
            written = sum(tokens * float(model.write(ttl)) for ttl, tokens in usage["written"].items())
            cost += usage["input"] + usage["read"] * float(model.read) + written
        return Bill(cost, self._bypassed)

    def close(self) -> None:
        self._end(signal.SIGKILL)
        self._folder.cleanup()


def _simulator() -> contextlib.AbstractContextManager[Server]:
    port = free_port()
    command = python("holdfast", "simulate", "--port", str(port), "--quiet", "--delay", DELAY)
    return running_program("simulator", command, None, port=port)
