"""Agents of pydantic-ai."""

from __future__ import annotations

import pytest
from pydantic_ai import Agent

from holdfast.pytest_plugin import PrefixUnstable, Recorder

SCRIPT = [{"call": {"tool": "weather", "input": {"city": "Paris"}}}, "It is sunny.", "You are welcome."]


def weather(city: str) -> str:
    """The weather in a city."""
    return f"sun in {city}"


@pytest.mark.parametrize(
    ("model", "dialect"),
    [
        ("anthropic:claude-opus-5-5", "anthropic"),
        ("openai-chat:gpt-5.6", "openai_chat"),
        ("openai-responses:gpt-5.6", "openai_responses"),
    ],
)
def test_an_agent(prefix_recorder: Recorder, model: str, dialect: str) -> None:
    prefix_recorder.script(SCRIPT)
    agent = Agent(model, instructions="Be brief.", tools=[weather])
    first = agent.run_sync("How is the weather in Paris?")
    assert first.output == "It is sunny."
    agent.run_sync("Thank you.", message_history=first.all_messages())
    assert {one.dialect for one in prefix_recorder} == {dialect}
    assert prefix_recorder.assert_stable().compared == 2


def test_an_agent_that_is_told_the_time(prefix_recorder: Recorder) -> None:
    prefix_recorder.script(SCRIPT)
    clock = iter(range(10))
    agent = Agent("anthropic:claude-opus-5-5", tools=[weather])

    @agent.instructions
    def told() -> str:
        return f"Be brief. It is 12:00:0{next(clock)}."

    agent.run_sync("How is the weather in Paris?")
    with pytest.raises(PrefixUnstable, match="system_prompt_changed") as caught:
        prefix_recorder.assert_stable()
    assert caught.value.checked.unstable[0].cure.name == "clock"
