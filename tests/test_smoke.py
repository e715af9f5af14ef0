"""The smoke script against the simulator, as a user runs it: it passes, it fails, and it says when nobody answers."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.simulator import Call, Exchange, Simulator
from holdfast.simulator.faults import Fault, Options
from holdfast.simulator.serve import running

SCRIPT = Path(__file__).parent.parent / "scripts" / "smoke.py"
KEY = "sk-ant-of-the-smoke-test"


def smoke(address: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    asked = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": KEY}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *arguments],
        env=kept | asked,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert KEY not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


class Forgetful(Simulator):
    """A provider whose cache forgets everything before each request."""

    def begin(self, call: Call) -> Exchange:
        self.reset()
        return super().begin(call)


def spent(done: subprocess.CompletedProcess[str]) -> Decimal:
    found = re.search(r"^\$(\d\.\d{4});", done.stdout, re.MULTILINE)
    assert found is not None, done.stdout
    return Decimal(found[1])


@pytest.mark.slow
def test_the_second_turn_reads() -> None:
    simulator = Simulator()
    with running(simulator) as address:
        done = smoke(address)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = (record.usage for record in simulator.journal.records())
    assert first is not None
    assert second is not None
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
        done = smoke(address)
    assert done.returncode == 1, done.stdout + done.stderr
    assert [record.usage is not None and record.usage.read for record in simulator.journal.records()] == [0, 0]
    assert "did NOT read from the cache" in done.stdout
    assert spent(done) < Decimal("0.05")


@pytest.mark.slow
def test_nobody_there() -> None:
    with socket.socket() as bound:  # nobody listens, and nobody else takes the port
        bound.bind(("127.0.0.1", 0))
        done = smoke(f"http://127.0.0.1:{bound.getsockname()[1]}")
    assert done.returncode == 2
    assert done.stderr == "the service could not be asked: APIConnectionError\n"


@pytest.mark.slow
def test_a_key_that_is_refused() -> None:
    simulator = Simulator()
    simulator.faults.add(Fault("status", times=0, options=Options(status=401, message="invalid x-api-key")))
    with running(simulator) as address:
        done = smoke(address)
    assert done.returncode == 2
    assert done.stderr == "the service could not be asked: AuthenticationError\n"
    assert len(simulator.journal.records()) == 1


@pytest.mark.slow
def test_a_model_without_a_known_price_is_not_asked() -> None:
    simulator = Simulator()
    with running(simulator) as address:
        done = smoke(address, "--model", "claude-of-tomorrow")
    assert done.returncode == 2
    assert "its price is not known" in done.stdout
    assert simulator.journal.records() == []


def test_a_client_is_ready_before_its_first_request() -> None:
    """Vocabulary and prices are loaded when it is made: otherwise the first request would take too long."""
    code = (
        "import sys; from holdfast.engine import Engine; engine = Engine();"
        "assert 'tiktoken' not in sys.modules; engine.http_client();"
        "print('tiktoken' in sys.modules, 'genai_prices' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "True True\n"
