"""Writes sessions as pi writes them, with filler for text: a header, then entries chained by their ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.report.logs.claude_logs import START, stamp, text

Counts = dict[str, Any]


def used(input: int = 0, read: int = 0, written: int = 0, output: int = 0) -> Counts:
    total = input + read + written + output
    names = ("input", "output", "cacheRead", "cacheWrite", "total")
    return {"input": input, "output": output, "cacheRead": read, "cacheWrite": written, "totalTokens": total} | {
        "cost": dict.fromkeys(names, 0.25)
    }


class Session:
    """One file. `leaf` is the entry that the next one goes on with."""

    def __init__(self, name: str = "01a1-s1", at: float = START, **header: Any) -> None:
        self.name, self.at = name, at
        self.lines: list[str] = []
        self.leaf: str | None = None
        self.raw({"type": "session", "version": 3, "id": name, "timestamp": stamp(at), "cwd": "/work"} | header)
        self.entry("model_change", at, provider="anthropic", modelId="claude-sonnet-4-5")
        self.entry("thinking_level_change", at, thinkingLevel="medium")

    def raw(self, value: dict[str, Any]) -> None:
        self.lines.append(json.dumps(value, ensure_ascii=False, separators=(",", ":")))

    def entry(self, kind: str, at: float, /, **members: Any) -> str:
        name = f"{self.name[-2:]}{len(self.lines):06x}"
        self.raw({"type": kind, "id": name, "parentId": self.leaf, "timestamp": stamp(at)} | members)
        self.leaf = name
        return name

    def asks(self, at: float, size: int = 40) -> str:
        content = [{"type": "text", "text": text(size)}]
        return self.entry("message", at, message={"role": "user", "content": content, "timestamp": int(at * 1000)})

    def result(self, at: float, size: int = 200) -> str:
        content = [{"type": "text", "text": text(size)}]
        message = {"role": "toolResult", "toolCallId": "t", "toolName": "bash", "content": content, "isError": False}
        return self.entry("message", at, message=message | {"timestamp": int(at * 1000)})

    def answers(self, sent: float, usage: object, model: str = "anthropic/claude-sonnet-4-5", **more: Any) -> str:
        """An answer that came three seconds after it was asked for."""
        provider, _, name = model.partition("/")
        message: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": text(80)}]}
        message |= {"api": "anthropic-messages", "provider": provider, "model": name, "usage": usage}
        message |= {"stopReason": "stop", "timestamp": int(sent * 1000), "responseId": f"msg_{sent}"} | more
        return self.entry("message", sent + 3, message=message)

    def compacts(self, at: float) -> None:
        kept = {"firstKeptEntryId": self.leaf, "tokensBefore": 9000, "details": {"readFiles": []}, "fromHook": False}
        self.entry("compaction", at, summary=text(400), **kept)

    def save(self, directory: Path) -> Path:
        path = directory / f"{stamp(self.at).replace(':', '-').replace('.', '-')}_{self.name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in self.lines), "utf-8")
        return path
