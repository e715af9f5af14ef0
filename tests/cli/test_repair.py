"""`holdfast repair` and `--repair`, and the sentence on what repairs would have saved, through every command."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from holdfast.cli import bill, breaks, doctor, repair, run_client
from holdfast.cli.explain import command as explain
from holdfast.config import load_config
from holdfast.config.file_writer import NoPlaceError, with_value
from holdfast.errors import HoldfastError
from holdfast.simulator.provider import Simulator
from holdfast.simulator.server import running
from tests.cli.client_world import World
from tests.cli.commands import piped, use
from tests.cli.serve_program import ServeProgram
from tests.clients.comparison import gateway
from tests.clients.programs import TIMEOUT
from tests.gateway.gate import eventually
from tests.gateway.repair_sessions import (
    KEY,
    LOGIN,
    ask,
    clock,
    clock_and_memory_once,
    memory,
    memory_behind_a_clock,
    nothing,
    opened,
    settled,
)

SAID = re.compile(
    r"^(?:holdfast: )?Repairs would have saved (\$[\d.]+) of \$[\d.]+ so far \((\d+)%\): holdfast repair values$", re.M
)
CLIENT = """
import json, os, sys, urllib.request
address, opened = os.environ["ANTHROPIC_BASE_URL"], urllib.request.build_opener(urllib.request.ProxyHandler({})).open
headers = {"x-api-key": "any", "anthropic-version": "2023-06-01", "content-type": "application/json"}
messages = []
for turn in range(6):
    text = "You look after a loader that reads every record. " * 400 + f"\\nCurrent time: 2026-11-02 09:{turn:02}:00"
    messages.append({"role": "user", "content": f"What of record {turn}?"})
    body = {"model": "claude-sonnet-4-6", "max_tokens": 20, "system": text, "messages": messages}
    answer = json.load(opened(urllib.request.Request(address + "/v1/messages", json.dumps(body).encode(), headers)))
    messages.append({"role": "assistant", "content": answer["content"]})
