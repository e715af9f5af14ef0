"""Writes transcripts as Claude Code writes them, with filler for text: the same members, line by line.

A `Talk` is one conversation: the session's own or a sub-agent's. Its lines go into a list, which may be another talk's
too: earlier versions wrote sub-agents into the session's file, where the lines of parallel ones mix.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from holdfast.report.logs.claude_code import reading
from holdfast.report.logs.discovery import LogReader, sources
from holdfast.report.logs.records import LoggedRequest
from tests.report.logs import log_records

FILLER = "The harbour keeps a list of ships, with tide, cargo and the “name” of each \\ in ink. "
MODEL = "claude-opus-5-5"
START = 1_794_000_000.0


def stamp(seconds: float) -> str:
    """A time as the client writes it: UTC, milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def text(chars: int) -> str:
    return (FILLER * (chars // len(FILLER) + 1))[:chars]


def used(
    read: int = 0, write_5m: int = 0, write_1h: int = 0, input: int = 0, output: int = 0, split: bool = True
) -> dict[str, Any]:
    """Usage as it stands in an assistant line; without `split` as before lifetimes could be told apart."""
    counts: dict[str, Any] = {
        "input_tokens": input,
        "cache_creation_input_tokens": write_5m + write_1h,
        "cache_read_input_tokens": read,
        "output_tokens": output,
        "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
        "service_tier": "standard",
        "iterations": [{"input_tokens": 999_999, "output_tokens": 999_999}],
    }
    if split:
        counts["cache_creation"] = {"ephemeral_5m_input_tokens": write_5m, "ephemeral_1h_input_tokens": write_1h}
    return counts


def digest(value: Any) -> str:
    """By which a recorded request names its parts."""
    canonical = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


class Talk:
    """One conversation. `agent` names a sub-agent; `named` is whether its lines carry that name."""

    def __init__(
        self, session: str = "11111111-2222", agent: str = "", lines: list[str] | None = None, named: bool = True
    ) -> None:
        self.session, self.agent, self.named = session, agent, named
        self.lines: list[str] = [] if lines is None else lines
        self.sent: list[dict[str, Any]] = []
        """The messages as the next request has them."""
        self._parent: str | None = None
        self._calls: list[tuple[str, str]] = []
        self._recorded: set[str] = set()

    def beside(self, agent: str, named: bool = True) -> Talk:
        """A sub-agent whose lines go into the same file."""
        return Talk(self.session, agent, self.lines, named)

    def line(self, kind: str, at: float | None, **members: Any) -> str:
        """A line of the conversation, chained to the one before it; its uuid."""
        own = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.session}{self.agent}{len(self.lines)}"))
        whole: dict[str, Any] = {"parentUuid": self._parent, "isSidechain": bool(self.agent)}
        whole |= {"userType": "external", "cwd": "/work", "sessionId": self.session, "version": "2.1.325"}
        if self.agent and self.named:
            whole["agentId"] = self.agent
        whole |= {"type": kind} | members | {"uuid": own}
        if at is not None:
            whole["timestamp"] = stamp(at)
        self.raw(whole)
        self._parent = own
        return own

    def raw(self, value: Mapping[str, Any] | str) -> None:
        self.lines.append(
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        )

    def asks(self, at: float | None, chars: int = 80, **members: Any) -> None:
        """What the user says, or the results of the tools that were called."""
        if not self._calls:
            self.line("user", at, message={"role": "user", "content": text(chars)}, **members)
            self._says("user", {"type": "text", "text": text(chars)})
        while self._calls:
            self.results(at, chars)

    def results(self, at: float | None, chars: int = 80) -> None:
        """The result of the earliest call that has none; its parent is the line of the call."""
        call, parent = self._calls.pop(0)
        after, self._parent = self._parent, parent
        block = {"tool_use_id": call, "type": "tool_result", "content": text(chars), "is_error": False}
        result = {"stdout": text(chars), "stderr": "", "interrupted": False}
        self.line("user", at, message={"role": "user", "content": [block]}, toolUseResult=result)
        self._says("user", block)
        if self._calls:
            self._parent = after

    def answers(
        self,
        at: float,
        usage: Mapping[str, Any],
        blocks: Sequence[str] = ("text",),
        id: str | None = None,
        model: str = MODEL,
        request: str | None = "",
        **members: Any,
    ) -> str:
        """A provider's answer, a line for each block 10 ms apart; its id. The output grows until the last line."""
        own = id or f"msg_{self.session[:4]}{self.agent}{len(self.lines)}"
        for number, block in enumerate(blocks):
            final = number == len(blocks) - 1
            counts = dict(usage) if final else {**usage, "output_tokens": min(1, usage["output_tokens"])}
            self.block(at + number / 100, counts, block, own, model, request, **members)
        return own

    def block(
        self,
        at: float,
        usage: Mapping[str, Any],
        block: str,
        id: str,
        model: str = MODEL,
        request: str | None = "",
        **members: Any,
    ) -> None:
        call = f"toolu_{len(self.lines)}"
        content = {
            "text": {"type": "text", "text": text(60)},
            "thinking": {"type": "thinking", "thinking": "", "signature": "x" * 40},
            "tool_use": {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": text(30)}},
        }[block]
        message = {"id": id, "type": "message", "role": "assistant", "model": model, "content": [content]}
        message |= {"stop_reason": None, "usage": dict(usage)}
        if request is not None:
            members = {"requestId": request or f"req_{id}"} | members
        own = self.line("assistant", at, message=message, **members)
        self._says("assistant", content)
        if block == "tool_use":
            self._calls.append((call, own))

    def _says(self, role: str, block: dict[str, Any]) -> None:
        if self.sent and self.sent[-1]["role"] == role:
            self.sent[-1] = {"role": role, "content": [*self.sent[-1]["content"], block]}
        else:
            self.sent.append({"role": role, "content": [block]})

    def records(
        self,
        ref: str,
        at: float,
        base: str = "",
        keep: int = 0,
        system: str = "Be brief.",
        blobs: Sequence[int] = (),
        model: str = MODEL,
        **members: Any,
    ) -> dict[str, Any]:
        """The request that goes out next, as newer versions write it down, and as it is sent. `blobs` are messages that
        are written in full, because no line has them."""
        shape = {"system": [{"type": "text", "text": system}], "tools": [{"name": "Bash", "input_schema": {"x": 1.5}}]}
        if (name := digest(shape)) not in self._recorded:
            self._recorded.add(name)
            self.raw({"type": "api-request-shape", "sessionId": self.session, "shapeHash": name, "shape": shape})
        for number in blobs:
            message = self.sent[number]
            self.raw(
                {"type": "api-request-blob", "sessionId": self.session, "hash": digest(message), "message": message}
            )
        mark = {"type": "ephemeral", "ttl": "1h"}
        path: list[Any] = ["messages", len(self.sent) - 1, "content", len(self.sent[-1]["content"]) - 1]
        params = {"model": model, "betas": ["x-2026"], "max_tokens": 4000, "thinking": {"type": "adaptive"}}
        whole = {"type": "api-request", "sessionId": self.session, "id": ref, "timestamp": stamp(at)}
        whole |= {"shapeHash": name, "params": params, "keep": keep} | ({"base": base} if base else {})
        whole["tail"] = [digest(message) for message in self.sent[keep:]]
        whole["cacheControl"] = [{"path": ["system", 0], "value": mark}, {"path": path, "value": mark}]
        self.raw(whole | members)
        body = json.loads(json.dumps(params | shape | {"messages": self.sent}))
        del body["betas"]
        body["system"][0]["cache_control"] = body["messages"][-1]["content"][-1]["cache_control"] = mark
        return dict(body)

    def compacts(self, at: float, subtype: str = "compact_boundary", summary: bool = True) -> None:
        self._calls.clear()
        self.sent.clear()
        self._recorded.clear()
        if subtype:
            before, self._parent = self._parent, None
            metadata = {"trigger": "auto", "preTokens": 150_000}
            self.line("system", at, subtype=subtype, logicalParentUuid=before, compactMetadata=metadata)
        if summary:
            message = {"role": "user", "content": text(4000)}
            self.line("user", at, message=message, isCompactSummary=True, isVisibleInTranscriptOnly=True)

    def notes(self, at: float) -> None:
        """Lines that the client keeps for itself."""
        self.raw({"type": "file-history-snapshot", "messageId": "m", "snapshot": {"timestamp": stamp(at)}})
        self.raw({"type": "summary", "summary": text(30), "leafUuid": "l"})
        self.raw({"type": "queue-operation", "operation": "enqueue", "timestamp": stamp(at), "sessionId": self.session})
        self.line("progress", at, data={"type": "hook_progress", "message": {"usage": used(read=5)}})

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(line + "\n" for line in self.lines), "utf-8")
        return path


def given(path: Path) -> list[LoggedRequest]:
    """The requests of one file, nothing of which is broken."""
    return log_records.given(reading(), path)


def all_given(top: Path) -> list[LoggedRequest]:
    """The requests of all transcripts below a directory, read in one run."""
    reading = LogReader()
    return [
        record
        for source in sources([top])
        for record in reading.records(source, lambda _: None)
        if isinstance(record, LoggedRequest)
    ]


def reads(records: list[LoggedRequest]) -> list[int]:
    return [record.usage.read for record in records if record.usage is not None]
