"""Guides that are shown when they are first needed: per tool, or a section held back from the system text.

Each is given once in a session, with the first successful result of its tool. What was given is remembered by name, and
forgotten where a reset has removed it from the conversation.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import HoldfastError
from holdfast.facts import masked
from holdfast.records import Block, Message, Text, ToolResult

HEADING = "[Tool Guide - shown once per session]"


class GuideSection(Struct, frozen=True, kw_only=True):
    """A part of the system text that is held back until any of these tools is used."""

    name: str
    text: str
    tools: tuple[str, ...]


def wrapped(guide: str) -> str:
    """A guide as it stands at the end of a result. Line breaks at its end are not part of it."""
    return f"---\n{HEADING}\n{guide.rstrip(chr(10))}\n---"


def is_guide(text: str) -> bool:
    """Return whether a block of a result is a guide and not the tool's output."""
    return text.startswith(f"---\n{HEADING}\n") and text.endswith("\n---")


class Guides:
    """The guides of one session. Safe from any thread: of results that come side by side one gets the guide."""

    def __init__(self, guides: Mapping[str, str] = {}, sections: Sequence[GuideSection] = ()) -> None:
        self._guides = {name: masked(text) for name, text in guides.items() if text.strip()}
        self._sections = tuple(replace(each, text=masked(each.text)) for each in sections if each.text.strip())
        self._delivered: set[str] = set()
        self._lock = threading.Lock()
        names = [section.name for section in sections]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise HoldfastError(f"two held-back sections are named {twice!r}; give each a name of its own")

    @property
    def delivered(self) -> frozenset[str]:
        """The guides already sent: `tool:NAME` and `section:NAME`."""
        with self._lock:
            return frozenset(self._delivered)

    def take(self, tool: str, guide: str | None = None) -> tuple[Text, ...]:
        """The blocks to append to this result: the tool's guide, then sections in their order. They count as given.

        Only to be called for a result that succeeded: a failed call must not use up the guide. `guide` is what the tool
        brings along, for tools that were not known when the session began; a guide filed under its name wins.
        """
        with self._lock:
            if guide and guide.strip():
                self._guides.setdefault(tool, masked(guide))
            due = [(key, text) for key, text in self._of(tool) if key not in self._delivered]
            self._delivered.update(key for key, _ in due)
        return tuple(Text(wrapped(text)) for _, text in due)

    def keep(self, messages: Iterable[Message]) -> tuple[str, ...]:
        """A reset left these messages: guides that are in none of their tool results may be sent again.

        Returns the names of those. A guide counts if its whole text is there, even if a result's blocks were joined.
        """
        results = [text for message in messages for text in _result_texts(message.content)]
        with self._lock:
            texts = self._texts()
            freed = {
                key
                for key in self._delivered
                if key not in texts or not any(wrapped(texts[key]) in text for text in results)
            }
            self._delivered -= freed
        return tuple(sorted(freed))

    def free(self, keys: Iterable[str]) -> None:
        """These never reached the conversation, because their turn was cut: they may be given again."""
        with self._lock:
            self._delivered.difference_update(keys)

    def restore(self, delivered: Iterable[str]) -> None:
        """The session goes on after a restart: these were given, and no others."""
        with self._lock:
            self._delivered = set(delivered)

    def _of(self, tool: str) -> Iterator[tuple[str, str]]:
        if tool in self._guides:
            yield f"tool:{tool}", self._guides[tool]
        for section in self._sections:
            if tool in section.tools:
                yield f"section:{section.name}", section.text

    def _texts(self) -> dict[str, str]:
        texts = {f"tool:{name}": text for name, text in self._guides.items()}
        texts.update((f"section:{section.name}", section.text) for section in self._sections)
        return texts


def _result_texts(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, ToolResult):
            yield from (inner.text for inner in block.content if isinstance(inner, Text))
