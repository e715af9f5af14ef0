"""Recorded sessions under two strategies and with two kinds of pauses: what each would have cost, and the least.

The sessions are made here, and played in order with what is learned from one to the next; a path names traces of your
own. For the logs that clients keep there is the command:
`holdfast replay --strategy economic,rolling --gaps office`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from holdfast import ReplayOptions, replay


def session(path: Path, requests: int = 40) -> Path:
    """A session in Anthropic's form: tools, a long system text, and a question after every answer."""
    said = []
    for number in range(requests):
        said.append({"role": "user", "content": f"Question {number}. " + "More of the same. " * 60})
        said.append({"role": "assistant", "content": f"Answer {number}. " + "It is as it was. " * 20})
    system = "Answer in one sentence. Say so if you do not know. " * 300
    path.write_text(json.dumps({"model": "claude-opus-4-6", "system": system, "messages": said}))
    return path


with tempfile.TemporaryDirectory() as directory:
    for number in range(4):
        session(Path(directory, f"session-{number}.json"))
    recorded = sys.argv[1] if len(sys.argv) > 1 else directory
    for gaps in ("none", "office"):  # a user turn every ten seconds; bursts with long pauses, as in an office
        replayed = replay(
            recorded,
            strategies=["economic", "rolling", "optimal"],
            models=["claude-opus-4-6"],
            options=ReplayOptions(gaps=gaps),
        )
        for result in replayed.results:
            print(f"{gaps:7} {result.strategy:9} ${result.cost_usd:.4f}  hit {result.hit_rate or 0:.0%}")
