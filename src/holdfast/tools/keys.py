"""What a session's tools do about keys: commands do not get them, results do not hold them, masks are not written.

A result is masked before anything else is done with it, so that no key is sent, logged or offloaded. The model sees a
mask where the key is; a call that would put the mask back in its place is refused.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from holdfast.config.sections import CommandSettings
from holdfast.facts import MASK, hidden, key_spans, masked
from holdfast.records import Block, Document, Opaque, Text

from .contract import Tool, ToolExecutionError, ToolOutput

_LONGEST_FILE = 4_096


class Keys:
    """`files` hold secrets of this installation. Both they and the environment are read when they are asked for."""

    def __init__(self, settings: CommandSettings, files: Sequence[Path] = ()) -> None:
        self._settings, self._files = settings, tuple(files)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """What commands get of our environment."""
        keys = self._hidden(variables)
        return {name: value for name, value in variables.items() if name not in keys}

    def masked(self, text: str) -> str:
        """The text without keys."""
        return masked(text, self.values())

    def masked_after(self, before: bytes, data: bytes) -> bytes:
        """New output without keys, also without the rest of one that began in the output before it."""
        text = (before + data).decode("latin-1")  # a character for a byte, and keys are ASCII
        pieces: list[str] = []
        at = len(before)
        for start, end in key_spans(text, self.values()):
            if end > at:
                pieces += (text[at : max(at, start)], MASK)
                at = end
        return "".join((*pieces, text[at:])).encode("latin-1")

    def values(self) -> tuple[str, ...]:
        """Secrets that are known by what they are, whatever they look like."""
        secrets = list(self._hidden(os.environ).values())
        for file in self._files:
            with suppress(OSError, ValueError):
                secrets.append(file.read_text("utf-8")[:_LONGEST_FILE].strip())
        return tuple(secrets)

    def output(self, output: ToolOutput) -> ToolOutput:
        """What a tool gave back, without keys; images and other data stay as they are."""
        values = self.values()
        content = tuple(_without(block, values) for block in output.blocks)
        messages = tuple(
            msgspec.structs.replace(message, content=tuple(_without(block, values) for block in message.content))
            for message in output.messages
        )
        return msgspec.structs.replace(output, content=content, messages=messages)

    def check(self, tool: Tool, input: Mapping[str, Any]) -> None:
        """Refuses a call that would write a mask, or hand it to a program that may."""
        if tool.effect not in ("none", "read") and _holds_mask(input):
            raise ToolExecutionError(
                f"The call was not run. Its input holds {MASK!r}, which stands for a key that is kept from you; the "
                "real one would be overwritten with it. Leave that part of the text as it is (patch_file can replace "
                "what stands beside it), or refer to the key by the name of its variable."
            )

    def _hidden(self, variables: Mapping[str, str]) -> dict[str, str]:
        return hidden(variables.items(), self._settings.hide, self._settings.pass_)


def _without(block: Block, values: Sequence[str]) -> Block:
    if isinstance(block, Text):
        text = masked(block.text, values)
        return block if text == block.text else msgspec.structs.replace(block, text=text)
    if isinstance(block, Opaque):
        raw = block.raw.decode("utf-8", "surrogateescape")
        text = masked(raw, values)  # a mask holds nothing that JSON escapes
        return block if text == raw else msgspec.structs.replace(block, raw=text.encode("utf-8", "surrogateescape"))
    if isinstance(block, Document) and block.data is not None and block.media_type == "text/plain":
        return msgspec.structs.replace(block, data=masked(block.data, values))
    return block


def _holds_mask(value: object) -> bool:
    if isinstance(value, str):
        return MASK in value
    if isinstance(value, Mapping):
        return any(_holds_mask(each) for pair in value.items() for each in pair)
    return isinstance(value, (list, tuple)) and any(map(_holds_mask, value))
