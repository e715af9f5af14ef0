"""Which rules a model's provider has: the one place where models meet rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct

from holdfast.facts import ModelFacts

from . import anthropic, chain, deepseek, gemini, llama, openai, openai_breakpoints, vllm
from .chain import NO_CONTROLS
from .gemini_contents import CachedContents
from .prompts import Block, Cache, CacheControls, Outcome, Prompt, Section
from .streams import Room


class Rules(Struct, frozen=True):
    """A provider's cache and the order of its prompts. `by_token`: matched token by token, not block by block.

    `all_tools`: any change of the tools loses the whole prefix, wherever they are in it.
    """

    make: Callable[[ModelFacts], Cache]
    affecting: Mapping[str, Section]
    order: Sequence[Section] = ("system", "tools", "messages")
    by_token: bool = False
    all_tools: bool = False
    keeps_output: bool = False


class NoCache(Cache):
    """A provider that has no cache or whose cache rules are unknown."""

    def __init__(self, model: ModelFacts) -> None:
        self._model = model

    def begin(self, prompt: Prompt, now: float) -> Outcome:
        return Outcome(prompt, now, 0, prompt.tokens, why=(f"{self._model.ref} has no prompt cache",))


_ANTHROPIC = Rules(anthropic.AnthropicCache, anthropic.AFFECTING, anthropic.ORDER)
_BREAKPOINTS = Rules(openai_breakpoints.OpenAIBreakpoints, openai_breakpoints.AFFECTING, all_tools=True)
_RULES = {
    "openai": Rules(openai.OpenAIPrefix, openai_breakpoints.AFFECTING, by_token=True),
    "gemini": Rules(gemini.GeminiCache, gemini.AFFECTING, by_token=True),
    "deepseek": Rules(deepseek.DeepSeek, deepseek.AFFECTING, by_token=True, keeps_output=True),
    "vllm": Rules(vllm.Vllm, vllm.AFFECTING, by_token=True, keeps_output=True),
    "llama": Rules(llama.Llama, llama.AFFECTING, by_token=True, keeps_output=True),
}
_NONE = Rules(NoCache, {})


_MARKERS = ("cache_control", "cachePoint")
_VENDORS = {"google": "gemini"}


def rules(model: ModelFacts) -> Rules:
    """The rules of the cache a request ends in, whatever its route calls the markers."""
    if model.caching == "none":
        return _NONE
    if model.breakpoints or model.limits.explicit_markers:
        return _BREAKPOINTS
    if model.marker in _MARKERS:
        return _ANTHROPIC
    return _RULES.get(_vendor(model), _NONE)


def _vendor(model: ModelFacts) -> str:
    """Return the vendor whose cache it is; OpenRouter puts the vendor before the model's name."""
    vendor = model.name.partition("/")[0] if model.provider == "openrouter" else model.provider
    return _VENDORS.get(vendor, vendor)


def cache(
    model: ModelFacts, *, seed: int = 0, contents: CachedContents | None = None, room: Room | None = None
) -> Cache:
    """An empty cache under the rules of the model's provider.

    `seed` is for those that leave something to chance; `contents` are the cached objects that requests may name;
    `room` is what it shares with others that match token by token.
    """
    made = rules(model).make
    if made is gemini.GeminiCache:
        return gemini.GeminiCache(model, seed=seed, contents=contents, room=room)
    if made is openai.OpenAIPrefix or made is deepseek.DeepSeek:
        return made(model, room=room)
    return made(model)


def prompt(
    model: ModelFacts,
    blocks: Sequence[Block],
    controls: CacheControls = NO_CONTROLS,
    *,
    like: Prompt | None = None,
    same: bool = False,
) -> Prompt:
    """What the provider's cache sees of a request with these blocks. `same` if its settings, and its blocks other than
    messages, are known to be those of `like`."""
    provider = rules(model)
    if provider is _ANTHROPIC:
        return anthropic.marked_prompt(model, blocks, controls, like=like, same=same)
    salts: dict[Section, bytes] = {}
    if provider.all_tools:
        tools = b"".join([block.digest for block in blocks if block.section == "tools"])
        salts[provider.order[0]] = sha256(tools).digest()
    for name, value in sorted(controls.settings.items()):
        if (section := provider.affecting.get(name)) is not None:
            salts[section] = salts.get(section, b"") + name.encode() + b"=" + value + b"\0"
    return chain.build(model.ref, blocks, controls, order=provider.order, salts=salts, like=like)
