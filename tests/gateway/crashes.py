"""Conversations through gateways that die: talkers that go on as clients do, and a provider that keeps what it got.

Everything that makes us change bytes is in them: a clock in the system text, tools that come in any order, history
whose keys do.
"""

from __future__ import annotations

import contextlib
import json
import random
import sqlite3
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.simulator import HttpRequest, Simulator
from holdfast.simulator.provider import Exchange
from holdfast.simulator.script import load_script
from holdfast.simulator.server import running
from holdfast.wire import DIALECTS, Body

from .fuzzing_bodies import unmarked
from .fuzzing_process import Served
from .fuzzing_wire import Client, Heard

NUMBER = "x-talk-number"
SCRIPT = """
delay: {first_token: 0.02, per_token: 0.003}
rules:
  - say: This is what the loader does with every record of the file, told once more and slowly, for turn {turn}.
"""
_HOST = "You look after a loader that reads every record of a file and checks each of its fields. " * 220
_PATHS = {"anthropic": "/v1/messages", "openai_chat": "/v1/chat/completions"}


class Witness(Simulator):
    """A simulator that keeps every body, under the number that its request carries."""

    def __init__(self, path: Path) -> None:
        path.write_text(SCRIPT)
        self.bodies: dict[str, bytes] = {}
        super().__init__(script=load_script(path))

    def begin(self, call: HttpRequest) -> Exchange:
        self.bodies[call.headers.get(NUMBER, "")] = call.body
        return super().begin(call)


class Asked(Struct):
    """A request of a talker and what came back; `heard` is None where it was cut off before its head came."""

    number: str
    body: bytes
    began: float
    heard: Heard | None = None
    ended: float | None = None

    def header(self, name: str) -> str | None:
        value = None if self.heard is None else self.heard.header(name.encode())
        return None if value is None else value.decode()


