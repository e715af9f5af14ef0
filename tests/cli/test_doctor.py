"""`holdfast doctor`: what it finds, and that no state of a machine makes it fail."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from holdfast.agent import providers
from holdfast.cli import cli
from holdfast.config import load_config
from holdfast.doctor.checks import CheckResult, checked, side_by_side
from holdfast.doctor.examination import MOST_PROBLEMS
from holdfast.doctor.machine import KEYS, extras, home
from holdfast.doctor.models import OLD_DAYS, dates
from holdfast.doctor.network import VERSION_S, upstream
from holdfast.facts import default
from holdfast.gateway.server import running
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running as simulating
from holdfast.store import Call, open_store
from holdfast.store import operations as op
from holdfast.store.sqlite.schema import VERSIONS


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No client of this machine, no port that something else may have."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("HOLDFAST_GATEWAY_PORT", "0")
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


def doctor(*arguments: str, problems: int = 0) -> list[CheckResult]:
    done = CliRunner().invoke(cli, ["doctor", "--json", *(arguments or ("--offline",))], catch_exceptions=False)
    assert done.exit_code == (1 if problems else 0), done.output
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["problems"] == problems, found
    return [CheckResult(**line) for line in found["lines"]]


def of(lines: list[CheckResult], topic: str) -> list[CheckResult]:
    return [line for line in lines if line.topic == topic]


def test_in_an_empty_home_all_is_well() -> None:
    lines = doctor()
    assert {line.state for line in lines} <= {"ok", "note"}
    topics = {line.topic for line in lines}
    assert {"python", "configuration", "home", "disk", "store", "gateway", "upstream", "client", "logs"} <= topics
    assert {"keys", "extras", "facts", "prices", "subscriptions"} <= topics
    assert "logins are observed, not edited; their dollars are at list price" in of(lines, "subscriptions")[0].what
    shown = CliRunner().invoke(cli, ["doctor", "--offline"]).stdout
    assert shown.splitlines()[-1] == "All is well."


def test_configuration_that_has_no_effect_or_cannot_be_used(workspace: Path) -> None:
    file = workspace / "holdfast.toml"
    file.write_text('[cache]\nretention = "short"\n[agents.scout.cache]\nstrategy = "rolling"\n')
    found = of(doctor(), "configuration")
    assert any("1 agent (scout)" in line.what for line in found)
    assert sum(line.state == "warning" and "cache.retention is set" in line.what for line in found) == 2
    file.write_text("[cache]\nstrateggy = 1\nrepair = 7\n")
    found = of(doctor(problems=2), "configuration")
    assert "nearest known name is cache.strategy" in found[0].what
    file.write_text("this is no toml")
    assert "not valid TOML" in of(doctor(problems=1), "configuration")[0].what
    file.write_text("[cache]\n" + "".join(f"unknown_{number} = 1\n" for number in range(MOST_PROBLEMS + 5)))
    assert of(doctor(problems=MOST_PROBLEMS + 1), "configuration")[-1].what == "5 more like these"


def test_a_store_that_is_used(workspace: Path) -> None:
    with open_store(workspace / "home" / ".holdfast" / "holdfast.db") as store:
        for number, model in enumerate(("anthropic:claude-opus-5-5", "anthropic:claude-nobody-1")):
            store.write(op.PutCall(_call(number, model)))
    lines = doctor()
    assert f"schema {len(VERSIONS)}" in of(lines, "store")[0].what
    (unknown,) = (line for line in of(lines, "facts") if line.state == "warning")
    assert "claude-nobody-1" in unknown.what
    assert "claude-opus-5-5" not in unknown.what


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"not a database at all, but long enough to be looked at" * 30, "not a SQLite database"),
        (b"SQLite format 3\0" + b"\xff" * 5_000, "store"),
    ],
)
def test_a_store_that_is_broken(workspace: Path, content: bytes, said: str) -> None:
    place = workspace / "home" / ".holdfast"
    place.mkdir(parents=True)
    (place / "holdfast.db").write_bytes(content)
    (line,) = (line for line in doctor(problems=1) if line.state == "problem")
    assert line.topic == "store"
    assert said in line.what


def test_a_store_of_another_program(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sqlite3.connect(workspace / "other.db") as other:
        other.execute("CREATE TABLE theirs (x)")
    other.close()
    monkeypatch.setenv("HOLDFAST_STORE_URL", f"sqlite:///{workspace}/other.db")
    assert "another program" in of(doctor(problems=1), "store")[0].what
    monkeypatch.setenv("HOLDFAST_STORE_URL", f"sqlite:///{workspace}")
    assert "is no file" in of(doctor(problems=1), "store")[0].what


def test_a_store_that_is_locked(workspace: Path) -> None:
    path = workspace / "home" / ".holdfast" / "holdfast.db"
    open_store(path).close()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    try:
        assert "locked" in of(doctor(problems=1), "store")[0].what
    finally:
        holder.close()


def test_a_home_that_is_a_file(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "file").write_text("")
    monkeypatch.setenv("HOLDFAST_HOME", str(workspace / "file"))
    assert "is no directory" in of(doctor(problems=1), "home")[0].what


def test_a_home_that_cannot_be_written(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the system tells it: the superuser, who runs tests in containers, may do everything."""
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (found, _) = home(workspace)
    assert (found.state, "cannot be read and written" in found.what) == ("problem", True)


