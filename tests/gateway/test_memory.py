"""Memory for clients of a gateway, over sockets: with the official SDKs, in every dialect, whole and streamed."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai

from holdfast import report
from holdfast.cli.run_client import gateway_for_run
from holdfast.config import Config
from holdfast.core.strategies import STRATEGIES
from holdfast.engine.identity.identities import LOCAL
from holdfast.errors import HoldfastError
from holdfast.gateway import discovery
from holdfast.gateway.assembly import Gateway
from holdfast.gateway.server import running
from holdfast.memory.knowledge import Knowledge
from holdfast.simulator.server import running as simulating
from holdfast.store import open_store
from tests.simulator.http_client import ANTHROPIC, LONG, Client, Response

from .crashes import Witness
from .fuzzing_process import Served
from .gate import Gated, RecordingSimulator, configured, eventually, gated
from .memory_gates import DECISION, ON, QUESTION, ask, learn, remembering


class TestSdks:
    def test_anthropic(self, tmp_path: Path) -> None:
        with remembering(tmp_path) as (gate, simulator):
            client = anthropic.Anthropic(base_url=gate.address, api_key="k", max_retries=0)
            asked: Any = {"model": "claude-opus-5-5", "max_tokens": 50, "system": LONG}
            with client:
                client.messages.create(messages=[{"role": "user", "content": QUESTION}], **asked)
                host, stable = simulator.last["system"]
                assert "cache_control" not in host
                assert stable["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
                assert DECISION in simulator.last["messages"][0]["content"][0]["text"]
                messages: Any = [
                    {"role": "user", "content": QUESTION},
                    {"role": "assistant", "content": "So."},
                    {"role": "user", "content": "Go on."},
                ]
                with client.messages.stream(messages=messages, **asked) as stream:
                    assert stream.get_final_message().usage.cache_read_input_tokens
            assert simulator.last["system"] == [host, stable]
            Client(gate.address).post("/v1/messages/count_tokens", asked | {"messages": messages}, ANTHROPIC)
            assert simulator.last["system"] == LONG  # what is only counted is not touched

    @pytest.mark.parametrize("stream", [False, True])
    def test_e20_e21_openai_chat_and_responses(self, tmp_path: Path, stream: bool) -> None:
        asked: Any = {"model": "gpt-5.5", "stream": stream}
        with (
            remembering(tmp_path, memory__placement="blocks") as (gate, simulator),
            openai.OpenAI(base_url=f"{gate.address}/v1", api_key="k", max_retries=0) as client,
        ):
            found: Any = client.chat.completions.create(messages=[{"role": "user", "content": QUESTION}], **asked)
            assert not stream or list(found)
            assert simulator.last["messages"][0]["role"] == "system"
            assert _both(simulator.last["messages"][0]["content"])
            found = client.responses.create(input=QUESTION, instructions="Be brief.", **asked)
            assert not stream or list(found)
            assert simulator.last["instructions"].startswith("Be brief.\n\n")
            assert _both(simulator.last["instructions"])

    @pytest.mark.parametrize("stream", [False, True])
    def test_gemini(self, tmp_path: Path, stream: bool) -> None:
        with remembering(tmp_path) as (gate, simulator):
            client = genai.Client(api_key="k", http_options=genai.types.HttpOptions(base_url=gate.address))
            asked: Any = {
                "model": "gemini-2.5-pro",
                "contents": QUESTION,
                "config": {"system_instruction": "Be brief."},
            }
            if stream:
                assert list(client.models.generate_content_stream(**asked))
            else:
                assert client.models.generate_content(**asked).text
            parts = [part["text"] for part in simulator.last["systemInstruction"]["parts"]]
            assert parts[0] == "Be brief."
            assert "Small commits" in parts[1]
            delta, question = simulator.last["contents"][0]["parts"]
            assert DECISION in delta["text"]
            assert question["text"] == QUESTION
            client.close()


def test_openrouter_has_its_own_block_where_the_route_takes_markers(tmp_path: Path) -> None:
    with remembering(tmp_path) as (gate, simulator):
        messages = [{"role": "system", "content": LONG}, {"role": "user", "content": QUESTION}]
        body = {"model": "anthropic/claude-sonnet-4.5", "messages": messages}
        found = Client(gate.address).post(
            "/openrouter/api/v1/chat/completions", body, {"authorization": "Bearer k", "x-holdfast-session": "s"}
        )
        assert found.headers["x-holdfast-memory"] == "stable; deltas=1"
        host, stable = simulator.last["messages"][0]["content"]
        assert "cache_control" not in host
        assert stable["cache_control"] == {"type": "ephemeral", "ttl": "1h"}
        assert found.status == 200, found.body


def _both(text: str) -> bool:
    stable, _, context = text.rpartition("\n\nNotes")
    return "Small commits" in stable and DECISION in context


def test_headers_and_that_ours_stay_here(tmp_path: Path) -> None:
    with remembering(tmp_path) as (gate, simulator):
        assert ask(gate, QUESTION).headers["x-holdfast-memory"] == "stable; deltas=1"
        off = ask(gate, QUESTION, "So.", "Go on.", **{"x-holdfast-memory": "off", "x-holdfast-project": "/x"})
        assert (off.headers["x-holdfast-memory"], off.headers["x-holdfast-reset"]) == ("off", "bypassed")
        assert b"Small commits" not in simulator.bodies[-1]
        on = ask(gate, QUESTION, "So.", "Go on.", "So.", "More.")
        assert on.headers["x-holdfast-reset"] == "bypassed"
    with remembering(tmp_path / "quiet", gateway__headers=False) as (gate, _):
        assert "x-holdfast-memory" not in ask(gate, QUESTION).headers


def test_tenants_see_their_own(tmp_path: Path) -> None:
    with remembering(tmp_path, memory__inject_as="tenant") as (gate, simulator):
        ask(gate, QUESTION)
        assert DECISION.encode() not in simulator.bodies[-1]
        tenant = gate.gateway.identities.tenant({"x-api-key": "somebody"}, "")
        learn(gate, tenant)
        ask(gate, QUESTION, **{"x-api-key": "somebody"})
        assert DECISION.encode() in simulator.bodies[-1]
        ask(gate, QUESTION, **{"x-api-key": "somebody else", "x-holdfast-session": "t"})
        assert DECISION.encode() not in simulator.bodies[-1]


def test_a_web_page_gets_this_users_memory_only_for_a_named_tenant(tmp_path: Path) -> None:
    """A page chooses whose key it sends, and reads the answer. What is its own tenant's it gets."""
    page = {"origin": "http://localhost:3000", "x-holdfast-session": "page"}
    listed = {"gateway__origins": [page["origin"]]}
    with remembering(tmp_path, **listed) as (gate, simulator):
        ask(gate, QUESTION, **page)
        assert DECISION.encode() not in simulator.bodies[-1]
        ask(gate, QUESTION)
        assert DECISION.encode() in simulator.bodies[-1]
        tenant = gate.gateway.identities.tenant(ANTHROPIC, "")
    simulator = RecordingSimulator()
    with simulating(simulator) as upstream:
        with gated(tmp_path, upstream, **ON, **listed, memory__inject_tenants=[tenant]) as gate:
            ask(gate, QUESTION, **page | {"x-holdfast-session": "named"})
            assert DECISION.encode() in simulator.bodies[-1]
            ask(gate, QUESTION, **page, **{"x-api-key": "attackers"})
            assert DECISION.encode() not in simulator.bodies[-1]
        with gated(tmp_path, upstream, **listed, memory__inject=True) as gate:
            learn(gate, tenant)
            ask(gate, QUESTION, **page | {"x-holdfast-session": "own"})
            assert DECISION.encode() in simulator.bodies[-1]


