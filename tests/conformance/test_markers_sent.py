"""Seed context-assembler §2-§4 where it counts: in the bytes that a provider gets from the agent, from a client behind
the gateway and from an SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anthropic import Anthropic
from msgspec.structs import replace
from openai import OpenAI

from holdfast import Engine
from holdfast.config.keys import Settings
from holdfast.config.sections.cache import CacheSettings, OpenRouterSettings
from holdfast.config.sections.server import GatewaySettings, LimitSettings
from holdfast.core.strategies import STRATEGIES
from holdfast.simulator.faults import Fault, FaultMatch, Options
from tests.agent.bench import Bench, settings
from tests.gateway.gate import Provider, gated
from tests.simulator.http_client import ANTHROPIC, LONG, OPENAI, Client

MARK = {"type": "ephemeral"}
CLAUDE_ROUTE, OTHER_ROUTE = "openrouter:anthropic/claude-sonnet-5-5", "openrouter:mistralai/mistral-large"
TWO_POINT = CacheSettings(strategy="two-point", padding="always")


def talked(
    place: Path, *, model: str | None = None, cache: CacheSettings = TWO_POINT, memory: bool = True, turns: int = 2
) -> list[dict[str, Any]]:
    """The bodies of an agent's session in which MEMORY.md changes before the last turn."""

    async def main() -> list[dict[str, Any]]:
        more = {} if model is None else {"model": model}
        async with Bench(place, config=settings(cache=cache, agent={"volatile": "system"}, **more)) as bench:
            files = bench.workspace / ".holdfast"
            files.mkdir()
            session = await bench.sessions.create()
            for turn in range(turns):
                if memory:
                    (files / "MEMORY.md").write_text(f"- the build uses make {turn}\n", "utf-8")
                await session.ask(f"turn {turn}")
            return [json.loads(raw) for _, _, raw in bench.sent]

    return asyncio.run(main())


def marks(items: Sequence[Any]) -> list[Any]:
    return [item.get("cache_control") for item in items]


class TestAgent:
    def test_a15_a16_a17_a18_the_last_tool_and_the_stable_text_are_marked_the_volatile_text_is_not(
        self, tmp_path: Path
    ) -> None:
        for body in talked(tmp_path):
            assert marks(body["tools"]) == [None] * (len(body["tools"]) - 1) + [MARK]
            stable, volatile = body["system"]
            assert (stable["cache_control"], "cache_control" in volatile) == (MARK, False)
            assert "the build uses make" in volatile["text"]
            assert json.dumps(body).count('"cache_control"') == 2

    def test_a10_a_change_of_the_volatile_text_leaves_the_marked_prefix_alone(self, tmp_path: Path) -> None:
        first, second = talked(tmp_path)
        assert first["tools"] == second["tools"]
        assert first["system"][0] == second["system"][0]
        assert first["system"][1] != second["system"][1]

    @pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "passthrough"])
    def test_a17_a19_no_strategy_marks_the_volatile_text(self, tmp_path: Path, strategy: Any) -> None:
        for body in talked(tmp_path, cache=replace(TWO_POINT, strategy=strategy), turns=3):
            assert "cache_control" not in body["system"][-1]
            assert 0 < json.dumps(body).count('"cache_control"') <= 4

    def test_c11_markers_are_ephemeral_for_five_minutes_or_an_hour(self, tmp_path: Path) -> None:
        (body, *_) = talked(tmp_path, cache=replace(TWO_POINT, strategy="three-block"), memory=False)
        hour = MARK | {"ttl": "1h"}
        said = [block for message in body["messages"] for block in message["content"]]
        assert marks([body["tools"][-1], *body["system"]]) == [hour, hour]
        assert [mark for mark in marks(said) if mark] == [MARK]

    def test_a20_without_volatile_text_the_one_system_block_is_marked(self, tmp_path: Path) -> None:
        for body in talked(tmp_path, memory=False):
            assert marks(body["system"]) == [MARK]

    def test_a25_a_claude_behind_openrouter_is_marked_as_on_its_own(self, tmp_path: Path) -> None:
        first, second = talked(tmp_path, model=CLAUDE_ROUTE)
        for body in (first, second):
            stable, volatile = body["messages"][0]["content"]
            assert body["messages"][0]["role"] == "system"
            assert (stable["cache_control"], "cache_control" in volatile) == (MARK, False)
        assert first["messages"][0]["content"][0] == second["messages"][0]["content"][0]
        assert first["tools"] == second["tools"]

    def test_a26_other_routes_get_the_same_prefix_and_no_marker(self, tmp_path: Path) -> None:
        first, second = talked(tmp_path, model=OTHER_ROUTE)
        for body in (first, second):
            assert "cache_control" not in json.dumps(body)
            assert isinstance(body["messages"][0]["content"], str)
        assert first["tools"] == second["tools"]
        stable, one = first["messages"][0]["content"].rsplit("\n\n# MEMORY.md", 1)
        assert second["messages"][0]["content"].startswith(stable)
        assert "make 0" in one

    @pytest.mark.parametrize(("caching", "marked"), [("never", False), ("seen", True)])
    def test_a29_by_default_a_route_that_is_said_never_to_cache_gets_no_marker(
        self, tmp_path: Path, caching: Any, marked: bool
    ) -> None:
        cache = CacheSettings(padding="always", openrouter=OpenRouterSettings(caching=caching))
        bodies = talked(tmp_path, model=CLAUDE_ROUTE, cache=cache, turns=3)
        assert ["cache_control" in json.dumps(body) for body in bodies] == [marked] * 3


