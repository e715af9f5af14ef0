"""The end: open streams finish, what does not is reset, and everything that happened is stored."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

from holdfast.gateway.assembly import Gateway
from holdfast.gateway.server import GatewayServer, server
from holdfast.serving import address_of, listen
from holdfast.store import open_store
from tests.simulator.http_client import ANTHROPIC

from .gate import Provider, Received, configured, connect, eventually, hear, listen_to, spoken

BODY = b'{"model":"claude-sonnet-4-6","max_tokens":500,"stream":true,"messages":[{"role":"user","content":"hello"}]}'
ASKED = spoken(headers=tuple(ANTHROPIC.items()), body=BODY, close=False)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENTS = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","usage":{"input_tokens":9}}}\n\n',
    b'event: message_delta\ndata: {"type":"message_delta","delta":{},"usage":{"output_tokens":3}}\n\n',
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
)


class Ending:
    """A gateway with a stream under way, whose end can be asked for."""

    def __init__(self, home: Path, **flags: float) -> None:
        self.go = threading.Event()
        self._stack = contextlib.ExitStack()
        provider = self._stack.enter_context(Provider(self._answer))
        self.config = configured(home, provider.address, **flags)
        self.gateway = Gateway(self.config)
        self.listener = self._stack.enter_context(listen("127.0.0.1", 0))
        self.address = address_of(self.listener)
        ready = threading.Event()
        self.server: GatewayServer = server(self.gateway, self.config, ready.set)
        self.thread = threading.Thread(target=self.server.run, args=([self.listener],))
        self.thread.start()
        assert ready.wait(10)

    def _answer(self, connection: socket.socket, _: Received) -> None:
        connection.sendall(HEAD + b"%x\r\n%b\r\n" % (len(EVENTS[0]), EVENTS[0]))
        if self.go.wait(20):
            connection.sendall(b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in EVENTS[1:]) + b"0\r\n\r\n")

    def __enter__(self) -> Ending:
        return self

    def __exit__(self, *_: object) -> None:
        self.go.set()
        self.thread.join(20)
        self._stack.close()

    def statuses(self) -> list[str]:
        self.thread.join(20)
        self.gateway.close()
        with open_store(self.config.settings.store.url) as store:
            return [call.status for call in store.calls()]


def test_open_streams_finish(tmp_path: Path) -> None:
    with Ending(tmp_path) as ending, connect(ending.address) as client, connect(ending.address) as idle:
        client.sendall(ASKED)
        heard = client.recv(65_536)
        ending.server.end()
        assert idle.recv(1) == b""  # who waits for nothing is let go at once
        eventually(lambda: _refused(ending.address))
        ending.go.set()
        rest = listen_to(client, heard)
        assert (rest.reset, rest.data.endswith(b"0\r\n\r\n"), b"message_stop" in rest.body) == (False, True, True)
        assert ending.statuses() == ["settled"]


def test_what_does_not_finish_is_reset(tmp_path: Path) -> None:
    with Ending(tmp_path, gateway__limits__shutdown_s=0.1) as ending, connect(ending.address) as client:
        client.sendall(ASKED)
        heard = client.recv(65_536)
        ending.server.end()
        rest = listen_to(client, heard)
        assert (rest.reset, b"message_start" in rest.body, rest.data.endswith(b"0\r\n\r\n")) == (True, True, False)
        assert ending.statuses() == ["failed"]


def test_asked_twice_it_ends_at_once(tmp_path: Path) -> None:
    with Ending(tmp_path) as ending, connect(ending.address) as client:
        client.sendall(ASKED)
        heard = client.recv(65_536)
        ending.server.end()
        ending.server.end()
        assert listen_to(client, heard).reset
        assert ending.statuses() == ["failed"]


def test_a_session_goes_on_after_a_restart(tmp_path: Path) -> None:
    """The lane is known by its name, the tenant by a key that stays."""
    found = []
    for _ in range(2):
        with Ending(tmp_path) as ending:
            ending.go.set()
            said = hear(ending.address, spoken(headers=(*ANTHROPIC.items(), ("x-holdfast-session", "s1")), body=BODY))
            assert b"message_stop" in said.body
            ending.server.end()
            ending.statuses()
            with open_store(ending.config.settings.store.url) as store:
                found.append([(call.tenant, call.session, call.lane) for call in store.calls()])
    assert len(found[1]) == 2
    assert len(set(found[1])) == 1


def _refused(address: str) -> bool:
    try:
        connect(address).close()
    except OSError:
        return True
    return False
