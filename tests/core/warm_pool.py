"""A lane whose requests have been answered: real bodies, read as a cache sees them, under the real rules."""

from __future__ import annotations

import copy
import json

from holdfast import facts
from holdfast.caches.anthropic import AnthropicCache
from holdfast.caches.entries import Entries
from holdfast.caches.openai_breakpoints import OpenAIBreakpoints
from holdfast.caches.prompts import Prompt
from holdfast.caches.providers import rules
from holdfast.config.sections.cache import CacheSettings
from holdfast.core.ledger import Ledger
from holdfast.core.plan import SECTIONS, Sent
from holdfast.core.situation import Situation
from holdfast.facts import ModelFacts
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader
from tests.properties.sessions import RENDER, Talk

OPUS = facts.model("anthropic:claude-opus-5-5")
LONG = "what the tool had to say about the matter at hand "


def talk(rounds: int = 3, *, parallel: int = 1, words: int = 60, marks: tuple[tuple[str, str], ...] = ()) -> Talk:
    """A user's question and rounds of tool calls, so many results in a message."""
    turns: list[tuple[str, int, list[str]]] = [("user", 0, ["find the fault " * 100])]
    for number in range(1, rounds + 1):
        calls = [f"call {number}.{i}" for i in range(parallel)]
        turns += [("calls", number, calls), ("results", number, [f"{call}: " + LONG * words for call in calls])]
    return Talk(["You are an engineer. " * 100], ["bash"], turns, marks=list(marks))


def with_result(said: Talk, number: int, place: int, text: str) -> Talk:
    """The same talk with one result of a round replaced."""
    after = copy.deepcopy(said)
    for kind, turn, texts in after.turns:
        if (kind, turn) == ("results", number):
            texts[place] = text
    return after


def raw_of(said: Talk, model: ModelFacts = OPUS, dialect: str = "anthropic") -> bytes:
    return json.dumps(RENDER[dialect](said, model.name)).encode()


def body_of(raw: bytes, dialect: str = "anthropic", model: str = "") -> Body:
    body = DIALECTS[dialect].parse(raw, model=model)
    assert isinstance(body, Body)
    return body


def read(said: Talk, model: ModelFacts = OPUS, dialect: str = "anthropic") -> Prompt:
    return PromptReader().read(body_of(raw_of(said, model, dialect), dialect, model.name), model).prompt


class Pool(Entries):
    """The entries that requests leave behind under the model's rules."""

    def __init__(self, model: ModelFacts = OPUS) -> None:
        super().__init__()
        cache = rules(model).make
        assert cache is AnthropicCache or cache is OpenAIBreakpoints
        self._cache = cache(model, self)

    def send(self, prompt: Prompt, now: float, *, answered: bool = True) -> None:
        outcome = self._cache.begin(prompt, now)
        if answered:
            self._cache.first_token(outcome, now)


def sent(prompt: Prompt, at: float = 0.0) -> Sent:
    return Sent(
        call="c",
        at=at,
        model=prompt.model,
        digests=b"".join(block.digest for block in prompt.blocks),
        tokens=b"".join(block.tokens.to_bytes(4, "little") for block in prompt.blocks),
        sections=bytes(SECTIONS.index(block.section) for block in prompt.blocks),
    )


def situation(
    prompt: Prompt,
    pool: Entries,
    now: float,
    *,
    ledger: Ledger | None = None,
    model: ModelFacts = OPUS,
    edits: str = "priced",
) -> Situation:
    return Situation(
        prompt=prompt,
        model=model,
        now=now,
        pool=pool,
        ledger=Ledger() if ledger is None else ledger,
        settings=CacheSettings(edits="never" if edits == "never" else "priced"),
    )
