"""Our model of llama.cpp's cache against llama.cpp's own server, request by request, to the token."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast import facts
from holdfast.caches.llama import Llama
from holdfast.caches.prompts import Cache
from holdfast.caches.vllm import Vllm
from tests.engines.comparison import UNRELATED, differing, line_up, record
from tests.engines.conftest import LlamaServer

pytestmark = pytest.mark.slow

FACTS = facts.model("llama:tiny")
REQUESTS = 40
AMPLE = 10_000_000  # tokens: more host memory than the conversations need

SERVERS = [
    pytest.param(1, 0.1, 0, id="one slot"),
    pytest.param(2, 0.1, 0, id="two slots"),
    pytest.param(4, 0.1, 0, id="four slots"),
    pytest.param(3, 0.5, 0, id="takeover only by half the prompt"),
    pytest.param(3, 0.0, 0, id="slots by age alone"),
    pytest.param(1, 0.1, 64, id="one slot and host memory"),
    pytest.param(3, 0.1, 64, id="three slots and host memory"),
]


@pytest.mark.parametrize(("slots", "similarity", "host_mib"), SERVERS)
def test_every_request_reads_what_the_engine_reads(
    tiny_model: Path, slots: int, similarity: float, host_mib: int
) -> None:
    server = LlamaServer(tiny_model, slots=slots, similarity=similarity, host_mib=host_mib)
    cache = Llama(FACTS, slots=slots, similarity=similarity, host_tokens=AMPLE if host_mib else 0)
    compared = line_up(record(server, 2, REQUESTS), cache)
    assert differing(compared) == []
    assert sum(engine for _, _, engine in compared) > 1_000, "the engine hardly cached anything: nothing was compared"


WRONG: dict[str, tuple[int, Callable[[], Cache]]] = {
    "slots by age, so no takeover": (0, lambda: Llama(FACTS, slots=2, similarity=0.0)),
    "one slot more": (0, lambda: Llama(FACTS, slots=3)),
    "blocks of 16 tokens instead of slots": (0, lambda: Vllm(facts.model("vllm:tiny"))),
    "host memory that is not there": (0, lambda: Llama(FACTS, slots=2, host_tokens=AMPLE)),
    "no host memory where there is one": (64, lambda: Llama(FACTS, slots=2)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_model_is_found_out(tiny_model: Path, wrong: str) -> None:
    host_mib, make = WRONG[wrong]
    asked = record(LlamaServer(tiny_model, slots=2, host_mib=host_mib), 2, REQUESTS)
    assert differing(line_up(asked, make()), UNRELATED)


def test_forgotten_output_is_found_out(tiny_model: Path) -> None:
    asked = record(LlamaServer(tiny_model, slots=2), 2, REQUESTS)
    compared = line_up(asked, Llama(FACTS, slots=2), keep_output=False)
    assert [row for row in compared if row[0] == "grow" and row[1] < row[2]]


def test_a_request_with_the_same_system_text_takes_over_a_slot(tiny_model: Path) -> None:
    """L2 on the engine itself: with a slot free, the newcomer still takes the one whose system text it shares."""
    server = LlamaServer(tiny_model, slots=2)
    system = {"role": "system", "content": "one system text that both of the conversations begin with " * 4}
    first = [system, {"role": "user", "content": "what is a prefix"}]
    assert server.ask(first)[1] == 0
    taken = server.ask([system, {"role": "user", "content": "how does a slot go"}])[1]
    assert taken > 30
    assert server.ask(first)[1] < len(server.tokens(first)) - 1, "its own slot has been overwritten"