def test_a_home_that_cannot_be_made(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (workspace / "file").write_text("")
    assert [line.state for line in home(workspace / "file" / "deeper" / "home")] == ["problem"]
    (workspace / "link").symlink_to("nowhere")
    (found,) = home(workspace / "link")
    assert (found.state, "leads nowhere" in found.what) == ("problem", True)
    (found,) = home(workspace / ("x" * 300))
    assert (found.state, "cannot be looked at" in found.what) == ("problem", True)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    (found, _) = home(workspace / "deeper" / "home")
    assert (found.state, f"cannot be made by you in {workspace}" in found.what) == ("problem", True)


@pytest.mark.parametrize("address", ["https://user:sec/ret@h", "https://user:secret@h:bad", "http://user:secret@[::1"])
def test_an_address_that_cannot_be_used_tells_no_part_of_its_password(address: str) -> None:
    (line,) = checked("upstream", lambda: upstream("openai", address))
    assert (line.state, "is no address that can be used" in line.what) == ("warning", True)
    assert "sec" not in str(line)


def test_where_the_gateway_goes_through_a_proxy_that_gets_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        listening = threading.Thread(target=_listen, args=(server, got, 1))
        listening.start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@127.0.0.1:{server.getsockname()[1]}")
        (line,) = upstream("anthropic", "https://provider.invalid")
        listening.join(20)
    assert (line.state, "by way of the proxy http://***@127.0.0.1" in line.what) == ("ok", True)
    assert got == [b""]


def upstreams_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = closed.getsockname()[1]
    for name in ("ANTHROPIC", "OPENAI", "GEMINI", "OPENROUTER"):
        monkeypatch.setenv(f"HOLDFAST_UPSTREAM_{name}", f"http://127.0.0.1:{nobody}")


def test_upstreams_that_fail_in_different_ways_are_told_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    upstreams_are_gone(monkeypatch)
    monkeypatch.setenv("HOLDFAST_UPSTREAM_GEMINI", "http://a..b")
    assert [line.state for line in of(_all(), "upstream")] == ["warning"] * 4


def test_upstreams_are_connected_to_and_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as closed:
        there, nobody = server.getsockname()[1], closed.getsockname()[1]
        closed.close()
        listening = threading.Thread(target=_listen, args=(server, got, 3))
        listening.start()
        for name in ("ANTHROPIC", "OPENAI", "GEMINI"):
            monkeypatch.setenv(f"HOLDFAST_UPSTREAM_{name}", f"http://127.0.0.1:{there}")
        monkeypatch.setenv("HOLDFAST_UPSTREAM_OPENROUTER", f"http://user:secret@127.0.0.1:{nobody}/api")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
        lines = _all()
        listening.join(20)
    found = of(lines, "upstream")
    assert [line.state for line in found] == ["ok", "ok", "ok", "warning"]
    assert got == [b""] * 3
    assert "secret" not in str(lines)
    assert of(lines, "keys")[0].what == "in the environment: ANTHROPIC_API_KEY"


def test_without_a_network_one_warning_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    upstreams_are_gone(monkeypatch)
    (line,) = of(_all(), "upstream")
    assert (line.state, line.what.startswith("none of 4 can be reached")) == ("warning", True)


def test_the_port_free_taken_or_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("HOLDFAST_GATEWAY_PORT", str(taken.getsockname()[1]))
        (line,) = of(doctor(), "gateway")
        assert (line.state, "is in use" in line.what) == ("warning", True)
    (line,) = of(doctor(), "gateway")
    assert (line.state, "is free" in line.what) == ("ok", True)


def test_a_gateway_that_runs_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setenv("HOLDFAST_GATEWAY_PORT", str(free.getsockname()[1]))
    config = load_config()
    with running(config, port=config.settings.gateway.port) as address:
        (line,) = of(doctor(), "gateway")
    assert (line.state, line.what) == ("ok", f"runs on {address} (process {os.getpid()})")


def test_a_gateway_that_stores_nothing_says_why() -> None:
    config = load_config()
    with running(config) as address:
        for file in config.home.glob("holdfast.db*"):
            if file.is_file():
                file.rename(file.with_name(f"moved-{file.name}"))
        line, _ = of(doctor(), "gateway")
    assert (line.state, line.what) == ("warning", f"runs on {address} (process {os.getpid()}) and stores nothing")
    assert "was moved, deleted or emptied" in line.cure


def test_a_gateway_that_is_switched_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_OFF", "1")
    with running(load_config()):
        line, _ = of(doctor(), "gateway")
    assert (line.state, "switched off" in line.what) == ("warning", True)
    assert line.cure == f"`kill -USR2 {os.getpid()}` turns it on"


def test_a_gateway_on_any_port_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of this home, the second with other upstreams; and when they have ended, none."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        monkeypatch.setenv("HOLDFAST_GATEWAY_PORT", str(free.getsockname()[1]))
    other = load_config({"upstream.anthropic": "http://127.0.0.1:9"})
    with running(load_config()) as first, running(other) as second:
        lines = of(doctor(), "gateway")
    assert [line.state for line in lines] == ["note", "ok", "ok"]
    assert f"runs on {second} (process {os.getpid()}), and forwards or stores elsewhere" in lines[0].what
    assert lines[1].what == f"runs on {first} (process {os.getpid()})"
    assert "is free" in lines[2].what
    (line,) = of(doctor(), "gateway")
    assert "is free" in line.what


def test_a_gateway_that_was_killed_is_not_taken_for_one_that_runs() -> None:
    """Its file is there, and somebody else may have its port."""
    config = load_config()
    with running(config) as address:
        (file,) = (config.home / "gateways").iterdir()
        left = file.read_bytes()
    file.write_bytes(left)
    (config.home / "gateways" / "1-2.json").write_text("no JSON")
    killed, configured = of(doctor(), "gateway")
    assert (killed.state, killed.what) == (
        "note",
        f"the one on {address} (process {os.getpid()}) was killed, or does not answer",
    )
    assert "takes a free port" in configured.what
    with simulating(Simulator(), port=int(address.rpartition(":")[2])):
        assert of(doctor(), "gateway")[0] == killed
    gone = file.with_name("gone.json")
    gone.write_bytes(left.replace(b'"pid":%d' % os.getpid(), b'"pid":%d' % 2**30))  # no process has such a number
    with running(config):
        assert not gone.exists()


def test_clients_and_logs(workspace: Path) -> None:
    (workspace / "bin").mkdir()
    for name, script in {"claude": "echo 2.1.0 '(Claude Code)'", "codex": "exit 3"}.items():
        (workspace / "bin" / name).write_text(f"#!/bin/sh\n{script}\n")
        (workspace / "bin" / name).chmod(0o755)
    project = workspace / "home" / ".claude" / "projects" / "p"
    project.mkdir(parents=True)
    about = {"sessionId": "s", "uuid": "u", "parentUuid": None, "isSidechain": False}
    said = {**about, "type": "user", "message": {"role": "user", "content": "Go on."}}
    (project / "s.jsonl").write_text(json.dumps({**said, "timestamp": "2026-11-01T09:00:00Z"}) + "\n")
    lines = doctor()
    assert of(lines, "client")[0].what == "claude: 2.1.0 (Claude Code)"
    assert "1 log (claude-code 1" in of(lines, "logs")[0].what


@pytest.mark.slow
def test_a_client_that_hangs_is_ended_with_what_it_has_started(workspace: Path) -> None:
    (workspace / "bin").mkdir()
    program = workspace / "bin" / "claude"
    program.write_text(f'#!/bin/sh\n/bin/sleep 60 &\necho $! > "{workspace}/pid"\nwait\n')
    program.chmod(0o755)
    assert "not told in time" in of(doctor(), "client")[0].what
    child = int((workspace / "pid").read_text())
    deadline = time.monotonic() + 10 * VERSION_S
    while _runs(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(child)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_facts_that_are_old_draw_a_warning() -> None:
    newest = max(model.as_of for model in default().models())
    assert next(iter(dates(newest))).state == "ok"
    old = next(iter(dates(newest + timedelta(days=OLD_DAYS + 1))))
    assert (old.state, "anthropic" in old.what) == ("warning", True)
    assert isinstance(newest, date)


def test_extras_and_keys_are_those_of_the_packages() -> None:
    assert set(KEYS) == {name for names in providers.KEYS.values() for name in names}
    assert all(line.state in ("ok", "note") for line in extras())


def test_one_that_hangs_or_fails_does_not_stop_the_others() -> None:
    ended = threading.Event()

    def hangs() -> Iterator[CheckResult]:
        ended.wait(20)
        yield CheckResult("ok", "a", "late")

    def fails() -> Iterator[CheckResult]:
        raise KeyError("what")

    found = side_by_side([("a: this", hangs), ("b", fails), ("c", lambda: [CheckResult("ok", "c", "fine")])], 0.3)
    ended.set()
    assert [(line.state, line.topic) for line in found] == [("warning", "a"), ("warning", "b"), ("ok", "c")]
    assert found[0].what.startswith("this: no answer within")
    assert "KeyError" in found[1].what


def _all() -> list[CheckResult]:
    done = CliRunner().invoke(cli, ["doctor", "--json"], catch_exceptions=False)
    return [CheckResult(**line) for line in json.loads(done.stdout)["lines"]]


def _listen(server: socket.socket, got: list[bytes], times: int) -> None:
    server.settimeout(20)
    for _ in range(times):
        with server.accept()[0] as connection:
            connection.settimeout(20)
            got.append(connection.recv(1_000))


def _call(number: int, model: str) -> Call:
    from holdfast.records import usage

    used = usage(input=100, output=1)
    return Call(tenant="t", id=f"c{number}", session="s", lane="l", model=model, started_at=number, usage=used)
