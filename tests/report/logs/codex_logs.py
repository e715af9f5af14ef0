"""Writes rollouts as Codex writes them, with filler for text: the same kinds of lines in the same order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.report.logs.claude_logs import START, stamp, text

BOTH = pytest.mark.parametrize("records", [True, False], ids=["records", "counts"])
"""As newer versions write it, and as earlier ones did."""
MODEL = "gpt-5.5"
THREAD = "0199aaaa-0000-7000-8000-00000000000"
NAMES = ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens", "reasoning_output_tokens")


def thread(number: int) -> str:
    return f"{THREAD}{number}"


def used(input: int = 0, cached: int = 0, output: int = 0, written: int = 0) -> dict[str, int]:
    """Counts as Codex gives them: `input` includes what was cached or written."""
    return dict(zip(NAMES, (input, cached, written, output, 0), strict=True)) | {"total_tokens": input + output}


class Rollout:
    """One thread's file. `records`: as newer versions write it, with a record of every request beside the counts."""

    def __init__(self, number: int = 1, *, records: bool = True, plan: str | None = None, **meta: Any) -> None:
        self.id, self.records, self.plan = thread(number), records, plan
        self.lines: list[str] = []
        self.total = used()
        self.at = START
        known = {"session_id": self.id} if records else {}
        self.write(
            "session_meta",
            **(
                known
                | {"id": self.id, "timestamp": stamp(self.at), "cwd": "/work"}
                | {
                    "originator": "codex_exec",
                    "cli_version": "0.166.0",
                    "source": "exec",
                    "model_provider": "openai",
                    "base_instructions": {"text": text(3000)},
                }
                | meta
            ),
        )

    def write(self, kind: str, /, **payload: Any) -> None:
        line: dict[str, Any] = {"timestamp": stamp(self.at)}
        if self.records:
            line["ordinal"] = len(self.lines)
        self.lines.append(json.dumps(line | {"type": kind, "payload": payload}, separators=(",", ":")))

    def event(self, kind: str, /, **payload: Any) -> None:
        self.write("event_msg", type=kind, **payload)

    def item(self, kind: str, /, **payload: Any) -> None:
        self.write("response_item", type=kind, **payload)

    def turn(self, at: float, model: str = MODEL, *, asks: bool = True) -> None:
        """A turn begins; what the user says stands after its settings."""
        self.at = at
        self.event("task_started", turn_id=f"turn-{at}", model_context_window=258_400)
        self.write("turn_context", turn_id=f"turn-{at}", cwd="/work", model=model, effort="high", summary="auto")
        if asks:
            self.at = at + 1
            self.item("message", role="user", content=[{"type": "input_text", "text": text(60)}])
            self.event("user_message", message=text(60), kind="plain")

    def answers(self, at: float, counts: dict[str, int], *, calls: bool = False, response: str | None = None) -> None:
        """A request's answer. In newer versions the counts come once more when the results of its calls are in."""
        self.at = at
        self.item("reasoning", summary=[], content=None, encrypted_content="g" * 200)
        if calls:
            self.item("function_call", name="exec_command", arguments=text(40), call_id=f"call-{at}")
        else:
            self.item("message", role="assistant", content=[{"type": "output_text", "text": text(80)}])
        self.total = {name: self.total[name] + counts[name] for name in self.total}
        if self.records:
            self.write(
                "token_usage_record",
                thread_id=self.id,
                session_id=self.id,
                response_id=response or f"resp-{self.id[-1]}-{at}",
                usage=counts,
                thread_token_usage=self.total,
            )
        if calls:
            self.at = at + 2
            self.item("function_call_output", call_id=f"call-{at}", output=text(500))
        self.counts(counts)

    def counts(self, last: dict[str, int] | None, total: dict[str, int] | None = None) -> None:
        info = last and {"total_token_usage": total or self.total, "last_token_usage": last, "model_context_window": 1}
        self.event("token_count", info=info, rate_limits={"primary": None, "plan_type": self.plan})

    def ends(self) -> None:
        self.event("task_complete", last_agent_message=text(80))

    def save(self, directory: Path) -> Path:
        path = directory / f"rollout-{stamp(START)[:19].replace(':', '-')}-{self.id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in self.lines), "utf-8")
        return path


def talk(rollout: Rollout) -> Rollout:
    """Two turns, the first with a call of a tool."""
    rollout.turn(START + 10)
    rollout.answers(START + 15, used(1000, 0, 20), calls=True)
    rollout.answers(START + 20, used(1100, 900, 7))
    rollout.ends()
    rollout.turn(START + 60)
    rollout.answers(START + 65, used(1200, 1100, 8))
    rollout.ends()
    return rollout
