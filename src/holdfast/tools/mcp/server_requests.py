"""What a server asks of us, kept within bounds: one that asks without end and takes no answer would fill the memory,
because the SDK begins a task for every question."""

from __future__ import annotations

from typing import Any

from mcp_types import JSONRPCError, JSONRPCRequest, JSONRPCResponse

MOST_ASKED = 1_000
"""Questions of a server that wait for their answers to be taken. What it asks beyond that is not answered."""


def bounded(read: Any, write: Any) -> tuple[Any, Any]:
    """Both streams of a connection, without the questions that are too many."""
    open_ = _Open()
    return _Reading(read, open_), _Writing(write, open_)


class _Open:
    """How many questions wait."""

    count = 0


class _Stream:
    def __init__(self, stream: Any, open_: _Open) -> None:
        self._stream, self._open = stream, open_

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def __aenter__(self) -> Any:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._stream.__aexit__(*error)


class _Reading(_Stream):
    def __aiter__(self) -> _Reading:
        return self

    async def __anext__(self) -> Any:
        while True:
            item = await self._stream.__anext__()
            if not isinstance(getattr(item, "message", None), JSONRPCRequest):
                return item
            if self._open.count < MOST_ASKED:
                self._open.count += 1
                return item


class _Writing(_Stream):
    async def send(self, item: Any) -> None:
        try:
            await self._stream.send(item)
        finally:
            if isinstance(item.message, (JSONRPCResponse, JSONRPCError)):
                self._open.count -= 1