class Talker:
    """One conversation. With `named` it says which, as Claude Code does; otherwise it is known by its beginning."""

    def __init__(self, name: str, dialect: str, *, named: bool, rekeys: bool = False) -> None:
        self.name, self.dialect, self.named, self.rekeys = name, dialect, named, rekeys
        self.random = random.Random(name)
        self.said: list[tuple[str, str]] = []
        self.asked: list[Asked] = []
        self._waits: bytes | None = None

    def ask(self, port: int) -> bool:
        """The next request, or the one that was cut off again; whether its answer came whole."""
        body = self._waits or self._body()
        number = f"{self.name}.{len(self.asked)}"
        asked = Asked(number, body, time.time())
        self.asked.append(asked)
        client = Client(port)
        try:
            client.send(iter([self._head(number, body) + body]))
            asked.heard = client.hear("POST")
        except OSError:
            self._waits = body
            return False
        finally:
            client.close()
        asked.ended, self._waits = time.time(), None
        assert asked.heard.status == 200, asked.heard
        self.said.append((self._question(), _text(self.dialect, asked.heard.body)))
        return True

    @property
    def kept(self) -> list[Asked]:
        """The requests from the first one on that was sent with bytes of ours: what the client's clock and order do
        before that is the client's."""
        from_ = (
            n for n, each in enumerate(self.asked) if "volatile-value" in (each.header("x-holdfast-repairs") or "")
        )
        return self.asked[next(from_, len(self.asked)) :]

    def _question(self) -> str:
        return f"What of record {len(self.said)}, asks {self.name}?"

    def _head(self, number: str, body: bytes) -> bytes:
        headers = {"content-type": "application/json", "content-length": str(len(body)), NUMBER: number}
        headers |= {"x-api-key": f"sk-{self.name}", "authorization": f"Bearer sk-{self.name}"}
        if self.named:
            headers["x-claude-code-session-id"] = f"session-{self.name}"
        lines = [f"POST {_PATHS[self.dialect]} HTTP/1.1", "host: localhost", "anthropic-version: 2023-06-01"]
        return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items())]).encode() + b"\r\n\r\n"

    def _body(self) -> bytes:
        now = (
            f"2026-11-15T{self.random.randrange(24):02}:{self.random.randrange(60):02}:{self.random.randrange(60):02}Z"
        )
        system = f"You are {self.name}.\nThe current time is {now}.\n{_HOST}"
        messages: list[dict[str, Any]] = []
        for question, answer in self.said:
            messages += [_message("user", question), _message("assistant", answer)]
        messages.append(_message("user", self._question()))
        if self.rekeys:
            messages[0]["content"] = [_shuffled(each, self.random) for each in messages[0]["content"]]
        tools = [self._tool(name) for name in ("bash", "read", "write", "grep")]
        self.random.shuffle(tools)
        if self.dialect == "anthropic":
            whole = {"model": "claude-sonnet-5-5", "max_tokens": 99, "stream": True, "tools": tools}
            whole |= {"system": [{"type": "text", "text": system}], "messages": messages}
        else:
            whole = {"model": "gpt-6.1-sol", "stream": True, "stream_options": {"include_usage": True}, "tools": tools}
            whole["messages"] = [{"role": "system", "content": [{"type": "text", "text": system}]}, *messages]
        return json.dumps(whole, separators=(",", ":")).encode()

    def _tool(self, name: str) -> dict[str, Any]:
        if self.dialect == "anthropic":
            return {"name": name, "description": f"To {name}.", "input_schema": {"type": "object"}}
        return {"type": "function", "function": {"name": name, "description": f"To {name}.", "parameters": {}}}


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def _shuffled(block: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    items = list(block.items())
    chance.shuffle(items)
    return dict(items)


def _text(dialect: str, stream: bytes) -> str:
    """What the model said; the stream came to its end."""
    assert (b"message_stop" if dialect == "anthropic" else b"[DONE]") in stream
    found = []
    for line in stream.split(b"\n"):
        if line.startswith(b"data: {"):
            event = json.loads(line[6:])
            if dialect == "anthropic":
                found.append(event.get("delta", {}).get("text", ""))
            else:
                found += [each["delta"].get("content") or "" for each in event["choices"]]
    return "".join(found)


def parts_without_reason(talker: Talker, witness: Witness) -> list[str]:
    """Where what the provider got parts from what it had got before, and nobody says why."""
    arrived = [each for each in talker.kept if each.number in witness.bodies]
    problems = []
    for before, after in pairwise(arrived):
        if after.heard is None or after.header("x-holdfast-reset") is not None:
            continue  # whether it said why is not known
        if talker.rekeys and _rekeyed_by_client(talker, before, after):
            continue
        old, new = (_plain(talker.dialect, witness.bodies[each.number]) for each in (before, after))
        same = old == new if before.body == after.body else new.startswith(old.removesuffix(b"]}"))
        if not same:
            at = next((i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), min(len(old), len(new)))
            problems.append(
                f"{after.number} after {before.number}, byte {at}: {old[at - 80 : at + 120]!r}"
                f" became {new[at - 80 : at + 120]!r}"
            )
    return problems


def _rekeyed_by_client(talker: Talker, before: Asked, after: Asked) -> bool:
    """Whether the order of keys is another one because the client's is, and what we knew of it was lost with a gateway;
    or may be so in a request between the two that did not arrive."""
    lost = talker.asked.index(after) - talker.asked.index(before) > 1
    changed = b'"content":[{"type"' in before.body[: before.body.find(b"asks")]
    same = changed == (b'"content":[{"type"' in after.body[: after.body.find(b"asks")])
    return lost or not (same or "key-order" in (after.header("x-holdfast-repairs") or ""))


def _plain(dialect: str, raw: bytes) -> bytes:
    body = DIALECTS[dialect].parse(raw)
    assert isinstance(body, Body)
    return unmarked(DIALECTS[dialect], body)


class Home:
    """A HOLDFAST_HOME, the gateways that share it, and the provider behind them."""

    def __init__(self, path: Path, upstream: str, witness: Witness) -> None:
        self.path, self.witness = path, witness
        self.environ = {
            "HOLDFAST_UPSTREAM_ANTHROPIC": upstream,
            "HOLDFAST_UPSTREAM_OPENAI": upstream,
            "HOLDFAST_CACHE_REPAIR": "on",
            "HOLDFAST_GATEWAY_LIMITS_STAGES_MS": "20000",  # a busy machine is no reason to let a request pass by
            "HOLDFAST_GATEWAY_LIMITS_WAIT_MS": "20000",
        }

    def start(self) -> Served:
        return Served(self.path, self.environ)

    def database(self) -> sqlite3.Connection:
        return sqlite3.connect(f"file:{self.path / 'holdfast' / 'holdfast.db'}?mode=ro", uri=True)

    def calls(self) -> dict[str, dict[str, Any]]:
        """All stored calls by their ids."""
        with contextlib.closing(self.database()) as database:
            database.row_factory = sqlite3.Row
            return {row["id"]: dict(row) for row in database.execute("SELECT * FROM calls")}

    def check(self) -> None:
        """The database opens, is whole, and its sums are those of its rows."""
        with contextlib.closing(self.database()) as database:
            assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            names = ("input", "read", "written", "output")
            for name in names:
                assert database.execute(f"SELECT count(*) FROM calls WHERE {name} < 0").fetchone() == (0,)
            sums = "count(*), " + ", ".join(f"sum({name})" for name in names)
            rows = database.execute(f"SELECT {sums} FROM calls WHERE input IS NOT NULL").fetchone()
            hours = "sum(calls), " + ", ".join(f"sum({name})" for name in names)
            assert database.execute(f"SELECT {hours} FROM call_hours").fetchone() == rows


@contextlib.contextmanager
def home(path: Path) -> Iterator[Home]:
    witness = Witness(path / "script.yaml")
    with running(witness) as upstream:
        yield Home(path, upstream, witness)


class Talk:
    """Talkers at work, each in a thread, each asking a gateway that is there; until `end`."""

    def __init__(self, talkers: list[Talker]) -> None:
        self.talkers = talkers
        self.ports: list[int] = []
        self.errors: list[BaseException] = []
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(talker,)) for talker in talkers]

    def __enter__(self) -> Talk:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(60)
        if self.errors:
            raise self.errors[0]

    def _run(self, talker: Talker) -> None:
        try:
            while not self._end.is_set():
                ports = list(self.ports)
                if not ports or not talker.ask(talker.random.choice(ports)):
                    time.sleep(0.02)
        except BaseException as error:  # noqa: BLE001  told by the thread that waits
            self.errors.append(error)
