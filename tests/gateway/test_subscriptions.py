"""Logins of a subscription are observed: their bytes pass untouched, and are predicted, settled and told of as ever."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast import report
from holdfast.cli import run as main
from holdfast.engine.identity.identities import LOCAL
from holdfast.memory.knowledge import Knowledge
from holdfast.simulator.server import running as provider_running
from holdfast.store import is_subscription
from tests.clients.programs import Watched

from .gate import Gated, gated

LOGIN = "sk-ant-oat01-login"
KEY = "sk-ant-api03-key"
HEADERS = {"anthropic-version": "2023-06-01", "content-type": "application/json", "x-holdfast-session": "s"}


def jwt(**claims: Any) -> str:
    parts = ({"alg": "RS256"}, claims, {"not": "checked"})
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)


CHATGPT = jwt(iss="https://auth.openai.com", exp=1)
AZURE = jwt(iss="https://sts.windows.net/1/", aud="https://cognitiveservices.azure.com")


def talk(turn: int, marked: bool = False) -> bytes:
    """A client that would be repaired: its tools change their order, its memory grows. It marks its system text, or
    nothing."""
    tools = [{"name": name, "description": "Does it. " * 200, "input_schema": {"type": "object"}} for name in "ab"]
    text = "You help with code. " * 1_000 + f"\n\n# Memory\n- item {turn}\n"
    system = [{"type": "text", "text": text} | ({"cache_control": {"type": "ephemeral"}} if marked else {})]
    messages = [{"role": "assistant" if at % 2 else "user", "content": f"Turn {at}."} for at in range(2 * turn + 1)]
    body = {"model": "claude-sonnet-4-6", "max_tokens": 500, "tools": tools if turn % 2 else tools[::-1]}
    return json.dumps({**body, "system": system, "messages": messages}, indent=1).encode()


@pytest.fixture
def simulator() -> Watched:
    return Watched()


@pytest.fixture
def gate(simulator: Watched, tmp_path: Path) -> Iterator[Gated]:
    with (
        provider_running(simulator) as address,
        gated(tmp_path, address, cache__repair="on", cache__openai__store_completions=True) as gate,
    ):
        yield gate


def post(gate: Gated, body: bytes, authorization: str, path: str = "/v1/messages", **more: str) -> httpx.Response:
    headers = HEADERS | {"authorization": f"Bearer {authorization}"} | more
    answer = httpx.post(f"{gate.address}{path}", headers=headers, content=body, timeout=20)
    assert answer.status_code == 200, answer.text
    return answer


def test_its_bytes_pass_and_those_of_a_key_are_managed(gate: Gated, simulator: Watched) -> None:
    bodies = [talk(turn) for turn in range(3)]
    for body in bodies:
        answer = post(gate, body, LOGIN)
        assert answer.headers["x-holdfast-observed"] == "subscription"
        assert answer.headers["x-holdfast-prediction"].endswith("; at=list-price")
    assert [call.body for call in simulator.calls] == bodies
    for body in bodies:
        assert "x-holdfast-observed" not in post(gate, body, KEY).headers
    assert all(call.body not in bodies for call in simulator.calls[4:])


def test_compressed_ones_stay_compressed(gate: Gated, simulator: Watched) -> None:
    packed = gzip.compress(talk(0))
    with pytest.raises(AssertionError, match="400"):  # the simulator does not unpack: it got what was sent
        post(gate, packed, LOGIN, **{"content-encoding": "gzip"})
    assert simulator.calls[-1].body == packed


def test_a_chatgpt_login_too(gate: Gated, simulator: Watched) -> None:
    body = b'{ "model": "gpt-5.5", "input": "Hello." }'
    post(gate, body, CHATGPT, "/v1/responses")
    post(gate, body, "opaque", "/v1/responses", **{"chatgpt-account-id": "acc"})
    assert [call.body for call in simulator.calls] == [body, body]
    post(gate, body, AZURE, "/v1/responses")  # a token of another kind, which is billed
    assert simulator.calls[-1].body != body


def test_it_is_predicted_settled_and_explained(gate: Gated) -> None:
    for turn in range(3):
        post(gate, talk(turn), LOGIN)
    store = gate.store
    store.flush()
    calls = store.calls()
    assert [call.status for call in calls] == ["settled"] * 3
    assert all(is_subscription(call.tenant) and call.prediction and call.verdict for call in calls)
    reported = report.call(store, calls[-1].id)
    assert reported.subscription
    assert reported.plan.strategy == "passthrough"
    total = report.bill(store).total
    assert total.list_price == total.cost != 0
    post(gate, talk(0), KEY)
    store.flush()
    total = report.bill(store).total
    assert total.cost is not None
    assert total.list_price is not None
    assert total.list_price < total.cost


def test_it_is_given_no_memory(simulator: Watched, tmp_path: Path) -> None:
    with (
        provider_running(simulator) as address,
        gated(tmp_path, address, memory__inject=True, memory__inject_as="local") as gate,
    ):
        Knowledge(gate.store, LOCAL).add("Linting", "ruff checks it.", category="preference")
        body = talk(0)
        assert post(gate, body, LOGIN).headers["x-holdfast-memory"] == "off"  # nor is it planned with any
        assert simulator.calls[-1].body == body
        assert post(gate, body, KEY).headers["x-holdfast-memory"] != "off"
        assert b"ruff checks it." in simulator.calls[-1].body


def test_managed_if_the_user_says_so(simulator: Watched, tmp_path: Path) -> None:
    with (
        provider_running(simulator) as address,
        gated(tmp_path, address, cache__repair="on", gateway__subscriptions="manage") as gate,
    ):
        bodies = [talk(turn) for turn in range(2)]
        answers = [post(gate, body, LOGIN) for body in bodies]
        assert simulator.calls[-1].body != bodies[-1]
        assert "x-holdfast-observed" not in answers[-1].headers
        assert answers[-1].headers["x-holdfast-prediction"].endswith("; at=list-price")


def test_one_that_was_managed_before_is_left_with_its_reason(simulator: Watched, tmp_path: Path) -> None:
    """What was put into its lane goes: that is no break of the client's."""
    with provider_running(simulator) as address:
        for way in ("manage", "observe"):
            with gated(tmp_path, address, cache__repair="on", gateway__subscriptions=way) as gate:
                for turn in (0, 1):
                    post(gate, talk(turn + 2 * (way == "observe")), LOGIN)
                store = gate.store
                store.flush()
                calls = store.calls()
    assert simulator.calls[-1].body == talk(3)
    assert calls[2].reset == "bypassed"


