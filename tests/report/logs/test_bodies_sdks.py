"""Logs as programs on the official SDKs write them: what was asked, and what came back, as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types

from holdfast.report.logs import bodies
from holdfast.simulator import Simulator
from holdfast.simulator.server import running
from tests.report.logs.request_logs import is_mine, requests, write

RULES = "Answer in one sentence. " * 900
QUESTIONS = ("What is the capital of France?", "And of Spain?", "And of Italy?")

# The SDK takes aiohttp where it finds it, and derives from what aiohttp would rather not have derived from.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")

Line = dict[str, Any]
Talk = Callable[[str], Iterator[Line]]


@pytest.fixture(autouse=True)
def nothing_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith(("ANTHROPIC_", "OPENAI_", "GOOGLE_", "GEMINI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def with_anthropic(address: str) -> Iterator[Line]:
    messages: list[Any] = []
    with anthropic.Anthropic(base_url=address, api_key="k") as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            asked = {"model": "claude-sonnet-4-6", "max_tokens": 50, "system": RULES, "messages": list(messages)}
            answer = client.messages.create(**asked, cache_control={"type": "ephemeral"})
            messages.append({"role": "assistant", "content": answer.content[0].model_dump(exclude_none=True)["text"]})
            yield {"request": asked, "response": answer.model_dump(mode="json")}


def with_chat(address: str) -> Iterator[Line]:
    messages: list[Any] = [{"role": "system", "content": RULES}]
    with openai.OpenAI(base_url=f"{address}/v1", api_key="k") as client:
        for question in QUESTIONS:
            messages.append({"role": "user", "content": question})
            answer = client.chat.completions.create(model="gpt-5.5", messages=messages)
            yield {"model": "gpt-5.5", "messages": list(messages), **json.loads(answer.model_dump_json())}
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})


def with_responses(address: str) -> Iterator[Line]:
    items: list[Any] = []
    with openai.OpenAI(base_url=f"{address}/v1", api_key="k") as client:
        for question in QUESTIONS:
            items.append({"role": "user", "content": question})
            asked = {"model": "gpt-5.5", "instructions": RULES, "input": list(items)}
            answer = client.responses.create(**asked)
            yield {"payload": asked, "output": json.loads(answer.model_dump_json())}
            items.append({"role": "assistant", "content": answer.output_text})


def with_gemini(address: str) -> Iterator[Line]:
    contents: list[Any] = []
    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=address))
    settings = types.GenerateContentConfig(system_instruction=RULES)
    for question in QUESTIONS:
        contents.append({"role": "user", "parts": [{"text": question}]})
        answer = client.models.generate_content(model="gemini-2.5-flash", contents=contents, config=settings)
        yield {
            "model": "gemini-2.5-flash",
            "body": {"systemInstruction": {"parts": [{"text": RULES}]}, "contents": list(contents)},
            "response": json.loads(answer.model_dump_json()),
        }
        contents.append({"role": "model", "parts": [{"text": answer.text}]})
    client.close()


@pytest.mark.parametrize("talk", [with_anthropic, with_chat, with_responses, with_gemini])
def test_a_programs_own_log_is_read_as_it_was_billed(tmp_path: Path, talk: Talk) -> None:
    simulator = Simulator(seed=16)
    with running(simulator) as address:
        path = write(tmp_path / "log.jsonl", talk(address))
    billed = [record.usage for record in simulator.journal.records() if record.usage is not None]
    assert is_mine(bodies, path)
    found = requests(bodies, path)
    assert [record.usage for record in found] == billed
    assert any(usage.read for usage in billed)
    assert {(record.session, record.agent) for record in found} == {(f"{tmp_path.name}/log", "")}
    assert all(record.body is not None and record.dialect for record in found)
