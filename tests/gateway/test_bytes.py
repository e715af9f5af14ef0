"""What comes in goes out: path, query, headers and body as they were, both ways, apart from what belongs to one hop."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import brotli
import pytest
import zstandard

from tests import shapes

from .gate import OK, Gated, Heard, Provider, Received, connect, gated, hear, heard_from, listen_to, spoken

KEY = ("x-api-key", "sk-ant-dummy")
BODY = b'{"model":"claude-sonnet-4-6" , "max_tokens":500,"messages":[ {"role":"user","content":"\\u00e9 \xc3\xa9"} ]}'


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as provider:
        yield provider


@pytest.fixture(scope="module")
def gate(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gated]:
    with gated(tmp_path_factory.mktemp("home"), provider.address) as gate:
        yield gate


def sent(gate: Gated, provider: Provider, data: bytes) -> Received:
    """The request that reaches the provider for these bytes."""
    provider.received.clear()
    heard = hear(gate.address, data)
    assert heard.status == 200, heard
    (found,) = provider.received
    return found


class TestTargets:
    @pytest.mark.parametrize(
        "target",
        [
            "/v1/messages/count_tokens?beta=true",
            "/v1/models?limit=1000&after_id=a%20b",
            "/v1/files/a%2Fb%C3%A9?x=%2B+&&=;y",
            "/v1/models/",
            "/v1/files//x",
            "/api/hello?a=1&a=2",
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH"])
    def test_byte_for_byte(self, gate: Gated, provider: Provider, method: str, target: str) -> None:
        found = sent(gate, provider, spoken(method, target, (KEY,)))
        assert found.line == f"{method} {target} HTTP/1.1".encode()

    def test_a_host_header_cannot_name_a_host(self, gate: Gated, provider: Provider) -> None:
        found = sent(gate, provider, spoken("GET", "/v1/models", (KEY, ("x-forwarded-host", "evil.test"))))
        assert found.header(b"host") == provider.address.removeprefix("http://").encode()

    def test_head(self, tmp_path: Path) -> None:
        answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\nx-a: b\r\n\r\n"
        heard = heard_from(tmp_path, answer, spoken("HEAD", "/v1/models", (KEY,)))
        assert (heard.status, heard.body) == (200, b"")
        assert ("content-length", "5000") in heard.headers()

    @pytest.mark.parametrize("target", ["/v1/../x", "/v1/%2e%2e/x", "/nowhere", "/v2/messages"])
    def test_what_is_not_served_reaches_nobody(self, gate: Gated, provider: Provider, target: str) -> None:
        provider.received.clear()
        heard = hear(gate.address, spoken("POST", target, (KEY,), BODY))
        assert (heard.status, provider.received) == (404, [])
        error = json.loads(heard.body)
        assert error["error"]["type"] == "not_found_error"
        assert "/v1/messages" in error["error"]["message"]

    def test_prefixes_of_ours_are_taken_off(self, gate: Gated, provider: Provider) -> None:
        found = sent(gate, provider, spoken("GET", "/k/some-key/run/a1/anthropic/v1/models?x=1", (KEY,)))
        assert found.line == b"GET /v1/models?x=1 HTTP/1.1"


class TestHeaders:
    def test_all_that_are_the_clients_pass_in_order(self, gate: Gated, provider: Provider) -> None:
        headers = (
            ("x-b", "2"),
            ("x-a", "1"),
            KEY,
            ("cookie", "a=b; c=d"),
            ("x-a", "one more"),
            ("anthropic-beta", "x-1,y-2"),
            ("x-odd", 'a"b\\c;=\t,'),
            ("accept", "application/json"),
        )
        found = sent(gate, provider, spoken("GET", "/v1/models", headers))
        assert [
            (name.decode().lower(), value.decode()) for name, value in found.headers if name.lower() != b"host"
        ] == [*headers]

    def test_nothing_is_added(self, gate: Gated, provider: Provider) -> None:
        assert sent(gate, provider, spoken("GET", "/v1/models")).names == [b"host"]
        found = sent(gate, provider, spoken("POST", "/v1/files", (), b"x"))
        assert sorted(found.names) == [b"content-length", b"host"]

    def test_what_belongs_to_one_hop_stays(self, gate: Gated, provider: Provider) -> None:
        headers = (
            ("connection", "close, x-mine"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "Basic eA=="),
            ("te", "trailers"),
            ("x-mine", "1"),
            ("x-yours", "2"),
            ("upgrade", "h2c"),
        )
        found = sent(gate, provider, spoken("GET", "/v1/models", headers, close=False))
        assert found.names == [b"host", b"x-yours"]

    def test_ours_stay(self, gate: Gated, provider: Provider) -> None:
        names = ("", "-session", "-agent", "-skip", "-reset", "-preflight", "-key", "-whatever")
        headers = tuple((f"x-holdfast{name}", "off") for name in names)
        assert sent(gate, provider, spoken("POST", "/v1/messages", headers, BODY)).names == [b"host", b"content-length"]

    def test_those_of_the_answer_pass(self, tmp_path: Path) -> None:
        answer = (
            b"HTTP/1.1 429 Slow Down\r\nDate: Sun, 15 Nov 2026 10:00:00 GMT\r\nServer: theirs\r\nRetry-After: 3\r\n"
            b"anthropic-ratelimit-requests-remaining: 0\r\nrequest-id: req_1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n"
            b"Connection: keep-alive, x-hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\nx-should-retry: true\r\n"
            b"Content-Length: 2\r\n\r\n{}"
        )
        heard = heard_from(tmp_path, answer, spoken(headers=(KEY,), body=BODY), gateway__headers=False)
        assert (heard.status, heard.body) == (429, b"{}")
        assert heard.headers() == [
            ("date", "Sun, 15 Nov 2026 10:00:00 GMT"),
            ("server", "theirs"),
            ("retry-after", "3"),
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("request-id", "req_1"),
            ("set-cookie", "a=1"),
            ("set-cookie", "b=2"),
            ("x-should-retry", "true"),
            ("content-length", "2"),
            ("connection", "close"),
        ]

    def test_cookies_are_not_kept(self, tmp_path: Path) -> None:
        answer = OK.replace(b"\r\n\r\n", b"\r\nset-cookie: a=1; path=/\r\n\r\n")
        with Provider(answer) as provider, gated(tmp_path, provider.address) as gate:
            for _ in range(2):
                hear(gate.address, spoken("GET", "/v1/models", (KEY,)))
            assert [b"cookie" in each.names for each in provider.received] == [False, False]

    def test_redirects_are_the_clients_business(self, tmp_path: Path) -> None:
        answer = b"HTTP/1.1 307 Go\r\nlocation: http://127.0.0.1:1/elsewhere\r\ncontent-length: 0\r\n\r\n"
        heard = heard_from(tmp_path, answer, spoken("GET", "/v1/models", (KEY,)))
        assert (heard.status, ("location", "http://127.0.0.1:1/elsewhere") in heard.headers()) == (307, True)

    def test_no_credentials_from_files(self, gate: Gated, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
        """The client library would look into `.netrc` if it were told to trust the environment."""
        monkeypatch.setenv("NETRC", "/dev/null")
        assert b"authorization" not in sent(gate, provider, spoken("GET", "/v1/models")).names


class TestBodies:
    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"not JSON at all",
            b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}',
            b"[" * 5_000,
            b"\xff\xfe\x00",
            BODY,
        ],
        ids=["empty", "words", "half a pair", "deep", "bytes", "call"],
    )
    @pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/files"])
    def test_what_is_not_planned_passes_as_it_is(self, gate: Gated, provider: Provider, path: str, body: bytes) -> None:
        headers = (KEY, ("x-holdfast", "off"))
        assert sent(gate, provider, spoken("POST", path, headers, body)).body == body

    def test_a_large_one(self, gate: Gated, provider: Provider) -> None:
        body = b'{"model":"m","x":"' + b"a" * 3_000_000 + b'"}'
        assert sent(gate, provider, spoken("POST", "/v1/files", (KEY,), body)).body == body
        assert sent(gate, provider, spoken("POST", "/v1/messages", (KEY,), body)).body == body

    def test_chunks_and_permission(self, gate: Gated, provider: Provider) -> None:
        provider.received.clear()
        pieces = b"".join(b"%x\r\n%b\r\n" % (len(BODY[i : i + 7]), BODY[i : i + 7]) for i in range(0, len(BODY), 7))
        head = b"POST /v1/files HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\nexpect: 100-continue\r\n"
        with connect(gate.address) as connection:
            connection.sendall(head + b"connection: close\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 100")
            connection.sendall(pieces + b"0\r\n\r\n")
            assert listen_to(connection).status == 200
        (found,) = provider.received
        assert (found.body, found.names) == (BODY, [b"host", b"content-length"])

    def test_one_connection_many_requests(self, gate: Gated, provider: Provider) -> None:
        provider.received.clear()
        with connect(gate.address) as connection:
            connection.sendall(spoken("GET", "/v1/models", close=False) * 3 + spoken("GET", "/v1/models"))
            heard = listen_to(connection)
        assert heard.data.count(b"HTTP/1.1 200 OK") == 4
        assert len(provider.received) == 4

    def test_an_offer_of_http2_is_overlooked(self, gate: Gated, provider: Provider) -> None:
        headers = (("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c"), ("http2-settings", "AAMAAABk"))
        found = sent(gate, provider, spoken("POST", "/v1/files", headers, BODY, close=True))
        assert (found.body, found.names) == (BODY, [b"host", b"content-length"])

    @pytest.mark.parametrize("client", sorted({shape.client for shape in shapes.load()}))
    def test_every_recorded_request_untouched(self, gate: Gated, provider: Provider, client: str) -> None:
        """Told to stay out of it, nothing but the hop changes, whatever a client sends."""
        for shape in shapes.load(client):
            if not shape.path.startswith(("/v1", "/api")) or shape.header("upgrade"):
                continue
            skipped = ("host", "content-length", "connection", "transfer-encoding", "expect")
            headers = tuple((n, v) for n, v in shape.headers if n.lower() not in skipped)
            data = spoken(shape.method, shape.path, (*headers, ("x-holdfast", "off")), shape.body or b"")
            found = sent(gate, provider, data)
            assert found.line.decode() == f"{shape.method} {shape.path} HTTP/1.1"
            assert found.body == (shape.body or b"")
            passed = [
                (n.decode().lower(), v.decode()) for n, v in found.headers if n not in (b"Host", b"Content-Length")
            ]
            assert passed == [(n.lower(), v.strip()) for n, v in headers if n.lower() not in _HOP]


_HOP = ("keep-alive", "te", "trailer", "upgrade", "proxy-connection")


def encoded(body: bytes, encoding: str) -> bytes:
    if encoding == "gzip":
        return gzip.compress(body, mtime=0)  # the same bytes in every second
    if encoding == "br":
        return bytes(brotli.compress(body))
    return zstandard.ZstdCompressor().compress(body)


class TestEncodings:
    @pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
    def test_an_unplanned_request_goes_as_it_came(self, gate: Gated, provider: Provider, encoding: str) -> None:
        headers = (KEY, ("content-encoding", encoding), ("x-holdfast", "off"))
        found = sent(gate, provider, spoken(headers=headers, body=encoded(BODY, encoding)))
        assert found.body == encoded(BODY, encoding)
        assert found.header(b"content-encoding") == encoding.encode()

    @pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
    def test_a_planned_request_is_decoded(self, gate: Gated, provider: Provider, encoding: str) -> None:
        text = "The loader reads every record of the file. " * 2_000
        body = json.dumps(
            {
                "model": "claude-sonnet-4-6",
                "max_tokens": 500,
                "system": text,
                "messages": [{"role": "user", "content": "x"}],
            }
        ).encode()
        headers = (KEY, ("content-encoding", encoding))
        found = sent(gate, provider, spoken(headers=headers, body=encoded(body, encoding)))
        assert found.header(b"content-encoding") is None
        assert b"cache_control" in found.body
        assert json.loads(found.body)["messages"]

    @pytest.mark.parametrize("encoding", ["gzip", "br", "zstd"])
    def test_an_answer_passes_encoded_and_is_read(self, tmp_path: Path, encoding: str) -> None:
        used = {"input_tokens": 7, "output_tokens": 3}
        body = json.dumps({"id": "m", "type": "message", "usage": used, "stop_reason": "end_turn"}).encode()
        packed = encoded(body, encoding)
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: {encoding}\r\n"
        answer = head.encode() + b"content-length: %d\r\n\r\n" % len(packed) + packed
        with Provider(answer) as provider, gated(tmp_path, provider.address) as gate:
            asked = spoken(headers=(KEY, ("accept-encoding", encoding)), body=BODY)
            heard = hear(gate.address, asked)
            assert provider.received[0].header(b"accept-encoding") == encoding.encode()
        assert heard.body == packed
        passage = gate.calls[0].passage
        assert passage.prepared.verdict.usage.input == 7


def test_an_answer_without_a_length_ends_with_its_connection(tmp_path: Path) -> None:
    def answer(connection: socket.socket, _: Received) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nsome words")
        connection.shutdown(socket.SHUT_WR)

    heard = heard_from(tmp_path, answer, spoken("GET", "/v1/models", (KEY,)))
    assert (heard.status, heard.body, heard.reset) == (200, b"some words", False)


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body(tmp_path: Path, status: int) -> None:
    answer = f"HTTP/1.1 {status} X\r\netag: 1\r\n\r\n".encode()
    with Provider(answer) as provider, gated(tmp_path, provider.address) as gate:
        heard: Heard = hear(gate.address, spoken("GET", "/v1/models", (KEY,)))
    assert (heard.status, heard.body) == (status, b"")


@pytest.mark.parametrize("status", [204, 304])
def test_an_answer_without_a_body_that_tells_the_length_of_one(tmp_path: Path, status: int) -> None:
    """As a 304 may: that of the answer it stands for. The connection goes on."""
    answer = f"HTTP/1.1 {status} X\r\netag: 1\r\ncontent-length: 5\r\n\r\n".encode()
    asked = spoken("GET", "/v1/models", (KEY,), close=False) + spoken("GET", "/v1/models", (KEY,))
    heard = heard_from(tmp_path, answer, asked)
    assert (heard.data.count(b"HTTP/1.1 %d " % status), heard.reset) == (2, False)
    assert heard.headers("connection") == [("etag", "1")]