def test_switched_off_the_bytes_are_those_of_before(tmp_path: Path) -> None:
    with remembering(tmp_path, memory__inject=False) as (gate, simulator):
        assert "x-holdfast-memory" not in ask(gate, QUESTION).headers
        tenant = gate.gateway.identities.tenant(ANTHROPIC, "")
        assert not gate.gateway.passages.remembers(tenant)  # from now on its requests need not wait for the store
        assert b"Small commits" not in simulator.bodies[-1]


def test_for_one_agent_alone(tmp_path: Path) -> None:
    (tmp_path / "holdfast").mkdir()
    (tmp_path / "holdfast" / "holdfast.toml").write_text("[agents.scout.memory]\ninject = true\ninject_as = 'local'\n")
    simulator = RecordingSimulator()
    with simulating(simulator) as upstream, gated(tmp_path, upstream) as gate:
        learn(gate)
        assert "x-holdfast-memory" not in ask(gate, QUESTION).headers
        scout = ask(gate, QUESTION, **{"x-holdfast-agent": "scout", "x-holdfast-session": "t"})
        assert scout.headers["x-holdfast-memory"] == "stable; deltas=1"


def test_this_users_memory_is_not_for_everybody_who_can_reach_it(tmp_path: Path) -> None:
    config = configured(tmp_path, "http://127.0.0.1:9", **ON)
    with pytest.raises(HoldfastError, match=r"memory.inject_as is `local`.*set memory.inject_as to `tenant`"):
        Gateway(config, host="0.0.0.0")
    Gateway(configured(tmp_path, "http://127.0.0.1:9", memory__inject=True), host="0.0.0.0").close()


