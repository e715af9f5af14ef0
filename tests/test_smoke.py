"""The smoke script against the simulator, as a user runs it: it passes, it fails, and it says when nobody answers."""

from __future__ import annotations

import socket
import subprocess
import sys
from decimal import Decimal
from functools import partial

import pytest

from holdfast.simulator import Simulator
from holdfast.simulator.faults import Fault, Options
from holdfast.simulator.server import running
from tests.smoke_scripts import Forgetful, run, spent

smoke = partial(run, "smoke.py")


@pytest.mark.slow
def test_the_second_turn_reads() -> None:
    simulator = Simulator()
    with running(simulator) as address:
        done = smoke(address=address)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = (record.usage for record in simulator.journal.records())
    assert (first.read, first.written > 4096) == (0, True)
    assert second.read == first.written
    lines = done.stdout.splitlines()
    assert f"written {first.written:,}  read 0 " in lines[0]
    assert f"read {second.read:,} " in lines[1]
    assert "the second turn read from the cache" in lines[2]
    assert Decimal(0) < spent(done) < Decimal("0.05")


@pytest.mark.slow
def test_a_cache_that_forgets_is_a_failure() -> None:
    simulator = Forgetful()
    with running(simulator) as address:
        done = smoke(address=address)
    assert done.returncode == 1, done.stdout + done.stderr
    assert [record.usage is not None and record.usage.read for record in simulator.journal.records()] == [0, 0]
    assert "did NOT read from the cache" in done.stdout
    assert spent(done) < Decimal("0.05")


@pytest.mark.slow
def test_nobody_there() -> None:
    with socket.socket() as bound:  # nobody listens, and nobody else takes the port
        bound.bind(("127.0.0.1", 0))
        done = smoke(address=f"http://127.0.0.1:{bound.getsockname()[1]}")
    assert done.returncode == 2
    assert done.stderr == "the service could not be asked: APIConnectionError\n"


@pytest.mark.slow
def test_a_key_that_is_refused() -> None:
    simulator = Simulator()
    simulator.faults.add(Fault("status", times=0, options=Options(status=401, message="invalid x-api-key")))
    with running(simulator) as address:
        done = smoke(address=address)
    assert done.returncode == 2
    assert done.stderr == "the service could not be asked: AuthenticationError\n"
    assert len(simulator.journal.records()) == 1


@pytest.mark.slow
def test_a_model_without_a_known_price_is_not_asked() -> None:
    simulator = Simulator()
    with running(simulator) as address:
        done = smoke("--model", "claude-of-tomorrow", address=address)
    assert done.returncode == 2
    assert "its price is not known" in done.stdout
    assert simulator.journal.records() == []


def test_a_client_is_ready_before_its_first_request() -> None:
    """Vocabulary and prices are loaded when it is made: otherwise the first request would take too long."""
    code = (
        "import sys; from holdfast import Engine; engine = Engine();"
        "assert 'tiktoken' not in sys.modules; engine.http_client();"
        "print('tiktoken' in sys.modules, 'genai_prices' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "True True\n"
