"""Request bodies from the parts that newer versions of Claude Code write into the transcript beside the conversation.

`api-request-shape` has system text and tools, `api-request-blob` a message, `api-request` the rest and the digests of
its messages, as an addition to an earlier request (`base`, `keep`). A message that is in the conversation's own lines
has no blob: it is found by its digest. Nothing is decoded before a body is requested, and incomplete bodies are not
returned.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec import Raw, Struct

from holdfast.lru import LRU

KINDS = {"user", "assistant", "api-request", "api-request-shape", "api-request-blob"}
MOST = 48 * 2**20
"""Bytes of one conversation's lines that are kept, since its last compaction."""
UNTIL = 4 * 2**20
"""Bytes after which a file without a recorded request is taken for one of an earlier version."""
ASKED = 100
"""Bodies that are given of one file: it is the first breaks that tell."""
_CHAIN = 64
_LONGEST = 500


class _Part(Struct, rename="camel", gc=False):
    """A line, as far as requests are made from it."""

    type: str = ""
    hash: str = ""
    shape_hash: str = ""
    shape: Raw = Raw()
    message: Raw = Raw()
    id: str = ""
    base: str = ""
    keep: int = 0
    tail: tuple[str, ...] = ()
    params: Raw = Raw()
    cache_control: tuple[dict[str, Any], ...] = ()
    cut: Raw = Raw()


class _Message(Struct):
    role: str
    content: str | list[Any]
    id: str | None = None


class _Run(Struct):
    """Lines that a request sends as one message: those of one answer, or of one turn of the user."""

    role: str
    id: str | None
    blocks: list[Any]

    def goes_on(self, message: _Message) -> bool:
        same = message.role == self.role and (message.role == "user" or message.id == self.id)
        return same and len(self.blocks) < _LONGEST


class _Request(Struct, gc=False):
    shape: str
    messages: tuple[str, ...]
    params: Raw
    marks: tuple[dict[str, Any], ...]
    whole: bool


class RecordedRequests:
    """The requests recorded in one file."""

    def __init__(self) -> None:
        self._begin()
        self._seen = False
        self._given = 0

    def _begin(self) -> None:
        self.waiting: list[bytes] = []  # lines that no body was asked of yet
        self._bytes = 0
        self._kept = True
        self._parts: dict[str, bytes] = {}
        self._requests: LRU[str, _Request] = LRU(_CHAIN)
        self._run: _Run | None = None

    def keep(self, kind: str, raw: bytes) -> None:
        """A line of one of the kinds, in the file's order."""
        self._seen = self._seen or kind == "api-request"
        if not self._kept:
            return
        self._bytes += len(raw)
        if self._bytes > (MOST if self._seen else UNTIL):
            self._begin()
            self._kept = False
            return
        self.waiting.append(raw)

    def compacted(self) -> None:
        """Start again: the following records do not build on earlier ones."""
        if self._kept or self._seen:
            self._begin()

    def body(self, id: str) -> bytes | None:
        """The request of this id; None where it cannot be put together."""
        if not self._seen or self._given >= ASKED:
            return None
        for raw in self.waiting:
            self._take(raw)
        self.waiting.clear()
        request = self._requests.peek(id)
        if request is None or not request.whole:
            return None
        try:
            body = self._whole(request)
        except (KeyError, IndexError, TypeError, msgspec.DecodeError):
            return None
        self._given += 1
        return body

    def _take(self, raw: bytes) -> None:
        try:
            part = _PART(raw)
            if part.type == "api-request-shape":
                self._parts[part.shape_hash] = bytes(part.shape)
            elif part.type == "api-request-blob":
                self._parts[part.hash] = bytes(part.message)
            elif part.type == "api-request":
                self._request(part)
            else:
                self._said(_MESSAGE(part.message))
        except msgspec.DecodeError:
            self._run = None

    def _request(self, part: _Part) -> None:
        base = self._requests.peek(part.base)
        before = base.messages if base is not None else ()
        messages = (*before[: part.keep], *part.tail)
        whole = not part.cut and len(before) >= part.keep
        self._requests[part.id] = _Request(
            part.shape_hash, messages, Raw(bytes(part.params)), part.cache_control, whole
        )

    def _said(self, message: _Message) -> None:
        content = message.content
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        run = self._run
        if run is not None and run.goes_on(message):
            blocks = [*run.blocks, *blocks]
        self._run = _Run(message.role, message.id, blocks)
        wire_message = {"role": message.role, "content": blocks}
        self._parts[_digest(wire_message)] = msgspec.json.encode(wire_message)

    def _whole(self, request: _Request) -> bytes:
        shape = msgspec.json.decode(self._parts[request.shape])
        body = msgspec.json.decode(request.params) | shape
        body.pop("betas", None)  # they travel in a header
        body["messages"] = [msgspec.json.decode(self._parts[digest]) for digest in request.messages]
        for mark in request.marks:
            _mark(body, mark["path"], mark["value"])
        return msgspec.json.encode(body)


_PART = msgspec.json.Decoder(_Part).decode
_MESSAGE = msgspec.json.Decoder(_Message).decode


def _digest(value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def _mark(body: Any, path: list[str | int], value: Any) -> None:
    """Put a marker on a block; a text that carries one is a block of its own."""
    for step in path:
        if step == "content" and isinstance(body["content"], str):
            body["content"] = [{"type": "text", "text": body["content"]}]
        body = body[step]
    body["cache_control"] = value
