"""The fixture at work with the official SDKs, as it would be used in a test of an agent."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import anthropic
import httpx
import httpx2
import openai
import pytest
from google import genai

from holdfast.errors import HoldfastError
from holdfast.pytest_plugin import PrefixUnstable, Recorder, assert_prefix_stable
from holdfast.pytest_plugin.recorder import KEY, serving

QUESTIONS = ("How is the weather?", "And tomorrow?", "Thank you.")
CLAUDE, GPT, GEMINI = "claude-opus-5-5", "gpt-5.6", "gemini-2.5-flash"
TOOL = {"name": "weather", "description": "The weather in a city.", "input_schema": {"type": "object"}}


class Chat:
    """A conversation with a system text that may change: what an agent under test would be."""

    def __init__(self, clock: bool) -> None:
        self.said: list[Any] = []
        self._clock = clock

    def system(self) -> str:
        return f"Be brief. It is 12:00:0{len(self.said)}." if self._clock else "Be brief."


def anthropic_plain(chat: Chat) -> None:
    with anthropic.Anthropic() as client:
        for question in QUESTIONS:
            chat.said.append({"role": "user", "content": question})
            system, said = chat.system(), chat.said
            answer = client.messages.create(model=CLAUDE, max_tokens=50, system=system, messages=said)
            chat.said.append({"role": "assistant", "content": answer.content})


def anthropic_stream(chat: Chat) -> None:
    async def run() -> None:
        async with anthropic.AsyncAnthropic() as client:
            for question in QUESTIONS:
                chat.said.append({"role": "user", "content": question})
                stream = client.messages.stream(model=CLAUDE, max_tokens=50, system=chat.system(), messages=chat.said)
                async with stream as answers:
                    answer = await answers.get_final_message()
                chat.said.append({"role": "assistant", "content": answer.content})

    asyncio.run(run())


def chat_plain(chat: Chat) -> None:
    async def run() -> None:
        async with openai.AsyncOpenAI() as client:
            for question in QUESTIONS:
                chat.said.append({"role": "user", "content": question})
                messages = [{"role": "system", "content": chat.system()}, *chat.said]
                answer = await client.chat.completions.create(model=GPT, messages=messages)
                chat.said.append(answer.choices[0].message)

    asyncio.run(run())


def chat_stream(chat: Chat) -> None:
    with openai.OpenAI() as client:
        for question in QUESTIONS:
            chat.said.append({"role": "user", "content": question})
            messages = [{"role": "system", "content": chat.system()}, *chat.said]
            chunks = client.chat.completions.create(model=GPT, messages=messages, stream=True)
            text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
            chat.said.append({"role": "assistant", "content": text})


def responses_plain(chat: Chat) -> None:
    with openai.OpenAI() as client:
        for question in QUESTIONS:
            chat.said.append({"role": "user", "content": question})
            answer = client.responses.create(model=GPT, instructions=chat.system(), input=chat.said)
            chat.said += answer.output


def responses_continued(chat: Chat) -> None:
    """Only what is new is sent; the provider holds the rest."""
    with openai.OpenAI() as client:
        previous: dict[str, str] = {}
        for question in QUESTIONS:
            chat.said.append(question)
            answer = client.responses.create(model=GPT, instructions=chat.system(), input=question, **previous)
            previous = {"previous_response_id": answer.id}


def gemini_plain(chat: Chat) -> None:
    client = genai.Client()
    for question in QUESTIONS:
        chat.said.append({"role": "user", "parts": [{"text": question}]})
        config = {"system_instruction": chat.system()}
        answer = client.models.generate_content(model=GEMINI, contents=chat.said, config=config)
        chat.said.append({"role": "model", "parts": [{"text": answer.text}]})
    client.close()


def gemini_stream(chat: Chat) -> None:
    async def run() -> None:
        client = genai.Client().aio
        for question in QUESTIONS:
            chat.said.append({"role": "user", "parts": [{"text": question}]})
            config = {"system_instruction": chat.system()}
            stream = await client.models.generate_content_stream(model=GEMINI, contents=chat.said, config=config)
            text = "".join([chunk.text or "" async for chunk in stream])
            chat.said.append({"role": "model", "parts": [{"text": text}]})
        await client.aclose()

    asyncio.run(run())


SDKS = [
    (anthropic_plain, "anthropic"),
    (anthropic_stream, "anthropic"),
    (chat_plain, "openai_chat"),
    (chat_stream, "openai_chat"),
    (responses_plain, "openai_responses"),
    (responses_continued, "openai_responses"),
    (gemini_plain, "gemini"),
    (gemini_stream, "gemini"),
]


@pytest.mark.parametrize(("talk", "dialect"), SDKS, ids=lambda each: getattr(each, "__name__", ""))
@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
def test_an_sdk_is_recorded_as_it_is(prefix_recorder: Recorder, talk: Any, dialect: str) -> None:
    """No client is told of the recorder: it is found by the environment."""
    talk(Chat(clock=False))
    assert {one.dialect for one in prefix_recorder.requests} == {dialect}
    checked = prefix_recorder.assert_stable()
    assert (checked.requests, checked.compared, checked.conversations) == (3, 2, 1)
    prefix_recorder.clear()
    talk(Chat(clock=True))
    with pytest.raises(PrefixUnstable) as caught:
        assert_prefix_stable(prefix_recorder)
    assert [(one.request, one.cause, one.cure.name) for one in caught.value.checked.unstable] == [
        (2, "system_prompt_changed", "clock"),
        (3, "system_prompt_changed", "clock"),
    ]


def test_what_is_kept_of_a_request(prefix_recorder: Recorder) -> None:
    anthropic_plain(Chat(clock=False))
    first = prefix_recorder.requests[0]
    assert (first.number, first.path, first.status, first.error) == (1, "/v1/messages", 200, "")
    assert first.json()["messages"] == [{"role": "user", "content": QUESTIONS[0]}]
    assert first.headers["user-agent"].startswith("Anthropic/Python")
    assert KEY not in repr(prefix_recorder.requests)
    assert len(prefix_recorder) == len(list(prefix_recorder)) == 3
    times = [one.at for one in prefix_recorder]
    assert times == sorted(times)


def test_the_model_follows_a_script(prefix_recorder: Recorder) -> None:
    prefix_recorder.script([{"call": {"tool": "weather", "input": {"city": "Paris"}}}, "It is sunny."])
    said: list[Any] = [{"role": "user", "content": QUESTIONS[0]}]
    with anthropic.Anthropic() as client:
        call = client.messages.create(model=CLAUDE, max_tokens=50, tools=[TOOL], messages=said)
        (use,) = [block for block in call.content if block.type == "tool_use"]
        assert (use.name, use.input) == ("weather", {"city": "Paris"})
        said.append({"role": "assistant", "content": call.content})
        said.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "sun"}]})
        answer = client.messages.create(model=CLAUDE, max_tokens=50, tools=[TOOL], messages=said)
    assert answer.content[0].text == "It is sunny."  # type: ignore[union-attr]
    assert prefix_recorder.assert_stable().compared == 1


def test_scripts_in_every_form(prefix_recorder: Recorder, tmp_path: Any) -> None:
    (tmp_path / "script.yaml").write_text("rules:\n- say: from a file\n", "utf-8")

    def function(request: Any) -> str:
        return f"{len(request.messages)} messages"

    rules = {"rules": [{"when": {"contains": "weather"}, "say": "by a rule"}]}
    for script, expected in (
        (tmp_path / "script.yaml", "from a file"),
        (str(tmp_path / "script.yaml"), "from a file"),
        (function, "1 messages"),
        (rules, "by a rule"),
        (["a turn"], "a turn"),
    ):
        prefix_recorder.script(script)
        with anthropic.Anthropic() as client:
            asked = [{"role": "user", "content": QUESTIONS[0]}]
            answer = client.messages.create(model=CLAUDE, max_tokens=50, messages=asked)
        assert answer.content[0].text == expected
    with pytest.raises(HoldfastError, match=r"prefix_recorder\.script:1: unknown key `sya` in a turn"):
        prefix_recorder.script([{"sya": "Hi."}])


def test_what_generates_nothing_is_not_recorded(prefix_recorder: Recorder) -> None:
    with anthropic.Anthropic() as client:
        assert list(client.models.list())
        client.messages.count_tokens(model=CLAUDE, messages=[{"role": "user", "content": "Hi."}])
    assert prefix_recorder.requests == ()


def test_refused_requests_are_recorded_but_prove_nothing(prefix_recorder: Recorder) -> None:
    with anthropic.Anthropic() as client, pytest.raises(anthropic.BadRequestError):
        client.messages.create(model=CLAUDE, max_tokens=50, messages=[])
    assert [one.status for one in prefix_recorder] == [400]
    with pytest.raises(PrefixUnstable, match="1 request was refused; the first: messages: at least one"):
        prefix_recorder.assert_stable()


def test_a_request_sent_again_after_a_failure_is_no_departure(prefix_recorder: Recorder) -> None:
    from holdfast.simulator.faults import read_faults

    for fault in read_faults(json.dumps({"kind": "status", "options": {"status": 529}, "times": 1}).encode()):
        prefix_recorder.simulator.faults.add(fault)
    anthropic_plain(Chat(clock=False))
    assert [one.status for one in prefix_recorder] == [529, 200, 200, 200]
    checked = prefix_recorder.assert_stable()
    assert (checked.refused, checked.compared) == (1, 2)


def test_addresses_and_environment(prefix_recorder: Recorder) -> None:
    assert os.environ["ANTHROPIC_BASE_URL"] == prefix_recorder.base_url("anthropic") == prefix_recorder.url
    assert os.environ["OPENAI_BASE_URL"] == prefix_recorder.base_url("openai") == f"{prefix_recorder.url}/v1"
    assert os.environ["GOOGLE_GEMINI_BASE_URL"] == prefix_recorder.base_url("gemini")
    assert {os.environ[name] for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")} == {KEY}
    assert prefix_recorder.url.startswith("http://127.0.0.1:")
    with pytest.raises(HoldfastError, match="there is no provider 'openia'"):
        prefix_recorder.base_url("openia")


def test_keys_of_the_user_do_not_leave_the_machine(prefix_recorder: Recorder) -> None:
    """Whatever the environment has: a client that goes elsewhere goes there with a key that opens nothing."""
    given = {"GEMINI_API_KEY": "mine", "ANTHROPIC_API_KEY": "mine", "NO_PROXY": "example.com"}
    found = prefix_recorder.environment(given)
    assert found["GEMINI_API_KEY"] == found["ANTHROPIC_API_KEY"] == KEY
    assert "GOOGLE_API_KEY" not in found  # with both, Google's SDK complains
    assert found["NO_PROXY"] == "example.com,127.0.0.1"


def test_programs_that_the_test_starts_are_recorded_too(prefix_recorder: Recorder) -> None:
    program = """
