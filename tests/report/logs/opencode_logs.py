"""Stores sessions as opencode stores them, with filler for text: in a database, or as files as it did before."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from tests.report.logs.claude_logs import START, text

SCHEMA = """
CREATE TABLE session (id text PRIMARY KEY, project_id text NOT NULL, parent_id text, title text NOT NULL, agent text,
                      time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
                      time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
                   time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE event (id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL, type text NOT NULL,
                    data text NOT NULL);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
CREATE INDEX part_session_idx ON part (session_id);
"""
MODEL = "anthropic/claude-sonnet-4-5"


def used(
    input: int = 0, read: int = 0, written: int = 0, output: int = 0, reasoning: int = 0, total: bool = True
) -> dict[str, Any]:
    """Counts of a message; earlier versions had no `total`, and the reasoning was part of the output."""
    counts: dict[str, Any] = {"total": input + read + written + output + reasoning} if total else {}
    counts |= {"input": input, "output": output, "reasoning": reasoning}
    return counts | {"cache": {"write": written, "read": read}}


def ms(at: float) -> int:
    return round(at * 1000)


class Store:
    """What both ways have in common: rows of sessions, messages and parts, named in the order of their making."""

    def __init__(self) -> None:
        self.made = 0

    def name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}_{self.made:06d}"

    def session(self, at: float = START, parent: str = "", agent: str = "") -> str:
        raise NotImplementedError

    def message(self, session: str, at: float, data: dict[str, Any]) -> str:
        raise NotImplementedError

    def part(self, session: str, message: str, at: float, data: dict[str, Any]) -> str:
        raise NotImplementedError

    def asks(self, session: str, at: float) -> str:
        model = {"providerID": "anthropic", "modelID": "claude-sonnet-4-5"}
        asked = {"role": "user", "time": {"created": ms(at)}, "agent": "build", "model": model}
        message = self.message(session, at, asked | {"summary": {"diffs": [{"file": "a", "after": text(400)}]}})
        self.part(session, message, at, {"type": "text", "text": text(40)})
        return message

    def answers(
        self,
        session: str,
        at: float,
        *steps: dict[str, Any] | None,
        model: str = MODEL,
        trimmed: float = 0,
        **more: Any,
    ) -> str:
        """An answer of some steps: each begins a second after it was asked for, and its call is over after five."""
        provider, _, name = model.partition("/")
        counts = next((step for step in reversed(steps) if step is not None), used())
        data: dict[str, Any] = {"parentID": "msg_asked", "role": "assistant", "mode": "build", "agent": "build"}
        data |= {"path": {"cwd": "/work", "root": "/"}, "cost": 0.25, "tokens": counts, "modelID": name}
        data |= {"providerID": provider, "time": {"created": ms(at), "completed": ms(at + 6 * len(steps))}}
        message = self.message(session, at, data | more)
        for number, step in enumerate(steps):
            begun = at + 6 * number + 1
            self.part(session, message, begun, {"type": "step-start", "snapshot": "5" * 40})
            said = {"type": "text", "text": text(80), "time": {"start": ms(begun), "end": ms(begun + 1)}}
            self.part(session, message, begun, said)
            times: dict[str, Any] = {"start": ms(begun + 1), "end": ms(begun + 4)}
            if trimmed:
                times["compacted"] = ms(trimmed)
            # Text that looks like what the reader looks for.
            state = {"status": "completed", "input": {}, "output": '"type":"step-finish","compacted":1 ' + text(300)}
            called = {"type": "tool", "tool": "bash", "callID": "c", "state": state | {"time": times}}
            self.part(session, message, begun + 2, called)
            if step is not None:
                over = {"reason": "tool-calls", "snapshot": "5" * 40, "type": "step-finish", "tokens": step, "cost": 1}
                self.part(session, message, begun + 5, over)
        return message


class Base(Store):
    """The database. `early`: without columns that came later."""

    def __init__(self, path: Path, *, early: bool = False) -> None:
        super().__init__()
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.connection = sqlite3.connect(path)
        self.connection.executescript(SCHEMA)
        self.early = early
        if early:
            self.connection.executescript("ALTER TABLE session DROP COLUMN agent; DROP TABLE event;")

    def add(self, table: str, *values: object) -> None:
        places = ",".join("?" * len(values))
        self.connection.execute(f"INSERT INTO {table} VALUES ({places})", values)

    def session(self, at: float = START, parent: str = "", agent: str = "") -> str:
        name = self.name("ses")
        agents = () if self.early else (agent or None,)
        self.add("session", name, "global", parent or None, "Notes", *agents, ms(at), ms(at))
        return name

    def message(self, session: str, at: float, data: dict[str, Any]) -> str:
        name = self.name("msg")
        self.add("message", name, session, ms(at), ms(at), json.dumps(data, separators=(",", ":")))
        return name

    def part(self, session: str, message: str, at: float, data: dict[str, Any]) -> str:
        name = self.name("prt")
        self.add("part", name, message, session, ms(at), ms(at), json.dumps(data, separators=(",", ":")))
        return name

    def event(self, session: str, kind: str, data: dict[str, Any]) -> None:
        name = self.name("evt")
        self.add("event", name, session, self.made, kind, json.dumps({"sessionID": session} | data))

    def reverts(self, session: str, message: str) -> None:
        """What a user takes back is deleted; the events keep what was said of it."""
        (found,) = self.connection.execute("SELECT data FROM message WHERE id = ?", (message,)).fetchone()
        data = json.loads(found) | {"id": message}
        self.event(session, "message.updated.1", {"info": data | {"tokens": used()}})
        self.event(session, "message.updated.1", {"info": data})
        self.event(session, "message.removed.1", {"messageID": message})
        self.connection.execute("DELETE FROM part WHERE message_id = ?", (message,))
        self.connection.execute("DELETE FROM message WHERE id = ?", (message,))

    def save(self) -> Path:
        self.connection.commit()
        self.connection.close()
        return self.path


class Tree(Store):
    """The directory of files."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def put(self, data: dict[str, Any], *names: str) -> None:
        path = self.path.joinpath(*names[:-1], f"{names[-1]}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data, indent=2), "utf-8")

    def session(self, at: float = START, parent: str = "", agent: str = "") -> str:
        name = self.name("ses")
        data = {"id": name, "version": "1.0.1", "projectID": "global", "title": "Notes", "time": {"created": ms(at)}}
        self.put(data | ({"parentID": parent} if parent else {}), "session", "global", name)
        return name

    def message(self, session: str, at: float, data: dict[str, Any]) -> str:
        name = self.name("msg")
        self.put({"id": name, "sessionID": session} | data, "message", session, name)
        return name

    def part(self, session: str, message: str, at: float, data: dict[str, Any]) -> str:
        name = self.name("prt")
        self.put({"id": name, "sessionID": session, "messageID": message} | data, "part", message, name)
        return name

    def save(self) -> Path:
        return self.path


def talk(store: Store) -> str:
    """A session with two answers."""
    session = store.session(START)
    store.asks(session, START + 9)
    store.answers(session, START + 10, used(4, 0, 1000, 20))
    store.answers(session, START + 20, used(4, 1000, 50, 8))
    return session


def start(path: Path) -> bytes:
    """The beginning of a file, nothing of a directory."""
    return b"" if path.is_dir() else path.read_bytes()[: 64 * 1024]
