"""The simulator as a server under odd clients and many of them: bare sockets, upgrades, fan-out, faults at once."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from holdfast.simulator.clock import VirtualClock
from holdfast.simulator.provider import Simulator
from holdfast.simulator.script import CallStep, Script, ScriptRule, ScriptStep, When
from holdfast.simulator.server import running
from tests.simulator.http_client import ANTHROPIC, GEMINI, OPENAI, Client, marked, message

from .conversations import DIALECT_NAMES

WORDS = "A reply of some length, so that it comes in several pieces and can be cut."


def says(**when: Any) -> Script:
    """A model that answers each word in its own way."""
    ways = {
        "text": ScriptStep(say=WORDS),
        "tool": ScriptStep(say=WORDS, calls=(CallStep("any"), CallStep("any"))),
        "think": ScriptStep(think=WORDS, say=WORDS),
        "nothing": ScriptStep(say=""),
    }
    return Script(
        name="ways", rules=tuple(ScriptRule(step, When(contains=word)) for word, step in ways.items()), **when
    )


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with running(Simulator(clock=VirtualClock(), script=says())) as address:
        yield address


@pytest.fixture
def client(address: str) -> Client:
    client = Client(address)
    client.send("POST", "/_sim/reset")
    return client


def at_once(count: int, do: Callable[[int], Any]) -> list[Any]:
    results: list[Any] = [None] * count

    def work(index: int) -> None:
        results[index] = do(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def talk(client: Client, data: bytes) -> bytes:
    """What the server says to these bytes until it closes the connection."""
    said = b""
    with socket.create_connection((client.host, client.port), timeout=20) as connection:
        connection.sendall(data)
        while piece := connection.recv(65_536):
            said += piece
    return said


def written(*headers: str, body: bytes = b"", path: str = "/v1/messages", method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "host: x", *headers, *(f"{k}: {v}" for k, v in ANTHROPIC.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class TestOddClients:
    BODY = json.dumps(message("text")).encode()
    LENGTH = f"content-length: {len(BODY)}"

    def test_an_offer_of_http2_is_overlooked(self, client: Client) -> None:
        """Java's client makes it on every plain connection, and sends the next request over the same one."""
        offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
        said = talk(
            client,
            written(*offer, self.LENGTH, body=self.BODY) + written("connection: close", self.LENGTH, body=self.BODY),
        )
        assert said.count(b"HTTP/1.1 200 OK") == 2
        assert said.count(WORDS.encode()) == 2

    def test_chunks_and_permission_to_send(self, client: Client) -> None:
        pieces = b"".join(
            b"%x\r\n%b\r\n" % (len(self.BODY[i : i + 9]), self.BODY[i : i + 9]) for i in range(0, len(self.BODY), 9)
        )
        headers = ("transfer-encoding: chunked", "expect: 100-continue", "connection: close")
        said = talk(client, written(*headers, body=pieces + b"0\r\n\r\n"))
        assert said.startswith(b"HTTP/1.1 100 Continue\r\n")
        assert WORDS.encode() in said

    def test_requests_sent_ahead_are_answered_in_order(self, client: Client) -> None:
        said = talk(
            client,
            written(self.LENGTH, body=self.BODY)
            + written(method="GET", path="/v1/models")
            + written("connection: close", self.LENGTH, body=self.BODY),
        )
        assert said.find(WORDS.encode()) < said.find(b'"data":[') < said.rfind(WORDS.encode())

    @pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "HEAD", "DELETE"])
    def test_other_methods_are_not_found(self, client: Client, method: str) -> None:
        assert client.send(method, "/v1/messages", headers=ANTHROPIC).status == 404

    @pytest.mark.parametrize(
        ("method", "path", "body"),
        [
            ("PUT", "/_sim/faults", b"{}"),
            ("POST", "/_sim/nothing", b""),
            ("GET", "/_sim", None),
            ("POST", "/_sim/faults", b"[" * 100_000),
            ("POST", "/_sim/faults", b'{"kind":"\xff"}'),
            ("POST", "/_sim/faults", b'{"kind":"\\ud800"}'),
            ("POST", "/_sim/clock", b'{"advance":' + b"[" * 100_000),
            ("POST", "/_sim/clock", b'{"advance":1e300}'),
            ("GET", "/_sim/requests?limit=" + "9" * 5_000, None),
        ],
    )
    def test_controls_answer_with_one_sentence(self, client: Client, method: str, path: str, body: bytes) -> None:
        response = client.send(method, path, body)
        assert (response.status, list(response.json)) == (400, ["error"])
        assert len(response.json["error"]) < 300


