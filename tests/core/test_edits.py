"""Edits of sent bytes are priced decisions (law 4, rule 5.5)."""

from __future__ import annotations

from decimal import Decimal
from hashlib import sha256

import pytest
from msgspec.structs import replace

from holdfast import facts
from holdfast.caches.entries import Entries
from holdfast.caches.prompts import Prompt
from holdfast.core import ledger as ledgers
from holdfast.core.edits import EditRef, Proposal, propose
from holdfast.core.ledger import Ledger
from tests.core.warm_pool import OPUS, Pool, read, sent, situation, talk, with_result
from tests.properties.sessions import Talk

SHORT = "[removed]"
TAIL = (("last", "5m"),)
SAID = talk(rounds=6, marks=TAIL)


def result(prompt: Prompt, number: int) -> int:
    """The block of a round's first result."""
    return [i for i, block in enumerate(prompt.blocks) if block.kind == "tool_result"][number - 1]


def ref_of(prompt: Prompt, block: int, replacement: bytes = b'"x"', at: float = 0.0) -> EditRef:
    return EditRef(prompt.blocks[block].digest, sha256(replacement).digest(), at)


def decide(
    pool: Entries,
    *,
    number: int = 2,
    now: float = 1.0,
    further: float | Decimal = 10,
    said: Talk = SAID,
    edits: str = "priced",
) -> Proposal:
    """An edit that shortens the result of one round."""
    before, after = read(said), read(with_result(said, number, 0, SHORT))
    ledger = Ledger(last=sent(before))
    asked = situation(before, pool, now, ledger=ledger, edits=edits)
    return propose(asked, after, [ref_of(before, result(before, number))], further=further)


def warm(said: Talk = SAID) -> Pool:
    pool = Pool()
    pool.send(read(said), 0.0)
    return pool


def test_rule_5_5_gives_the_price() -> None:
    before, after = read(SAID), read(with_result(SAID, 2, 0, SHORT))
    block = result(before, 2)
    proposal = decide(warm())
    assert proposal.removed == before.tokens - after.tokens == before.blocks[block].tokens - after.blocks[block].tokens
    assert proposal.behind == after.tokens  # no entry ends before it, so what stands there is written again too
    write, read_share = OPUS.write("5m"), OPUS.read
    assert proposal.cost == proposal.behind * (write - read_share)
    assert proposal.saving == proposal.removed * read_share
    assert proposal.payback == proposal.cost / proposal.saving
    assert str(proposal.behind) in proposal.why
    assert "rule 5.5" in proposal.why


def test_it_is_made_only_above_the_payback() -> None:
    payback = decide(warm()).payback
    assert payback is not None
    at, above = decide(warm(), further=payback), decide(warm(), further=payback + Decimal("0.001"))
    assert (at.made, above.made) == (False, True)
    assert (at.reset, above.reset) == (None, "priced_edit")


def test_an_hour_costs_more_to_write_again_than_five_minutes() -> None:
    long = talk(rounds=6, marks=(("last", "1h"),))
    short_price, long_price = decide(warm()), decide(warm(long), said=long)
    assert short_price.behind == long_price.behind
    assert long_price.cost == long_price.behind * (OPUS.write("1h") - OPUS.read)
    assert long_price.cost > short_price.cost


@pytest.mark.parametrize(("now", "made"), [(300.0, False), (300.1, True)])
def test_a_cold_lane_is_edited_whatever_comes_after(now: float, made: bool) -> None:
    proposal = decide(warm(), now=now, further=0)
    assert proposal.made is made
    if made:
        assert (proposal.cost, proposal.behind, proposal.reset) == (Decimal(0), 0, "priced_edit")


def test_behind_the_last_live_entry_the_lane_is_cold() -> None:
    pool = Pool()
    pool.send(read(talk(rounds=3, marks=TAIL)), 0.0)
    assert decide(pool, number=4, further=0).made
    assert not decide(pool, number=3, further=0).made  # the entry ends with this very block


def test_a_request_in_flight_makes_the_lane_warm() -> None:
    pool = Pool()
    pool.send(read(SAID), 0.0, answered=False)
    assert not decide(pool, further=0).made


