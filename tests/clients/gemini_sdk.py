"""What tests of the Google SDK share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.genai import types

from tests.clients.sessions import (
    MANUAL,
    QUESTION,
    THANKS,
    TOOLS,
    Conversation,
    Session,
    Used,
    Workshop,
    schema,
)

MODEL = "gemini-2.5-flash"
SEED = 16
COUNTED = "one two three four five six"
OFFERED: Any = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(name=name, description=description, parameters_json_schema=schema(name))
        for name, (description, _) in TOOLS.items()
    ]
)


def options(address: str, attempts: int = 1) -> types.HttpOptions:
    retry = types.HttpRetryOptions(attempts=attempts, initial_delay=0.0, max_delay=0.0, jitter=0.0)
    return types.HttpOptions(base_url=address, retry_options=retry)


def used(response: types.GenerateContentResponse) -> Used:
    """The SDK's inclusive counts taken apart."""
    usage = response.usage_metadata
    assert usage.prompt_token_count is not None
    read = usage.cached_content_token_count or 0
    output = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    assert usage.total_token_count == usage.prompt_token_count + output
    return Used(usage.prompt_token_count - read, read, 0, output)


class Whole:
    """A response, whole or put together from the pieces of a stream."""

    def __init__(self, pieces: Iterable[types.GenerateContentResponse]) -> None:
        responses = list(pieces)
        self.parts: list[types.Part] = []
        for response in responses:
            assert response.candidates
            content = response.candidates[0].content
            self.parts += (content.parts or []) if content is not None else []
        self.used = used(responses[-1])
        assert responses[-1].candidates
        self.finish = responses[-1].candidates[0].finish_reason

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if part.text and not part.thought)


def conversation(**members: Any) -> Conversation:
    workshop, said, usage = Workshop(), [], []
    contents: list[types.Content] = []
    config = types.GenerateContentConfig(**{"system_instruction": MANUAL, "tools": [OFFERED]} | members)
    for words in (QUESTION, THANKS):
        contents.append(types.Content(role="user", parts=[types.Part(text=words)]))
        while True:
            whole = yield {"model": MODEL, "contents": contents, "config": config}
            assert whole.finish == types.FinishReason.STOP
            said.extend([whole.text] if whole.text else [])
            usage.append(whole.used)
            contents.append(types.Content(role="model", parts=whole.parts))
            calls = [part.function_call for part in whole.parts if part.function_call]
            if not calls:
                break
            results = [
                types.Part(
                    function_response=types.FunctionResponse(
                        id=call.id, name=call.name, response={"output": workshop.use(call.name, call.args)}
                    )
                )
                for call in calls
            ]
            contents.append(types.Content(role="user", parts=results))
    return Session(said, workshop.calls, usage)
