"""The providers' own SDKs, which this project's tests have installed: no agent, so the loop is ours."""

from __future__ import annotations

import sys

from .agent import Library


class Sdk(Library):
    everywhere = True

    def find(self) -> str:
        return sys.executable


class AnthropicSdk(Sdk):
    name, title = "anthropic-sdk", "Anthropic SDK"


class OpenAIChat(Sdk):
    name, title = "openai-chat", "OpenAI SDK (Chat)"


class OpenAIResponses(Sdk):
    name, title = "openai-responses", "OpenAI SDK (Responses)"


class GeminiSdk(Sdk):
    name, title = "gemini-sdk", "Google Gen AI SDK"
    seed = 16
