"""What must arrive to the byte, and what must not arrive at all, over bare sockets."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .gate import connect, eventually, listen_to, spoken
from .test_hostile import BODY, HEAD, KEY, OK, Stage

pytestmark = pytest.mark.slow


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage


# Clients


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_headers_arrive_to_the_byte(stage: Stage, method: str, large: bool) -> None:
    odd = [(b"x-latin", b"caf\xe9"), (b"x-utf", "café".encode()), (b"x-any", bytes(range(0x80, 0x100)))]
    body = BODY.replace(b"hi", b"hi\\r\\n " * (40_000 if large else 1)) if method == "POST" else b""
    lines, path = b"".join(b"%b: %b\r\n" % each for each in odd), "/v1/messages/count_tokens"
    head = f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: k\r\ncontent-length: {len(body)}\r\n".encode()
    with connect(stage.gate.address) as client:
        for _ in range(2):  # the second by the same connection to the provider
            client.sendall(head + lines + b"\r\n" + body)
            while b"{}" not in client.recv(65_536):
                pass
        client.sendall(spoken(method, path, KEY, body))
        assert listen_to(client).status == 200
    *found, plain = stage.provider.received
    assert [[each for each in one.headers if each in odd] for one in found] == [odd, odd]
    assert [one.body for one in (*found, plain)] == [body] * 3
    assert plain.header(b"x-any") is None


def test_trailers_do_not_become_headers(stage: Stage) -> None:
    head = b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\nx-api-key: k\r\ntransfer-encoding: chunked\r\n"
    heard = stage.hear(
        head + b"connection: close\r\n\r\n%x\r\n%b\r\n0\r\nx-trail: 1\r\nx-api-key: evil\r\n\r\n" % (len(BODY), BODY)
    )
    (found,) = stage.provider.received
    assert heard.status == 200
    assert found.body == BODY
    assert [value for name, value in found.headers if name == b"x-api-key"] == [b"k"]
    assert b"x-trail" not in found.names


@pytest.mark.parametrize("target", ["/v1/messages?", "/v1/messages", "/v1/models?", "/v1/models?a=?", "/v1/models?a?"])
def test_a_question_mark_stays(stage: Stage, target: str) -> None:
    assert stage.ask(target).status == 200
    assert stage.targets == [target.encode()]


@pytest.mark.parametrize(
    "codings",
    [
        ["gzip, chunked"],
        ["gzip", "chunked"],
        ["chunked", "chunked"],
        ["chunked, chunked"],
        ["identity"],
        ["chunked;a=b"],
        [""],
    ],
    ids=", then ".join,
)
def test_a_body_in_a_coding_that_is_not_read_is_not_taken_for_another(stage: Stage, codings: list[str]) -> None:
    lines = "".join(f"transfer-encoding: {each}\r\n" for each in codings).encode()
    heard = stage.hear(b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n" + lines + b"\r\n5\r\nhello\r\n0\r\n\r\n")
    assert heard.status == 400
    assert stage.targets == []


@pytest.mark.parametrize("begun", [b"", b"{"])
def test_a_body_that_does_not_come_is_not_waited_for(tmp_path: Path, begun: bytes) -> None:
    with Stage(tmp_path, gateway__limits__idle_s=0.1) as stage:
        heard = stage.hear(b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n" + begun)
        assert heard.status == 408
        assert stage.targets == []


def test_a_small_body_that_may_unpack_to_much_is_read_beside_the_loop(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    passages, where = stage.gate.gateway.passages, []
    begin = passages.begin

    def told(*arguments: Any) -> Any:
        where.append(threading.current_thread().name)
        return begin(*arguments)

    monkeypatch.setattr(passages, "begin", told)
    packed = gzip.compress(BODY)
    assert stage.hear(spoken("POST", "/v1/messages", (*KEY, ("content-encoding", "gzip")), packed)).status == 200
    assert stage.ask().status == 200
    assert [name.startswith("holdfast-prepare") for name in where] == [True, False]


def test_who_may_wait_for_the_store_does_not_wait_for_large_bodies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Stage(tmp_path, cache__repair="on") as stage:
        passages, where = stage.gate.gateway.passages, []
        begin = passages.begin

        def told(*arguments: Any) -> Any:
            where.append(threading.current_thread().name)
            return begin(*arguments)

        monkeypatch.setattr(passages, "begin", told)
        large = json.dumps({"model": "m", "messages": [{"role": "user", "content": "word " * 40_000}]}).encode()
        for body in (large, BODY):
            assert stage.hear(spoken("POST", "/v1/messages", KEY, body)).status == 200
        assert [name.partition("_")[0] for name in where] == ["holdfast-prepare", "holdfast-wait"]


# Providers


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 000 Odd\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 099 Odd\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
        b"HTTP/1.1 600 Odd\r\ncontent-length: 0\r\n\r\n",
        HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        HEAD + b"transfer-encoding: gzip\r\n\r\n{}",
    ],
    ids=["000", "099", "101", "600", "coding", "only-coding"],
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/models"])
def test_what_ends_no_call_is_not_passed_on(stage: Stage, answer: bytes, path: str) -> None:
    stage.answer = answer
    heard = stage.ask(path)
    assert (heard.status, heard.reset) == (502, False)
    assert json.loads(heard.body)["error"]["message"].startswith("Holdfast: upstream.anthropic")
    stage.answer = OK
    assert stage.ask(path).status == 200


def test_what_comes_before_an_answer_alone_is_none(stage: Stage) -> None:
    stage.answer, stage.closes = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n", True
    heard = stage.ask()
    assert (heard.status, b"link" in heard.head) == (502, False)


def test_control_characters_do_not_cost_the_answer(stage: Stage) -> None:
    stage.answer = HEAD + b"x-a: a\x01b\x7fc\r\ncontent-length: 2\r\n\r\n{}"
    heard = stage.ask()
    assert (heard.status, heard.body, ("x-a", "a b c") in heard.headers()) == (200, b"{}", True)


def test_five_hundred_headers_come_back(stage: Stage) -> None:
    many = [(f"x-header-{number}", "value") for number in range(500)]
    lines = "".join(f"{name}: {value}\r\n" for name, value in many)
    stage.answer = HEAD + lines.encode() + b"content-length: 2\r\n\r\n{}"
    assert [each for each in stage.ask().headers() if each[0].startswith("x-header-")] == many


def test_trailers_of_an_answer_are_not_the_next_ones_headers(stage: Stage) -> None:
    stage.answer = HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nset-cookie: a=b\r\n\r\n"
    for _ in range(2):
        heard = stage.ask()
        assert (heard.status, heard.body, b"set-cookie" in heard.head) == (200, b"{}", False)


@pytest.mark.parametrize("kind", [b"application/json", b"text/event-stream"])
@pytest.mark.parametrize("filling", [b" ", b"x"])
def test_an_answer_that_unpacks_to_much_is_passed_on_and_not_read(stage: Stage, kind: bytes, filling: bytes) -> None:
    packed = gzip.compress(b'{"usage":' + filling * 50_000_000, 6)
    head = b"content-type: %b\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % (kind, len(packed))
    stage.answer = HEAD + head + packed
    heard = stage.ask()
    assert (heard.status, heard.body) == (200, packed)
    eventually(lambda: stage.gate.calls)
    (call,) = stage.gate.calls
    assert call.passage is not None
    assert call.passage._heard.report is None
