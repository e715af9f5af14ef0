"""The Anthropic SDK with the engine inside the program: a clock in the system text, and what the cache still reads.

Runs against a simulated provider; `--live` asks the service itself, with ANTHROPIC_API_KEY (some cents).
"""

from __future__ import annotations

import sys
import time
from typing import Any

import anthropic

from holdfast import Engine, load_config
from holdfast.simulator import Simulator, running

RULES = "Answer in one sentence. Say so if you do not know. " * 150
QUESTIONS = ("What is a prefix?", "What is a cache?", "And together?", "Since when?", "Who pays?", "Thank you.")


def converse(client: anthropic.Anthropic) -> tuple[int, int]:
    """A careless agent: no cache markers, and the time in front of everything. Gives tokens read and tokens sent."""
    said: list[Any] = []
    read = prompt = 0
    for second, question in enumerate(QUESTIONS):
        said.append({"role": "user", "content": question})
        now = time.strftime("%H:%M:%S", time.gmtime(1_800_000_000 + second))
        reply = client.messages.create(
            model="claude-opus-5-5", max_tokens=100, system=f"It is {now}.\n{RULES}", messages=said
        )
        said.append({"role": "assistant", "content": reply.content})
        used = reply.usage
        read += used.cache_read_input_tokens or 0
        prompt += used.input_tokens + (used.cache_read_input_tokens or 0) + (used.cache_creation_input_tokens or 0)
    return read, prompt


def compare(**where: Any) -> None:
    read, prompt = converse(anthropic.Anthropic(**where))
    print(f"as it is:      {read:,} of {prompt:,} tokens read from the cache")
    engine = Engine(load_config({"cache.repair": "on"}))  # "on": the clock goes to the newest message
    read, prompt = converse(anthropic.Anthropic(**where, http_client=engine.http_client()))
    print(f"with Holdfast: {read:,} of {prompt:,} tokens read from the cache")


if "--live" in sys.argv:
    compare()
else:
    with running(Simulator()) as address:
        compare(base_url=address, api_key="any")
