"""The core's own cost: what of a growing conversation is read again, how long a request waits, how large a lane is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import Result
from benchmarks.simulator import Sessions
from holdfast.config.keys import Settings
from holdfast.core.ledger import encode
from holdfast.engine import EngineCore, Lane
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.wire import DIALECTS, Body, rewrite

LANE = Lane(tenant="t", session="s", id="l", client="bench")
START = 1_700_000_000.0
HEADERS = {"x-api-key": "k"}


def run(*, quick: bool) -> Iterator[Result]:
    yield from _bytes()
    yield from _time(rounds=2 if quick else 5)
    yield _ledger(turns=200 if quick else 1_000)


class _Through:
    """Requests through an engine, billed by a simulator."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.simulator, self.engine = Simulator(clock=self.clock), EngineCore(Settings())
        self.spent = 0.0

    def send(self, raw: bytes) -> None:
        begun = time.process_time()
        body = self.engine.parse(DIALECTS["anthropic"], raw)
        assert isinstance(body, Body)
        prepared = self.engine.prepare(body, lane=LANE, now=self.clock.now())
        self.spent += time.process_time() - begun
        exchange = self.simulator.bill(HttpRequest("POST", "/v1/messages", HEADERS, {}, prepared.raw))
        exchange.first_token()
        exchange.finish()
        assert exchange.record.usage is not None
        begun = time.process_time()
        self.engine.settle(prepared, exchange.record.usage, now=self.clock.now())
        self.spent += time.process_time() - begun
        self.clock.advance(5)


def _bytes() -> Iterator[Result]:
    """Bytes canonicalised for each turn, against the bytes that are new and one block: a moved marker changes one."""
    through, worst, before, seen = _Through(), 0.0, 0, 0
    for number, raw in enumerate(Sessions().bodies(0)):
        with _unordered() as sorted_anew:
            through.send(raw)
        reader = through.engine.reader
        read, new = reader.canonicalised - seen + sum(sorted_anew), len(raw) - before
        seen, before = reader.canonicalised, len(raw)
        if number:
            body = DIALECTS["anthropic"].parse(raw)
            assert isinstance(body, Body)
            block = body.blocks[-1].end - body.blocks[-1].start
            worst = max(worst, read / (new + block))
    name, note = "bytes canonicalised over new bytes and one block", "the worst turn of a lane"
    yield Result(name, worst, "x", 1.0, "lower", note)


@contextmanager
def _unordered() -> Iterator[list[int]]:
    """The sizes of blocks that repairs canonicalise too, without the order of their keys."""
    sizes: list[int] = []
    kept = rewrite.unordered

    def counted(raw: bytes) -> bytes | None:
        sizes.append(len(raw))
        return kept(raw)

    rewrite.unordered = counted
    try:
        yield sizes
    finally:
        rewrite.unordered = kept


def _time(rounds: int) -> Iterator[Result]:
    """Processor time of prepare and settle on conversations of 300 blocks, best round."""
    best = float("inf")
    for _ in range(rounds):
        through, count = _Through(), 0
        for raw in Sessions().bodies(0):
            through.send(raw)
            count += 1
        best = min(best, through.spent / count)
    yield Result("parse, prepare and settle", best * 1000, "ms", None, "lower", "300 blocks, without a store")


def _ledger(turns: int) -> Result:
    """A lane after so many turns of five parallel calls, as it is stored."""
    sessions, through = Sessions(), _Through()
    sent = [b'{"role":"user","content":[{"type":"text","text":"begin"}]}']
    head = next(sessions.bodies(0)).partition(b'"messages":[')[0] + b'"messages":['
    for number in range(turns):
        sent.append(_turn(number))
        if number % 20 == 0 or number == turns - 1:
            through.send(head + b",".join(sent) + b"]}")
    ledger = through.engine.ledger(LANE, now=through.clock.now())
    size, note = len(encode(ledger)) / 1000, f"{len(ledger.last or ())} blocks"
    return Result(f"a lane of {turns:,} turns, five calls each", size, "kB", 512 * turns / 1_000, "lower", note)


def _turn(number: int) -> bytes:
    ids = [f"c{number}.{call}" for call in range(5)]
    calls = ",".join(f'{{"type":"tool_use","id":"{i}","name":"tool_1","input":{{"path":"{i}"}}}}' for i in ids)
    results = ",".join(f'{{"type":"tool_result","tool_use_id":"{i}","content":"{i} is there"}}' for i in ids)
    return f'{{"role":"assistant","content":[{calls}]}},{{"role":"user","content":[{results}]}}'.encode()
