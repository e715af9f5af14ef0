"""The simulator over HTTP: the providers' paths, the control paths, and faults on real connections."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.errors import HoldfastError
from holdfast.simulator.app import build
from holdfast.simulator.clock import VirtualClock
from holdfast.simulator.faults import Fault, Options
from holdfast.simulator.provider import Simulator
from holdfast.simulator.script import Script
from holdfast.simulator.server import address_of, listen, running, server
from tests.simulator.http_client import ANTHROPIC, GEMINI, OPENAI, Client, marked, message

GENERATE = "/v1beta/models/gemini-2.5-flash:generateContent"
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Read the file."}]}]}


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    return Simulator(clock=VirtualClock())


@pytest.fixture(scope="module")
def address(simulator: Simulator) -> Iterator[str]:
    with running(simulator) as address:
        yield address


@pytest.fixture
def client(address: str) -> Client:
    client = Client(address)
    assert client.send("POST", "/_sim/reset").status == 200
    return client


def last(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/_sim/requests?limit=1")["requests"][0]
    return found


def ended(connection: socket.socket) -> bool:
    """Whether the other side ends the connection without another byte."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def eventually(look: Callable[[], bool]) -> None:
    """Waits for what the server does on its own; fails after twenty seconds."""
    end = time.monotonic() + 20
    while not look():
        assert time.monotonic() < end
        time.sleep(0.01)


