"""The conversations that go both to a real engine and to our model of its cache.

They grow, are edited early, in the middle and late, truncated and interleaved; some share a system text, some are cold.
The same seed gives the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

Message = dict[str, str]
Conversation = list[Message]

WORDS = ["cache", "prefix", "block", "token", "marker", "lane", "ledger", "edit", "request", "answer", "slot", "memory"]


def words(random: Random, count: int) -> str:
    return " ".join(random.choices(WORDS, k=count))


def started(random: Random, system: str) -> Conversation:
    return [{"role": "system", "content": system}, {"role": "user", "content": words(random, 20)}]


def grown(random: Random, conversation: Conversation, answer: str) -> Conversation:
    question = {"role": "user", "content": words(random, random.randint(5, 40))}
    return [*conversation, {"role": "assistant", "content": answer}, question]


def edited(random: Random, conversation: Conversation, index: int) -> Conversation:
    changed = dict(conversation[index], content=conversation[index]["content"] + " " + words(random, 3))
    return [*conversation[:index], changed, *conversation[index + 1 :]]


def truncated(conversation: Conversation) -> Conversation:
    """The oldest exchange after the system text is dropped, as a sliding window does."""
    return [conversation[0], *conversation[3:]] if len(conversation) > 4 else conversation


Step = tuple[str, Conversation]


def steps(seed: int, count: int, answers: list[str]) -> Iterator[Step]:
    """What is asked next, with what was done to get there. The caller appends each answer before it goes on."""
    random = Random(seed)
    systems = [words(random, 120), words(random, 60)]
    running: list[tuple[Conversation, str]] = []
    while count:
        count -= 1
        kind = random.choice(["grow", "grow", "grow", "early", "middle", "late", "truncate", "again", "shared", "cold"])
        if not running or kind in ("shared", "cold"):
            system = random.choice(systems) if kind == "shared" else words(random, 80)
            conversation, position = started(random, system), len(running)
            running.append((conversation, ""))
        else:
            position = random.randrange(len(running))
            conversation, said = running[position]
            conversation = changed(random, kind, conversation, said)
        yield kind, conversation
        running[position] = (conversation, answers[-1])
        del running[:-6]


def changed(random: Random, kind: str, conversation: Conversation, said: str) -> Conversation:
    places = {"early": 0, "middle": len(conversation) // 2, "late": len(conversation) - 1}
    if kind in places:
        return edited(random, conversation, places[kind])
    if kind == "truncate":
        return truncated(conversation)
    return grown(random, conversation, said) if kind == "grow" else conversation
