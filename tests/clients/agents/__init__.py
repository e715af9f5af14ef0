"""The agents that are run with and without the gateway: one file each, with what it takes to run it headless.

Every agent is given the same task, in a first run and in a second that resumes the first: make a note with a tool,
look at it, then say what was noted and make a list, with two tools at once.
"""

from __future__ import annotations

from tests.clients.agents.agent import Agent
from tests.clients.agents.aider import Aider
from tests.clients.agents.claude_code import ClaudeCode
from tests.clients.agents.codex import Codex
from tests.clients.agents.deepagents import DeepAgents
from tests.clients.agents.gemini_cli import GeminiCli
from tests.clients.agents.llm import Llm
from tests.clients.agents.openai_agents import OpenAIAgents
from tests.clients.agents.opencode import OpenCode
from tests.clients.agents.pi import PiAnthropic, PiChat, PiResponses
from tests.clients.agents.pydantic_ai import PydanticAI
from tests.clients.agents.sdks import AnthropicSdk, GeminiSdk, OpenAIChat, OpenAIResponses

AGENTS: tuple[Agent, ...] = (
    ClaudeCode(),
    Codex(),
    OpenCode(),
    PiAnthropic(),
    PiChat(),
    PiResponses(),
    GeminiCli(),
    Aider(),
    Llm(),
    PydanticAI(),
    OpenAIAgents(),
    DeepAgents(),
    AnthropicSdk(),
    OpenAIChat(),
    OpenAIResponses(),
    GeminiSdk(),
)

__all__ = ["AGENTS", "Agent"]