class TestManyAtOnce:
    @pytest.mark.slow
    def test_cold_fan_out_pays_every_write(self) -> None:
        """Rule: an entry is readable only once the first response has begun."""
        with running(Simulator(script=says(first_token=1.0))) as address:
            client = Client(address)

            def ask(_: int) -> str:
                used = client.post("/v1/messages", marked()).json["usage"]
                return "write" if used["cache_creation_input_tokens"] else "read"

            assert Counter(at_once(20, ask)) == {"write": 20}
            assert Counter(at_once(5, ask)) == {"read": 5}

    def test_a_fault_strikes_as_often_as_it_was_ordered(self, client: Client) -> None:
        client.fault("cut", times=7, after=5)
        cuts = at_once(30, lambda _: client.raw(message("text", stream=True)).reset)
        assert Counter(cuts) == {True: 7, False: 23}
        listed = client.get("/_sim/requests?limit=30")["requests"]
        assert sum(request["fault"] == "cut mid" for request in listed) == 7

    def test_looking_on_while_it_works(self, client: Client) -> None:
        def work(index: int) -> int:
            if index % 2:
                return client.post("/v1/messages", marked(), ANTHROPIC | {"x-api-key": f"k{index}"}).status
            return client.send("GET", "/_sim/requests" if index % 4 else "/_sim/entries").status

        assert set(at_once(40, work)) == {200}


TOOL = {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {}}}
FUNCTION = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}


def asked(dialect: str, word: str, limit: int) -> tuple[str, dict[str, Any], dict[str, str]]:
    if dialect == "anthropic":
        thinking = {"thinking": {"type": "adaptive"}}
        return "/v1/messages", message(word, stream=True, max_tokens=limit, tools=[TOOL], **thinking), ANTHROPIC
    if dialect == "openai_chat":
        body = {"model": "gpt-5.5", "stream": True, "messages": [{"role": "user", "content": word}]}
        body |= {"tools": [{"type": "function", "function": FUNCTION}], "max_completion_tokens": limit}
        return "/v1/chat/completions", body | {"stream_options": {"include_usage": True}}, OPENAI
    if dialect == "openai_responses":
        tools, reasoning = [{"type": "function", **FUNCTION}], {"effort": "low", "summary": "auto"}
        body = {"model": "gpt-5.5", "stream": True, "input": word, "tools": tools, "max_output_tokens": limit}
        return "/v1/responses", body | {"reasoning": reasoning}, OPENAI
    config = {"maxOutputTokens": limit, "thinkingConfig": {"includeThoughts": True}}
    body = {"contents": [{"parts": [{"text": word}]}], "tools": [{"functionDeclarations": [FUNCTION]}]}
    path = "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"
    return path, body | {"generationConfig": config}, GEMINI


