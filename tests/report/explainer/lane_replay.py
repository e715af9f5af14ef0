"""A lane replayed through Anthropic's cache rules with markers behind the head and at the end, under any lifetime."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from random import Random

from msgspec import Struct

from holdfast import facts
from holdfast.caches import CacheControls
from holdfast.caches.anthropic import AnthropicCache, marked_prompt
from holdfast.caches.entries import Entries
from holdfast.caches.prompts import Block, Entry, Mark
from holdfast.records import Usage, usage
from holdfast.report.logs.records import LoggedRequest
from tests.report.explainer.logs import DAY, OPUS

MODEL = facts.model(OPUS)


class Turn(Struct, frozen=True):
    """A request of a lane. `covers` counts the tokens up to its last marker, head included; `anew` says that all
    messages are others than before; `input` and `output` are what is billed beside."""

    gap: float
    covers: int
    anew: bool = False
    input: int = 3
    output: int = 100


def replay(turns: Sequence[Turn], head: int, ttl: str, *, others: bool = False, known: bool = True) -> list[Usage]:
    """What is billed for a lane. `known`: other sessions have left the head behind; `others` keep it alive."""
    cache = AnthropicCache(MODEL, entries := Entries())
    messages: list[Block] = []
    now, number, billed = DAY, 0, []
    for number, turn in enumerate(turns):
        now += turn.gap
        if turn.anew:
            messages = []
        grown = turn.covers - head - sum(block.tokens for block in messages)
        if grown > 0:
            messages.append(Block("messages", "text", "user", number, f"message {number}".encode(), grown))
        blocks = (Block("system", "text", "system", -1, b"head", head), *messages)
        marks = [Mark(0, ttl), Mark(len(blocks) - 1, ttl)] if messages else [Mark(0, ttl)]
        asked = marked_prompt(MODEL, blocks, CacheControls(marks=marks))
        if (number == 0 and known) or others:
            seconds = float(MODEL.ttl_seconds(ttl) or 0)
            entries.put([Entry(asked.keys[0], head, ttl, seconds, now - 1, now + seconds, now - 1)], now)
        outcome = cache.begin(asked, now)
        cache.first_token(outcome, now)
        billed.append(usage(input=turn.input, read=outcome.read, output=turn.output, writes=dict(outcome.writes)))
    return billed


def log(turns: Sequence[Turn], usages: Iterable[Usage], session: str = "s") -> list[LoggedRequest]:
    records, now = [], DAY
    for number, (turn, used) in enumerate(zip(turns, usages, strict=True), 1):
        now += turn.gap
        reset = "compaction" if turn.anew else None
        source = f"log.jsonl:{number}"
        records.append(LoggedRequest(session=session, source=source, model=OPUS, at=now, usage=used, reset=reset))
    return records


def cost(usages: Iterable[Usage]) -> Decimal:
    return sum((facts.price(used, OPUS).cost or Decimal(0) for used in usages), Decimal(0))


def lane(random: Random, length: int, head: int) -> list[Turn]:
    """A conversation with pauses and a few compactions."""
    turns, covers = [], head
    for number in range(length):
        anew = number > 0 and random.random() < 0.03
        covers = head + 5_000 if anew else covers + random.randrange(200, 4_000)
        turns.append(Turn(random.choice([5, 20, 60, 200, 280, 290, 400, 1_500, 5_000]), covers, anew))
    return turns
