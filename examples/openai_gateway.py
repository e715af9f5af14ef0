"""The OpenAI SDK through the gateway: tools that come in another order each time, and a prefix that stays the same.

Runs against a simulated provider; `--live` goes to the service itself, with OPENAI_API_KEY (some cents).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import openai

from holdfast.simulator import Simulator, running

RULES = "Answer in one sentence. Say so if you do not know. " * 150
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {"name": name, "description": f"Looks up {name}.", "parameters": {"type": "object"}},
    }
    for name in ("weather", "trains", "hotels", "prices")
]


@contextlib.contextmanager
def gateway(upstream: str | None) -> Iterator[str]:
    """`holdfast serve` for as long as the block runs. Its first line ends with its address."""
    with contextlib.ExitStack() as stack:
        environment = dict(os.environ)
        if upstream:  # what is only simulated does not belong among your own sessions
            home = stack.enter_context(tempfile.TemporaryDirectory())
            environment |= {"HOLDFAST_UPSTREAM_OPENAI": f"{upstream}/v1", "HOLDFAST_HOME": home}
        command = [sys.executable, "-m", "holdfast", "serve", "--port", "0"]
        served = stack.enter_context(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        assert served.stdout
        try:
            yield served.stdout.readline().split()[-1]
        finally:
            served.terminate()


def converse(name: str, client: openai.OpenAI) -> None:
    """A careless agent: the order of its tools depends on the turn. Says what the cache gave."""
    said: list[Any] = [{"role": "system", "content": f"{name}\n{RULES}"}]  # the two conversations share nothing
    read = prompt = 0
    for turn, question in enumerate(("Is it warm in Oslo?", "And in Rome?", "How do I get there?", "Thank you.")):
        said.append({"role": "user", "content": question})
        tools = TOOLS[turn:] + TOOLS[:turn]
        reply = client.chat.completions.create(model="gpt-5.6", messages=said, tools=tools, tool_choice="none")
        said.append({"role": "assistant", "content": reply.choices[0].message.content})
        if reply.usage and reply.usage.prompt_tokens_details:
            read += reply.usage.prompt_tokens_details.cached_tokens or 0
            prompt += reply.usage.prompt_tokens
    print(f"{name}: {read:,} of {prompt:,} tokens read from the cache")


live = "--live" in sys.argv
with contextlib.nullcontext() if live else running(Simulator()) as address, gateway(address) as ours:
    more: Any = {} if live else {"api_key": "any"}
    converse("straight to the provider", openai.OpenAI(base_url=address and f"{address}/v1", **more))
    converse("through the gateway", openai.OpenAI(base_url=f"{ours}/v1", **more))