def events(body: bytes) -> list[Any]:
    lines = [line[6:] for line in body.decode().splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def last_usage(dialect: str, found: list[Any]) -> tuple[int, int]:
    """Prompt and output tokens as the end of a stream tells them, and that it is an end."""
    if dialect == "anthropic":
        assert found[-1] == {"type": "message_stop"}
        used = found[0]["message"]["usage"] | found[-2]["usage"]
        prompt = used["input_tokens"] + used["cache_read_input_tokens"] + used["cache_creation_input_tokens"]
        return prompt, used["output_tokens"]
    if dialect == "openai_chat":
        assert found[-1] == "[DONE]"
        return found[-2]["usage"]["prompt_tokens"], found[-2]["usage"]["completion_tokens"]
    if dialect == "openai_responses":
        assert found[-1]["type"] in ("response.completed", "response.incomplete")
        assert [event["sequence_number"] for event in found] == list(range(len(found)))
        used = found[-1]["response"]["usage"]
        return used["input_tokens"], used["output_tokens"]
    assert found[-1]["candidates"][0]["finishReason"]
    used = found[-1]["usageMetadata"]
    return used["promptTokenCount"], used.get("candidatesTokenCount", 0) + used.get("thoughtsTokenCount", 0)


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@pytest.mark.parametrize(("word", "limit"), [("text", 500), ("text", 5), ("tool", 500), ("think", 500), ("nothing", 9)])
def test_every_stream_ends_and_tells_what_was_billed(client: Client, dialect: str, word: str, limit: int) -> None:
    response = client.post(*asked(dialect, word, limit))
    assert response.status == 200, response.body
    billed = client.get("/_sim/requests?limit=1")["requests"][0]
    assert last_usage(dialect, events(response.body)) == (billed["prompt_tokens"], billed["usage"]["output"])
    assert billed["state"] == "complete"
    assert (billed["usage"]["output"] == 5) == (limit == 5)


class TestFaultsAndTheRecord:
    @pytest.mark.parametrize("kind", ["close", "sse_error"])
    def test_a_stream_that_ends_early_is_not_complete(self, client: Client, kind: str) -> None:
        client.fault(kind)
        client.post("/v1/messages", message("text", stream=True))
        assert client.get("/_sim/requests?limit=1")["requests"][0]["state"] == "abandoned"

    def test_an_error_event_without_a_stream_is_an_error_with_its_id(self, client: Client) -> None:
        client.fault("sse_error")
        response = client.post("/v1/messages", marked())
        assert (response.status, response.json["request_id"]) == (529, response.headers["request-id"])
        last = client.get("/_sim/requests?limit=1")["requests"][0]
        assert (last["status"], last["state"], last["usage"]) == (529, "refused", None)
        assert client.get("/_sim/entries")["entries"] == []

    def test_a_request_that_is_refused_uses_up_no_fault(self, client: Client) -> None:
        client.fault("cut")
        assert client.post("/v1/messages", message(model="unknown")).status == 404
        assert client.get("/_sim/requests?limit=1")["requests"][0]["fault"] == ""
        assert client.raw(message("text")).reset

    def test_counting_tokens_fails_too(self, client: Client) -> None:
        client.fault("malformed")
        with pytest.raises(json.JSONDecodeError):
            json.loads(client.post("/v1/messages/count_tokens", message()).body)
        client.fault("sse_error")
        assert client.post("/v1/messages/count_tokens", message()).status == 529

    @pytest.mark.parametrize("at", ["early", "mid", "before_last"])
    def test_gemini_without_events_stays_an_array(self, client: Client, at: str) -> None:
        path, body, headers = asked("gemini", "text", 500)
        client.fault("sse_error", options={"at": at})
        whole = client.post(path.partition("?")[0], body, headers).json
        assert whole[-1]["error"]["status"] == "UNAVAILABLE"
        client.fault("status", options={"status": 503})
        assert client.post(path.partition("?")[0], body, headers).json[0]["error"]["code"] == 503

    @pytest.mark.parametrize(("seconds", "header"), [(0, "0"), (0.2, "1"), (2, "2"), (2.5, "3"), (3600, "3600")])
    def test_retry_after_is_in_whole_seconds(self, client: Client, seconds: float, header: str) -> None:
        client.fault("status", options={"status": 429, "retry_after": seconds})
        assert client.post("/v1/messages", message()).headers["retry-after"] == header
