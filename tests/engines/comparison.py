"""Sends the same conversations to a real engine and to a cache, and lines up what each says was read."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from holdfast.caches.prompts import Cache
from tests.engines.conftest import block_of, prompt_of
from tests.engines.conversations import Conversation, steps

UNRELATED = 5
"""Tokens that unrelated prompts may share; a wrong model must be further off than that."""


class Asked(NamedTuple):
    """One request to the engine: what was done to its conversation, its tokens, what was cached, what was sampled."""

    kind: str
    ids: list[int]
    cached: int
    sampled: list[int]


Compared = list[tuple[str, int, int]]
"""What was done to the conversation, what our model says was read, what the engine says."""


class Server(Protocol):
    def tokens(self, conversation: Conversation) -> list[int]: ...

    def ask(self, conversation: Conversation) -> tuple[int, int, str, list[int]]: ...


def record(server: Server, seed: int, requests: int) -> list[Asked]:
    asked: list[Asked] = []
    answers: list[str] = []
    for kind, conversation in steps(seed, requests, answers):
        ids = server.tokens(conversation)
        counted, cached, answer, sampled = server.ask(conversation)
        assert counted == len(ids), "the engine's own tokenizer disagrees with its usage"
        answers.append(answer)
        asked.append(Asked(kind, ids, cached, sampled))
    return asked


def line_up(asked: list[Asked], cache: Cache, *, keep_output: bool = True) -> Compared:
    compared: Compared = []
    for number, one in enumerate(asked):
        outcome = cache.begin(prompt_of(one.ids), float(number))
        cache.first_token(outcome, float(number))
        cache.finish(outcome, [block_of(one.sampled)] if keep_output else [], float(number))
        compared.append((one.kind, outcome.read, one.cached))
    return compared


def differing(compared: Compared, tolerance: int = 0) -> Compared:
    return [row for row in compared if abs(row[1] - row[2]) > tolerance]
