"""The smoke script of the agent against the simulator, as a user runs it: it passes, it fails, it says when nobody
answers, and it stops before it gets dear."""

from __future__ import annotations

import re
import socket
from decimal import Decimal
from functools import partial

import pytest

from holdfast.simulator import Simulator
from holdfast.simulator.faults import Fault, Options
from holdfast.simulator.server import running
from tests.smoke_scripts import Forgetful, run, spent

smoke = partial(run, "smoke_cache.py")


@pytest.mark.slow
def test_a53_a87_without_a_key_the_simulator_answers_and_the_second_turn_reads() -> None:
    done = smoke()
    assert done.returncode == 0, done.stdout + done.stderr
    said, first, second, last = done.stdout.splitlines()
    assert said == "ANTHROPIC_API_KEY is not set: the simulator answers."
    written = re.fullmatch(r"turn 1: input 0  written ([\d,]+)  read 0  output \d+  \$\d\.\d{4}", first)
    assert written is not None, first
    assert int(written[1].replace(",", "")) > 4096
    assert f"read {written[1]} " in second
    assert last.endswith("the second turn read from the cache")


@pytest.mark.slow
def test_with_a_key_the_service_is_asked_and_simulate_keeps_it_from_that() -> None:
    simulator = Simulator()
    with running(simulator) as address:
        assert smoke("--simulate", address=address).returncode == 0
        assert simulator.journal.records() == []
        done = smoke(address=address)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = (record.usage for record in simulator.journal.records())
    assert (first.read, second.read) == (0, first.written)
    assert Decimal(0) < spent(done) < Decimal("0.05")


@pytest.mark.slow
def test_a_cache_that_forgets_is_a_failure() -> None:
    simulator = Forgetful()
    with running(simulator) as address:
        done = smoke(address=address)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "did NOT read from the cache" in done.stdout
    assert spent(done) < Decimal("0.05")


@pytest.mark.slow
def test_nobody_there() -> None:
    with socket.socket() as bound:  # nobody listens, and nobody else takes the port
        bound.bind(("127.0.0.1", 0))
        done = smoke(address=f"http://127.0.0.1:{bound.getsockname()[1]}")
    assert done.returncode == 2
    assert done.stderr.startswith("the service could not be asked: ")
    assert done.stdout == ""


@pytest.mark.slow
def test_a_key_that_is_refused() -> None:
    simulator = Simulator()
    simulator.faults.add(Fault("status", times=0, options=Options(status=401, message="invalid x-api-key")))
    with running(simulator) as address:
        done = smoke(address=address)
    assert done.returncode == 2
    assert "invalid x-api-key" in done.stderr
    assert len(simulator.journal.records()) == 1


@pytest.mark.slow
def test_a_model_that_may_cost_too_much_is_not_asked() -> None:
    simulator = Simulator()
    with running(simulator) as address:
        dear = smoke("--model", "claude-opus-4-1", address=address)
        unknown = smoke("--model", "claude-of-tomorrow", address=address)
    assert (dear.returncode, unknown.returncode) == (2, 2)
    assert re.search(r"it may cost \$\d\.\d+, more than \$0\.05; not asked", dear.stderr)
    assert "its price is not known" in unknown.stdout
    assert simulator.journal.records() == []
