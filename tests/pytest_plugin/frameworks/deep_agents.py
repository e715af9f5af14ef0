"""An agent of deepagents, which is built on LangChain and places Anthropic's markers itself."""

from __future__ import annotations

from deepagents import create_deep_agent
from langchain_anthropic import ChatAnthropic

from holdfast.pytest_plugin import Recorder

SCRIPT = [{"call": {"tool": "weather", "input": {"city": "Paris"}}}, "It is sunny.", "You are welcome."]


def weather(city: str) -> str:
    """The weather in a city."""
    return f"sun in {city}"


def test_an_agent(prefix_recorder: Recorder) -> None:
    prefix_recorder.script(SCRIPT)
    agent = create_deep_agent(model=ChatAnthropic(model="claude-opus-5-5"), tools=[weather], system_prompt="Be brief.")
    said = agent.invoke({"messages": [("user", "How is it in Paris?")]})["messages"]
    agent.invoke({"messages": [*said, ("user", "Thank you.")]})
    assert prefix_recorder.assert_stable(require_markers=True).compared == 2
