"""An agent of the OpenAI Agents SDK."""

from __future__ import annotations

import asyncio

from agents import Agent, Runner, function_tool, set_tracing_disabled

from holdfast.pytest_plugin import Recorder

SCRIPT = [{"call": {"tool": "weather", "input": {"city": "Paris"}}}, "It is sunny.", "You are welcome."]


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sun in {city}"


def test_an_agent(prefix_recorder: Recorder) -> None:
    set_tracing_disabled(True)
    prefix_recorder.script(SCRIPT)
    agent = Agent(name="one", instructions="Be brief.", tools=[weather], model="gpt-5.6")

    async def run() -> None:
        first = await Runner.run(agent, "How is it in Paris?")
        await Runner.run(agent, [*first.to_input_list(), {"role": "user", "content": "Thank you."}])

    asyncio.run(run())
    assert prefix_recorder.assert_stable().compared == 2