class TestProviders:
    @pytest.mark.parametrize("prefix", ["", "/anthropic"])
    def test_anthropic(self, client: Client, prefix: str) -> None:
        response = client.post(f"{prefix}/v1/messages", message())
        assert (response.status, response.headers["content-type"]) == (200, "application/json")
        assert response.headers["request-id"].startswith("req_")
        assert response.json["content"] == [{"type": "text", "text": "Read the file."}]
        assert client.post(f"{prefix}/v1/messages/count_tokens", message()).json["input_tokens"] > 0

    @pytest.mark.parametrize("prefix", ["", "/openai"])
    def test_openai(self, client: Client, prefix: str) -> None:
        messages = message()["messages"]
        chat = client.post(f"{prefix}/v1/chat/completions", {"model": "gpt-5.5", "messages": messages}, OPENAI)
        assert chat.json["choices"][0]["message"]["content"] == "Read the file."
        assert chat.headers["x-request-id"].startswith("req_")
        body = {"model": "gpt-5.5", "input": "Read the file."}
        assert client.post(f"{prefix}/v1/responses", body, OPENAI).json["status"] == "completed"

    @pytest.mark.parametrize("prefix", ["", "/gemini"])
    def test_gemini(self, client: Client, prefix: str) -> None:
        reply = client.post(f"{prefix}{GENERATE}", CONTENTS, GEMINI).json
        assert reply["candidates"][0]["content"]["parts"] == [{"text": "Read the file."}]
        counted = client.post(f"{prefix}{GENERATE}".replace("generateContent", "countTokens"), CONTENTS, GEMINI)
        assert counted.json["totalTokens"] > 0
        stream = client.post(f"{prefix}{GENERATE}".replace("generate", "streamGenerate") + "?alt=sse", CONTENTS, GEMINI)
        assert stream.headers["content-type"].startswith("text/event-stream")
        assert stream.body.startswith(b"data: {")

    def test_gemini_key_in_the_address(self, client: Client) -> None:
        assert client.post(f"{GENERATE}?key=dummy", CONTENTS, {}).status == 200
        assert client.post(GENERATE, CONTENTS, {}).status == 403

    @pytest.mark.parametrize("path", ["/v1/models", "/v1beta/models", "/v1beta/cachedContents"])
    def test_lists(self, client: Client, path: str) -> None:
        assert client.send("GET", path, headers=ANTHROPIC | GEMINI).status == 200

    def test_a_stream_comes_event_by_event(self, client: Client) -> None:
        response = client.post("/v1/messages", message(stream=True))
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["transfer-encoding"] == "chunked"
        kinds = [
            line.removeprefix("event: ") for line in response.body.decode().splitlines() if line.startswith("event")
        ]
        assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")

    def test_a_refusal(self, client: Client) -> None:
        response = client.post("/v1/messages", message(model="gpt-5.5"))
        assert (response.status, response.json["error"]["type"]) == (404, "not_found_error")
        assert response.json["request_id"] == response.headers["request-id"]

    def test_odd_words_do_no_harm(self, client: Client) -> None:
        tool = {"name": "\ud800\n", "input_schema": {}, "defer_loading": True, "cache_control": {"type": "ephemeral"}}
        response = client.post("/v1/messages", message(tools=[tool]), ANTHROPIC | {"host": "["})
        assert response.status == 400
        assert last(client)["error"] == response.json["error"]["message"]
        assert "'\ud800\n'" in last(client)["error"]
        assert client.send("GET", "/v1/no%0Athing").status == 404

    def test_a_client_that_leaves_while_it_speaks(self, client: Client, capfd: pytest.CaptureFixture[str]) -> None:
        client.post("/v1/messages", message())
        before = last(client)
        for path in ("/v1/messages", "/_sim/faults"):
            connection = socket.create_connection((client.host, client.port))
            connection.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{".encode())
            time.sleep(0.05)
            connection.close()
        time.sleep(0.05)
        assert last(client) == before
        assert capfd.readouterr().err == ""

    def test_unknown_paths(self, client: Client) -> None:
        response = client.send("GET", "/v1/nothing", headers=ANTHROPIC)
        assert (response.status, response.json["error"]["type"]) == (404, "not_found_error")

    def test_is_anybody_there(self, client: Client) -> None:
        assert client.send("HEAD", "/").status == 404
        assert client.send("HEAD", "/v1/nothing").status == 404

    def test_the_root_says_what_is_served(self, client: Client) -> None:
        text = client.send("GET", "/").body.decode()
        for path in ("/v1/messages", "/v1/responses", "/v1beta/models/", "/_sim/faults"):
            assert path in text

    def test_websockets_are_declined(self, client: Client) -> None:
        upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
        response = client.send(
            "GET", "/v1/responses", headers=upgrade | {"sec-websocket-key": "YWJjZGVmZ2hpamtsbW5vcA=="}
        )
        assert response.status == 426
        assert "Websockets" in response.json["error"]["message"]


class TestControl:
    def test_requests_say_what_was_read_and_why(self, client: Client) -> None:
        for _ in range(2):
            client.post("/v1/messages", marked(), ANTHROPIC | {"x-session-id": "s1"})
        first, second = client.get("/_sim/requests?limit=2")["requests"]
        assert first["usage"]["written"]["5m"] == second["usage"]["read"] > 4096
        assert second["why"]
        assert second["state"] == "complete"
        client.post("/v1/messages", marked())
        assert {each["session"] for each in client.get("/_sim/requests?session=s1")["requests"]} == {"s1"}

    def test_entries_live_until_the_clock_says_otherwise(self, client: Client) -> None:
        client.post("/v1/messages", marked())
        (entry,) = client.get("/_sim/entries")["entries"]
        assert (entry["ttl"], entry["expires_in"]) == ("5m", 300)
        before = client.get("/_sim/clock")
        assert before["virtual"] is True
        after = client.post("/_sim/clock", {"advance": 301}).json
        assert after["now"] == before["now"] + 301
        assert client.get("/_sim/entries")["entries"] == []

    def test_reset_forgets_entries_and_faults(self, client: Client) -> None:
        client.post("/v1/messages", marked())
        client.fault("cut")
        client.send("POST", "/_sim/reset")
        assert client.get("/_sim/entries")["entries"] == []
        assert client.get("/_sim/faults")["faults"] == []

    def test_faults_are_listed_and_removed(self, client: Client) -> None:
        client.fault("stall", times=2, match={"model": "claude"}, options={"seconds": 1})
        expected = {"kind": "stall", "times": 2, "match": {"model": "claude"}, "options": {"seconds": 1.0}}
        assert client.get("/_sim/faults") == {"faults": [expected]}
        assert client.send("DELETE", "/_sim/faults").json == {"removed": 1}
        assert client.get("/_sim/faults") == {"faults": []}

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("POST", "/_sim/faults", b"{"),
            ("POST", "/_sim/faults", {"kind": "explode"}),
            ("POST", "/_sim/clock", {"advance": -1}),
            ("POST", "/_sim/clock", {"advance": "far"}),
            ("POST", "/_sim/clock", {}),
            ("GET", "/_sim/requests?limit=many", None),
            ("GET", "/_sim/nothing", None),
        ],
    )
    def test_bad_input_is_told_in_one_sentence(self, client: Client, method: str, path: str, body: Any) -> None:
        response = client.send(method, path, body)
        assert response.status == 400
        assert "\n" not in response.json["error"]

    def test_the_machines_clock_cannot_be_moved(self) -> None:
        with running(Simulator()) as address:
            client = Client(address)
            assert client.get("/_sim/clock")["virtual"] is False
            response = client.post("/_sim/clock", {"advance": 1})
            assert (response.status, "--virtual-clock" in response.json["error"]) == (400, True)