def test_an_edit_that_removes_nothing_is_made_only_when_cold() -> None:
    longer = with_result(SAID, 2, 0, "far longer than it was " * 900)
    before = read(SAID)
    ref = ref_of(before, result(before, 2))
    refused = propose(situation(before, warm(), 1.0), read(longer), [ref], further=1e9)
    assert (refused.made, refused.payback) == (False, None)
    assert propose(situation(before, Pool(), 1.0), read(longer), [ref], further=0).made


def test_edits_decided_together_share_one_rewrite() -> None:
    said, before = SAID, read(SAID)
    after = said
    for number in (2, 3, 4, 5):
        after = with_result(after, number, 0, SHORT)
    refs = [ref_of(before, result(before, number)) for number in (2, 3, 4, 5)]
    together = propose(situation(before, warm(), 1.0), read(after), refs, further=10)
    alone = decide(warm())
    assert together.payback is not None
    assert alone.payback is not None
    assert together.payback < alone.payback / 4


def test_what_an_earlier_entry_covers_is_not_written_again() -> None:
    """Reading falls back to the end of an entry: what stands between it and the edit is written again with the rest."""
    early = talk(rounds=2, marks=TAIL)
    pool = warm(early)
    pool.send(read(SAID), 1.0)
    before, after = read(SAID), read(with_result(SAID, 3, 0, SHORT))
    block = result(before, 3)
    covered = read(early).tokens
    assert before.ends[block - 1] > covered
    proposal = propose(situation(before, pool, 2.0), after, [ref_of(before, block)], further=1)
    assert proposal.behind == after.tokens - covered


def test_equal_blocks_are_one_edit_priced_from_the_first() -> None:
    said = talk(rounds=5, marks=TAIL)
    same = "the same answer every time " * 150
    for number in (2, 4):
        said = with_result(said, number, 0, same)
    turns = [(kind, 2 if number == 4 else number, texts) for kind, number, texts in said.turns]
    said.turns = turns  # the calls carry the same ids too, as a client's resends do
    before = read(said)
    first, second = (
        i for i, block in enumerate(before.blocks) if block.digest == before.blocks[result(before, 2)].digest
    )
    edited = with_result(said, 2, 0, SHORT)
    after = read(edited)
    proposal = propose(situation(before, warm(said), 1.0), after, [ref_of(before, first)], further=1)
    assert second > first
    assert proposal.removed == 2 * (before.blocks[first].tokens - after.blocks[first].tokens)
    assert proposal.behind == after.tokens  # there is one entry, and it is lost from its beginning


def test_the_last_picture_taken_away_loses_all_messages() -> None:
    """Rule table: images present or absent is a setting of every message."""
    said = talk(rounds=6, marks=TAIL)
    said.turns += [("assistant", 90, ["look"]), ("picture", 90, ["here it is"]), ("assistant", 91, ["I see"])]
    said.turns += [("user", 92, ["go on"])]
    before = read(said)
    picture = next(i for i, block in enumerate(before.blocks) if block.kind == "image")
    said.turns[-3] = ("user", 90, ["here it is"])
    plain = read(said)
    ref = ref_of(before, picture)
    pool = Pool()
    pool.send(before, 0.0)
    proposal = propose(situation(before, pool, 1.0), plain, [ref], further=1)
    messages = next(i for i, block in enumerate(before.blocks) if block.section == "messages")
    assert proposal.behind > plain.ends[-1] - plain.ends[messages]
    assert not proposal.made


def test_never_refuses_all() -> None:
    for pool in (warm(), Pool()):
        proposal = decide(pool, further=1e9, edits="never")
        assert not proposal.made
        assert "cache.edits" in proposal.why


@pytest.mark.parametrize("kind", ["thinking", "redacted_thinking", "reasoning"])
def test_thinking_is_never_edited(kind: str) -> None:
    prompt = read(SAID)
    block = result(prompt, 2)
    blocks = tuple(replace(b, kind=kind) if i == block else b for i, b in enumerate(prompt.blocks))
    asked = situation(replace(prompt, blocks=blocks), Pool(), 1.0)
    proposal = propose(asked, read(with_result(SAID, 2, 0, SHORT)), [ref_of(prompt, block)], further=1e9)
    assert not proposal.made
    assert kind in proposal.why


