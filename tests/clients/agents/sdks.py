"""The providers' own SDKs, which this project's tests have installed: no agent, so the loop is ours."""

from __future__ import annotations

import sys
from importlib import metadata

from tests.clients.agents.agent import Library


class Sdk(Library):
    everywhere = True
    package: str

    @property
    def version(self) -> str:
        return metadata.version(self.package)

    def find(self) -> str:
        return sys.executable


class AnthropicSdk(Sdk):
    name, title = "anthropic-sdk", "Anthropic SDK"
    package = "anthropic"


class OpenAIChat(Sdk):
    name, title = "openai-chat", "OpenAI SDK (Chat)"
    package = "openai"


class OpenAIResponses(Sdk):
    name, title = "openai-responses", "OpenAI SDK (Responses)"
    package = "openai"


class GeminiSdk(Sdk):
    name, title = "gemini-sdk", "Google Gen AI SDK"
    package = "google-genai"
    seed = 16