TOOL = {"name": "read_file", "description": LONG, "input_schema": {"type": "object"}}
LATE = TOOL | {"name": "late", "defer_loading": True}
SYSTEM = [{"type": "text", "text": "You are an engineer."}, {"type": "text", "text": LONG}]
LIMITS = GatewaySettings(limits=LimitSettings(stages_ms=60_000, wait_ms=60_000))


def asked(**changed: Any) -> dict[str, Any]:
    """A client's request without a marker."""
    body = {
        "model": "claude-opus-4-6",
        "max_tokens": 100,
        "tools": [TOOL, TOOL | {"name": "run_command"}],
        "system": SYSTEM,
        "messages": [{"role": "user", "content": "hello"}],
    }
    return {name: value for name, value in (body | changed).items() if value is not None}


def routed(model: str) -> dict[str, Any]:
    said = [{"role": "system", "content": LONG}, {"role": "user", "content": "hello"}]
    return {"model": model.partition(":")[2], "max_tokens": 100, "messages": said}


PATHS = {"anthropic": "/v1/messages", "openrouter": "/openrouter/api/v1/chat/completions"}


def by_gateway(place: Path, cache: CacheSettings, dialect: str, body: dict[str, Any]) -> dict[str, Any]:
    """What the provider gets of a client's request behind a gateway."""
    answer = ANSWERS[dialect]
    with Provider(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(answer) + answer) as provider:
        flags = {"cache__strategy": cache.strategy, "cache__openrouter__caching": cache.openrouter.caching}
        with gated(place, provider.address, **flags) as gate:
            headers = ANTHROPIC if dialect == "anthropic" else OPENAI
            assert Client(gate.address).post(PATHS[dialect], body, headers).status == 200
    (received,) = provider.received
    return json.loads(received.body)  # type: ignore[no-any-return]


def by_sdk(place: Path, cache: CacheSettings, dialect: str, body: dict[str, Any]) -> dict[str, Any]:
    """What the provider gets of a request of an official SDK."""
    received: list[bytes] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        received.append(request.content)
        return httpx2.Response(200, content=ANSWERS[dialect], headers={"content-type": "application/json"})

    engine = Engine(Settings(cache=cache, gateway=LIMITS))
    with engine.http_client(transport=httpx2.MockTransport(answer)) as http:
        if dialect == "anthropic":
            Anthropic(api_key="k", http_client=http).messages.create(**body)
        else:
            client = OpenAI(api_key="k", base_url="https://openrouter.ai/api/v1", http_client=http)
            client.chat.completions.create(**body)
    return json.loads(received[0])  # type: ignore[no-any-return]


ANSWERS = {
    "anthropic": json.dumps(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-opus-4-6",
            "content": [{"type": "text", "text": "Hello."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 9, "output_tokens": 2},
        }
    ).encode(),
    "openrouter": json.dumps(
        {
            "id": "c1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}],
            "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
        }
    ).encode(),
}
Door = Callable[[Path, CacheSettings, str, dict[str, Any]], dict[str, Any]]


@pytest.mark.parametrize("door", [by_gateway, by_sdk])
class TestClients:
    """Requests of clients who mark nothing themselves."""

    def test_a15_a16_a18_the_last_tool_and_the_last_system_block_are_marked(self, tmp_path: Path, door: Door) -> None:
        body = door(tmp_path, TWO_POINT, "anthropic", asked())
        assert marks(body["tools"]) == [None, MARK]
        assert marks(body["system"]) == [None, MARK]
        assert json.dumps(body).count('"cache_control"') == 2

    def test_a15_a_deferred_tool_is_no_place_for_a_marker(self, tmp_path: Path, door: Door) -> None:
        body = door(tmp_path, TWO_POINT, "anthropic", asked(tools=[TOOL, LATE]))
        assert marks(body["tools"]) == [MARK, None]

    def test_a20_a_single_system_block_is_marked(self, tmp_path: Path, door: Door) -> None:
        body = door(tmp_path, TWO_POINT, "anthropic", asked(system=LONG))
        assert body["system"] == [{"type": "text", "text": LONG, "cache_control": MARK}]

    def test_a21_without_tools_only_the_system_text_is_marked(self, tmp_path: Path, door: Door) -> None:
        body = door(tmp_path, TWO_POINT, "anthropic", asked(tools=None))
        assert "tools" not in body
        assert marks(body["system"]) == [None, MARK]
        assert json.dumps(body).count('"cache_control"') == 1

    def test_a25_a26_openrouter_is_marked_on_routes_to_anthropic_only(self, tmp_path: Path, door: Door) -> None:
        body = door(tmp_path / "a", TWO_POINT, "openrouter", routed(CLAUDE_ROUTE))
        assert body["messages"][0]["content"] == [{"type": "text", "text": LONG, "cache_control": MARK}]
        other = routed(OTHER_ROUTE)
        assert door(tmp_path / "b", TWO_POINT, "openrouter", other) == other

    @pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "passthrough"])
    @pytest.mark.parametrize(("caching", "marked"), [("never", False), ("seen", True)])
    def test_a29_a_route_that_is_said_never_to_cache_gets_no_marker(
        self, tmp_path: Path, door: Door, caching: Any, marked: bool, strategy: Any
    ) -> None:
        cache = CacheSettings(strategy=strategy, openrouter=OpenRouterSettings(caching=caching))
        body = door(tmp_path, cache, "openrouter", routed(CLAUDE_ROUTE))
        assert ("cache_control" in json.dumps(body)) is marked


