"""`holdfast run` with clients behind what people type in front of them: real processes, and a provider that counts."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from holdfast import report
from holdfast.cli import run as main
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running
from holdfast.store import open_store
from tests.clients.agents.claude_code import ClaudeCode
from tests.clients.comparison import in_front_of
from tests.clients.comparison import provider as scripted
from tests.clients.programs import Place

pytestmark = pytest.mark.slow

CLIENT = """#!{python} -S
import http.client, json, os, sys
from urllib.parse import urlsplit

def ask(address, path, headers, body):
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname, parts.port)
    connection.request("POST", parts.path + path, json.dumps(body), headers)
    assert connection.getresponse().status == 200

messages = [{{"role": "user", "content": "Hello."}}]
key = {{"authorization": "Bearer k", "x-api-key": "k", "anthropic-version": "2023-06-01"}}
if os.path.basename(sys.argv[0]) == "codex":  # told by an argument, as the real one
    if sys.argv[1:3] == ["login", "status"]:
        sys.exit(print("API key configured"))
    address = sys.argv[sys.argv.index("-c") + 1].partition("=")[2].strip('"')
    ask(address, "/responses", key, {{"model": "gpt-5.5", "input": "Hello.", "max_output_tokens": 100}})
else:
    body = {{"model": "claude-sonnet-4-6", "max_tokens": 100, "messages": messages}}
    ask(os.environ["ANTHROPIC_BASE_URL"], "/v1/messages", key, body)
"""


class World(NamedTuple):
    simulator: Simulator
    root: Path


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("claude", "codex"):
        (programs / name).write_text(CLIENT.format(python=sys.executable))
        (programs / name).chmod(0o755)
    local = tmp_path / "node_modules" / ".bin"  # where npx looks first
    local.mkdir(parents=True)
    for name in ("claude", "codex"):
        (local / name).symlink_to(programs / name)
    for name in list(os.environ):
        if name.endswith(("_BASE_URL", "_API_BASE", "_API_KEY")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    simulator = Simulator()
    with running(simulator) as address:
        settings = {"HOLDFAST_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "HOLDFAST_GATEWAY_PORT": "0"}
        for name, value in (settings | in_front_of(address)).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        monkeypatch.chdir(tmp_path)
        yield World(simulator, tmp_path)


@pytest.mark.parametrize("client", ["claude", "codex"])
@pytest.mark.parametrize(
    "front",
    [
        ["env", "A=b"],
        ["timeout", "60", "nice", "-n", "1"],
        ["npx"],
        [sys.executable, "{root}/programs/{client}"],
        ["{root}/programs/{client}"],
        ["bash", "-c", "cd / && exec {client}"],
        ["sh", "{root}/wrapper.sh"],
        ["{root}/wrapper.sh"],
        ["env", "-i", "PATH=/usr/bin:/bin", "{root}/programs/{client}"],
    ],
    ids=" ".join,
)
def test_its_call_comes_through(world: World, front: list[str], client: str, capfd: pytest.CaptureFixture[str]) -> None:
    if shutil.which(front[0]) is None and "{" not in front[0]:
        pytest.skip(f"there is no {front[0]} on this machine")
    wrapper = world.root / "wrapper.sh"
    wrapper.write_text(f'#!/bin/sh\n# starts the agent\nset -e\n{client} "$@"\n')
    wrapper.chmod(0o755)
    command = [each.format(root=world.root, client=client) for each in front]
    if not any(client in each or "wrapper" in each for each in command):
        command.append(client)
    assert main(["run", "--", *command]) == 0, capfd.readouterr().err
    path = "/v1/messages" if client == "claude" else "/v1/responses"
    assert [each["path"] for each in world.simulator.requests()] == [path]
    assert "holdfast: 1 call for" in capfd.readouterr().err


def test_one_that_goes_past_is_named(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    (world.root / "programs" / "claude").write_text("#!/bin/sh\nexit 0\n")
    assert main(["run", "--", "env", "A=b", "claude"]) == 0
    assert "holdfast: claude went past the gateway: no call of it came here" in capfd.readouterr().err


def test_codex_with_a_subscription_behind_a_shell(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    (world.root / "programs" / "codex").write_text('#!/bin/sh\n[ "$1" = login ] && echo "using ChatGPT" || echo "$@"\n')
    assert main(["run", "--", "bash", "-c", "codex exec hello"]) == 0
    said = capfd.readouterr()
    assert said.out == "exec hello\n"
    assert "API key (codex login --with-api-key); it runs without Holdfast" in said.err
    assert "holdfast: codex went past the gateway" in said.err


@pytest.mark.parametrize(
    "own", [{"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-dummy"}, {"ANTHROPIC_AUTH_TOKEN": "sk-ant-oat01-dummy"}], ids=str
)
def test_a_real_client_with_a_subscription(own: dict[str, str], tmp_path: Path) -> None:
    agent = ClaudeCode()
    program = agent.find()
    with scripted(agent, tmp_path) as (_simulator, address):
        place = Place(tmp_path / "place")
        settings = in_front_of(address) | {"HOLDFAST_HOME": str(tmp_path / "holdfast"), "HOLDFAST_GATEWAY_PORT": "0"}
        command = [program, "-p", "Please make a note.", "--allowedTools", "Bash,Read"]
        environment = place.environment(DISABLE_AUTOUPDATER="1", **own, **settings)
        done = place.end([sys.executable, "-m", "holdfast", "run", "--", *command], environment)
    assert done.returncode == 0, done.stderr
    assert (place.work / "note.txt").read_text() == "buy milk"
    assert "holdfast: requests of Claude and ChatGPT logins are observed, not edited" in done.stderr
    assert "at list price (a subscription pays)" in done.stderr
    store = open_store(tmp_path / "holdfast" / "holdfast.db")
    with store:
        planned = [call for call in store.calls() if call.kind == "request"]
        assert {report.call(store, call.id).plan.strategy for call in planned} == {"passthrough"}  # type: ignore[union-attr]


@pytest.mark.parametrize("front", [["npx"], ["bash", "-c"]], ids=" ".join)
def test_a_real_client_behind_a_wrapper(front: list[str], tmp_path: Path) -> None:
    agent = ClaudeCode()
    program = agent.find()
    if shutil.which(front[0]) is None:
        pytest.skip(f"there is no {front[0]} on this machine")
    with scripted(agent, tmp_path) as (simulator, address):
        place = Place(tmp_path / "place")
        if front == ["npx"]:
            (place.work / "node_modules" / ".bin").mkdir(parents=True)
            (place.work / "node_modules" / ".bin" / "claude").symlink_to(program)
            command = ["npx", "claude", "-p", "Please make a note.", "--allowedTools", "Bash,Read"]
        else:
            command = [*front, f"{program} -p 'Please make a note.' --allowedTools Bash,Read"]
        settings = in_front_of(address) | {"HOLDFAST_HOME": str(tmp_path / "holdfast"), "HOLDFAST_GATEWAY_PORT": "0"}
        own = {"ANTHROPIC_API_KEY": "sk-ant-dummy", "DISABLE_AUTOUPDATER": "1"}
        here = [sys.executable, "-m", "holdfast", "run", "--"]
        done = place.end([*here, *command], place.environment(**own, **settings))
    assert done.returncode == 0, done.stderr
    assert (place.work / "note.txt").read_text() == "buy milk"
    assert [each["status"] for each in simulator.requests() if each["method"] == "POST"] == [200] * 3
    assert "holdfast: 3 calls for $" in done.stderr
