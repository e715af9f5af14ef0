"""Counts the modules that one piece of work runs through: a warm gateway request, an agent's turn, explain on bodies.

`python -m scripts.house --trace` prints what is measured here. The work is done by the commands of the checkout that is
measured, in processes whose calls are recorded; what happens while modules are imported does not count.

    python -m scripts.module_trace [--whole] FILE COMMAND [ARGUMENT...]   # one such process
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = "holdfast"
REQUEST_SIZE = 100_000  # bytes of the gateway's request
WARM_UP = 4  # requests of the conversation before the one that is counted


@dataclass
class Trace:
    """The modules that were run in, by how often a call led from one to another."""

    modules: set[str] = field(default_factory=set)
    switches: int = 0
    package_switches: int = 0

    def lines(self, root: Path) -> int:
        """The lines of all these modules."""
        total = 0
        for name in self.modules:
            path = root / "src" / Path(*name.split("."))
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            total += len(file.read_text().splitlines())
        return total


class Recorder:
    """A profile function for all threads of a process."""

    def __init__(self) -> None:
        self.active = False
        self.trace = Trace()
        self._local = threading.local()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if not self.active or event not in ("call", "return"):
            return
        local = self._local
        if frame.f_code.co_name == "<module>":
            local.importing = getattr(local, "importing", 0) + (1 if event == "call" else -1)
        if event == "return":  # the caller goes on
            back = frame.f_back
            if back is None:
                return
            frame = back
        module = frame.f_globals.get("__name__", "")
        if getattr(local, "importing", 0) > 0 or not module.startswith(PACKAGE) or frame.f_code.co_name == "<module>":
            return
        before, local.module = getattr(local, "module", module), module
        self.trace.modules.add(module)
        if before != module:
            self.trace.switches += 1
            self.trace.package_switches += _package(before) != _package(module)


def _package(module: str) -> str:
    return ".".join(module.split(".")[:2])


def record(output: Path, arguments: list[str], *, whole: bool) -> None:
    """Runs a command of Holdfast in this process and writes what was recorded: of the whole command, or between "start"
    and "stop" on its input."""
    recorder = Recorder()
    recorder.active = whole
    threading.setprofile(recorder)
    sys.setprofile(recorder)

    def write() -> None:
        recorder.active, trace = False, recorder.trace
        partial = output.with_suffix(".partial")
        partial.write_text(json.dumps([sorted(trace.modules), trace.switches, trace.package_switches]))
        partial.rename(output)

    def obey() -> None:
        for line in sys.stdin:
            recorder.active = line.strip() == "start"
            if line.strip() == "stop":
                write()

    from holdfast.cli import main

    sys.argv = [PACKAGE, *arguments]
    if not whole:
        threading.Thread(target=obey, daemon=True).start()
        main()
    else:
        try:
            main()
        finally:
            write()


def traces(root: Path) -> Iterator[tuple[str, Trace]]:
    """What is measured, and its trace, of the checkout at `root`."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        yield "a warm gateway request", _gateway_request(root, home)
        yield "an agent's turn", _agent_turn(root, home)
        yield "explain on bodies", _explain(root, home)


def _gateway_request(root: Path, home: Path) -> Trace:
    output = home / "gateway.json"
    with _server(root, home, [PACKAGE, "simulate", "--port", "0", "--quiet"]) as (_, simulator):
        runner = ["scripts.module_trace", str(output), "serve", "--port", "0"]
        with _server(root, home, runner, HOLDFAST_UPSTREAM_ANTHROPIC=simulator) as (gateway, address):
            for turn in range(WARM_UP):
                _send(address, turn)
            _tell(gateway, "start")
            _send(address, WARM_UP)
            time.sleep(1)  # what follows an answer is part of it
            _tell(gateway, "stop")
            return _read(output)


def _agent_turn(root: Path, home: Path) -> Trace:
    workspace = home / "workspace"
    workspace.mkdir()
    chat = ["chat", "--simulate", "--workspace", str(workspace), "--model", "anthropic:claude-haiku-4-5"]
    _run(root, home, [PACKAGE, *chat, "The first turn"])
    return _recorded(root, home, [*chat, "--resume", "--", "The second turn"])


def _explain(root: Path, home: Path) -> Trace:
    log = home / "bodies.jsonl"
    log.write_text("".join(json.dumps(body(turn)) + "\n" for turn in range(WARM_UP)))
    return _recorded(root, home, ["explain", str(log)])


def _recorded(root: Path, home: Path, arguments: list[str]) -> Trace:
    output = home / f"{arguments[0]}.json"
    _run(root, home, ["scripts.module_trace", "--whole", str(output), *arguments])
    return _read(output)


def _read(output: Path) -> Trace:
    for _ in range(100):
        if output.exists():
            modules, switches, package_switches = json.loads(output.read_text())
            return Trace(set(modules), switches, package_switches)
        time.sleep(0.1)
    raise RuntimeError("nothing was recorded")


def body(turn: int) -> dict[str, Any]:
    """A request of Anthropic's of about REQUEST_SIZE bytes, the `turn`th of its conversation."""
    tools = [
        {
            "name": f"tool_{index}",
            "description": "Reads one record. " * 12,
            "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
        }
        for index in range(20)
    ]
    head = "You are a careful engineer. " * 400
    text = "The loader reads the file, checks every field and returns the record. "
    messages = []
    for index in range(20 + turn):
        messages.append({"role": "user", "content": [{"type": "text", "text": f"{index}: {text * 28}"}]})
        messages.append({"role": "assistant", "content": [{"type": "text", "text": f"{index}: {text * 28}"}]})
    messages.append({"role": "user", "content": [{"type": "text", "text": f"next {turn}"}]})
    return {
        "model": "claude-opus-4-6",
        "max_tokens": 100,
        "tools": tools,
        "system": [{"type": "text", "text": head}],
        "messages": messages,
    }


def _send(address: str, turn: int) -> None:
    request = urllib.request.Request(
        f"{address}/v1/messages",
        json.dumps(body(turn)).encode(),
        {"content-type": "application/json", "x-api-key": "trace", "anthropic-version": "2023-06-01"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()


def _environment(root: Path, home: Path) -> dict[str, str]:
    here = Path(__file__).parents[1]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "PYTHONPATH"))}
    ours = {"HOLDFAST_HOME": str(home / "home"), "PYTHONPATH": f"{root / 'src'}{os.pathsep}{here}"}
    return {**inherited, **ours}


def _run(root: Path, home: Path, command: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        env=_environment(root, home),
        cwd=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if done.returncode not in (0, 1):  # explain ends with 1 where it found breaks
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")


@contextmanager
def _server(
    root: Path, home: Path, command: list[str], **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A running server and its address."""
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        env={**_environment(root, home), **environment},
        cwd=home,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process, _address(process)
        finally:
            process.terminate()


def _address(server: subprocess.Popen[str]) -> str:
    """Where a server says that it listens."""
    assert server.stdout is not None
    for line in server.stdout:
        start = line.find("on http://127.0.0.1:")
        if start >= 0:
            return line[start:].split()[1].rstrip("/.,")
    raise RuntimeError("the server ended before it listened")


def _tell(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{word}\n")
    process.stdin.flush()
    time.sleep(0.2)


if __name__ == "__main__":
    words = sys.argv[1:]
    if words[0] == "--whole":
        record(Path(words[1]), words[2:], whole=True)
    else:
        record(Path(words[0]), words[1:], whole=False)