class TestProjects:
    def test_where_a_run_was_started(self, tmp_path: Path) -> None:
        with remembering(tmp_path) as (gate, simulator):
            learn(gate, project="/home/me/app").add("Pointer sizes", "A pointer of the app has eight bytes.")
            gate.gateway.runs.begin("r1", "/home/me/app")
            ask(gate, QUESTION, path="/run/r1/v1/messages")
            assert b"eight bytes" in simulator.bodies[-1]
            ask(gate, QUESTION, path="/run/r2/v1/messages", **{"x-holdfast-session": "t"})
            assert b"eight bytes" not in simulator.bodies[-1]
            named = {"x-holdfast-session": "u", "x-holdfast-project": "/home/me/app"}
            ask(gate, QUESTION, path="/run/r2/v1/messages", **named)
            assert b"eight bytes" in simulator.bodies[-1]

    def test_a_project_in_the_settings_comes_before_the_directory(self, tmp_path: Path) -> None:
        with remembering(tmp_path, memory__project="app") as (gate, simulator):
            learn(gate, project="app").add("Pointer sizes", "A pointer of the app has eight bytes.")
            gate.gateway.runs.begin("r1", "/home/me/elsewhere")
            ask(gate, QUESTION, path="/run/r1/v1/messages")
            assert b"eight bytes" in simulator.bodies[-1]

    def test_a_gateway_that_runs_is_told(self, tmp_path: Path) -> None:
        with running_at_its_port(tmp_path) as (config, gateway):
            with gateway_for_run(config, {}, None) as (address, begin, *_):
                assert address == discovery.address(config)
                begin("r1", "/home/me/app")
            assert gateway.runs.directory("r1") == "/home/me/app"
            assert gateway.runs.summary("r1") is None
            client = Client(discovery.address(config))
            assert client.send("PUT", "/runs/r1", {"directory": "/x"}).status == 401
            token = {"authorization": f"Bearer {(config.home / 'admin-token').read_text().strip()}"}
            assert client.send("PUT", "/runs/r1", {"place": "/x"}, token).status == 400
            assert gateway.runs.directory("r1") == "/home/me/app"


