"""What goes in and out of the simulator: calls, replies, answers. No sockets, no clocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from holdfast.records import Usage

Stop = Literal["end", "tools", "limit", "stop_sequence", "refusal"]


class HttpRequest(Struct, frozen=True):
    """An HTTP request as the simulator sees it: header names in lower case, the path without its query."""

    method: str
    path: str
    headers: Mapping[str, str] = {}
    query: Mapping[str, str] = {}
    body: bytes = b""


class Thought(Struct, frozen=True, tag="thinking"):
    text: str


class Words(Struct, frozen=True, tag="text"):
    text: str


class ToolCall(Struct, frozen=True, tag="tool"):
    """`input` is canonical JSON text of an object."""

    id: str
    name: str
    input: bytes


Part = Thought | Words | ToolCall


class Reply(Struct, frozen=True):
    """The scripted model's answer, in any dialect. `tokens` counts its output; `stop_sequence` is the one met.

    `thought_tokens` is the share of `tokens` that is thinking. The delays are seconds: until the first token, and for
    every token after it.
    """

    parts: tuple[Part, ...]
    stop: Stop
    tokens: int
    stop_sequence: str | None = None
    thought_tokens: int = 0
    first_token_delay: float = 0.0
    token_delay: float = 0.0


class ReplySettings(Struct, frozen=True, kw_only=True):
    """The settings of a request for its answer, independent of the dialect.

    `sse` is False if a stream is requested as one JSON array (Gemini without `alt=sse`). `show_thoughts` is whether the
    text of thoughts is returned, `encrypted_thoughts` whether their encrypted form is.
    """

    thinking: bool = False
    limit: int | None = None
    stop_sequences: tuple[str, ...] = ()
    stream: bool = False
    sse: bool = True
    include_usage: bool = True
    show_thoughts: bool = True
    encrypted_thoughts: bool = False


class HttpResponse(Struct, frozen=True):
    """An HTTP response. A stream has `chunks`, one per SSE event, and no body."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    chunks: tuple[bytes, ...] | None = None


class ReplyEnvelope(Struct, frozen=True):
    """What a rendered response needs besides the reply: ids and times come in, so that rendering is pure."""

    id: str
    model: str
    created: int
    usage: Usage
    stream: bool = False
    extra: Mapping[str, bytes] = {}
    """Further top-level members of the response as raw JSON (diagnostics); they replace the default ones."""
    settings: ReplySettings = ReplySettings()