"""


class TestWriting:
    def test_the_setting_is_written_for_this_user(self, workspace: Path) -> None:
        said = piped(repair.command, "values")
        file = workspace / "home" / ".holdfast" / "holdfast.toml"
        assert file.read_text() == '[cache]\nrepair = "values"\n'
        assert f'Wrote cache.repair = "values" to {file}.' in said
        assert load_config().settings.cache.repair == "values"
        assert "memory and other prose stays" in said

    def test_without_a_word_it_is_shown(self) -> None:
        assert piped(repair.command).startswith('cache.repair = "suggest" (default)\n')
        piped(repair.command, "off")
        assert re.match(r'cache\.repair = "off" \(.*holdfast\.toml:2\)\n', piped(repair.command))

    def test_what_wins_over_the_file_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOLDFAST_CACHE_REPAIR", "off")
        said = piped(repair.command, "on")
        assert 'Here cache.repair is "off" all the same: environment HOLDFAST_CACHE_REPAIR wins' in said
        assert "It holds for" not in said
        assert "It holds for" in piped(repair.command, "off")

    def test_a_wrong_environment_is_noticed_before_anything_is_written(
        self, workspace: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOLDFAST_CACHE_REPAIR", "of")
        with pytest.raises(HoldfastError, match="HOLDFAST_CACHE_REPAIR"):
            repair.command.main(["on"], standalone_mode=False)
        assert not (workspace / "home").exists()

    def test_another_word_is_refused(self, workspace: Path) -> None:
        done = CliRunner().invoke(repair.command, ["maybe"])
        assert done.exit_code == 2
        assert "'maybe' is no level of repairs; use one of on, values, suggest, off." in done.output
        assert "did you mean values?" in CliRunner().invoke(repair.command, ["vals"]).output
        assert not (workspace / "home").exists()

    def test_letters_may_be_of_any_case(self) -> None:
        piped(repair.command, "Values")
        assert load_config().settings.cache.repair == "values"

    def test_json(self, workspace: Path) -> None:
        found = json.loads(piped(repair.command, "--json"))
        assert (found["level"], found["origin"]) == ("suggest", "default")
        assert (found["written"], found["repairs"]) == (None, None)
        file = str(workspace / "home" / ".holdfast" / "holdfast.toml")
        found = json.loads(piped(repair.command, "on", "--json"))
        assert (found["level"], found["written"], found["file"]) == ("on", "on", file)
        assert found["origin"] == f"{file}:2"

    def test_a_file_that_cannot_be_written_is_said_in_a_sentence(self, workspace: Path) -> None:
        (workspace / "home").mkdir()
        (workspace / "home" / ".holdfast").write_text("a file in the way")
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "repair", "on"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert "cannot be written" in done.stderr
        assert "Traceback" not in done.stderr

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("[gateway]\n[cache\n", r"holdfast\.toml:2: this is not valid TOML \(.+\); mend that line"),
            ('cache = {edits="never"}\n', r'write repair = "on" inside the braces of `cache = {…}` on line 1 yourself'),
            ('[cache]\nrepair = """off"""\n', r'write repair = "on" on line 2 yourself'),
            ("cache = 3\n", r'line 1 is no table; write \[cache\] and below it repair = "on" instead'),
            ("# x\n" * 300_000, "larger than 1 MB"),
        ],
        ids=["malformed", "inline", "multi-line", "no table", "large"],
    )
    def test_what_cannot_be_changed_is_left_as_it_is(self, workspace: Path, text: str, why: str) -> None:
        file = self._file(workspace)
        file.write_text(text)
        with pytest.raises(HoldfastError, match=why):
            repair.command.main(["on"], standalone_mode=False)
        assert file.read_text() == text

    def test_what_is_no_file_is_refused(self, workspace: Path) -> None:
        file = self._file(workspace)
        file.symlink_to(file)
        with pytest.raises(HoldfastError, match="cannot be read"):
            repair.command.main(["on"], standalone_mode=False)
        file.unlink()
        os.mkfifo(file)
        with pytest.raises(HoldfastError, match="not a regular file"):
            repair.command.main(["on"], standalone_mode=False)

    def test_its_owner_and_rights_stay(self, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file, owners = self._file(workspace), []
        file.write_text("# mine\n")
        file.chmod(0o640)
        monkeypatch.setattr(os, "fchown", lambda _descriptor, *owner: owners.append(owner))
        piped(repair.command, "on")
        assert file.stat().st_mode & 0o777 == 0o640
        assert owners == [(os.getuid(), file.stat().st_gid)]

    def _file(self, workspace: Path) -> Path:
        file = workspace / "home" / ".holdfast" / "holdfast.toml"
        file.parent.mkdir(parents=True)
        return file

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            ("", '[cache]\nrepair = "on"\n'),
            ("# mine\n[gateway]\nport = 1 # one\n", '# mine\n[gateway]\nport = 1 # one\n\n[cache]\nrepair = "on"\n'),
            ("[gateway]\nport = 1", '[gateway]\nport = 1\n\n[cache]\nrepair = "on"\n'),
            ("[cache]\nrepair = 'off'  # why\n", '[cache]\nrepair = "on"  # why\n'),
            (
                '[cache] # c\n# repair = "off"\nedits = "never"\n',
                '[cache] # c\nrepair = "on"\n# repair = "off"\nedits = "never"\n',
            ),
            ("[cache]", '[cache]\nrepair = "on"\n'),
            ('cache.edits = "never"\n[gateway]\n', 'cache.repair = "on"\ncache.edits = "never"\n[gateway]\n'),
            ('["cache"]\nedits = "never"\n', '["cache"]\nrepair = "on"\nedits = "never"\n'),
            ('cache.repair = "off"\n', 'cache.repair = "on"\n'),
            ("[cache.gemini]\nttl_s = 60\n", '[cache.gemini]\nttl_s = 60\n\n[cache]\nrepair = "on"\n'),
            ('[cache]\r\nrepair = "off"\r\n', '[cache]\r\nrepair = "on"\r\n'),
            ("\ufeff[gateway]\r\nport = 1\r\n", '\ufeff[gateway]\r\nport = 1\r\n\r\n[cache]\r\nrepair = "on"\r\n'),
            (
                '[agents.scout.cache]\nrepair = "off"\n',
                '[agents.scout.cache]\nrepair = "off"\n\n[cache]\nrepair = "on"\n',
            ),
        ],
    )
    def test_everything_else_stays(self, before: str, after: str) -> None:
        assert with_value(before, "cache", "repair", "on") == after

    @pytest.mark.parametrize("text", ['cache = {repair = "off"}\n', '[cache]\nrepair = """off"""\n'])
    def test_what_cannot_be_changed_alone_is_refused(self, text: str) -> None:
        with pytest.raises(NoPlaceError):
            with_value(text, "cache", "repair", "on")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store after ten requests with a clock in the system text."""
    home = tmp_path_factory.mktemp("faulty")
    with opened(home) as gate:
        ask(gate, clock)
    return home / "holdfast" / "holdfast.db"


