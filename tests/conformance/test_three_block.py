"""Seed three-block-system-prompt on the wire: host, preferences and context memory as system blocks.

What memory goes where is not built yet; these are the forms it will be sent in.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.canonical import Message, Request, Text
from holdfast.wire import DIALECTS

HOST, STABLE, CONTEXT = Text("You are an engineer."), Text("Prefers small commits."), "The build uses make."
ONE_HOUR = {"type": "ephemeral", "ttl": "1h"}


def system(stable: bool, context: bool, mark: Any = "1h") -> list[dict[str, Any]]:
    request = Request(
        model="anthropic:claude-opus-5-5",
        system_prompt=(HOST, STABLE) if stable else (HOST,),
        system_prompt_volatile=CONTEXT if context else None,
        messages=(Message("user", (Text("hello"),)),),
    )
    blocks: list[dict[str, Any]] = json.loads(DIALECTS["anthropic"].encode(request, mark=mark))["system"]
    return blocks


@pytest.mark.parametrize(
    ("stable", "context", "texts", "markers"),
    [
        (True, False, [HOST.text, STABLE.text], [None, ONE_HOUR]),
        (True, True, [HOST.text, STABLE.text, CONTEXT], [None, ONE_HOUR, None]),
        (False, True, [HOST.text, CONTEXT], [ONE_HOUR, None]),
        (False, False, [HOST.text], [ONE_HOUR]),
    ],
)
def test_blocks_and_their_markers(stable: bool, context: bool, texts: list[str], markers: list[Any]) -> None:
    """The host is unmarked while a stable block follows it; the context block never carries a marker."""
    blocks = system(stable, context)
    assert [block["text"] for block in blocks] == texts
    assert [block.get("cache_control") for block in blocks] == markers


def test_five_minutes_is_a_plain_marker_without_ttl() -> None:
    assert system(stable=True, context=False, mark="5m")[1]["cache_control"] == {"type": "ephemeral"}


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_openai_dialects_get_both_texts_joined_by_an_empty_line(dialect: str) -> None:
    request = Request(model="openai:gpt-5.5", system_prompt=STABLE.text, system_prompt_volatile=CONTEXT)
    assert f"{STABLE.text}\\n\\n{CONTEXT}".encode() in DIALECTS[dialect].encode(request)
