"""What every model of a tool keeps to, and the two that stand for no tool."""

from __future__ import annotations

import json

import anthropic
import pytest
from msgspec.structs import replace

from holdfast import facts
from holdfast.caches.prompts import Block, Prompt
from holdfast.caches.providers import cache, prompt
from holdfast.lab.peers import PEERS
from holdfast.lab.rebuild import rebuild
from holdfast.report.logs.traces import Shape
from holdfast.simulator.server import running
from scripts.install_clients import CLIENTS
from scripts.install_peers import PEERS as PINNED
from tests import shapes
from tests.clients.anthropic_sdk import MODEL
from tests.clients.programs import Watched
from tests.lab.recordings import own
from tests.lab.replay.peers.comparison import PATHS, compared, ordered, prompts, sent

CLAUDE = facts.model("anthropic:claude-sonnet-4-5")


def bodies(dialect: str, model: str = "") -> list[Prompt]:
    """Recorded requests in a dialect, whoever sent them, as they are or with another model's name in them."""
    posted = [(shape.path.partition("?")[0], shape.body) for shape in shapes.load() if shape.dialect == dialect]
    return prompts((path, _named(body, model)) for path, body in posted if body is not None and path in PATHS)


def _named(body: bytes, model: str) -> bytes:
    return json.dumps(json.loads(body) | {"model": model}).encode() if model else body


def rebuilt(name: str) -> list[Prompt]:
    """The requests of a session of which only the shape is known."""
    lane = [step for step in own(name).steps if isinstance(step.content, Shape)]
    lane = [step for step in lane if step.lane == lane[0].lane]
    return [replace(prompt(CLAUDE, each.blocks), marks=each.marks) for each in rebuild(lane)]


def test_they_are_named() -> None:
    names = ["litellm", "langchain", "pydantic-ai", "claude-code", "opencode", "automatic", "none"]
    assert list(PEERS) == [peer.name for peer in PEERS.values()] == names
    assert all(peer.summary.endswith(".") for peer in PEERS.values())


def test_versions_are_the_pinned_ones() -> None:
    pins = {
        "litellm": PINNED["litellm"][0],
        "langchain": PINNED["langchain"][1],
        "pydantic-ai": PINNED["pydantic-ai"][0],
        "claude-code": CLIENTS["claude"].packages[0],
        "opencode": CLIENTS["opencode"].packages[0],
    }
    for name, pin in pins.items():
        assert pin.endswith((f"=={PEERS[name].version}", f"@{PEERS[name].version}"))


@pytest.mark.parametrize("name", PEERS)
def test_markers_are_such_as_the_provider_takes(name: str) -> None:
    """At most four, each once and in order, on blocks that can carry one; whatever markers the request had before."""
    for recorded in bodies("anthropic"):
        placed = PEERS[name].place(recorded)
        assert placed == PEERS[name].place(replace(recorded, marks=()))
        assert placed == ordered({mark.block: mark for mark in placed}.values())
        assert len(placed) <= CLAUDE.max_markers
        assert all(recorded.blocks[mark.block].markable and mark.ttl == "5m" for mark in placed)
        assert bool(placed) == (name != "none")


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("model", ["openai:gpt-5.5", "gemini:gemini-3-pro", "deepseek:deepseek-chat"])
def test_where_there_are_no_markers_the_provider_acts(name: str, model: str) -> None:
    known = facts.model(model)
    assert PEERS[name].mode_for(known) == ""
    for recorded in bodies("openai_chat"):
        assert PEERS[name].place(replace(recorded, model=known.ref)) == ()


@pytest.mark.parametrize("name", PEERS)
def test_only_pydantic_ai_knows_breakpoints(name: str) -> None:
    assert PEERS[name].mode_for(facts.model("openai:gpt-5.6")) == PEERS[name].mode
    for recorded in bodies("openai_chat", "gpt-5.6"):
        last = max((i for i, block in enumerate(recorded.blocks) if block.section == "system"), default=None)
        marked = [mark.block for mark in PEERS[name].place(recorded)]
        assert marked == ([last] if name == "pydantic-ai" and last is not None else [])


@pytest.mark.parametrize("name", PEERS)
def test_an_empty_prompt(name: str) -> None:
    assert PEERS[name].place(prompt(CLAUDE, ())) == ()


def test_claude_code_on_a_session_rebuilt_from_its_shape() -> None:
    recorded = rebuilt("made-1")
    compared("claude-code", recorded)


def test_opencode_tells_results_from_words_after_them() -> None:
    kinds = [("text", 0, "user"), ("tool_use", 1, "assistant"), ("tool_result", 2, "user"), ("text", 2, "user")]
    tool = Block("tools", "tool", "", -1, b"tool", 100)
    said = [Block("messages", kind, role, message, kind.encode(), 100) for kind, message, role in kinds]
    placed = PEERS["opencode"].place(prompt(CLAUDE, [tool, *said]))
    assert [mark.block for mark in placed] == [3, 4]


def test_automatic_is_the_field_at_the_top_of_a_request() -> None:
    simulator = Watched()
    with running(simulator) as address:
        client = anthropic.Anthropic(api_key="sk-ant-dummy", base_url=address)
        said = [{"role": "user", "content": [{"type": "text", "text": "Good"}, {"type": "text", "text": "morning."}]}]
        for _ in range(3):
            answer = client.messages.create(
                model=MODEL,
                max_tokens=100,
                system="Be kind.",
                messages=said,  # type: ignore[arg-type]
                cache_control={"type": "ephemeral"},
            )
            said += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": "Go on."}]  # type: ignore[dict-item]
        client.close()
    recorded = sent(simulator.calls)
    assert len(recorded) == 3
    compared("automatic", recorded)


def test_openai_caches_by_itself_unless_it_is_told_not_to() -> None:
    model = facts.model("openai:gpt-5.6")
    long = Block("system", "text", "system", 0, b"long", 5_000)
    asked = prompt(model, [long, Block("messages", "text", "user", 1, b"asked", 50)])
    for name, reads in (("automatic", asked.tokens), ("none", 0)):
        provider = cache(model)
        request = replace(asked, marks=PEERS[name].place(asked), mode=PEERS[name].mode_for(model))
        provider.first_token(provider.begin(request, 0.0), 1.0)
        assert provider.begin(request, 10.0).read == reads
