"""Corners of the contract: nothing is sent twice, a client that leaves is noticed behind another request of its own
connection, keys go where they belong and nowhere else."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running as simulating
from tests.simulator.http_client import ANTHROPIC, LONG, Client

from .gate import OK, Gated, Provider, Received, connect, eventually, gated, hear, spoken

KEY = (("x-api-key", "k"),)


@pytest.mark.parametrize("method", ["GET", "DELETE", "POST"])
def test_a_request_is_never_sent_twice(tmp_path: Path, method: str) -> None:
    """A kept connection that the provider closes on the second request: it may have done what was asked."""

    def answer(connection: socket.socket, found: Received) -> None:
        if b"/second" in found.line:
            connection.shutdown(socket.SHUT_RDWR)
        else:
            connection.sendall(OK)

    with Provider(answer) as provider, gated(tmp_path, provider.address) as gate:
        assert hear(gate.address, spoken("GET", "/v1/files/first", KEY)).status == 200
        assert hear(gate.address, spoken(method, "/v1/files/second", KEY)).status == 502
    assert len([found for found in provider.received if b"/second" in found.line]) == 1


def test_a_client_that_leaves_behind_another_request_is_noticed(tmp_path: Path) -> None:
    """Two requests in one go: the end of the first must not make us blind for the second."""
    asked, left = threading.Event(), threading.Event()

    def answer(connection: socket.socket, found: Received) -> None:
        if b"/second" not in found.line:
            connection.sendall(OK)
            return
        asked.set()
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(200):
            try:
                connection.sendall(b"3\r\n:a\n\r\n")
            except OSError:
                left.set()
                return
            time.sleep(0.02)

    with Provider(answer) as provider, gated(tmp_path, provider.address) as gate:
        with connect(gate.address) as client:
            both = spoken("GET", "/v1/files/first", KEY, close=False) + spoken("GET", "/v1/files/second", KEY)
            client.sendall(both)
            assert asked.wait(10)
        assert left.wait(3)


@pytest.mark.parametrize(
    "place", [("authorization", "Bearer {}"), ("x-api-key", "{}"), ("x-goog-api-key", "{}")], ids=lambda place: place[0]
)
def test_the_admin_token_is_nobody_elses(tmp_path: Path, place: tuple[str, str]) -> None:
    with Provider() as provider, gated(tmp_path, provider.address) as gate:
        shown = ((place[0], place[1].format(gate.token)),)
        assert hear(gate.address, spoken(headers=shown, body=b"{}")).status == 403
    assert provider.received == []


def test_the_admin_token_in_the_query(tmp_path: Path) -> None:
    with Provider() as provider, gated(tmp_path, provider.address) as gate:
        assert hear(gate.address, spoken("GET", f"/v1beta/models?key={gate.token}")).status == 403
    assert provider.received == []


def test_credentials_of_another_service_go_nowhere(tmp_path: Path) -> None:
    bearer = (("authorization", "Bearer ya29"),)
    with Provider() as provider, gated(tmp_path, provider.address) as gate:
        assert hear(gate.address, spoken("POST", "/v1/projects/p/models/m:rawPredict", bearer)).status == 404
        assert hear(gate.address, spoken("GET", "/v1/models?access_token=ya29")).status == 200
        assert [call.route.upstream.name for call in gate.calls] == ["gemini"]


def test_headers_of_ours_come_from_us_alone(tmp_path: Path) -> None:
    said = b"HTTP/1.1 200 OK\r\nx-holdfast-call: another\r\nx-request-id: theirs\r\ncontent-length: 2\r\n\r\n{}"
    with Provider(said) as provider, gated(tmp_path, provider.address) as gate:
        headers = hear(gate.address, spoken("GET", "/v1/models", KEY)).headers()
    assert ("x-request-id", "theirs") in headers
    assert not any(name.startswith("x-holdfast") for name, _ in headers)


def test_a_provider_that_is_not_there_may_be_tried_again(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with gated(tmp_path, f"http://127.0.0.1:{closed.getsockname()[1]}") as gate:
            heard = hear(gate.address, spoken(headers=KEY, body=b"{}"))
    assert heard.status == 502
    assert dict(heard.headers())["retry-after"] == "1"


def test_resets_are_told_apart_from_breaks(tmp_path: Path) -> None:
    def ask(gate: Gated, query: str) -> tuple[int, list[str | None]]:
        headers = {"authorization": f"Bearer {gate.token}"}
        answer = Client(gate.address).send("GET", f"/analytics/breaks{query}", headers=headers)
        return answer.status, [each["reason"] or each["cause"] for each in answer.json.get("breaks", ())]

    with simulating(Simulator()) as upstream, gated(tmp_path, upstream) as gate:
        client = Client(gate.address)
        for number, reset in enumerate(("", "", "", "volatile_system_changed")):
            body = turn(number) | {"cache_control": {"type": "ephemeral"}}
            body["system"] = ("Shorter. " if reset else "") + body["system"]
            headers = ANTHROPIC | {"x-holdfast-session": "s"} | ({"x-holdfast-reset": reset} if reset else {})
            assert client.post("/v1/messages", body, headers).status == 200
        assert ask(gate, "") == (200, [])
        assert ask(gate, "?resets=true") == (200, ["volatile_system_changed"])
        assert ask(gate, "?resets=perhaps")[0] == 400


TURNS = 8


def turn(number: int) -> dict[str, Any]:
    said: list[dict[str, str]] = []
    for each in range(number):
        said += [{"role": "user", "content": f"question {each}"}, {"role": "assistant", "content": f"answer {each}"}]
    said.append({"role": "user", "content": f"question {number}"})
    return {"model": "claude-opus-4-6", "max_tokens": 500, "system": LONG, "messages": said}


def effectiveness(gate: Gated, query: str = "") -> dict[str, Any]:
    headers = {"authorization": f"Bearer {gate.token}"}
    found: dict[str, Any] = (
        Client(gate.address).send("GET", f"/analytics/cache_effectiveness{query}", headers=headers).json
    )
    return found


def session(gate: Gated, churn: bool = False) -> None:
    client = Client(gate.address)
    for number in range(TURNS):
        body = turn(number)
        if churn:
            body["system"] = f"It is {number} o'clock. " + LONG
            body["cache_control"] = {"type": "ephemeral"}
        assert client.post("/v1/messages", body, ANTHROPIC | {"x-holdfast-session": "s"}).status == 200
    store = gate.store
    eventually(lambda: sum(call.status == "settled" for call in store.calls()) == TURNS)


def test_a_session_of_several_turns_hits_and_writes_its_prefix_once(tmp_path: Path) -> None:
    """A84, A85, A86: with the document's markers the hit rate is above zero, and at most one token in N is written."""
    with simulating(Simulator()) as upstream, gated(tmp_path, upstream, cache__strategy="two-point") as gate:
        nothing = effectiveness(gate)["total"]
        assert (nothing["call_count"], nothing["hit_rate"], nothing["cache_write_share"]) == (0, None, None)
        session(gate)
        total = effectiveness(gate)["total"]
    assert total["call_count"] == TURNS
    whole = total["uncached_tokens"] + total["cached_tokens"] + total["creation_tokens"]
    assert total["hit_rate"] == pytest.approx(total["cached_tokens"] / whole)
    assert total["cache_write_share"] == pytest.approx(total["creation_tokens"] / whole)
    assert total["hit_rate"] > 0
    assert 0 < total["cache_write_share"] <= 1 / TURNS


def test_by_default_nothing_is_written_twice(tmp_path: Path) -> None:
    """A85, A86: the conversation is marked too, and every token of it is written once at most."""
    simulator = Simulator()
    with simulating(simulator) as upstream, gated(tmp_path, upstream) as gate:
        session(gate)
        total = effectiveness(gate)["total"]
    last = simulator.requests()[-1]["usage"]
    assert total["hit_rate"] > 0
    assert 0 < total["creation_tokens"] <= last["input"] + last["read"] + sum(last["written"].values())


def test_a_prefix_that_churns_shows(tmp_path: Path) -> None:
    """A86 the other way round: with a clock at the head of the system text more than that is written."""
    flags = {"cache__strategy": "passthrough", "cache__repair": "off"}
    with simulating(Simulator()) as upstream, gated(tmp_path, upstream, **flags) as gate:
        session(gate, churn=True)
        total = effectiveness(gate)["total"]
    assert total["cache_write_share"] > 1 / TURNS
