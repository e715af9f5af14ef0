"""The agents that are run with and without the gateway: one file each, with what it takes to run it headless.

Every agent is given the same task, in a first run and in a second that resumes the first: make a note with a tool,
look at it, then say what was noted and make a list, with two tools at once.
"""

from __future__ import annotations

from .agent import Agent
from .aider import Aider
from .claude_code import ClaudeCode
from .codex import Codex
from .deepagents import DeepAgents
from .gemini_cli import GeminiCli
from .llm import Llm
from .openai_agents import OpenAIAgents
from .opencode import OpenCode
from .pi import PiAnthropic, PiChat, PiResponses
from .pydantic_ai import PydanticAI
from .sdks import AnthropicSdk, GeminiSdk, OpenAIChat, OpenAIResponses

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