@contextmanager
def running_at_its_port(home: Path) -> Iterator[tuple[Config, Gateway]]:
    """A gateway on the port that its configuration names."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    config = configured(home, "http://127.0.0.1:9", gateway__port=port)
    gateway = Gateway(config)
    with running(config, port=port, gateway=gateway):
        yield config, gateway


def test_what_was_shown_is_told(tmp_path: Path) -> None:
    with remembering(tmp_path) as (gate, _):
        ask(gate, QUESTION)
        store = gate.gateway.store
        (entry,) = Knowledge(store, LOCAL).entries(exclude_categories=("preference",))
        eventually(lambda: store.shown(LOCAL, entry.id))
        (shown,) = store.shown(LOCAL, entry.id)
        assert (shown.session, shown.place, shown.why) == ("s", "delta", "session_start")


@pytest.mark.slow
def test_killed_between_requests_the_next_one_sends_the_same_bytes(tmp_path: Path) -> None:
    witness = Witness(tmp_path / "script.yaml")
    with simulating(witness) as upstream:
        environ = {"HOLDFAST_UPSTREAM_ANTHROPIC": upstream, "HOLDFAST_GATEWAY_LIMITS_STAGES_MS": "20000"}
        environ |= {"HOLDFAST_MEMORY_INJECT": "true", "HOLDFAST_MEMORY_INJECT_AS": "local"}
        (tmp_path / "holdfast").mkdir()
        with open_store(tmp_path / "holdfast" / "holdfast.db") as store:
            knowledge = Knowledge(store, LOCAL)
            knowledge.add("Small commits", "Each commit does one thing.", category="preference")
            decision = knowledge.add("Pointers", DECISION)
        said: list[dict[str, str]] = [{"role": "user", "content": QUESTION}]
        for number in range(4):
            served = Served(tmp_path, environ)
            body = {"model": "claude-opus-5-5", "max_tokens": 50, "system": LONG, "messages": said}
            headers = ANTHROPIC | {"x-holdfast-session": "s", "x-talk-number": str(number)}
            response = Client(served.address).post("/v1/messages", body, headers)
            served.kill()
            assert response.status == 200
            assert response.headers["x-holdfast-memory"].startswith("stable; deltas="), served.log.read_text()
            said = [*said, {"role": "assistant", "content": f"So {number}."}, {"role": "user", "content": "Go on."}]
            with open_store(tmp_path / "holdfast" / "holdfast.db") as store:
                Knowledge(store, LOCAL).edit(decision.id, content=f"It is otherwise since {number}.")
        bodies = [json.loads(witness.bodies[str(number)]) for number in range(4)]
        plain = [(_unmarked(body["system"]), [_unmarked(m["content"]) for m in body["messages"]]) for body in bodies]
        for (system, old), (later, new) in pairwise(plain):
            assert system == later
            assert new[: len(old)] == old
        assert len(plain[-1][1][0]) == 2  # with what was told in front of the first question


def _unmarked(content: Any) -> list[str]:
    return [content] if isinstance(content, str) else [block["text"] for block in content]


TURNS = (QUESTION, "So.", "Go on.", "So.", "More.", "So.", "Even more.", "So.", "And now?")
RESET = "x-holdfast-reset"


@contextmanager
def opened(home: Path, upstream: str, **flags: Any) -> Iterator[Gated]:
    with gated(home, upstream, **{**ON, **flags}) as gate:
        yield gate


def reset(response: Response) -> str | None:
    return response.headers.get(RESET)


def unmarked(value: Any) -> Any:
    """A body without its markers, and with every text as a list of blocks."""
    if isinstance(value, dict):
        return {key: unmarked(each) for key, each in value.items() if key != "cache_control"}
    return [unmarked(each) for each in value] if isinstance(value, list) else value


def broken(gate: Gated, calls: int) -> list[tuple[str | None, str | None]]:
    """Cause and reason of every break and reset, when so many calls are stored."""
    store = gate.store
    eventually(lambda: len(store.calls()) >= calls and all(call.status == "settled" for call in store.calls()))
    return [(each.cause, each.reason) for each in report.breaks(store).breaks]


@pytest.mark.parametrize("how", [{"memory__inject": False}, {"memory__inject_tenants": "somebody"}], ids=["all", "one"])
def test_switched_off_in_the_settings(tmp_path: Path, how: dict[str, Any]) -> None:
    simulator = RecordingSimulator()
    with simulating(simulator) as upstream:
        with opened(tmp_path, upstream) as gate:
            learn(gate)
            ask(gate, *TURNS[:1])
            assert reset(ask(gate, *TURNS[:3])) is None
            given = unmarked(simulator.last)
        with opened(tmp_path, upstream, **how) as gate:
            off = ask(gate, *TURNS[:5])
            assert (reset(off), off.headers.get("x-holdfast-memory")) == ("bypassed", None)
            assert b"Small commits" not in simulator.bodies[-1]
            assert reset(ask(gate, *TURNS[:7])) is None
            assert broken(gate, 4) == [(None, "bypassed")]
        with opened(tmp_path, upstream, **how) as gate:  # a lane without memory stays one after a restart
            assert reset(ask(gate, *TURNS[:7])) is None
        with opened(tmp_path, upstream) as gate:
            again = ask(gate, *TURNS)
            assert (reset(again), again.headers["x-holdfast-memory"]) == ("bypassed", "stable; deltas=1")
            found = unmarked(simulator.last)
            assert found["system"] == given["system"]
            assert found["messages"][0] == given["messages"][0]
            assert {reason for _, reason in broken(gate, 6)} == {"bypassed"}


def test_switched_off_for_single_requests_also_after_a_restart(tmp_path: Path) -> None:
    simulator, off = RecordingSimulator(), {"x-holdfast-memory": "off"}
    with simulating(simulator) as upstream:
        with opened(tmp_path, upstream) as gate:
            learn(gate)
            ask(gate, *TURNS[:1])
        with opened(tmp_path, upstream) as gate:
            assert reset(ask(gate, *TURNS[:3], **off)) == "bypassed"
        with opened(tmp_path, upstream) as gate:
            assert reset(ask(gate, *TURNS[:5], **off)) is None
            assert reset(ask(gate, *TURNS[:7], **off)) is None
            assert reset(ask(gate, *TURNS[:7])) == "bypassed"
            assert reset(ask(gate, *TURNS)) is None
            assert {reason for _, reason in broken(gate, 6)} == {"bypassed"}


def test_a_conversation_that_never_had_any_departs_from_nothing(tmp_path: Path) -> None:
    with simulating(RecordingSimulator()) as upstream:
        with opened(tmp_path, upstream) as gate:
            assert reset(ask(gate, *TURNS[:1])) is None
            assert reset(ask(gate, *TURNS[:3], **{"x-holdfast-memory": "off"})) is None
            assert reset(ask(gate, *TURNS[:5])) is None
        with opened(tmp_path, upstream, memory__inject=False) as gate:
            assert reset(ask(gate, *TURNS[:7])) is None
            assert broken(gate, 4) == []


HOUR = {"type": "ephemeral", "ttl": "1h"}


def said(*texts: str) -> dict[str, Any]:
    messages = [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]
    return {"model": "claude-opus-4-6", "max_tokens": 500, "system": LONG, "messages": messages}


def test_c7_a_break_is_reported_where_the_settings_say(tmp_path: Path) -> None:
    reports, simulator = tmp_path / "reports", RecordingSimulator()
    with simulating(simulator) as upstream, gated(tmp_path, upstream, cache__breaks__dir=str(reports)) as gate:
        client, headers = Client(gate.address), ANTHROPIC | {"x-holdfast-session": "s"}
        assert client.post("/v1/messages", said("one"), headers).status == 200
        assert client.post("/v1/messages", said("one", "yes", "two"), headers).status == 200
        assert not list(reports.glob("*"))
        simulator.reset()  # what was cached is gone, and nobody has said why
        assert client.post("/v1/messages", said("one", "yes", "two", "yes", "three"), headers).status == 200
        eventually(lambda: list(reports.glob("*.jsonl")))
    (report,) = reports.glob("*.jsonl")
    assert b'"cause":"likely_server_side"' in report.read_bytes()


def test_an_agents_own_settings_count_for_its_requests(tmp_path: Path) -> None:
    home = tmp_path / "holdfast"
    home.mkdir()
    toml = '[cache]\nstrategy = "two-point"\n\n[agents.clerk.cache]\nstrategy = "passthrough"\n'
    (home / "holdfast.toml").write_text(toml, "utf-8")
    simulator = RecordingSimulator()
    with simulating(simulator) as upstream, gated(tmp_path, upstream) as gate:
        for agent in ("", "clerk"):
            headers = ANTHROPIC | ({"x-holdfast-agent": agent} if agent else {})
            assert Client(gate.address).post("/v1/messages", said("one"), headers).status == 200
    first, second = (json.loads(body) for body in simulator.bodies)
    assert first["system"][0]["cache_control"]
    assert second == said("one")


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "passthrough"])
def test_e3_under_every_strategy_the_preferences_are_kept_for_an_hour(tmp_path: Path, strategy: str) -> None:
    simulator = RecordingSimulator()
    with simulating(simulator) as upstream, gated(tmp_path, upstream, **ON, cache__strategy=strategy) as gate:
        learn(gate)
        ask(gate, QUESTION)
    host, stable = simulator.last["system"]
    assert "cache_control" not in host
    assert stable["cache_control"] == HOUR


@pytest.mark.parametrize(("subscriptions", "marked"), [("observe", False), ("manage", True)])
def test_a_subscriptions_requests_are_planned_only_if_the_user_says_so(
    tmp_path: Path, subscriptions: str, marked: bool
) -> None:
    flags = {"cache__strategy": "two-point", "gateway__subscriptions": subscriptions}
    headers = {"authorization": "Bearer sk-ant-oat01-x", "anthropic-version": "2023-06-01"}
    simulator = RecordingSimulator()
    with simulating(simulator) as upstream, gated(tmp_path, upstream, **flags) as gate:
        assert Client(gate.address).post("/v1/messages", said("one"), headers).status == 200
    assert (b"cache_control" in simulator.bodies[0]) is marked
