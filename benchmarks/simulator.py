"""Simulated requests: 300-block conversations that grow by a turn, in process; and a million of them in one go.

A request here is a body of bytes that is parsed, digested, looked up, billed and written down (`Simulator.bill`): what
a replay does for every call. The rules alone, and whole answers with checks and a scripted reply, are reported beside.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import Result
from holdfast.caches.providers import cache
from holdfast.facts import model
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader

TURNS = 140  # of history at the start of a session: with tools, system and what it adds about 300 blocks
ADDED = 20  # requests of a session, each a call and its result longer
WORDS = ("kelp", "rock", "tide", "def load(path):", "return None", "\\n", "src/module/file.py", "42", "é")
HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
MARK = ',"cache_control":{"type":"ephemeral"}'


class Sessions:
    """Bodies of sessions without end: one history for all, a first message and new turns of each one's own."""

    def __init__(self, seed: int = 7) -> None:
        self._chance = random.Random(seed)
        schema = {"type": "object", "properties": {"path": {"type": "string"}}}
        tools = [{"name": f"tool_{i}", "description": self.prose(60), "input_schema": schema} for i in range(12)]
        system = [{"type": "text", "text": self.prose(1_500), "cache_control": {"type": "ephemeral"}}]
        request = {"model": "claude-opus-4-6", "max_tokens": 500, "tools": tools, "system": system}
        self._head = json.dumps(request, separators=(",", ":"))[:-1].encode() + b',"messages":['
        self._history = [self.turn(f"h{i}") for i in range(TURNS)]

    def prose(self, words: int) -> str:
        return " ".join(self._chance.choices(WORDS, k=words))

    def turn(self, name: str, mark: str = "") -> bytes:
        call = f'{{"type":"tool_use","id":"{name}","name":"tool_1","input":{{"path":"{name}"}}}}'
        result = f'{{"type":"tool_result","tool_use_id":"{name}","content":"{name} {self._text}"{mark}}}'
        turn = f'{{"role":"assistant","content":[{call}]}},{{"role":"user","content":[{result}]}}'
        return turn.encode()

    @property
    def _text(self) -> str:
        return "kelp and rock in the tide " * 12

    def bodies(self, number: int) -> Iterator[bytes]:
        first = f'{{"role":"user","content":[{{"type":"text","text":"session {number}"}}]}}'.encode()
        turns = [first, *self._history]
        for step in range(ADDED):
            name = f"s{number}.{step}"
            yield self._head + b",".join([*turns, self.turn(name, MARK)]) + b"]}"
            turns.append(self.turn(name))


def calls(sessions: Sessions, numbers: range) -> list[HttpRequest]:
    return [
        HttpRequest("POST", "/v1/messages", HEADERS, {}, raw) for number in numbers for raw in sessions.bodies(number)
    ]


def run(*, quick: bool) -> Iterator[Result]:
    sessions = Sessions()
    body = DIALECTS["anthropic"].parse(next(sessions.bodies(0)))
    assert isinstance(body, Body)
    shape = f"{len(body.blocks)} blocks, {len(body.raw) / 1000:.0f} kB at the start, {ADDED} requests a session"
    asked = calls(sessions, range(20 if quick else 60))
    rates = _rates(asked)
    yield Result("simulated requests, from bytes to bill", rates["bill"], "/s", 3_000, "higher", shape)
    yield Result("the cache rules alone", rates["rules"], "/s", None, "higher")
    yield Result("whole answers: checks, script, rendering", rates["answer"], "/s", None, "higher")
    yield from _memory(sessions, 30_000 if quick else 1_000_000)


def _rates(asked: list[HttpRequest]) -> dict[str, float]:
    """Requests per second of processor time, so that what else the machine does is left out; best of five rounds."""
    facts = model("anthropic:claude-opus-4-6")
    best: dict[str, float] = {}
    for _ in range(5):
        clock = VirtualClock()
        billing, answering, rules = Simulator(clock=clock), Simulator(clock=clock), cache(facts)
        reader = PromptReader()
        bodies = [reader.parse(DIALECTS["anthropic"], call.body) for call in asked]
        prompts = [reader.read(body, facts).prompt for body in bodies if isinstance(body, Body)]

        def bill(number: int, simulator: Simulator = billing, clock: VirtualClock = clock) -> None:
            exchange = simulator.bill(asked[number], output=100)
            exchange.first_token()
            exchange.finish()
            clock.advance(5)

        def decide(number: int) -> None:
            outcome = rules.begin(prompts[number], 5.0 * number)  # noqa: B023  the loop's own
            rules.first_token(outcome, 5.0 * number)  # noqa: B023

        def answer(number: int, simulator: Simulator = answering) -> None:
            simulator.answer(asked[number])

        for name, candidate, count in (
            ("bill", bill, len(asked)),
            ("rules", decide, len(asked)),
            ("answer", answer, len(asked) // 10),
        ):
            begin = time.process_time()
            for number in range(count):
                candidate(number)
            best[name] = max(best.get(name, 0.0), count / (time.process_time() - begin))
    return best


def _memory(sessions: Sessions, requests: int) -> Iterator[Result]:
    """Memory after a tenth of the requests, when everything that is bounded has filled up, and after all of them."""
    clock = VirtualClock()
    simulator = Simulator(clock=clock)
    early, done, shown = 0.0, 0, time.monotonic()
    for number in range(requests // ADDED):
        for raw in sessions.bodies(number):
            exchange = simulator.bill(HttpRequest("POST", "/v1/messages", HEADERS, {}, raw), output=100)
            exchange.first_token()
            exchange.finish()
            clock.advance(5)
            done += 1
        if not early and done >= requests // 10:
            early = _resident()
        if sys.stderr.isatty() and time.monotonic() - shown > 1:
            shown = time.monotonic()
            print(f"\r  {done:,} of {requests:,} requests, {_resident():.0f} MB ", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r" + " " * 60, end="\r", file=sys.stderr)
    late = _resident()
    note = f"{early:.0f} MB after {requests // 10:,}, {late:.0f} MB after {requests:,}"
    yield Result(f"memory after {requests:,} requests", late / early, "x", 1.05, "lower", note)


def _resident() -> float:
    """Megabytes in memory now, not at most."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6