FIRST, LATER = "anthropic:claude-haiku-4-5", "openai:gpt-6.1-sol"
WITHOUT = "openai:gpt-5.5-pro"  # its provider caches nothing


class _Reading:
    """OpenRouter, whose cache the simulator does not have: every answer of it says that something was read."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider

    def open(self, request: Any) -> Any:
        return self._answer(request) if request.dialect == "openrouter" else self._provider.open(request)

    @asynccontextmanager
    async def _answer(self, request: Any) -> AsyncIterator[Any]:
        async with self._provider.open(request) as answering:
            yield _Told(answering)


class _Told:
    def __init__(self, answering: Any) -> None:
        self._answering, self.status, self.headers = answering, answering.status, answering.headers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        raw = b"".join([chunk async for chunk in self._answering])
        yield raw.replace(b'"cached_tokens":0', b'"cached_tokens":1024')


class TestWhoTakesOver:
    """The capability is asked before another model goes on with a conversation of the agent's."""

    def asked(self, place: Path, *turns: str, fallback: tuple[str, ...], caching: Any = "seen") -> list[str]:
        """The models that are asked where the first one fails in the last of the turns."""

        async def main() -> list[str]:
            cache = CacheSettings(padding="always", openrouter=OpenRouterSettings(caching=caching))
            config = settings(model=FIRST, cache=cache, agent={"fallback": fallback, "retries": 0})
            async with Bench(place, config=config) as bench:
                bench.sessions.provider = _Reading(bench.sessions.provider)
                session = await bench.sessions.create()
                for number, turn in enumerate(turns):
                    if number == len(turns) - 1:
                        only = FaultMatch(model=FIRST.partition(":")[2])
                        bench.simulator.faults.add(Fault("status", times=0, match=only, options=Options(status=503)))
                    await session.ask(turn)
                return [model for _, model, _ in bench.sent]

        return asyncio.run(main())

    def test_a28_a_model_that_caches_goes_before_one_that_does_not(self, tmp_path: Path) -> None:
        assert self.asked(tmp_path, "hello", fallback=(WITHOUT, LATER))[-1] == LATER

    def test_a28_one_that_does_not_is_better_than_nobody(self, tmp_path: Path) -> None:
        assert self.asked(tmp_path, "hello", fallback=(WITHOUT,))[-1] == WITHOUT

    @pytest.mark.parametrize(
        ("caching", "turns", "model"),
        [
            ("seen", ("hello",), LATER),  # nothing was read on this route yet
            ("seen", (f"@{CLAUDE_ROUTE} hello", f"@{CLAUDE_ROUTE} again", "hello"), CLAUDE_ROUTE),
            ("never", (f"@{CLAUDE_ROUTE} hello", f"@{CLAUDE_ROUTE} again", "hello"), LATER),
        ],
    )
    def test_a28_a29_openrouter_takes_over_once_it_has_read_unless_it_is_said_never_to_cache(
        self, tmp_path: Path, caching: Any, turns: tuple[str, ...], model: str
    ) -> None:
        assert self.asked(tmp_path, *turns, fallback=(CLAUDE_ROUTE, LATER), caching=caching)[-1] == model


@pytest.mark.parametrize("model", ["openai:gpt-5.5", "deepseek:deepseek-chat"])
def test_a22_a23_openai_gets_one_form_with_the_volatile_text_at_the_end_of_the_system_text(
    tmp_path: Path, model: str
) -> None:
    first, second = talked(tmp_path, model=model)
    assert [list(body) for body in (first, second)] == [list(first)] * 2  # members in one order
    assert first["tools"] == second["tools"]
    one, two = (body.get("instructions") or body["messages"][0]["content"] for body in (first, second))
    assert one.endswith("- the build uses make 0")
    assert two == one.replace("make 0", "make 1")
    said = "input" if "input" in first else "messages"
    assert second[said][1 : len(first[said])] == first[said][1:]
    assert "cache" not in json.dumps(first["tools"]) + one
