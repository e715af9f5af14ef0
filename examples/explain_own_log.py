"""A log in a format of your own, explained: in the program with `explain`, and as JSONL with `holdfast explain`.

The log is made here with a simulated provider, so that what it says was billed is what the cache rules say.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast import LoggedRequest, Usage, explain
from holdfast.simulator import HttpRequest, Simulator, VirtualClock

HEADERS = {"x-api-key": "any", "anthropic-version": "2023-06-01"}
RULES = "Answer in one sentence. Say so if you do not know. " * 150


def own_log() -> Iterator[dict[str, Any]]:
    """Lines of a format that nobody else has: a conversation whose last requests drop its first message."""
    clock = VirtualClock()
    simulator = Simulator(clock=clock)
    said: list[Any] = []
    for turn in range(6):
        said += [{"role": "user", "content": f"Question {turn}: " + "what is it? " * 80}]
        kept = said if turn < 4 else said[2 * (turn - 3) :]
        system = [{"type": "text", "text": RULES}]
        sent = {"model": "claude-opus-5-5", "max_tokens": 9, "cache_control": {"type": "ephemeral"}}
        sent |= {"system": system, "messages": kept}
        answer = json.loads(
            simulator.answer(HttpRequest("POST", "/v1/messages", HEADERS, body=json.dumps(sent).encode())).body
        )
        said += [{"role": "assistant", "content": "It is so."}]
        yield {"talk": "t1", "second": clock.now(), "sent": sent, "billed": answer["usage"]}
        clock.advance(30)


def logged(line: dict[str, Any], number: int) -> LoggedRequest:
    """The one thing to write for a format: what a line says, in Holdfast's words."""
    billed = line["billed"]
    used = Usage(
        input=billed["input_tokens"],
        read=billed["cache_read_input_tokens"],
        writes=(("5m", billed["cache_creation_input_tokens"]),),
        output=billed["output_tokens"],
    )
    body = json.dumps(line["sent"]).encode()
    return LoggedRequest(
        session=line["talk"], source=f"own.log:{number}", model=line["sent"]["model"], at=line["second"],
        usage=used, body=body, dialect="anthropic",
    )  # fmt: skip


lines = list(own_log())
report = explain(logged(line, number) for number, line in enumerate(lines, start=1))
for each in report.sessions[0].breaks:
    print(f"request {each.request}: {each.cause} at {each.path}, ${each.cost_usd}: {each.advice}")

with tempfile.TemporaryDirectory() as directory:
    path = Path(directory, "requests.jsonl")
    members = [{"session": it["talk"], "at": it["second"], "body": it["sent"], "usage": it["billed"]} for it in lines]
    path.write_text("".join(json.dumps(each) + "\n" for each in members))
    subprocess.run([sys.executable, "-m", "holdfast", "explain", str(path), "--quiet"], check=True)
