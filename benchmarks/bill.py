"""`holdfast bill` and `holdfast explain` on a store of 200,000 calls, each in a process of its own.

The store is made on the spot: sessions of a hundred calls over three months, of several tenants, models and clients,
with side requests, pings, bypassed and unanswered calls and breaks. Both commands start the interpreter and read
prices; that counts.
"""

from __future__ import annotations

import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from benchmarks import Result
from holdfast.facts import price
from holdfast.records.events import Ulids
from holdfast.records.token_usage import usage
from holdfast.store import HOUR, Break, Call, Lane, Session, SqliteStore, open_store
from holdfast.store import operations as op

START = 1_780_000_000_000_000 // HOUR * HOUR
CALLS = 200_000
PER_SESSION = 100
DAYS = 90
MODELS = ("anthropic:claude-opus-4-6", "anthropic:claude-haiku-4-5", "openai:gpt-5", "unknown:model-of-nobody")
CLIENTS = ("claude-code", "opencode", "codex", None)
KINDS = ("request",) * 16 + ("side", "side", "ping", "bypassed")
ROUNDS = 5


def run(*, quick: bool) -> Iterator[Result]:
    calls = 20_000 if quick else CALLS
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as directory:
        home = Path(directory)
        with open_store(home / "holdfast.db") as store:
            fill(store, calls)
        size = (home / "holdfast.db").stat().st_size / 1e6
        note = f"{calls:,} calls, {size:,.0f} MB, median of {ROUNDS}"
        for by in ("model", "session", "day"):
            yield _result(f"holdfast bill --by {by}", home, ["bill", "--by", by], 0.5, note)
        yield _result("holdfast explain", home, ["explain", str(home / "holdfast.db"), "--quiet"], 5.0, note)


def _result(name: str, home: Path, arguments: list[str], limit: float, note: str) -> Result:
    """Seconds on the clock; those of the processor are in the note, for machines that do other things too."""
    taken = [_seconds(home, arguments) for _ in range(ROUNDS)]
    seconds, processor = (statistics.median(each) for each in zip(*taken, strict=True))
    return Result(name, seconds, "s", limit, "lower", f"{note}, {processor:.2f} s of processor")


def _seconds(home: Path, arguments: list[str]) -> tuple[float, float]:
    environ = {**os.environ, "HOLDFAST_HOME": str(home)}
    command = [sys.executable, "-m", "holdfast", *arguments]
    began = time.perf_counter()
    with (home / "printed").open("wb") as printed:
        process = subprocess.Popen(command, env=environ, cwd=home, stdout=printed, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"holdfast {arguments[0]} ended: {(home / 'printed').read_text()[-500:]}")
    return seconds, used.ru_utime + used.ru_stime


def fill(store: SqliteStore, total: int, *, seed: int = 11) -> None:
    """So many calls, in sessions of about a hundred, each with its lane and its breaks."""
    chance = random.Random(seed)
    for number in range(max(1, total // PER_SESSION)):
        _session(store, chance, number, min(PER_SESSION, total))


def _session(store: SqliteStore, chance: random.Random, number: int, calls: int) -> None:
    tenant, session = f"{number % 7:02x}" * 16, f"{chance.getrandbits(128):032x}"
    at = START + chance.randrange(DAYS * 24 * HOUR)
    ids = Ulids(clock=lambda: at // 1_000, entropy=chance.randbytes)
    client, model = chance.choice(CLIENTS), chance.choice(MODELS)
    lane = f"{session}/main"
    with store.batch() as batch:
        batch.write(op.PutSession(Session(tenant=tenant, id=session, started_at=at, client=client)))
        done = batch.write(op.PutLane(Lane(tenant=tenant, id=lane, session=session, model=model, started_at=at)))
        size = 20_000
        for _ in range(calls):
            broken = chance.random() < 0.01
            call = _call(chance, ids.new(), tenant, session, lane, model, client, at, size, broken)
            batch.write(op.PutCall(call))
            if call.usage is not None and call.kind in ("request", "bypassed"):
                size = call.usage.read + call.usage.written
                if broken:
                    batch.write(op.PutBreak(_break(chance, ids.new(), call)))
            at += chance.randrange(5_000_000, 90_000_000)
    done.result()


def _call(
    chance: random.Random,
    id: str,
    tenant: str,
    session: str,
    lane: str,
    model: str,
    client: str | None,
    at: int,
    size: int,
    broken: bool,
) -> Call:
    """A call that reads what the one before has left, less what was broken."""
    kind, answered = chance.choice(KINDS), chance.random() > 0.02
    read = 0 if kind == "side" else size // 2 if broken else size
    more = 0 if kind == "ping" else chance.randrange(200, 3_000) + (size - read if kind != "side" else 0)
    used = usage(input=chance.randrange(10), read=read, output=chance.randrange(2_000), writes={"5m": more})
    priced = price(used, model, at=datetime.fromtimestamp(at / 1e6, UTC)) if answered else None
    return Call(
        tenant=tenant,
        id=id,
        session=session,
        lane=lane,
        model=model,
        started_at=at,
        status="settled" if answered else "failed",
        kind=kind,
        client=client,
        first_token_at=at + 900_000,
        ended_at=at + 4_000_000,
        usage=priced,
        verdict=b'{"explained":true,"saved":"%.9f"}' % chance.random() if answered and kind == "request" else None,
        plan=chance.randbytes(300),
        prediction=chance.randbytes(80),
        chain=chance.randbytes(400),
    )


def _break(chance: random.Random, id: str, call: Call) -> Break:
    reset = chance.random() < 0.3
    return Break(
        tenant=call.tenant,
        id=id,
        call=call.id,
        session=call.session,
        lane=call.lane,
        model=call.model,
        at=call.started_at + 3_000_000,
        cause=None if reset else "messages_rewritten",
        reason="session_load" if reset else None,
        tokens=chance.randrange(40_000),
        dollars=Decimal(chance.randrange(1_000_000)).scaleb(-6),
        path="messages[3].content[0]",
        owner="user",
    )
