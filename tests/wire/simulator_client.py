"""A client that asks the simulator, reads its answers and sends them back."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from holdfast.agent.contract import OutgoingRequest, Provider
from holdfast.records import Extra, Message, Request, Text, ToolDefinition, ToolResult, ToolUse
from holdfast.simulator import HttpRequest, Script, Simulator, VirtualClock
from holdfast.simulator import HttpResponse as Response
from holdfast.simulator.messages import Part, Reply, Stop, Thought, ToolCall, Words
from holdfast.wire import DIALECTS
from holdfast.wire.answers import Answer, AnswerReader, Piece
from tests.wire.marked_bodies import encoded

MODELS = {
    "anthropic": "claude-opus-5-5",
    "openai_chat": "deepseek-reasoner",  # shows what it thinks
    "openai_responses": "gpt-6.1-sol",
    "gemini": "gemini-3-pro",
    "openrouter": "deepseek-reasoner",
}
assert {*MODELS} == {*DIALECTS}, "a dialect without a model"
NAMES = tuple(MODELS)
TEXT = 'Ünïcode 😀 and "quotes", back\\slashes,\nlines and a tail that is long enough for several pieces.'
THOUGHT = Thought("Let me think about this for a while.")
WEATHER = ToolCall("call_1", "get_weather", '{"city":"São Paulo \\"x\\"","days":[1,2.5,null]}'.encode())
CLOCK = ToolCall("call_2", "clock", b"{}")
FULL = (THOUGHT, Words(TEXT), WEATHER, CLOCK)
TOOLS = (ToolDefinition("get_weather"), ToolDefinition("clock"))
SYSTEM = "You look after a weather station. " * 800

_REST: dict[str, dict[str, Any]] = {
    "anthropic": {"thinking": {"type": "adaptive"}},
    "openai_chat": {"stream_options": {"include_usage": True}},
    "openai_responses": {
        "store": False,
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    },
    "gemini": {"generationConfig": {"thinkingConfig": {"includeThoughts": True}}},
    "openrouter": {"stream_options": {"include_usage": True}},
}
_PATHS = {"anthropic": "/v1/messages", "openai_responses": "/v1/responses"}
_HEADERS = {"x-api-key": "k", "x-goog-api-key": "k", "authorization": "Bearer k", "anthropic-version": "2023-06-01"}


def replying(*turns: tuple[Part, ...], stop: Stop | None = None) -> Script:
    """A script that says these parts, turn by turn."""

    def reply(request: Request) -> Reply:
        said = sum(message.role == "assistant" for message in request.messages)
        parts = turns[min(said, len(turns) - 1)]
        natural: Stop = "tools" if any(isinstance(part, ToolCall) for part in parts) else "end"
        return Reply(parts, stop or natural, 0)

    return Script(name="turns", function=reply)


def simulator(*turns: tuple[Part, ...], stop: Stop | None = None) -> Simulator:
    return Simulator(script=replying(*turns, stop=stop), clock=VirtualClock())


def asking(dialect: str, *messages: Message, stream: bool = True, limit: int | None = 4000) -> Request:
    members = dict(_REST[dialect])
    if dialect != "gemini":
        members["stream"] = stream
    rest: Extra = tuple((key, msgspec.json.encode(value)) for key, value in members.items())
    return Request(
        model=f"x:{MODELS[dialect]}",
        system_prompt=SYSTEM,
        tools=TOOLS,
        messages=messages or (Message("user", (Text("What is it like?"),)),),
        output_limit=limit,
        rest=rest,
        dialect=dialect,
    )


def call_of(request: Request, *, stream: bool = True, sse: bool = True) -> HttpRequest:
    dialect = request.dialect or ""
    path = _PATHS.get(dialect, "/v1/chat/completions")
    if dialect == "gemini":
        method = "streamGenerateContent" if stream else "generateContent"
        path = f"/v1beta/models/{MODELS[dialect]}:{method}"
    body = encoded(request, dialect)
    return HttpRequest("POST", path, _HEADERS, {"alt": "sse"} if sse else {}, body)


def sent(response: Response) -> bytes:
    return response.body if response.chunks is None else b"".join(response.chunks)


def words(message: Message) -> list[str]:
    return [block.text for block in message.content if isinstance(block, Text)]


def read(dialect: str, *chunks: bytes) -> tuple[Answer, list[Piece]]:
    reader = AnswerReader(dialect)
    pieces = [piece for chunk in chunks for piece in reader.feed(chunk)]
    return reader.close(), pieces


def answered(simulator: Simulator, request: Request, *, stream: bool = True, sse: bool = True) -> Answer:
    response = simulator.answer(call_of(request, stream=stream, sse=sse))
    assert response.status == 200, response.body
    return read(request.dialect or "", sent(response))[0]


def going_on(request: Request, answer: Answer, text: str = "Go on.") -> Request:
    """The next request: the answer as it was read, results for its calls and something new in one message."""
    results = tuple(
        ToolResult(block.id, (Text(f"result of {block.name}"),))
        for block in answer.message.content
        if isinstance(block, ToolUse)
    )
    news = Message("user", (*results, Text(text)))
    return replace(request, messages=(*request.messages, answer.message, news))


async def read_answer(provider: Provider, request: OutgoingRequest) -> Answer:
    """The answer of a provider of the agent's, to its end."""
    reader = AnswerReader(request.dialect)
    async with provider.open(request) as response:
        assert response.status == 200
        async for chunk in response:
            reader.feed(chunk)
    return reader.close()