import json, os, urllib.request
body = json.dumps({"model": "claude-opus-5-5", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi."}]})
headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}
address = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
urllib.request.urlopen(urllib.request.Request(address, body.encode(), headers)).close()
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    assert [one.json()["messages"][0]["content"] for one in prefix_recorder] == ["Hi."]


def test_requests_of_another_test_do_not_come_up_here() -> None:
    with serving(assert_prefix_stable) as server:
        with server.recorder() as before:
            address = f"{before.url}/v1/messages"
        with server.recorder() as after:
            raw = json.dumps({"model": CLAUDE, "max_tokens": 5, "messages": []}).encode()
            with pytest.raises(HTTPError) as late:
                urlopen(Request(address, raw, {"content-type": "application/json"}))
            with late.value:
                assert late.value.code == 410
            assert (before.requests, after.requests) == ((), ())


async def test_clients_without_a_socket(prefix_recorder: Recorder) -> None:
    """A client of the SDKs' own library that answers in this process, wherever it is told to go."""
    http = prefix_recorder.http_client()
    with anthropic.Anthropic(base_url="https://api.anthropic.com", http_client=http) as client:
        said: list[Any] = []
        for question in QUESTIONS:
            said.append({"role": "user", "content": question})
            with client.messages.stream(model=CLAUDE, max_tokens=50, messages=said) as stream:
                said.append({"role": "assistant", "content": stream.get_final_message().content})
    assert prefix_recorder.assert_stable().compared == 2
    prefix_recorder.clear()
    client = prefix_recorder.http_client(asynchronous=True)
    async with openai.AsyncOpenAI(base_url="https://api.openai.com/v1", http_client=client) as asking:
        await asking.chat.completions.create(model=GPT, messages=[{"role": "user", "content": "Hi."}])
    assert [one.path for one in prefix_recorder] == ["/v1/chat/completions"]


ANSWER = {"id": "msg_1", "type": "message", "role": "assistant", "model": CLAUDE, "stop_reason": "end_turn"}
ANSWER |= {"content": [{"type": "text", "text": "Yes."}], "usage": {"input_tokens": 5, "output_tokens": 2}}


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_a_transport_around_that_of_the_test(prefix_recorder: Recorder, library: Any) -> None:
    """Tests that answer their clients themselves have them recorded on the way."""
    closed = []

    class Mocked(library.MockTransport):  # type: ignore[misc]
        def close(self) -> None:
            closed.append("close")

        async def aclose(self) -> None:
            closed.append("aclose")

    inner = Mocked(lambda request: library.Response(200, json=ANSWER))
    said = [{"role": "user", "content": "Is it?"}, {"role": "assistant", "content": "Yes."}]
    with library.Client(transport=prefix_recorder.transport(inner)) as client:
        for messages in (said[:1], [*said, *said[:1]]):
            body = {"model": CLAUDE, "max_tokens": 50, "messages": messages}
            headers = {"x-api-key": "secret"}
            answer = client.post("https://api.anthropic.com/v1/messages", json=body, headers=headers)
            assert answer.json() == ANSWER
        client.get("https://api.anthropic.com/v1/models")
    assert prefix_recorder.assert_stable().compared == 1
    assert "secret" not in repr(prefix_recorder.requests)
    transport = prefix_recorder.transport(inner)
    async with library.AsyncClient(transport=transport) as client:
        body = {"model": CLAUDE, "max_tokens": 50, "messages": said[:1]}
        assert (await client.post("https://api.anthropic.com/v1/messages", json=body)).json() == ANSWER
    assert len(prefix_recorder) == 3
    assert closed == ["close", "aclose"]


def test_bodies_recorded_by_hand(prefix_recorder: Recorder) -> None:
    said = [{"role": "user", "content": "Is it?"}, {"role": "assistant", "content": "Yes."}]
    for messages in (said[:1], [*said, *said[:1]]):
        prefix_recorder.record({"model": "mine", "messages": messages}, "anthropic")
    assert prefix_recorder.assert_stable().compared == 1
    path = "/v1beta/models/gemini-2.5-flash:generateContent"
    assert prefix_recorder.record(b'{"contents":[]}', path=path).model == "gemini-2.5-flash"
    assert [one.number for one in prefix_recorder] == [1, 2, 3]
    with pytest.raises(HoldfastError, match="has none of the members that a model call has; name its dialect"):
        prefix_recorder.record({})


def test_threads_may_send_at_the_same_time(prefix_recorder: Recorder) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with anthropic.Anthropic(http_client=prefix_recorder.http_client()) as client, ThreadPoolExecutor(8) as threads:

        def ask(number: int) -> str:
            asked = [{"role": "user", "content": f"Question {number}"}]
            return client.messages.create(model=CLAUDE, max_tokens=50, messages=asked).content[0].text

        assert list(threads.map(ask, range(40))) == [f"Question {number}" for number in range(40)]
    assert [one.number for one in prefix_recorder] == list(range(1, 41))
