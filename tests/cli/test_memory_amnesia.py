"""`holdfast chat --amnesia`: what is said is not remembered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.chats import Chatting

SCRIPT = """
delay: {first_token: 0, per_token: 0}
rules:
  - when: {tool_result: knowledge_add}
    say: "It said {tool_result}"
  - when: {tool_result: memory_add}
    say: "It said {tool_result}"
  - when: {contains: KEEP-AN-ENTRY}
    call: {tool: knowledge_add, input: {title: Something new, content: It is so.}}
  - when: {contains: KEEP-A-LINE}
    call: {tool: memory_add, input: {file: memory, text: Something new}}
"""


@pytest.fixture
def chat(chat: Chatting) -> Chatting:
    chat.script.write_text(SCRIPT, "utf-8")
    return chat


def notes(chat: Chatting) -> Path:
    return chat.workspace / ".holdfast" / "MEMORY.md"


def test_without_it_things_are_kept(chat: Chatting) -> None:
    assert "Kept as k" in chat("--yes", "KEEP-AN-ENTRY").out
    chat("--yes", "KEEP-A-LINE")
    assert "Something new" in notes(chat).read_text()


def test_nothing_is_written_and_the_model_is_told(chat: Chatting) -> None:
    for words in ("KEEP-AN-ENTRY", "KEEP-A-LINE"):
        assert "reads memory and writes none" in chat("--yes", "--amnesia", words).out
    assert not notes(chat).exists()


def test_a_session_that_began_so_goes_on_so(chat: Chatting) -> None:
    begun = chat("--amnesia", "Hello")
    assert f"--amnesia --resume {begun.session}" in begun.err
    assert "reads memory and writes none" in chat("--yes", "--resume", begun.session, "KEEP-AN-ENTRY").out


def test_a_session_that_did_not_can_go_on_so(chat: Chatting) -> None:
    begun = chat("Hello").session
    assert "reads memory and writes none" in chat("--yes", "--amnesia", "--resume", begun, "KEEP-AN-ENTRY").out
    assert "Kept as k" in chat("--yes", "--resume", begun, "KEEP-AN-ENTRY").out
