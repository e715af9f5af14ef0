"""The provider of the demo's agent: the simulator in this process, with a model that takes its time.

Where the demo shows what others do, it is done here: answers that begin together, a summary in a request of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from msgspec.structs import replace

from holdfast.agent import OutgoingRequest, ProviderAnswer
from holdfast.records import Usage
from holdfast.simulator import Simulated, Simulator, VirtualClock

from .model import SUMMARIZE

_THINKS = 8.0
"""Seconds that the model takes for an answer."""
_SUMMARIZER = "You summarize conversations between a user and an agent."


class Provided:
    """`together` sub-agents begin in the same moment: none is answered before all have asked. With `cold_summary`, who
    asks for a summary sends the conversation as a text, without the tools and the system text that it had. The request
    that this takes the place of is sent too, so that the cache is as it would be, and not billed."""

    def __init__(self, simulator: Simulator, clock: VirtualClock, *, together: int = 0, cold_summary: bool = False):
        self._simulated, self._clock, self._cold = Simulated(simulator), clock, cold_summary
        self._left, self._all_here = together, asyncio.Event()
        self._unbilled: set[int] = set()

    @asynccontextmanager
    async def open(self, request: OutgoingRequest) -> AsyncIterator[ProviderAnswer]:
        self._clock.advance(_THINKS)
        cold = self._cold and SUMMARIZE.encode() in request.raw
        if cold:
            async with self._simulated.open(replace(request, raw=apart(request.raw))) as answer:
                async for _ in answer:
                    pass
        async with self._simulated.open(request) as answer:
            if cold:
                self._unbilled.add(self._simulated.simulator.journal.count)
            await self._gathered()
            yield answer

    def billed(self) -> list[Usage]:
        """What every request used."""
        records = self._simulated.simulator.journal.records()
        return [each.usage for each in records if each.usage is not None and each.number not in self._unbilled]

    async def _gathered(self) -> None:
        if not self._left:
            return
        self._left -= 1
        if not self._left:
            self._all_here.set()
        await self._all_here.wait()


def apart(raw: bytes) -> bytes:
    """The same question about the same conversation, as a request that has nothing in common with it."""
    body = json.loads(raw)
    *told, instruction = body["messages"]
    text = "\n\n".join(f"{message['role']}: {_text(message['content'])}" for message in told)
    body["messages"] = [{"role": "user", "content": f"{text}\n\n{_text(instruction['content'])}"}]
    body["system"] = _SUMMARIZER
    for name in ("tools", "tool_choice", "cache_control"):
        body.pop(name, None)
    return json.dumps(body).encode()


def _text(content: Any) -> str:
    """What blocks say, in words; of a call its tool and input."""
    if isinstance(content, str):
        return content
    parts = []
    for block in content:
        if block["type"] == "tool_use":
            parts.append(f"{block['name']} {json.dumps(block['input'])}")
        else:
            parts.append(_text(block["content"]) if block["type"] == "tool_result" else block.get("text", ""))
    return "\n".join(parts)
