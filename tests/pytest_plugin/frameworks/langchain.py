"""Chat models of LangChain: called at once, awaited and streamed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from holdfast.pytest_plugin import PrefixUnstable, Recorder

SCRIPT = [{"call": {"tool": "weather", "input": {"city": "Paris"}}}, "It is sunny.", "You are welcome."]


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sun in {city}"


MODELS = {
    "anthropic": lambda: ChatAnthropic(model="claude-opus-5-5"),
    "openai_chat": lambda: ChatOpenAI(model="gpt-5.6", use_responses_api=False),
    "openai_responses": lambda: ChatOpenAI(model="gpt-5.6", use_responses_api=True),
}


@pytest.mark.parametrize("dialect", MODELS)
def test_a_chat_model(prefix_recorder: Recorder, dialect: str) -> None:
    prefix_recorder.script(SCRIPT)
    model: Any = MODELS[dialect]().bind_tools([weather])
    said: list[Any] = [SystemMessage("Be brief."), HumanMessage("How is it in Paris?")]

    async def run() -> None:
        answer = model.invoke(said)
        said.append(answer)
        said.extend(ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in answer.tool_calls)
        said.append(await model.ainvoke(said))
        said.append(HumanMessage("Thank you."))
        assert [chunk async for chunk in model.astream(said)]

    asyncio.run(run())
    assert {one.dialect for one in prefix_recorder} == {dialect}
    assert prefix_recorder.assert_stable().compared == 2
    said[1] = HumanMessage("How is it in Paris, by the way?")
    model.invoke(said)
    with pytest.raises(PrefixUnstable, match="messages_rewritten"):
        prefix_recorder.assert_stable()
