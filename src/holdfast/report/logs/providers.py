"""What clients call providers and models, in the words of `facts`; and the parts that their logs have in common."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated

from msgspec import Meta

from holdfast.facts import default
from holdfast.records import UNSPLIT, Usage

Count = Annotated[int, Meta(ge=0, le=2**53)]
"""A number of tokens as a log may say it; no prompt is longer."""

_SAME = {
    "azure": "openai",
    "azure-cognitive-services": "openai",
    "azure-openai": "openai",
    "azure-openai-responses": "openai",
    "openai-codex": "openai",
    "amazon-bedrock": "bedrock",
    "google": "gemini",
    "google-antigravity": "gemini",
    "google-gemini-cli": "gemini",
    "google-generative-ai": "gemini",
    "google-vertex": "gemini",
    "google-vertex-anthropic": "anthropic",
}
_WRITTEN = {"openai": "30m"}
"""Providers whose written tokens have one lifetime."""


@lru_cache(maxsize=1024)
def named(provider: str, model: str) -> str:
    """`provider:name` where the provider is a known one; else the name alone, whose family tells the provider."""
    known = _SAME.get(provider.lower(), provider.lower())
    if not model or known not in default().providers():
        return model
    return f"{known}:{model}"


@lru_cache(maxsize=1024)
def write_ttl(model: str) -> str:
    """The lifetime of what a model's request has written, where the log has only the sum."""
    return _WRITTEN.get(default().model(model).provider, UNSPLIT)


def usage_of(model: str, *, input: int, read: int, written: int, output: int) -> Usage:
    """Disjoint counts as a usage; written tokens with the lifetime they must have had."""
    writes = ((write_ttl(model), written),) if written else ()
    return Usage(input=input, read=read, writes=writes, output=output)


def seconds(text: str | None) -> float | None:
    """Seconds since 1970 of a date in ISO form; None where it is none. Times without a zone are UTC."""
    if not text:
        return None
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


class Cuts:
    """Where conversations were cut. Every model that went on with one before is told of the cut at its next request:
    what it had cached of the conversation does not go on."""

    def __init__(self) -> None:
        self._cuts: dict[Hashable, tuple[int, str]] = {}
        self._known: dict[tuple[Hashable, str], int] = {}

    def cut(self, conversation: Hashable, reason: str) -> None:
        number, _ = self._cuts.get(conversation, (0, ""))
        self._cuts[conversation] = (number + 1, reason)

    def reason(self, conversation: Hashable, model: str) -> str | None:
        """Why a model's request does not go on with its request before; None where it does, or has none before."""
        number, reason = self._cuts.get(conversation, (0, ""))
        known = self._known.get((conversation, model), number)
        self._known[conversation, model] = number
        return reason if number > known else None
