"""Clients and providers that mean harm or are merely broken, over bare sockets."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .gate import OK, Gated, Heard, Provider, Received, connect, eventually, gated, hear, listen_to, spoken

pytestmark = pytest.mark.slow

BODY = b'{"model":"claude-sonnet-4-5","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}'
KEY = (("x-api-key", "sk-hostile"),)
HEAD = b"HTTP/1.1 200 OK\r\n"


class Stage:
    """A gateway, and a provider whose next answer can be set; with `closes` it ends the connection after it."""

    def __init__(self, home: Path, **flags: object) -> None:
        self.answer, self.closes = OK, False
        self.provider = Provider(self._say)
        self._gated = gated(home, self.provider.address, **flags)

    def _say(self, connection: socket.socket, _: Received) -> None:
        connection.sendall(self.answer)
        if self.closes:
            connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Stage:
        self.provider.__enter__()
        self.gate: Gated = self._gated.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._gated.__exit__(None, None, None)
        self.provider.__exit__()

    def hear(self, data: bytes) -> Heard:
        return hear(self.gate.address, data)

    def ask(self, path: str = "/v1/messages") -> Heard:
        return self.hear(spoken("POST", path, KEY, BODY))

    @property
    def targets(self) -> list[bytes]:
        return [each.line.split(b" ")[1] for each in self.provider.received]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with Stage(tmp_path) as stage:
        yield stage


# Clients


@pytest.mark.parametrize(
    ("path", "arrives"),
    [
        ("http://evil.example:1/v1/messages?a=b", b"/v1/messages?a=b"),  # the host of a request says nothing
        ("/v1/@evil.example:80/x", b"/v1/@evil.example:80/x"),
        ("/anthropic/@evil.example/x", b"/@evil.example/x"),
        ("/anthropic//evil.example/x", b"//evil.example/x"),
        ("/openai/http://evil.example/", b"/http://evil.example/"),
        ("//evil.example/v1/messages", None),
        ("/anthropic@evil.example/v1/messages", None),
        ("/k/a/k/b/v1/messages", None),
        ("/run/a/run/b/v1/messages", None),
        ("/v1\\..\\x", None),
    ],
)
def test_no_path_leads_to_another_host(stage: Stage, path: str, arrives: bytes | None) -> None:
    heard = stage.ask(path)
    assert heard.status == (404 if arrives is None else 200)
    assert stage.targets == ([] if arrives is None else [arrives])
    where = stage.provider.address.removeprefix("http://").encode()
    assert all(each.header(b"host") == where for each in stage.provider.received)


def test_requests_that_come_all_at_once_are_answered_in_turn(stage: Stage) -> None:
    heard = stage.hear(
        spoken("POST", "/v1/messages?1", KEY, BODY, close=False)
        + spoken("GET", "/healthz", close=False)
        + spoken("POST", "/v1/messages?2", KEY, BODY)
    )
    assert heard.data.count(b"HTTP/1.1 200 OK") == 3
    assert heard.data.index(b"{}") < heard.data.index(b'"status"') < heard.data.rindex(b"{}")
    assert stage.targets == [b"/v1/messages?1", b"/v1/messages?2"]


@pytest.mark.parametrize(
    "framing",
    [
        b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nhost: localhost"
        b"\r\n\r\n",
        b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        b"transfer-encoding: xchunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"x-a: a\r\n folded\r\ncontent-length: 0\r\n\r\n",
        b"x-api-key : k\r\ncontent-length: 0\r\n\r\n",
        b"x-a: a\0b\r\ncontent-length: 0\r\n\r\n",
    ],
    ids=["two-lengths", "different-lengths", "unknown-coding", "folded", "space", "nul"],
)
def test_what_could_be_read_in_two_ways_is_not_read(stage: Stage, framing: bytes) -> None:
    heard = stage.hear(b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n" + framing)
    assert heard.status == 400
    assert stage.targets == []


def test_an_old_client_gets_its_answer(stage: Stage) -> None:
    stage.answer = HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    head = b"POST /v1/messages HTTP/1.0\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(BODY)
    heard = stage.hear(head + BODY)
    assert (heard.status, heard.body, heard.reset) == (200, b"hello", False)


def test_our_headers_cannot_be_made_to_say_more(stage: Stage) -> None:
    names = (("x-holdfast-session", "a%0d%0aset-cookie: x=1"), ("x-holdfast-agent", "b\\r\\nset-cookie: y=1"))
    heard = stage.hear(spoken("POST", "/v1/messages", KEY + names, BODY))
    assert heard.status == 200
    assert b"set-cookie" not in heard.head.lower()


def test_a_thousand_headers_arrive(stage: Stage) -> None:
    many = tuple((f"x-header-{number}", "value") for number in range(1_000))
    assert stage.hear(spoken("POST", "/v1/messages", KEY + many, BODY)).status == 200
    assert [name for name in stage.provider.received[0].names if name.startswith(b"x-header-")] == [
        name.encode() for name, _ in many
    ]


def test_a_body_that_unpacks_to_more_than_is_allowed_goes_on_as_it_came(tmp_path: Path) -> None:
    packed = gzip.compress(b" " * 50_000_000, 9)
    with Stage(tmp_path, gateway__limits__body_bytes=1_000_000) as stage:
        heard = stage.hear(spoken("POST", "/v1/messages", (*KEY, ("content-encoding", "gzip")), packed))
        assert (b"x-holdfast-bypassed: encoding" in heard.head, heard.status) == (True, 200)
        assert stage.provider.received[0].body == packed


def test_those_who_do_not_finish_their_request_do_not_hold_up_the_others(stage: Stage) -> None:
    waiting = [connect(stage.gate.address) for _ in range(50)]
    for number, each in enumerate(waiting):
        each.sendall(
            b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n"
            + (b"content-length: 9\r\n\r\n{" if number % 2 else b"")
        )
    assert stage.ask().status == 200
    for each in waiting:
        each.close()


@pytest.mark.slow
def test_those_who_do_not_read_their_answer_do_not_hold_up_the_others(stage: Stage) -> None:
    piece = b"4000\r\n" + b"y" * 0x4000 + b"\r\n"
    stage.answer = HEAD + b"transfer-encoding: chunked\r\n\r\n" + piece * 2_000 + b"0\r\n\r\n"
    with connect(stage.gate.address) as slow:
        slow.sendall(spoken("POST", "/v1/messages?slow", KEY, BODY))
        eventually(lambda: stage.targets)
        stage.answer = OK
        assert stage.ask().body == b"{}"
        assert len(listen_to(slow).body) == 2_000 * 0x4000


def test_many_at_once_in_one_lane(tmp_path: Path) -> None:
    with Stage(tmp_path) as stage:
        names = (*KEY, ("x-holdfast-session", "crowded"))
        heard: list[Heard] = []
        bodies = [BODY.replace(b'"hi"', b'"%s %d"' % (b"hi " * 3_000, number)) for number in range(20)]

        def ask(body: bytes) -> None:
            heard.append(stage.hear(spoken("POST", "/v1/messages", names, body)))

        threads = [threading.Thread(target=ask, args=(body,)) for body in bodies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [each.status for each in heard] == [200] * 20
        ids = {value for each in heard for name, value in each.headers() if name == "x-holdfast-call"}
        assert len(ids) == 20
        stored = stage.gate.gateway.store
        assert stored is not None
        eventually(lambda: sum(session.id == "crowded" for session in stored.sessions()) == 1)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1, evil.example", "", "2130706433"]
)
def test_a_page_that_points_its_name_at_this_machine_gets_nothing(stage: Stage, host: str) -> None:
    head = f"GET /analytics/sessions HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {stage.gate.token}\r\n"
    assert stage.hear(head.encode() + b"connection: close\r\n\r\n").status == 403


# Providers


@pytest.mark.parametrize(
    "answer",
    [
        b"hello\r\n\r\n",
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 9999 Odd\r\ncontent-length: 0\r\n\r\n",
        HEAD + b"content-length: -2\r\n\r\n{}",
        HEAD + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}x",
        HEAD + b"x-a: a\rset-cookie: b\r\ncontent-length: 2\r\n\r\n{}",
        HEAD + b"x a: b\r\ncontent-length: 2\r\n\r\n{}",
    ],
    ids=["no-http", "nothing", "half-a-head", "status", "negative", "lengths", "return", "space"],
)
def test_an_answer_that_is_none_is_told_as_that(stage: Stage, answer: bytes) -> None:
    stage.answer, stage.closes = answer, True
    heard = stage.ask()
    assert (heard.status, heard.reset) == (502, False)
    assert b"Holdfast: upstream.anthropic" in heard.body
    assert b"set-cookie" not in heard.head
    stage.answer, stage.closes = OK, False
    assert stage.ask().status == 200


@pytest.mark.parametrize("early", [b"100 Continue", b"102 Processing", b"103 Early Hints\r\nlink: </x>"])
def test_what_comes_before_an_answer_is_not_taken_for_it(stage: Stage, early: bytes) -> None:
    stage.answer = (b"HTTP/1.1 " + early + b"\r\n\r\n") * 3 + OK
    heard = stage.ask()
    assert (heard.status, heard.body) == (200, b"{}")


@pytest.mark.parametrize(
    ("answer", "body", "reset"),
    [
        (b"\r\nuntil the end", b"until the end", False),
        (b"transfer-encoding: chunked\r\ntrailer: x-t\r\n\r\n5\r\nhello\r\n0\r\nx-t: 1\r\n\r\n", b"hello", False),
        (b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", b"hello", True),
        (b"content-length: 50\r\n\r\nhello", b"hello", True),
    ],
    ids=["no-length", "trailers", "cut-chunks", "cut-short"],
)
def test_an_answer_ends_as_it_ended(stage: Stage, answer: bytes, body: bytes, reset: bool) -> None:
    stage.answer, stage.closes = HEAD + answer, True
    heard = stage.ask()
    assert (heard.status, heard.body, heard.reset) == (200, body, reset)


def test_an_answer_of_one_endless_line_is_passed_on(stage: Stage) -> None:
    line = b'data: {"type":"content_block_delta","x":"' + b"y" * 20_000_000
    stage.answer = HEAD + b"content-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(line) + line
    with connect(stage.gate.address) as connection:
        connection.sendall(spoken("POST", "/v1/messages", KEY, BODY))
        size, ends = 0, time.monotonic() + 20
        while (piece := connection.recv(1_048_576)) and time.monotonic() < ends:
            size += len(piece)
    assert size > len(line)


def test_a_marked_tool_with_a_key_that_stands_twice_is_planned_all_the_same(stage: Stage) -> None:
    tool = b'{"name":"a","input_schema":{},"description":"x","cache_control":{"type":"ephemeral"},"description":"y"}'
    body = BODY.replace(b'"messages"', b'"tools":[' + tool + b'],"messages"')
    heard = stage.hear(spoken("POST", "/v1/messages", KEY, body))
    assert b"x-holdfast-plan" in heard.head
    assert stage.provider.received[0].body == body


# What must arrive to the byte, and what must not arrive at all


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
    assert call.passage.tap.report is None
