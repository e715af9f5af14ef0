"""`holdfast run`: a client finds the gateway, its end is our end, and the bill is told afterwards."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli import run as main
from holdfast.cli import run_client
from holdfast.engine.identity.identities import LOCAL
from holdfast.facts import price
from holdfast.gateway import runs
from holdfast.memory.knowledge import Knowledge
from holdfast.records import usage
from holdfast.simulator.faults import Fault, Options
from holdfast.store import open_store
from tests.cli.client_world import World
from tests.cli.terminals import Program
from tests.clients.agents import Agent
from tests.clients.agents.claude_code import ClaudeCode
from tests.clients.agents.codex import Codex
from tests.clients.comparison import gateway, in_front_of
from tests.clients.comparison import provider as scripted
from tests.clients.programs import TIMEOUT, Place

pytestmark = pytest.mark.slow

HERE = [sys.executable, "-m", "holdfast", "run", "--"]
CLIENT = """
import json, os, sys, urllib.request
address = os.environ["ANTHROPIC_BASE_URL"]
system = [{"type": "text", "text": "Be brief. " * 2000, "cache_control": {"type": "ephemeral"}}]
headers = {"x-api-key": "any", "anthropic-version": "2023-06-01", "content-type": "application/json"}
opened = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
question, messages = {"role": "user", "content": sys.stdin.read()}, []
for _ in range(int(sys.argv[1])):
    messages.append(question)
    body = {"model": "claude-sonnet-4-6", "max_tokens": 20, "system": system, "messages": messages}
    answer = json.load(opened(urllib.request.Request(address + "/v1/messages", json.dumps(body).encode(), headers)))
    messages.append({"role": "assistant", "content": answer["content"]})
print(answer["content"][0]["text"], address)
sys.exit(int(sys.argv[2]))
"""


ASKED = """
import signal, sys, time
asked = []
signal.signal(signal.SIGINT, lambda *_: asked.append(1))
print("ready", flush=True)
while not asked:
    time.sleep(0.05)
time.sleep(0.3)
print("asked", len(asked), flush=True)
sys.exit(3)
"""


LISTENS = """
import json, os, urllib.request
system = [{"type": "text", "text": "Be brief. " * 2000, "cache_control": {"type": "ephemeral"}}]
messages = [{"role": "user", "content": "Tell me a long story, of a loader and of its records. " * 20}]
body = {"model": "claude-sonnet-4-6", "max_tokens": 900, "stream": True, "system": system, "messages": messages}
headers = {"x-api-key": "any", "anthropic-version": "2023-06-01", "content-type": "application/json"}
address = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
opened = urllib.request.build_opener(urllib.request.ProxyHandler({})).open
for line in opened(urllib.request.Request(address, json.dumps(body).encode(), headers)):
    if b"text_delta" in line:
        print("begun", flush=True)