class TestFaults:
    @pytest.mark.parametrize("status", [400, 401, 429, 500, 503, 529])
    def test_status(self, client: Client, status: int) -> None:
        client.fault("status", options={"status": status, "retry_after": 3})
        response = client.post("/v1/messages", marked())
        assert (response.status, response.headers["retry-after"]) == (status, "3")
        assert response.json["request_id"] == response.headers["request-id"]
        assert last(client)["fault"] == f"status {status}"
        assert client.get("/_sim/entries")["entries"] == []
        assert client.post("/v1/messages", marked()).status == 200

    @pytest.mark.parametrize("stream", [True, False])
    @pytest.mark.parametrize("at", ["early", "mid", "before_last"])
    def test_a_cut_resets_the_connection(self, client: Client, at: str, stream: bool) -> None:
        client.fault("cut", options={"at": at})
        data, reset = client.raw(marked(stream=stream))
        assert reset
        head, _, rest = data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        assert b"message_stop" not in rest
        assert not rest.endswith(b"0\r\n\r\n")
        assert (rest == b"") == (at == "early")
        assert last(client)["state"] == "abandoned"

    def test_before_the_first_token_nothing_was_written(self, client: Client) -> None:
        client.fault("cut", options={"at": "early"})
        client.raw(marked(stream=True))
        assert client.get("/_sim/entries")["entries"] == []
        client.fault("cut", options={"at": "mid"})
        client.raw(marked(stream=True))
        assert len(client.get("/_sim/entries")["entries"]) == 1

    @pytest.mark.parametrize("at", ["early", "mid", "before_last"])
    def test_a_clean_close_looks_complete(self, client: Client, at: str) -> None:
        client.fault("close", options={"at": at})
        data, reset = client.raw(message(stream=True))
        assert not reset
        assert data.endswith(b"0\r\n\r\n")
        assert b"message_stop" not in data
        assert (b"message_start" in data) == (at != "early")

    def test_a_clean_close_of_a_plain_answer(self, client: Client) -> None:
        client.fault("close")
        response = client.post("/v1/messages", message())
        with pytest.raises(json.JSONDecodeError):
            json.loads(response.body)

    def test_an_error_inside_the_stream(self, client: Client) -> None:
        client.fault("sse_error")
        body = client.post("/v1/messages", message(stream=True)).body
        assert b"message_start" in body
        assert b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error"' in body
        assert b"message_stop" not in body

    def test_drip_and_stall_deliver_everything(self, client: Client) -> None:
        whole = client.post("/v1/messages", message(stream=True)).body
        for kind, options in (("drip", {}), ("stall", {"seconds": 0.05})):
            client.fault(kind, options=options)
            dripped = client.post("/v1/messages", message(stream=True)).body
            assert dripped.count(b"event: ") == whole.count(b"event: ")

    def test_malformed(self, client: Client) -> None:
        client.fault("malformed")
        body = client.post("/v1/messages", message(stream=True)).body.decode()
        broken = 0
        for line in body.splitlines():
            if line.startswith("data: "):
                try:
                    json.loads(line[6:])
                except json.JSONDecodeError:
                    broken += 1
        assert broken == 1

    def test_wrong_usage_is_marked_as_such(self, client: Client) -> None:
        client.post("/v1/messages", marked())
        client.fault("wrong_usage", options={"set": {"read": 1, "input": 2}})
        used = client.post("/v1/messages", marked()).json["usage"]
        assert (used["cache_read_input_tokens"], used["input_tokens"]) == (1, 2)
        truth = last(client)
        assert truth["fault"] == "wrong_usage"
        assert truth["usage"]["read"] > 4096

    def test_only_what_matches(self, client: Client) -> None:
        client.fault("status", options={"status": 500}, match={"model": "claude-haiku"})
        assert client.post("/v1/messages", message()).status == 200
        assert client.post("/v1/messages", message(model="claude-haiku-4-5")).status == 500