COMMANDS = {
    "repair": (repair.command, ()),
    "bill": (bill.command, ()),
    "breaks": (breaks.command, ()),
    "doctor": (doctor.command, ("--offline",)),
    "explain": (explain.command, ()),
}


class TestSaying:
    @pytest.mark.parametrize("name", COMMANDS)
    def test_every_command_says_it_in_the_same_words(
        self, faulty: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use(faulty, monkeypatch)
        command, arguments = COMMANDS[name]
        arguments = (str(faulty),) if name == "explain" else arguments
        flat = re.sub(r"\n +", " ", piped(command, *arguments))
        assert re.search(
            r"Repairs would have saved \$0\.\d+ of \$0\.\d+ so far \(7\d%\): holdfast repair values\b", flat
        )
        monkeypatch.setenv("HOLDFAST_CACHE_REPAIR", "on")
        assert "Repairs would" not in piped(command, *arguments)

    @pytest.mark.parametrize("name", ["bill", "breaks", "explain"])
    def test_json_has_it(self, faulty: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        use(faulty, monkeypatch)
        command, arguments = COMMANDS[name]
        arguments = (str(faulty), "--quiet") if name == "explain" else arguments
        found = json.loads(piped(command, *arguments, "--json"))["repairs"]
        assert found["command"] == "holdfast repair values"
        assert float(found["saves"]) / float(found["cost"]) == pytest.approx(found["share"])
        assert piped(command, *arguments, "--json").count("Repairs would") == 0

    def test_the_sum_is_the_same_everywhere(self, faulty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        use(faulty, monkeypatch)
        billed, listed = (json.loads(piped(each, "--json"))["repairs"] for each in (bill.command, breaks.command))
        logged = json.loads(piped(explain.command, str(faulty), "--quiet", "--json"))["repairs"]
        assert billed == listed
        assert float(billed["saves"]) == pytest.approx(logged["saves"])

    def test_it_is_of_what_was_paid_with_suggestions(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every command leaves out what was made at another level, and what a subscription pays."""
        for session, level, headers in (("a", "suggest", KEY), ("b", "values", KEY), ("c", "suggest", LOGIN)):
            with opened(tmp_path, cache__repair=level, gateway__subscriptions="manage") as gate:
                ask(gate, clock, session=session, headers=headers)
                settled(gate)
                if session == "a":
                    alone = gate.gateway.engine.repairs_save
        path = tmp_path / "holdfast" / "holdfast.db"
        use(path, monkeypatch)
        found = [
            json.loads(piped(bill.command, "--json")),
            json.loads(piped(breaks.command, "--json")),
            json.loads(piped(repair.command, "--json")),
            json.loads(piped(explain.command, str(path), "--quiet", "--json")),
        ]
        for each in found:
            assert float(each["repairs"]["saves"]) == pytest.approx(float(alone.saves))
            assert float(each["repairs"]["cost"]) == pytest.approx(float(alone.cost))

    def test_bodies_of_a_log_say_it(self, workspace: Path) -> None:
        log = workspace / "requests.jsonl"
        log.write_text("".join(_bodies(clock)))
        assert SAID.search(piped(explain.command, str(log), "--quiet"))
        assert "Repairs would have saved" in piped(explain.command, str(log), "--quiet", "--format", "md")
        assert "Repairs would have saved" in piped(explain.command, str(log), "--quiet", "--format", "html")
        log.write_text("".join(_bodies(nothing)))
        assert "Repairs would" not in piped(explain.command, str(log), "--quiet")

    @pytest.mark.parametrize(
        ("system", "command"),
        [
            (memory, "holdfast repair on"),
            (clock_and_memory_once, "holdfast repair values"),
            (memory_behind_a_clock, "holdfast repair on"),
        ],
        ids=["memory", "clock, and memory once", "clock, then memory"],
    )
    def test_bodies_of_a_log_say_what_is_enough(self, workspace: Path, system: Any, command: str) -> None:
        log = workspace / "requests.jsonl"
        log.write_text("".join(_bodies(system, turns=40)))
        assert json.loads(piped(explain.command, str(log), "--quiet", "--json"))["repairs"]["command"] == command


def _bodies(system_of: Callable[[int], str], turns: int = 8) -> Iterator[str]:
    """A session of a client that marks its system text and its newest message."""
    mark = {"cache_control": {"type": "ephemeral"}}
    messages: list[dict[str, object]] = []
    for turn in range(turns):
        said = {"type": "text", "text": f"What of record {turn}? " * 20}
        system = [{"type": "text", "text": system_of(turn), **mark}]
        asked = [*messages, {"role": "user", "content": [said | mark]}]
        body = {"model": "claude-sonnet-4-6", "max_tokens": 40, "system": system, "messages": asked}
        yield json.dumps(body) + "\n"
        messages += [{"role": "user", "content": [said]}, {"role": "assistant", "content": f"Record {turn} is well."}]


def said_by(world: World, *options: str) -> str:
    """What the command says of a client with a clock in its system text."""
    done = world.run(*options, "--", sys.executable, "-c", CLIENT)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.slow
class TestRun:
    def test_it_says_what_repairs_would_have_saved(self, world: World) -> None:
        assert SAID.search(said_by(world))

    @pytest.mark.parametrize("options", [("--repair",), ("--repair", "values"), ("--repair=on",)])
    def test_repair_acts_for_this_run(self, world: World, options: tuple[str, ...]) -> None:
        world.environment["HOLDFAST_CACHE_REPAIR"] = "off"  # the command line wins
        said = said_by(world, *options)
        assert re.search(r"[6-9]\d\.\d% of them read from the cache", said), said
        assert "Repairs would" not in said

    def test_what_looks_like_a_level_may_be_the_client(self) -> None:
        done = CliRunner().invoke(run_client.command, ["--repair", "python3", "x.py"])
        assert done.exit_code == 2
        assert "put -- in front of it: --repair -- python3" in done.output

    def test_a_gateway_that_runs_keeps_its_level(self, world: World) -> None:
        with gateway(world.address, world.root / "holdfast") as serving:
            world.environment["HOLDFAST_GATEWAY_PORT"] = serving.address.rpartition(":")[2]
            done = subprocess.run(
                [sys.executable, "-m", "holdfast", "repair", "on"],
                env=world.environment,
                cwd=world.root,
                capture_output=True,
                text=True,
                check=True,
            )
            assert f'The gateway on {serving.address} keeps "suggest" until it is started again.' in done.stdout
            said = re.sub(r"\n +", " ", said_by(world))
        assert f'the gateway on {serving.address} keeps cache.repair = "suggest", with which it was started' in said
        assert SAID.search(said), "the figure is of the level that was used"


@pytest.mark.slow
class TestServe:
    def _ask(self, program: ServeProgram, turns: int, what: str = "loader") -> None:
        environment = os.environ | {"ANTHROPIC_BASE_URL": program.address}
        client = CLIENT.replace("range(6)", f"range({turns})").replace("loader", what)
        subprocess.run([sys.executable, "-c", client], env=environment, check=True, timeout=TIMEOUT)

    def test_it_says_so_once_and_at_its_end(self, tmp_path: Path) -> None:
        with running(Simulator()) as upstream, ServeProgram(tmp_path, upstream) as program:
            self._ask(program, 3)
            assert not SAID.search(program.out)
            self._ask(program, 6)
            eventually(lambda: SAID.search(program.out), 10)
            self._ask(program, 6, "builder")
            assert len(SAID.findall(program.out)) == 1
            assert program.end(signal.SIGTERM)[0] == 0
        first, last = SAID.findall(program.out)
        assert float(last[0][1:]) > float(first[0][1:])

    def test_it_does_not_say_the_same_again(self, tmp_path: Path) -> None:
        with running(Simulator()) as upstream, ServeProgram(tmp_path, upstream) as program:
            self._ask(program, 5)
            eventually(lambda: SAID.search(program.out), 10)
            time.sleep(1.5)  # whatever was still to be said while it runs
            assert program.end(signal.SIGTERM)[0] == 0
        said = SAID.findall(program.out)
        assert len(said) == len(set(said))

    def test_repair_acts_for_this_process(self, tmp_path: Path) -> None:
        simulator = Simulator()
        with running(simulator) as upstream, ServeProgram(tmp_path, upstream, "--repair") as program:
            self._ask(program, 6)
            assert program.end(signal.SIGTERM)[0] == 0
        assert "Repairs would" not in program.out
        billed = subprocess.run(
            [sys.executable, "-m", "holdfast", "bill", "--json"],
            env=os.environ | {"HOLDFAST_HOME": str(program.home)},
            capture_output=True,
            check=True,
        )
        assert json.loads(billed.stdout)["total"]["hit_rate"] > 0.6
