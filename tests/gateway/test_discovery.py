"""A gateway that runs is found again, if it is this installation's, and asked about a run."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from holdfast.config import Config
from holdfast.config.private_home import secret
from holdfast.gateway.assembly import ACCESS_KEY, ADMIN_TOKEN, Gateway
from holdfast.gateway.discovery import address as address_of_gateway
from holdfast.gateway.discovery import find, run_summary
from holdfast.gateway.server import running
from holdfast.serving import listen

from .gate import configured

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def config(tmp_path: Path) -> Config:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
    return configured(tmp_path, NOWHERE, gateway__port=port)


def test_it_is_found_while_it_runs(config: Config) -> None:
    assert find(config) is None
    with running(config, port=config.settings.gateway.port) as address:
        assert find(config) == address == address_of_gateway(config)
        assert run_summary(config, "1f") is None
    assert find(config) is None


def test_one_with_another_token_is_not_ours(config: Config, tmp_path: Path) -> None:
    with running(config, port=config.settings.gateway.port):
        other = configured(tmp_path / "other", NOWHERE, gateway__port=config.settings.gateway.port)
        assert find(other) is None
        secret(other.home, ADMIN_TOKEN)
        assert find(other) is None
        assert run_summary(other, "1f") is None


def test_one_that_forwards_or_stores_elsewhere_is_not_the_one(config: Config, tmp_path: Path) -> None:
    """Keys go where they are meant to go, and calls are billed from where they are stored."""
    port = config.settings.gateway.port
    with running(config, port=port):
        assert find(configured(tmp_path, "http://127.0.0.1:10", gateway__port=port)) is None
        elsewhere = f"sqlite:///{tmp_path / 'other.db'}"
        assert find(configured(tmp_path, NOWHERE, gateway__port=port, store__url=elsewhere)) is None
        assert find(configured(tmp_path, NOWHERE, gateway__port=port, cache__strategy="zones")) is not None


def test_a_proof_from_another_port_is_none(config: Config, tmp_path: Path) -> None:
    """Who passes the question on to the real gateway gains nothing."""
    with running(config) as real, listen("127.0.0.1", config.settings.gateway.port) as listener:
        passed: list[bytes] = []
        thread = threading.Thread(target=_pass_on, args=(listener, int(real.rpartition(":")[2]), passed))
        thread.start()
        assert find(config) is None
        thread.join()
        assert b'"proof"' in b"".join(passed)


def test_what_does_not_speak_http_is_not_ours(config: Config) -> None:
    secret(config.home, ADMIN_TOKEN)
    with listen("127.0.0.1", config.settings.gateway.port) as listener:
        thread = threading.Thread(target=_say, args=(listener, b"220 ready\r\n"))
        thread.start()
        assert find(config) is None
        thread.join()


def test_where_a_key_is_needed_the_address_has_it(tmp_path: Path, config: Config) -> None:
    port = config.settings.gateway.port
    open_to_all = configured(tmp_path, NOWHERE, gateway__host="0.0.0.0", gateway__port=port)
    gateway = Gateway(open_to_all, host="0.0.0.0")
    with running(open_to_all, port=port, gateway=gateway):
        assert address_of_gateway(open_to_all) == f"http://127.0.0.1:{port}"
        assert find(open_to_all) == f"http://127.0.0.1:{port}/k/{secret(open_to_all.home, ACCESS_KEY)}"


@pytest.mark.parametrize(
    ("host", "address"), [("::", "http://[::1]:5"), ("[::1]", "http://[::1]:5"), ("localhost", "http://localhost:5")]
)
def test_where_it_listens(tmp_path: Path, host: str, address: str) -> None:
    assert address_of_gateway(configured(tmp_path, NOWHERE, gateway__host=host, gateway__port=5)) == address


def test_a_port_that_is_not_fixed_is_not_looked_at(tmp_path: Path) -> None:
    assert find(configured(tmp_path, NOWHERE, gateway__port=0)) is None


def _say(listener: socket.socket, words: bytes) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(words)


def _pass_on(listener: socket.socket, port: int, passed: list[bytes]) -> None:
    connection, _ = listener.accept()
    with connection, socket.create_connection(("127.0.0.1", port)) as real:
        real.sendall(connection.recv(65_536))
        while answer := real.recv(65_536):
            passed.append(answer)
            connection.sendall(answer)
