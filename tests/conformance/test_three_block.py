"""Seed three-block-system-prompt on the wire: host, preferences and context memory as system blocks.

What memory goes where is shown in tests/agent and tests/memory; these are the forms, and what becomes of them at the
provider.
"""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.facts import model
from holdfast.records import Message, Request, Text
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.wire import DIALECTS
from tests.wire.marked_bodies import marked

MODEL = "anthropic:claude-opus-4-6"
STABLE, CONTEXT = "Prefers small commits.", "The build uses make."


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses"])
def test_openai_dialects_get_both_texts_joined_by_an_empty_line(dialect: str) -> None:
    request = Request(model="openai:gpt-5.5", system_prompt=STABLE, system_prompt_volatile=CONTEXT)
    assert f"{STABLE}\\n\\n{CONTEXT}".encode() in DIALECTS[dialect].encode(request)


LONG = {name: f"{name}: " + "what was agreed and why it matters. " * 400 for name in ("host", "preferences", "context")}
KEYS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}


class Session:
    """The three blocks on the wire against the provider's cache: tools and preferences for an hour, the tail for five
    minutes."""

    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator

    def ask(self, text: str, context: str = LONG["context"]) -> dict[str, int]:
        request = Request(
            model=MODEL,
            system_prompt=(Text(LONG["host"]), Text(LONG["preferences"])),
            system_prompt_volatile=context,
            messages=(Message("user", (Text(text),)),),
            output_limit=10,
        )
        dialect = DIALECTS["anthropic"]
        body = dialect.parse(marked(request, "1h"))
        raw = body.apply(dialect.place(body, len(body.blocks) - 1, "5m"))
        exchange = self.simulator.bill(HttpRequest("POST", "/v1/messages", KEYS, {}, raw))
        exchange.first_token()
        used = exchange.record.usage
        return {"read": used.read, "1h": used.written_for("1h"), "5m": used.written_for("5m")}


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def simulator(clock: VirtualClock) -> Simulator:
    return Simulator(clock=clock)


def test_cost_row_1_the_next_turn_reads_blocks_0_and_1(simulator: Simulator) -> None:
    session = Session(simulator)
    first = session.ask("one")
    assert first["read"] == 0
    second = session.ask("two", context=LONG["context"] + "changed")
    assert (second["read"], second["1h"]) == (first["1h"], 0)


def test_blocks_0_and_1_are_written_once_at_twice_the_price_and_read_at_a_tenth(simulator: Simulator) -> None:
    facts = model(MODEL)
    assert (facts.write("1h"), facts.read) == (2, Decimal("0.1"))
    session = Session(simulator)
    turns = [session.ask(f"turn {i}", context=LONG["context"] + str(i)) for i in range(5)]
    assert [turn["1h"] > 0 for turn in turns] == [True, False, False, False, False]
    assert {turn["read"] for turn in turns[1:]} == {turns[0]["1h"]}


@pytest.mark.parametrize(("pause", "reads"), [(3_500, True), (3_700, False)])
def test_cost_row_3_another_session_within_the_hour_reads_them(
    simulator: Simulator, clock: VirtualClock, pause: int, reads: bool
) -> None:
    first = Session(simulator).ask("one")
    clock.advance(pause)
    assert Session(simulator).ask("another session")["read"] == (first["1h"] if reads else 0)


def test_when_the_context_memory_changes_block_2_and_the_messages_are_processed_again(simulator: Simulator) -> None:
    session = Session(simulator)
    first = session.ask("same")
    assert session.ask("same")["read"] == first["1h"] + first["5m"]
    changed = session.ask("same", context=LONG["context"] + "learned something")
    assert (changed["read"], changed["1h"]) == (first["1h"], 0)
    assert changed["5m"] >= first["5m"]
