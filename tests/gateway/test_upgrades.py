"""Bodies behind an offer to go on in another protocol, in every form and cut at every byte, over bare sockets."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast.serving import Arrived

from .gate import Gated, Provider, connect, gated, hear, listen_to

BODY = b'{"model":"claude-sonnet-4-5","max_tokens":5,"messages":[{"role":"user","content":"x"}]}'[:-1]
LENGTH = b"content-length: %d\r\n" % len(BODY)
OFFER = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
START = b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\n"
FIRST = b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n"
CHUNKED = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (BODY[:40], BODY[40:])) + b"0\r\n\r\n"
LONG = b"".join(b"x-%d: %b\r\n" % (number, b"y" * 1_000) for number in range(70))

FORMS = {
    "plain": START + OFFER + LENGTH + b"\r\n" + BODY,
    "length first": START + LENGTH + OFFER + b"\r\n" + BODY,
    "twice": START + OFFER + b"upgrade: h2c\r\nUPGRADE: foo/2\r\n" + LENGTH + b"\r\n" + BODY,
    "HTTP/1.0": START.replace(b"1.1", b"1.0") + OFFER + LENGTH + b"\r\n" + BODY,
    "chunked": START + OFFER + b"transfer-encoding: chunked\r\n\r\n" + CHUNKED,
    "pipelined": FIRST + START + OFFER + LENGTH + b"\r\n" + BODY,
    "pipelined and offered before": FIRST[:-2] + OFFER + b"\r\n" + START + OFFER + LENGTH + b"\r\n" + BODY,
    "long": START + LONG + OFFER + LENGTH + b"\r\n" + BODY,
}

AT_ONCE = 64


def cuts(data: bytes) -> list[int]:
    """Every byte of a request; where its head is long, those at its beginning and its end."""
    every = range(1, len(data))
    return list(every) if len(data) < 1_000 else [*every[:60:20], *every[-330:]]


@pytest.mark.parametrize("form", FORMS)
def test_arrive_whole_wherever_they_are_cut(gate: Gated, provider: Provider, form: str) -> None:
    data, places, each = FORMS[form], cuts(FORMS[form]), 2 if form.startswith("pipelined") else 1
    for start in range(0, len(places), AT_ONCE):
        some = places[start : start + AT_ONCE]
        with ExitStack() as stack:
            clients = [(cut, stack.enter_context(connect(gate.address))) for cut in some]
            for cut, client in clients:
                client.sendall(data[:cut])
            threading.Event().wait(0.02)  # what was sent is read before the rest comes
            for cut, client in clients:
                client.sendall(data[cut:])
            for _, client in clients:
                said = b""
                while said.count(b"HTTP/1.1 200 OK") < each:
                    said += (piece := client.recv(65_536))
                    assert piece, said
    posts = [found for found in provider.received if found.line.startswith(b"POST")]
    assert (len(posts), {found.body for found in posts}) == (len(places), {BODY})
    assert not {name for found in posts for name in found.names} & {b"upgrade", b"http2-settings", b"connection"}
    assert len(provider.received) == len(places) * each


def test_are_answered(gate: Gated, provider: Provider) -> None:
    """Each of three requests of one connection, the last of which ends it."""
    asked = FORMS["plain"] * 2 + START + b"connection: close, upgrade\r\nupgrade: h2c\r\n" + LENGTH + b"\r\n" + BODY
    heard = hear(gate.address, asked)
    assert heard.data.count(b"HTTP/1.1 200 OK") == 3
    assert [each.body for each in provider.received] == [BODY] * 3


@pytest.mark.parametrize("cut", [30, 60, 110, 150])
def test_a_websocket_is_declined_and_its_body_goes_nowhere(gate: Gated, provider: Provider, cut: int) -> None:
    data = START + b"connection: upgrade\r\nupgrade: websocket\r\n" + LENGTH + b"\r\n" + BODY
    with connect(gate.address) as client:
        client.sendall(data[:cut])
        threading.Event().wait(0.02)
        client.sendall(data[cut:])
        assert listen_to(client).status == 426
    assert provider.received == []


def test_a_tunnel_is_no_request(gate: Gated, provider: Provider) -> None:
    heard = hear(gate.address, b"CONNECT /v1/files HTTP/1.1\r\nhost: localhost\r\n" + LENGTH + b"\r\n" + BODY)
    assert (heard.status, provider.received) == (400, [])


@pytest.mark.parametrize("framing", [LENGTH + b"\r\n" + BODY, b"transfer-encoding: chunked\r\n\r\n" + CHUNKED])
@pytest.mark.parametrize("path", [b"/v1/files", b"/v1/messages"])
def test_a_part_never_goes_for_the_whole(
    provider: Provider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    framing: bytes,
    path: bytes,
) -> None:
    """Whatever loses bytes of ours, the client is told and the provider gets nothing."""
    take = Arrived.take
    monkeypatch.setattr(Arrived, "take", lambda self: take(self)[:-1])
    with gated(tmp_path, provider.address) as gate:
        heard = hear(gate.address, START.replace(b"/v1/files", path) + framing)
        monkeypatch.undo()
        assert (heard.status, provider.received) == (400, [])
        assert b"85 of the 86 bytes of this request arrived, so it was not forwarded" in heard.body
        assert "a request of 86 bytes was received as 85" in caplog.text
        whole = START.replace(b"/v1/files", path) + b"connection: close\r\n" + framing
        assert hear(gate.address, whole).status == 200
