"""What a client is called in `holdfast sessions` and `show`: its own name, not that of the SDK it is made with."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli import sessions, show
from holdfast.simulator import Simulator
from holdfast.simulator.server import running
from tests.cli.commands import holdfast, piped, use
from tests.shapes import Shape, load

from .gate import Gated, gated


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gated]:
    with running(Simulator()) as upstream, gated(tmp_path, upstream) as made:
        yield made


_open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
_HOPS = ("content-length", "accept-encoding", "host", "connection")


def ask(address: str, path: str, headers: dict[str, str], body: bytes) -> None:
    kept = {name: value for name, value in headers.items() if name.lower() not in _HOPS}
    if "Authorization" in kept:
        kept["Authorization"] = "Bearer dummy"  # the recordings keep no scheme
    with _open(urllib.request.Request(address + path, body, kept), timeout=60) as answer:
        answer.read()


def send(gate: Gated, shape: Shape) -> None:
    """A recorded request, as it was sent."""
    assert shape.body is not None
    ask(gate.address, shape.path, dict(shape.headers), shape.body)


def clients(gate: Gated, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What the list of sessions names."""
    gate.gateway.store.flush()
    use(gate.config.home / "holdfast.db", monkeypatch)
    found = json.loads(piped(sessions.command, "--json"))["sessions"]
    names = {each["client"] for each in found}
    for each in found:
        assert each["client"] in piped(show.command, each["id"])
    return names


RECORDED = [
    ("pi-0.73", "anthropic", "pi"),
    ("pi-0.73", "responses", "pi"),
    ("pi-0.73", "chat", "pi"),
    ("deepagents-0.7", "anthropic", "deepagents"),
    ("deepagents-0.7", "chat", "deepagents"),
    ("deepagents-0.7", "responses", "deepagents"),
    ("llm-0.36", "anthropic", "anthropic-python"),  # nothing that it sends is its own
    ("pydantic-ai-2.66", "chat", "pydantic-ai"),
    ("opencode-1.18", "openai", "opencode"),
]


@pytest.mark.parametrize(("recording", "run", "name"), RECORDED)
def test_a_recorded_client_is_shown_by_its_own_name(
    gate: Gated, monkeypatch: pytest.MonkeyPatch, recording: str, run: str, name: str
) -> None:
    shapes = [shape for shape in load(recording) if shape.run == run and shape.body and shape.method == "POST"]
    for shape in shapes[:3]:
        send(gate, shape)
    assert clients(gate, monkeypatch) == {name}


AIDER = (
    "Act as an expert software developer.\nAlways use best practices when coding.\n"
    "Take requests for changes to the supplied code.\n",
    "Act as an expert code analyst.\nAnswer questions about the supplied code.\n",
    "Act as an expert architect engineer and provide direction to your editor engineer.\n",
)
"""How its prompts begin; the texts of the recordings are replaced by filler."""


@pytest.mark.parametrize("system", AIDER)
@pytest.mark.parametrize("run", ["openai", "anthropic"])
def test_aider_is_known_by_how_its_prompt_begins(
    gate: Gated, monkeypatch: pytest.MonkeyPatch, system: str, run: str
) -> None:
    shape = next(shape for shape in load("aider-0.86") if shape.run == run and shape.body)
    body = json.loads(shape.body or b"")
    place = body["system"][0] if "system" in body else body["messages"][0]
    place["text" if "system" in body else "content"] = system
    ask(gate.address, shape.path, dict(shape.headers), json.dumps(body).encode())
    assert clients(gate, monkeypatch) == {"aider"}


@pytest.mark.parametrize(
    "system", ["Act as an expert software developer. Your task is to improve this program.", "You are aider's friend."]
)
def test_another_program_on_its_sdk_keeps_the_sdks_name(
    gate: Gated, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    shape = next(shape for shape in load("aider-0.86") if shape.run == "openai" and shape.body)
    body = json.loads(shape.body or b"")
    body["messages"][0]["content"] = system
    ask(gate.address, shape.path, dict(shape.headers), json.dumps(body).encode())
    assert clients(gate, monkeypatch) == {"openai-python"}


def test_a_program_may_say_its_name(gate: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = next(shape for shape in load("llm-0.36") if shape.run == "anthropic" and shape.body)
    ask(gate.address, shape.path, {**dict(shape.headers), "x-holdfast-client": "My Bot"}, shape.body or b"")
    assert clients(gate, monkeypatch) == {"my-bot"}


def test_a_name_that_appears_later_opens_no_other_conversation(gate: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade in the middle of a conversation: the name is for people, the conversation goes on."""
    shapes = [shape for shape in load("llm-0.36") if shape.run == "anthropic" and shape.body][:2]
    send(gate, shapes[0])
    ask(gate.address, shapes[1].path, {**dict(shapes[1].headers), "x-holdfast-client": "llm"}, shapes[1].body or b"")
    assert clients(gate, monkeypatch) == {"anthropic-python"}


LLM = """
import json, os, sys, urllib.request
opened = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
for path, headers, body in json.loads(open(sys.argv[1]).read()):
    opened(urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + path, body.encode(), headers)).read()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("recording", "name"), [("llm-0.36", "llm"), ("claude-code-2.1.325", "claude-code")])
def test_what_holdfast_run_starts_is_shown_by_its_name(tmp_path: Path, recording: str, name: str) -> None:
    """llm sends nothing of its own: who started it knows. The stand-in sends what the real one was recorded to send.
    What it starts in its turn may have a name of its own."""
    shapes = [shape for shape in load(recording) if shape.path.startswith("/v1/messages") and shape.body][:2]
    wanted = [
        (
            shape.path,
            {k: v for k, v in dict(shape.headers).items() if k.lower() not in _HOPS},
            (shape.body or b"").decode(),
        )
        for shape in shapes
    ]
    (tmp_path / "requests.json").write_text(json.dumps(wanted))
    program = tmp_path / "bin" / "llm"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{LLM}")
    program.chmod(0o755)
    with running(Simulator()) as upstream:
        environ = {"HOLDFAST_UPSTREAM_ANTHROPIC": upstream, "HOLDFAST_GATEWAY_PORT": "0"}
        done = holdfast("run", "--", str(program), "requests.json", cwd=tmp_path, **environ)
        assert done.returncode == 0, done.stderr
        listed = json.loads(holdfast("sessions", "--json", cwd=tmp_path, **environ).stdout)
    assert {each["client"] for each in listed["sessions"]} == {name}