"""


def client(world: World, calls: int = 2, code: int = 0, **more: str) -> subprocess.CompletedProcess[str]:
    return world.run("--", sys.executable, "-c", CLIENT, str(calls), str(code), **more)


class TestClient:
    def test_its_calls_come_through_and_are_billed(self, world: World) -> None:
        done = client(world, calls=3, code=5)
        assert done.returncode == 5, done.stderr
        assert re.fullmatch(r"Hello. http://127.0.0.1:\d+/run/[0-9a-f]+\n", done.stdout)
        assert [each["status"] for each in world.simulator.requests()] == [200] * 3
        assert re.search(r"^holdfast: [\d,]+ prompt tokens, 66\.\d% of them read from the cache\.$", done.stderr, re.M)
        assert re.search(r"^holdfast: 3 calls for \$0\.\d+; without a cache \$0\.\d+: \d+% less\.$", done.stderr, re.M)
        assert "holdfast: No breaks." in done.stderr
        shown = re.search(r"`holdfast (show \S+)`", done.stderr)
        looked = subprocess.run(
            [sys.executable, "-m", "holdfast", *shown[1].split()], env=world.environment, capture_output=True, text=True
        )
        assert "3 calls" in looked.stdout

    def test_turns_that_went_past_it_have_their_price(self, world: World) -> None:
        """A client that asks to be left alone in the middle of its conversation, without its markers."""
        asked = CLIENT.replace("for _ in range", "for turn in range").replace(
            "    body =",
            """    if turn == 2:
        headers["x-holdfast"] = "off"
        del system[0]["cache_control"]
    body =""",
        )
        done = world.run("--", sys.executable, "-c", asked, "3", "0")
        assert done.returncode == 0, done.stderr
        assert "holdfast: 1 turn went past Holdfast or without markers, for $0.0" in done.stderr

    def test_it_is_given_what_is_known_of_the_repository_it_is_started_in(self, world: World) -> None:
        inside = world.root / "src"
        for place in (world.root / ".git", inside, world.root / "holdfast"):
            place.mkdir()
        database = world.root / "holdfast" / "holdfast.db"
        with open_store(database) as store:
            known = Knowledge(store, LOCAL, project=str(world.root.resolve()))
            entry = known.add("Linting", "ruff checks it.", category="gotcha")
        memory = {"HOLDFAST_MEMORY_INJECT": "true", "HOLDFAST_MEMORY_INJECT_AS": "local"}
        done = client(world._replace(root=inside), calls=1, **memory)
        assert done.returncode == 0, done.stderr
        with open_store(database) as store:
            assert [shown.place for shown in Knowledge(store, LOCAL).shown(entry.id)] == ["delta"]

    def test_the_bill_of_a_very_long_run_says_what_it_covers(
        self, capfd: pytest.CaptureFixture[str], world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in world.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(runs, "MOST_CALLS", 2)
        talking = "import io, sys; sys.stdin = io.StringIO('Hello.'); exec(sys.argv.pop(1))"
        assert main(["run", "--", sys.executable, "-c", talking, CLIENT, "5", "0"]) == 0
        said = capfd.readouterr().err
        assert "holdfast: 2 calls for $" in said
        assert "holdfast: All this is of the newest 2 calls; `holdfast bill` has the 3 before them too.\n" in said

    def test_without_a_call_it_says_so(self, world: World) -> None:
        assert (
            "older than 90 days will be removed" in world.run("--", "true").stderr
        )  # how long things are kept: said once
        done = world.run("--", "true")
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr == (
            "holdfast: true went past the gateway: no call of it came here, so whatever it spent is not counted; it "
            "may have an address of its own in its settings\n"
        )

    def test_why_no_call_was_answered(self, world: World) -> None:
        done = client(world, calls=1, HOLDFAST_UPSTREAM_ANTHROPIC="http://127.0.0.1:9")
        assert "holdfast: 1 call (1 without an answer); nothing was billed.\n" in done.stderr
        assert "holdfast: The last call failed: upstream.anthropic (127.0.0.1 port 9) cannot be reached" in done.stderr
        assert "No breaks." not in done.stderr

    def test_a_program_that_is_not_there(self, world: World) -> None:
        done = world.run("--", "no-such-client", "--help")
        assert (done.returncode, done.stdout) == (127, "")
        assert "no-such-client: there is no such program on PATH; install it, or give another" in done.stderr
        (world.root / "client").write_text("not a program")
        assert world.run("--", "./client").returncode == 126
        (world.root / "client").chmod(0o755)
        done = world.run("--", "./client")
        assert done.returncode == 1
        assert "cannot be started" in done.stderr

    def test_one_that_must_be_left_alone_runs_as_it_would(self, world: World) -> None:
        codex = world.root / "codex"
        codex.write_text(
            '#!/bin/sh\ntest "$1" = login && echo "Logged in using ChatGPT" && exit\nenv; echo "$@"; exit 4\n'
        )
        codex.chmod(0o755)
        done = world.run("--", "./codex", "exec", "hello")
        assert done.returncode == 4
        assert done.stdout.endswith("\nexec hello\n")
        assert "_BASE_URL" not in done.stdout
        assert "; it runs without Holdfast\n" in done.stderr
        assert done.stderr.endswith("holdfast: codex went past the gateway; whatever it spent is not counted.\n")

    def test_it_needs_a_client(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["run"]) == 2
        assert main(["run", "--model", "claude"]) == 2
        assert "No such option '--model'; options of the client stand behind its name." in capsys.readouterr().err
        assert main(["run", "--help"]) == 0
        assert "holdfast run -- claude" in capsys.readouterr().out


class TestAddresses:
    def test_an_own_server_is_forwarded_to(self, world: World) -> None:
        environment = {key: value for key, value in world.environment.items() if "UPSTREAM" not in key}
        own = world._replace(environment=environment | {"ANTHROPIC_BASE_URL": world.address})
        done = client(own)
        assert done.returncode == 0, done.stderr
        assert f"holdfast: the gateway forwards to {world.address}, the address in the environment\n" in done.stderr
        assert world.address not in done.stdout
        assert len(world.simulator.requests()) == 2
        assert "2 calls" in done.stderr

    def test_a_configured_upstream_is_stronger(self, world: World) -> None:
        done = client(world, ANTHROPIC_BASE_URL="http://127.0.0.1:9")
        assert done.returncode == 0, done.stderr
        assert "gives way to upstream.anthropic (environment HOLDFAST_UPSTREAM_ANTHROPIC)" in done.stderr

    def test_an_address_that_cannot_be_an_upstream_stays(self, world: World) -> None:
        done = world.run("--", "sh", "-c", "echo $OPENAI_BASE_URL", OPENAI_BASE_URL="http://user:secret@own/v1")
        assert done.stdout == "http://user:secret@own/v1\n"
        assert "the address in OPENAI_BASE_URL is none that a gateway can forward to" in done.stderr
        assert "secret" not in done.stderr

    def test_a_gateway_that_runs_is_used(self, world: World) -> None:
        home = world.root / "shared"
        with gateway(world.address, home) as found:
            port = found.address.rpartition(":")[2]
            done = client(world, HOLDFAST_HOME=str(home), HOLDFAST_GATEWAY_PORT=port, ANTHROPIC_BASE_URL=found.address)
            assert done.returncode == 0, done.stderr
            assert f"{found.address}/run/" in done.stdout
            assert "holdfast: 2 calls for" in done.stderr
            again = client(world, calls=1, HOLDFAST_HOME=str(home), HOLDFAST_GATEWAY_PORT=port)
            assert "holdfast: 1 call for" in again.stderr  # this run's alone

    def test_somebody_elses_gateway_is_not(self, world: World) -> None:
        """It would be given the keys."""
        with gateway(world.address, world.root / "theirs") as found:
            done = client(world, HOLDFAST_GATEWAY_PORT=found.address.rpartition(":")[2])
            assert done.returncode == 0, done.stderr
            assert found.address not in done.stdout
            assert found.admin("/analytics/sessions")["sessions"] == []
            assert f"holdfast: the gateway on {found.address} is not used: " in done.stderr

    def test_what_only_answers_on_the_port_is_not(self, world: World) -> None:
        done = client(world, HOLDFAST_GATEWAY_PORT=world.address.rpartition(":")[2])
        assert done.returncode == 0, done.stderr
        assert world.address not in done.stdout


class TestEnd:
    def test_a_signal_that_ends_the_client(self, world: World) -> None:
        done = world.run("--", "sh", "-c", "kill -9 $$")
        assert done.returncode == 128 + signal.SIGKILL
        assert "went past the gateway" in done.stderr

    def test_a_signal_to_us_is_the_clients(self, world: World) -> None:
        script = 'trap "echo ended; exit 7" TERM; echo ready; while :; do sleep 0.05; done'
        process = subprocess.Popen(
            [*HERE, "sh", "-c", script],
            cwd=world.root,
            env=world.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=TIMEOUT)
        finally:
            process.kill()
            process.communicate()
        assert (process.returncode, out) == (7, "ended\n")
        assert "went past the gateway" in err

    def test_a_signal_while_the_client_is_started_is_not_lost(
        self, capfd: pytest.CaptureFixture[str], world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        begin = subprocess.Popen

        def signalled(*arguments: Any, **settings: Any) -> subprocess.Popen[bytes]:
            process = begin(*arguments, **settings)
            os.kill(os.getpid(), signal.SIGTERM)
            return process

        for name, value in world.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.chdir(world.root)
        monkeypatch.setattr(run_client.subprocess, "Popen", signalled)
        assert main(["run", "--", "sleep", str(TIMEOUT)]) == 128 + signal.SIGTERM
        assert "went past the gateway" in capfd.readouterr().err

    def test_ctrl_c_reaches_the_client_once_and_the_bill_still_comes(self, world: World) -> None:
        code, shown = on_a_terminal(world, ASKED, until="ready")
        assert code == 3, shown
        assert "asked 1" in shown
        assert "went past the gateway" in shown

    @pytest.mark.usefixtures("interruptible")
    def test_what_was_billed_before_ctrl_c_is_told(self, world: World) -> None:
        """The provider has billed the prompt when its answer begins."""
        world.simulator.faults.add(Fault("stall", options=Options(seconds=60)))
        code, shown = on_a_terminal(world, LISTENS, until="begun")
        assert code == 128 + signal.SIGINT, shown
        (record,) = world.simulator.requests()
        billed = price(usage(writes=record["usage"]["written"], output=record["usage"]["output"]), "claude-sonnet-4-6")
        assert record["usage"]["written"]["5m"] > 4_000
        told = re.search(r"holdfast: 1 call for ~\$([0-9.]+)", shown)
        assert told is not None, shown
        assert billed.cost is not None
        assert abs(Decimal(told[1]) - billed.cost) < Decimal("0.001"), (shown, billed)
        assert "the rest is estimated" in " ".join(shown.split())


def on_a_terminal(world: World, client: str, until: str) -> tuple[int, str]:
    """Run a client on a terminal of its own, and press Ctrl-C when it has said something."""
    command = ("run", "--", sys.executable, "-c", client)
    with Program(*command, cwd=world.root, environ=world.environment, columns=400) as program:
        program.until(until)
        program.press_ctrl_c()
        return program.ended(), program.text


@pytest.mark.parametrize("agent", [ClaudeCode(), Codex()], ids=lambda agent: agent.name)
def test_a_real_client(agent: Agent, tmp_path: Path) -> None:
    program = agent.find()
    with scripted(agent, tmp_path) as (simulator, address):
        place = Place(tmp_path / "place")
        own: dict[str, Any] = {
            "ANTHROPIC_API_KEY": "sk-ant-dummy",
            "CODEX_API_KEY": "sk-dummy",
            "DISABLE_AUTOUPDATER": "1",
        }
        settings = in_front_of(address) | {"HOLDFAST_HOME": str(tmp_path / "holdfast"), "HOLDFAST_GATEWAY_PORT": "0"}
        if agent.name == "claude":
            command = [program, "-p", "Please make a note.", "--allowedTools", "Bash,Read"]
        else:
            command = [program, "exec", "--skip-git-repo-check", "-m", "gpt-5.5", "-s", "danger-full-access"]
            command += ["Please make a note."]
        done = place.end([*HERE, *command], place.environment(**own, **settings))
    assert done.returncode == 0, done.stderr
    assert agent.said(done.stdout) == "The note is written."
    assert (place.work / "note.txt").read_text() == "buy milk"
    posted = [each for each in simulator.requests() if each["method"] == "POST"]
    assert [each["status"] for each in posted] == [200] * 3
    assert "holdfast: 3 calls for $" in done.stderr