def test_what_is_signed_is_never_edited() -> None:
    before = read(SAID)
    ref = ref_of(before, result(before, 2))
    after = read(with_result(SAID, 2, 0, SHORT))
    proposal = propose(situation(before, Pool(), 1.0), after, [ref], further=1e9, signed={ref.block})
    assert not proposal.made
    assert propose(situation(before, Pool(), 1.0), after, [ref], further=1e9, signed={b"other"}).made


def test_tools_and_system_text_are_no_matter_of_edits() -> None:
    before = read(SAID)
    for block in (0, 1):
        proposal = propose(situation(before, Pool(), 1.0), read(talk(1)), [ref_of(before, block)], further=1e9)
        assert not proposal.made
        assert before.blocks[block].section in proposal.why


def test_a_recorded_edit_stands_for_ever() -> None:
    before = read(SAID)
    ref, other = ref_of(before, 5, b'"x"'), ref_of(before, 5, b'"y"')
    asked = situation(before, Pool(), 1.0, ledger=Ledger(edits={ref.block: ref}))
    after = read(with_result(SAID, 2, 0, SHORT))
    same, changed = (propose(asked, after, [wanted], further=1e9) for wanted in (ref, other))
    assert not same.made
    assert "already" in same.why
    assert not changed.made
    assert "other bytes" in changed.why


def test_an_unknown_block_and_an_edit_without_effect_are_refused() -> None:
    before = read(SAID)
    asked = situation(before, Pool(), 1.0)
    unknown = EditRef(b"?" * 16, b"", 0.0)
    assert "no block" in propose(asked, read(talk(1)), [unknown], further=1).why
    assert "nothing to edit" in propose(asked, before, [ref_of(before, 5)], further=1).why


def test_an_edit_of_bytes_never_sent_is_no_reset() -> None:
    before, after = read(SAID), read(with_result(SAID, 6, 0, SHORT))
    earlier = Ledger(last=sent(read(talk(rounds=5))))
    asked = situation(before, Pool(), 1.0, ledger=earlier)
    proposal = propose(asked, after, [ref_of(before, result(before, 6))], further=0)
    assert (proposal.made, proposal.reset) == (True, None)


@pytest.mark.parametrize(("now", "made"), [(600.0, False), (600.1, True)])
def test_a_cache_without_entries_is_warm_while_it_may_be(now: float, made: bool) -> None:
    old = facts.model("openai:gpt-5.5")
    before, after = (read(said, old, "openai_chat") for said in (talk(6), with_result(talk(6), 2, 0, SHORT)))
    asked = situation(before, Entries(), now, ledger=Ledger(last=sent(before)), model=old)
    block = next(i for i, (b, a) in enumerate(zip(before.blocks, after.blocks, strict=True)) if b.digest != a.digest)
    proposal = propose(asked, after, [ref_of(before, block)], further=1)
    assert proposal.made is made


def test_what_a_cache_object_holds_is_warm() -> None:
    gemini = facts.model("gemini:gemini-2.5-pro")
    before, after = (read(said, gemini, "gemini") for said in (talk(6), with_result(talk(6), 2, 0, SHORT)))
    block = next(i for i, (b, a) in enumerate(zip(before.blocks, after.blocks, strict=True)) if b.digest != a.digest)
    ask = situation(before, Entries(), 1.0, model=gemini)
    ref = ref_of(before, block)
    assert not propose(ask, after, [ref], further=1, frozen=len(before.blocks)).made
    assert not propose(ask, after, [ref], further=0, frozen=block + 1).made
    assert propose(ask, after, [ref], further=0, frozen=block).made


def test_edits_live_in_the_ledger() -> None:
    ref = ref_of(read(SAID), 5)
    assert ledgers.decode(ledgers.encode(Ledger(edits={ref.block: ref}))) == Ledger(edits={ref.block: ref})
