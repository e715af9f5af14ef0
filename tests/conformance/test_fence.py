"""Seed cache-page, "Cache fence": what is under a live entry is left alone, by everything that rewrites history.

The document stores an index after each call; here the fence is asked for when it is needed. The layers of the document
are played by a masker that replaces old tool results, three to a message, before every call.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast import facts
from holdfast.caches.entries import Entries
from holdfast.caches.prompts import Prompt
from holdfast.core.edits import EditRef, propose
from holdfast.core.fence import believed, fence
from holdfast.core.ledger import Ledger
from holdfast.engine.edits import Replacements, consider, record, recorded, replay
from holdfast.engine.fallible_store import FallibleStore
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from holdfast.store import SqliteStore, open_store
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader
from tests.core.warm_pool import OPUS, Pool, body_of, raw_of, read, sent, situation, talk, with_result

MARKS = (("system", "1h"), ("last", "5m"))
KEPT = 4
"""Rounds whose results the masker leaves alone."""


def under(prompt: Prompt, digest: bytes, blocks: int) -> bool:
    """Whether a block with this digest is among the first so many."""
    return digest in [block.digest for block in prompt.blocks[:blocks]]


class Masked:
    """A lane with a masker in front of it: old results are asked to become placeholders, as recorded edits."""

    def __init__(self, store: SqliteStore) -> None:
        self.store, self.pool, self.clock = store, Pool(), VirtualClock()
        self.simulator = Simulator(clock=self.clock)
        self.reader = PromptReader()
        self.ledger = Ledger()
        self.reads: list[int] = []
        self.prompts: list[Prompt] = []
        self.resets: list[str | None] = []

    def call(self, rounds: int, after: float = 10.0) -> None:
        self.clock.advance(after)
        wire, load = DIALECTS["anthropic"], self.load
        body = body_of(raw_of(talk(rounds, parallel=3, words=20, marks=MARKS)))
        out = body_of(body.apply(replay(body, wire, self.read(body), self.ledger.edits, load).splices))
        asked = situation(self.read(out), self.pool, self.clock.now(), ledger=self.ledger)
        proposal, refs = consider(body, asked, self.masks(body), load, self.read, further=2)
        for ref in refs:
            record(FallibleStore(self.store), "t", "l", ref.block, self.masks(body)[ref.block], ref.at).result()
            self.ledger.edits[ref.block] = ref
        out = body_of(body.apply(replay(body, wire, self.read(body), self.ledger.edits, load).splices))
        self.send(out)
        self.resets.append(proposal.reset)

    def read(self, body: Body) -> Prompt:
        return self.reader.read(body, OPUS).prompt

    def load(self, name: bytes) -> bytes | None:
        return Replacements(FallibleStore(self.store)).of("t")(name)

    def masks(self, body: Body) -> dict[bytes, bytes]:
        prompt = self.read(body)
        old = [i for i, block in enumerate(prompt.blocks) if block.kind == "tool_result"][: -3 * KEPT]
        wanted = {}
        for index in old:
            value = json.loads(body.text(body.blocks[index])) | {"content": "[masked]"}
            wanted[prompt.blocks[index].digest] = json.dumps(value).encode()
        return wanted

    def send(self, out: Body) -> None:
        prompt = self.read(out)
        self.pool.send(prompt, self.clock.now())
        exchange = self.simulator.bill(HttpRequest("POST", "/v1/messages", {"x-api-key": "k"}, {}, out.raw))
        exchange.finish()
        self.reads.append(exchange.record.usage.read)
        self.prompts.append(prompt)
        self.ledger.last = sent(prompt, self.clock.now())


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[Masked]:
    found = Masked(open_store(tmp_path / "holdfast.db"))
    yield found
    found.store.close()


def test_c30_the_fence_is_the_highest_marker_of_the_last_call(lane: Masked) -> None:
    for rounds in range(1, 6):
        lane.call(rounds)
        prompt = lane.prompts[-1]
        assert fence(prompt, lane.pool, lane.clock.now()) == max(mark.block for mark in prompt.marks) + 1


def test_c4_masking_three_results_a_round_breaks_nothing_in_thirty_calls(lane: Masked) -> None:
    """With a stored index over messages the same session had 20 breaks in 31 calls."""
    for rounds in range(1, 32):
        lane.call(rounds)
    assert lane.resets == [None] * 31
    assert not lane.ledger.edits
    for before, prompt, read_tokens in zip(lane.prompts, lane.prompts[1:], lane.reads[1:], strict=False):
        assert prompt.keys[: len(before.keys)] == before.keys
        assert read_tokens == before.tokens


def test_c31_what_is_masked_in_a_cold_lane_stays_masked(lane: Masked) -> None:
    for rounds in range(1, 11):
        lane.call(rounds)
    lane.call(11, after=3_601.0)
    masked = len(lane.ledger.edits)
    assert masked == 3 * (11 - KEPT)
    for rounds in range(12, 21):
        lane.call(rounds)
    assert lane.resets == [None] * 10 + ["priced_edit"] + [None] * 9
    assert len(lane.ledger.edits) == masked  # the lane is warm again: nothing more is masked, nothing is undone
    for before, prompt, read_tokens in zip(lane.prompts[10:], lane.prompts[11:], lane.reads[11:], strict=False):
        assert prompt.keys[: len(before.keys)] == before.keys
        assert read_tokens == before.tokens


def test_c4_the_edits_survive_a_restart(lane: Masked, tmp_path: Path) -> None:
    for rounds, after in ((6, 0.0), (7, 3_601.0), (8, 10.0)):
        lane.call(rounds, after)
    before = lane.prompts[-1]
    lane.store.close()
    lane.store = open_store(tmp_path / "holdfast.db")
    lane.ledger = Ledger(edits=recorded(FallibleStore(lane.store), "t", "l"))
    assert lane.ledger.edits
    lane.call(9)
    assert lane.prompts[-1].keys[: len(before.keys)] == before.keys
    assert lane.reads[-1] == before.tokens


def test_c32_the_shortening_of_a_result_under_the_fence_is_refused() -> None:
    said, pool = talk(6, marks=MARKS), Pool()
    before = read(said)
    pool.send(before, 0.0)
    short = read(with_result(said, 1, 0, "[Discovery loaded: 4 tools]"))
    block = next(block for block in before.blocks if block.kind == "tool_result").digest
    ref = EditRef(block, sha256(b"short").digest(), 1.0)
    assert under(before, block, fence(before, pool, 1.0))
    assert not propose(situation(before, pool, 1.0), short, [ref], further=0).made
    assert not under(before, block, fence(before, pool, 301.0))
    assert propose(situation(before, pool, 301.0), short, [ref], further=0).made


def test_c34_trimming_moves_no_protection_to_the_wrong_block() -> None:
    said, pool = talk(8, parallel=3, marks=MARKS), Pool()
    pool.send(read(said), 0.0)
    trimmed = copy.deepcopy(said)
    trimmed.turns = said.turns[:1] + said.turns[9:]
    prompt = read(trimmed)
    assert not any(
        under(prompt, block.digest, fence(prompt, pool, 1.0)) for block in prompt.blocks if block.kind == "tool_result"
    )
    pool.send(prompt, 2.0)
    longer = copy.deepcopy(trimmed)
    longer.turns += talk(9, parallel=3).turns[-2:]
    after = read(longer)
    results = [block.digest for block in after.blocks if block.kind == "tool_result"]
    assert [under(after, digest, fence(after, pool, 3.0)) for digest in results] == [True] * 12 + [False] * 3


@pytest.mark.parametrize(
    ("model", "dialect"),
    [("anthropic:claude-opus-5-5", "anthropic"), ("openai:gpt-6.1-sol", "openai_chat")],
)
def test_c35_every_lane_has_a_fence(model: str, dialect: str) -> None:
    known = facts.model(model)
    prompt, pool = read(talk(3, marks=MARKS), known, dialect), Pool(known)
    pool.send(prompt, 0.0)
    assert fence(prompt, pool, 1.0) == len(prompt.blocks)


def test_c35_on_gemini_it_covers_what_is_explicitly_cached() -> None:
    known = facts.model("gemini:gemini-2.5-pro")
    prompt = read(talk(3), known, "gemini")
    assert fence(prompt, Entries(), 1.0, frozen=3) == 3
    assert believed(prompt, sent(prompt), known, 1.0) == len(prompt.blocks)  # what may be cached by itself beside it


def test_b5_never_leaves_the_two_occasions_of_the_document(lane: Masked) -> None:
    before = read(talk(6, marks=MARKS))
    after = read(with_result(talk(6, marks=MARKS), 1, 0, "[masked]"))
    block = next(block for block in before.blocks if block.kind == "tool_result").digest
    ref = EditRef(block, b"", 0.0)
    for now in (1.0, 1e9):
        assert not propose(situation(before, lane.pool, now, edits="never"), after, [ref], further=1e9).made
        assert propose(situation(before, lane.pool, now), after, [ref], further=1e9).made
