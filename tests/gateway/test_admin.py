"""What the gateway says of itself: health, calls, numbers, runs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.gateway import runs
from holdfast.gateway.runs import MOST_RUNS, Runs
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running as simulating
from tests.simulator.http_client import ANTHROPIC, GEMINI, LONG, OPENAI, Client, Response

from .gate import Gated, eventually, gated, hear, spoken

SYSTEM = [{"type": "text", "text": LONG}]


def turn(number: int) -> dict[str, Any]:
    said = []
    for each in range(number):
        said += [{"role": "user", "content": f"question {each}"}, {"role": "assistant", "content": f"answer {each}"}]
    said.append({"role": "user", "content": f"question {number}"})
    return {"model": "claude-opus-4-6", "max_tokens": 500, "system": SYSTEM, "messages": said}


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gated]:
    """A gateway that has served a session of five turns under a run, one of another client, and a failure."""
    with simulating(Simulator()) as upstream, gated(tmp_path_factory.mktemp("home"), upstream) as gate:
        client = Client(gate.address)
        for number in range(5):
            headers = ANTHROPIC | {"x-holdfast-session": "s1"}
            assert client.post("/run/r1/v1/messages", turn(number), headers).status == 200
        chat = {"model": "gpt-5.5", "messages": [{"role": "user", "content": "hello"}]}
        assert client.post("/v1/chat/completions", chat, OPENAI).status == 200
        Client(upstream).fault("status", options={"status": 529})
        assert client.post("/run/r1/v1/messages", turn(5), ANTHROPIC).status == 529
        assert client.send("GET", "/run/r1/v1/models", headers=ANTHROPIC).status == 200
        store = gate.store
        eventually(lambda: [call.status for call in store.calls()].count("settled") == 6)
        eventually(lambda: len(gate.calls) == 8)
        yield gate


def ask(gate: Gated, path: str) -> Response:
    return Client(gate.address).send("GET", path, headers={"authorization": f"Bearer {gate.token}"})


class TestNumbers:
    def test_effectiveness(self, gate: Gated) -> None:
        found = ask(gate, "/analytics/cache_effectiveness").json
        assert found["total"]["call_count"] == sum(each["call_count"] for each in found["models"])
        by_model = {each["model"]: each for each in found["models"]}
        (claude,) = (each for name, each in by_model.items() if "claude" in name)
        assert claude["cached_tokens"] > claude["uncached_tokens"]
        whole = claude["cached_tokens"] + claude["uncached_tokens"] + claude["creation_tokens"]
        assert claude["hit_rate"] == pytest.approx(claude["cached_tokens"] / whole)

    def test_a_window(self, gate: Gated) -> None:
        past = ask(gate, "/analytics/cache_effectiveness?start=2020-01-01T00:00:00Z&end=2021-01-01").json
        assert (past["total"]["call_count"], past["total"]["hit_rate"]) == (0, None)
        assert past["window"]["start"].startswith("2020-01-01T00:00:00")
        recent = ask(gate, f"/analytics/sessions?start={time.time() - 3_600:.0f}").json
        assert len(recent["sessions"]) >= 2

    def test_sessions(self, gate: Gated) -> None:
        found = ask(gate, "/analytics/sessions").json["sessions"]
        (one,) = (each for each in found if each["id"] == "s1")
        assert (one["calls"], one["models"][0].endswith("claude-opus-4-6")) == (5, True)
        assert len(ask(gate, "/analytics/sessions?limit=1").json["sessions"]) == 1

    def test_breaks(self, gate: Gated) -> None:
        assert ask(gate, "/analytics/breaks").json["breaks"] == []

    def test_a_call(self, gate: Gated) -> None:
        response = Client(gate.address).post("/v1/messages", turn(6), ANTHROPIC | {"x-holdfast-session": "s1"})
        call = response.headers["x-holdfast-call"]
        eventually(lambda: ask(gate, f"/calls/{call}").status == 200)
        eventually(lambda: ask(gate, f"/calls/{call}").json["status"] == "settled")
        found = ask(gate, f"/calls/{call}").json
        assert (found["id"], found["session"]) == (call, "s1")
        assert found["plan"]["strategy"] == "economic"
        assert found["usage"]["read"] == found["predicted"]["read"] > 0

    def test_a_run(self, gate: Gated) -> None:
        found = ask(gate, "/runs/r1").json
        assert (found["id"], found["requests"], found["failed"]) == ("r1", 7, 1)
        assert "s1" in found["sessions"]
        assert len(found["calls"]) == 6
        assert ask(gate, f"/calls/{found['calls'][0]}").json["session"] == "s1"
        assert ask(gate, "/runs/other").status == 404


class TestWrongQuestions:
    @pytest.mark.parametrize(
        ("path", "says"),
        [
            ("/analytics/sessions?limit=0", "limit is no number from 1 to 1,000"),
            ("/analytics/sessions?limit=%C2%B2", "limit is no number"),
            ("/analytics/breaks?limit=many", "limit is no number"),
            ("/analytics/breaks?start=yesterday", "start is no time"),
            ("/analytics/breaks?end=1e400", "end is no time"),
            ("/analytics/breaks?end=nan", "end is no time"),
            ("/analytics/cache_effectiveness?start=2&end=1", "start lies after end"),
        ],
    )
    def test_one_sentence(self, gate: Gated, path: str, says: str) -> None:
        response = ask(gate, path)
        assert (response.status, says in response.json["error"]["message"]) == (400, True)

    def test_what_is_not_there(self, gate: Gated) -> None:
        for path in ("/calls/01UNKNOWN", "/calls/", "/calls/a/b", "/analytics/nothing", "/runs/"):
            assert (ask(gate, path).status, bool(ask(gate, path).json["error"]["message"])) == (404, True)

    @pytest.mark.parametrize("method", ["POST", "DELETE", "OPTIONS"])
    def test_only_questions(self, gate: Gated, method: str) -> None:
        response = Client(gate.address).send(method, "/analytics/sessions")
        assert (response.status, "access-control-allow-origin" in response.headers) == (405, False)
        assert response.json["error"]["message"] == "only GET is answered here, and PUT for /runs/ID."


class TestFront:
    def test_health(self, gate: Gated) -> None:
        found = Client(gate.address).get("/healthz")
        assert (found["status"], found["store"], found["repair"]) == ("ok", "ok", "suggest")
        assert found["version"]

    def test_what_this_is(self, gate: Gated) -> None:
        response = Client(gate.address).send("GET", "/")
        assert response.status == 200
        assert gate.address in response.body.decode()
        assert "server" not in response.headers

    @pytest.mark.parametrize("headers", [ANTHROPIC, OPENAI, GEMINI, {"user-agent": "claude-cli/2.1.3"}])
    def test_a_client_that_looks_there_sees_its_provider(self, gate: Gated, headers: dict[str, str]) -> None:
        response = Client(gate.address).send("GET", "/", headers=headers)
        assert b"Holdfast simulator" in response.body

    def test_head(self, gate: Gated) -> None:
        assert hear(gate.address, spoken("HEAD", "/healthz")).status == 200


def test_what_is_stored_is_told_apart_by_tenant(gate: Gated) -> None:
    found = json.loads(ask(gate, "/analytics/sessions").body)["sessions"]
    tenants = {each["tenant"] for each in found}
    assert len(tenants) == 2
    for tenant in tenants:
        own = ask(gate, f"/analytics/sessions?tenant={tenant}").json["sessions"]
        assert {each["tenant"] for each in own} == {tenant}


class TestWithoutAStore:
    def test_one_that_could_not_be_opened(self, tmp_path: Path) -> None:
        (tmp_path / "holdfast").mkdir()
        (tmp_path / "holdfast" / "holdfast.db").write_bytes(b"this is no database" * 100)
        with gated(tmp_path, "http://127.0.0.1:1") as gate:
            response = ask(gate, "/analytics/sessions")
            assert (response.status, "nothing is stored" in response.json["error"]["message"]) == (503, True)

    def test_one_that_fails(self, tmp_path: Path) -> None:
        with gated(tmp_path, "http://127.0.0.1:1") as gate:
            gate.gateway.store.close()
            assert Client(gate.address).get("/healthz")["store"] == "down"
            assert ask(gate, "/analytics/sessions").status == 503


def test_runs_are_bounded() -> None:
    kept = Runs()
    for number in range(MOST_RUNS + 5):
        kept.note(f"r{number}", None, 200)
    assert kept.summary("r4") is None
    found = kept.summary("r5")
    assert (found.requests, found.failed, found.calls) == (1, 0, ())
    kept.note("r5", None, 0)
    again = kept.summary("r5")
    assert (again.requests, again.failed) == (2, 1)


def test_the_newest_calls_of_a_run_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "MOST_CALLS", 2)
    with simulating(Simulator()) as upstream, gated(tmp_path, upstream) as gate:
        client, names = Client(gate.address), [ANTHROPIC | {"x-holdfast-session": f"s{each}"} for each in range(5)]
        sent = [client.post("/run/long/v1/messages", turn(1), headers) for headers in names]
        eventually(lambda: len(gate.calls) == 5)
        found = ask(gate, "/runs/long").json
    assert (found["requests"], found["left_out"], found["sessions"]) == (5, 3, ["s3", "s4"])
    assert found["calls"] == [each.headers["x-holdfast-call"] for each in sent[3:]]