class TestDepartures:
    """Who leaves before the first token has written nothing; who leaves later has."""

    @pytest.fixture
    def slow(self) -> Iterator[Client]:
        script = Script(name="slow", first_token=600.0)
        with running(Simulator(script=script)) as address:
            yield Client(address)

    def test_before_the_first_token(self, slow: Client) -> None:
        connection = slow.connect(marked(stream=True))
        eventually(lambda: bool(slow.get("/_sim/requests")["requests"]))
        assert last(slow)["state"] == "open"
        connection.close()
        eventually(lambda: last(slow)["state"] == "abandoned")
        assert last(slow)["first_token_at"] is None

    def test_the_server_ends_while_somebody_waits(self) -> None:
        simulator = Simulator(script=Script(name="slow", first_token=600.0))
        with running(simulator) as address:
            client = Client(address)
            connection = client.connect(marked(stream=True))
            eventually(lambda: bool(client.get("/_sim/requests")["requests"]))
        with connection:
            assert ended(connection)
        assert simulator.requests()[0]["state"] == "abandoned"

    def test_after_the_first_token(self, client: Client) -> None:
        client.fault("stall", options={"seconds": 600})
        connection = client.connect(marked(stream=True))
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        connection.close()
        eventually(lambda: last(client)["state"] == "abandoned")
        assert len(client.get("/_sim/entries")["entries"]) == 1

    def test_many_at_once(self, address: str, client: Client) -> None:
        client.fault("stall", times=10, options={"seconds": 0.2})
        results: list[int] = []
        threads = [
            threading.Thread(target=lambda: results.append(Client(address).post("/v1/messages", message()).status))
            for _ in range(10)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [200] * 10


class TestListening:
    def test_a_port_in_use(self) -> None:
        with listen("127.0.0.1", 0) as taken:
            port = taken.getsockname()[1]
            with pytest.raises(
                HoldfastError, match=f"port {port} on 127.0.0.1 is in use; choose another with `--port`"
            ):
                listen("127.0.0.1", port)

    def test_an_address_that_is_not_ours(self) -> None:
        with pytest.raises(HoldfastError, match=r"cannot listen on 192\.0\.2\.1 port 0"):
            listen("192.0.2.1", 0)

    def test_a_host_nobody_knows(self) -> None:
        with pytest.raises(HoldfastError, match="`--host`"):
            listen("nowhere.invalid", 0)

    def test_what_clients_are_told(self) -> None:
        with listen("0.0.0.0", 0) as everywhere:
            assert address_of(everywhere) == f"http://127.0.0.1:{everywhere.getsockname()[1]}"

    @pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
    def test_ipv6(self) -> None:
        try:
            listener = listen("::1", 0)
        except HoldfastError as problem:
            pytest.skip(f"no IPv6 here: {problem}")
        with listener:
            assert address_of(listener).startswith("http://[::1]:")

    def test_each_request_is_told_when_it_is_over(self) -> None:
        told: list[str] = []
        instance = server(Simulator(), on_request=lambda record: told.append(record.state))
        listener = listen("127.0.0.1", 0)
        thread = threading.Thread(target=instance.run, args=([listener],))
        thread.start()
        try:
            Client(address_of(listener)).post("/v1/messages", message())
            eventually(lambda: told == ["complete"])
        finally:
            instance.should_exit = True
            thread.join()
            listener.close()


async def test_a_server_that_cannot_reset_says_so() -> None:
    """Under another server a cut is an error, never a polite end."""
    simulator = Simulator()
    simulator.faults.add(Fault("cut", options=Options(at="early")))
    body = json.dumps(message()).encode()
    sent: list[str] = []

    async def receive() -> dict[str, Any]:
        if sent:
            await asyncio.sleep(60)
        sent.append("request")
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(event: Any) -> None:
        sent.append(event["type"])

    headers = [(name.encode(), value.encode()) for name, value in ANTHROPIC.items()]
    scope = {"type": "http", "method": "POST", "path": "/v1/messages", "query_string": b"", "headers": headers}
    with pytest.raises(RuntimeError, match="cannot reset a connection"):
        await build(simulator)(scope, receive, send)
    assert sent == ["request", "http.response.start"]
