"""A shape trace as the logs of clients that could have had this session: its own blocks, in filler of their sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.lab import Shape, ShapeBlock, Trace
from holdfast.records import Usage
from tests.report.logs import codex_logs, pi_logs
from tests.report.logs.claude_logs import START, Talk, text, used

NOTHING_SAID = ShapeBlock("assistant", "text", 1)


class Turn(Struct):
    """A request: what came with it beside earlier answers, and how the conversation went on from its answer: the
    answer's blocks, and the results of tools that came while it was still being given."""

    agent: str
    model: str
    at: float
    begun: float
    reset: bool
    usage: Usage
    asked: Sequence[ShapeBlock]
    said: Sequence[ShapeBlock] = (NOTHING_SAID,)


def turns(trace: Trace) -> list[Turn]:
    found: list[Turn] = []
    before: dict[str, Turn] = {}
    for step in trace.steps:
        assert isinstance(step.content, Shape)
        assert step.at is not None
        assert step.first_token_at is not None
        assert step.usage is not None
        added = step.content.added
        last = max((i for i, block in enumerate(added) if block.role == "assistant"), default=-1)
        turn = Turn(
            agent="" if step.lane == trace.steps[0].lane else step.lane,
            model=step.model,
            at=START + step.at,
            begun=START + step.first_token_at,
            reset=step.reset is not None,
            usage=step.usage,
            asked=added[last + 1 :],
        )
        if step.lane in before and last >= 0:
            before[step.lane].said = added[: last + 1]
        before[step.lane] = turn
        found.append(turn)
    return found


def as_transcript(trace: Trace, path: Path) -> Path:
    """Claude Code: a line for each block."""
    lines: list[str] = []
    talks: dict[str, Talk] = {}
    for number, turn in enumerate(turns(trace)):
        talk = talks.setdefault(turn.agent, Talk(trace.name, turn.agent, lines))
        if turn.reset:
            talk.compacts(turn.at, summary=False)
        for block in turn.asked:
            _asked(talk, turn.at, block)
        usage, name = turn.usage, f"msg_{number}"
        counts = used(usage.read, usage.written_for("5m"), usage.written_for("1h"), usage.input, usage.output)
        for block in turn.said:
            if block.role != "assistant":
                _asked(talk, turn.begun, block)
                continue
            message = {"id": name, "type": "message", "role": "assistant", "model": turn.model, "usage": counts}
            message["content"] = [_block(block)]
            talk.line("assistant", turn.begun, message=message, requestId=f"req_{name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return path


def _block(block: ShapeBlock) -> dict[str, Any]:
    if block.type == "tool_use":
        return {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": text(block.chars)}}
    return {"type": block.type, block.type: text(block.chars)}


def _asked(talk: Talk, at: float, block: ShapeBlock) -> None:
    content: Any = text(block.chars)
    if block.type == "tool_result":
        content = [{"tool_use_id": "toolu_1", "type": "tool_result", "content": content}]
    talk.line("user", at, message={"role": "user", "content": content})


def as_pi(trace: Trace, directory: Path) -> Path:
    """pi: an entry for each message. How long something was written for is not told."""
    session = pi_logs.Session(trace.name)

    def heard(at: float, blocks: Sequence[ShapeBlock]) -> None:
        for block in blocks:
            if block.role != "assistant":
                (session.result if block.type == "tool_result" else session.asks)(at, block.chars)

    for turn in turns(trace):
        if turn.reset:
            session.compacts(turn.at)
        heard(turn.at, turn.asked)
        usage = turn.usage
        counts = pi_logs.used(usage.input, usage.read, usage.written, usage.output)
        said = [_block(block) for block in turn.said if block.role == "assistant"]
        content = [block | {"type": "toolCall"} if block["type"] == "tool_use" else block for block in said]
        session.answers(turn.at, counts, f"anthropic/{turn.model}", content=content)
        heard(turn.begun, turn.said)
    return session.save(directory)


def as_rollout(trace: Trace, directory: Path, *, records: bool = True) -> Path:
    """Codex: an item for each block. What was not read is input."""
    rollout = codex_logs.Rollout(records=records)
    for turn in turns(trace):
        rollout.at = turn.at
        if turn.reset:
            rollout.ends()
            rollout.write("compacted", message=text(300))
            rollout.event("context_compacted")
        rollout.write("turn_context", cwd="/work", model=turn.model)
        for kind, item in _items(turn.asked):
            rollout.item(kind, **item)
        rollout.at = turn.begun
        counts = codex_logs.used(turn.usage.prompt, turn.usage.read, turn.usage.output)
        rollout.total = {name: rollout.total[name] + counts[name] for name in rollout.total}
        items = list(_items(turn.said))
        answer = max(i for i, block in enumerate(turn.said, 1) if block.role == "assistant")
        for kind, item in items[:answer]:
            rollout.item(kind, **item)
        if records:
            about = {"thread_id": rollout.id, "response_id": f"resp-{turn.at}", "thread_token_usage": rollout.total}
            rollout.write("token_usage_record", usage=counts, **about)
        for kind, item in items[answer:]:
            rollout.item(kind, **item)
        rollout.counts(counts)
    return rollout.save(directory)


def _items(blocks: Sequence[ShapeBlock]) -> Iterator[tuple[str, dict[str, Any]]]:
    for block in blocks:
        if block.type == "tool_use":
            yield "function_call", {"name": "exec_command", "arguments": text(block.chars)}
        elif block.type == "tool_result":
            yield "function_call_output", {"call_id": "c", "output": text(block.chars)}
        elif block.type == "thinking":
            yield "reasoning", {"summary": [], "encrypted_content": text(block.chars)}
        else:
            yield "message", {"role": block.role, "content": [{"type": "text", "text": text(block.chars)}]}