def test_its_dollars_are_at_list_price_wherever_they_are_shown(
    gate: Gated, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_HOME", str(gate.config.home))
    monkeypatch.setenv("COLUMNS", "200")
    for turn in range(3):
        post(gate, talk(turn, marked=True), LOGIN)
    store = gate.store
    store.flush()
    call = store.calls()[-1]

    def said(*command: str) -> str:
        assert main([*command]) == 0
        return capsys.readouterr().out

    assert "at list price (a subscription pays)" in said("bill")
    for command in (("bill", "--by", "model"), ("sessions",), ("show",), ("show", call.session), ("breaks",)):
        shown = said(*command)
        assert "* at list price: a subscription pays." in shown, command
        assert any(word.startswith("$") and word.endswith("*") for word in shown.split()), command
    of_calls = [line for line in said("show", call.session).splitlines() if line.startswith(call.id[:4])]
    assert len(of_calls) == 3
    assert all("*" in line for line in of_calls)
    cost = next(line for line in said("show", call.id).splitlines() if line.startswith("Cost"))
    assert " at list price" in cost
    assert (
        json.loads(said("bill", "--json"))["total"]["list_price"] == json.loads(said("bill", "--json"))["total"]["cost"]
    )
    assert all(each["list_price"] for each in json.loads(said("sessions", "--json"))["sessions"])
    assert all(each["subscription"] for each in json.loads(said("breaks", "--json"))["breaks"])
    assert json.loads(said("show", call.id, "--json"))["subscription"]
