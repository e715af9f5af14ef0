"""Sequences of tokens: how far they agree, how their steps are named, how the longest match is found."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holdfast.caches.prompts import Block
from holdfast.caches.streams import TokenStream, TokenStreams
from holdfast.caches.tokens import Names, TokenSequence, block_ids, read, shared_tokens

from .token_prompts import block, prompt, run, tokens


def sequence(ids: list[int], *borders: tuple[int, bytes]) -> TokenSequence:
    return TokenSequence(array("I", ids).tobytes(), borders)


short = st.lists(st.integers(0, 1), max_size=40)
seeds = st.lists(
    st.tuples(st.integers(0, 40), st.sampled_from([b"x", b"y"])), max_size=2, unique_by=lambda b: b[0]
).map(lambda borders: tuple(sorted(borders)))


def naive(a: TokenSequence, b: TokenSequence) -> int:
    """Token by token: equal ids, and the same settings mixed in at or before each."""
    shared = 0
    mine, theirs = array("I", a.ids), array("I", b.ids)
    while (
        shared < min(len(mine), len(theirs))
        and mine[shared] == theirs[shared]
        and [x for x in a.borders if x[0] <= shared] == [x for x in b.borders if x[0] <= shared]
    ):
        shared += 1
    return shared


@given(short, seeds, short, seeds)
def test_common_prefix(
    a: list[int], mine: tuple[tuple[int, bytes], ...], b: list[int], theirs: tuple[tuple[int, bytes], ...]
) -> None:
    first, second = sequence(a, *mine), sequence(b, *theirs)
    assert shared_tokens(first, second) == naive(first, second)


def test_common_prefix_of_long_sequences() -> None:
    long = run(0, 50_000)
    for parted in (0, 1, 1_023, 1_024, 1_025, 49_999):
        other = [*long[:parted], 99_999, *long[parted + 1 :]]
        assert shared_tokens(sequence(long), sequence(other)) == parted
        assert shared_tokens(sequence(long), sequence(other), known=parted) == parted
    assert shared_tokens(sequence(long), sequence(long[:777])) == 777


@given(st.lists(st.tuples(short, seeds), min_size=1, max_size=8))
def test_names_are_equal_exactly_where_the_sequences_are(
    made: list[tuple[list[int], tuple[tuple[int, bytes], ...]]],
) -> None:
    """One naming object that remembers, so what is remembered is tested too."""
    names = Names(4)
    sequences = [sequence(ids, *borders) for ids, borders in made]
    named = [names.of(one) for one in sequences]
    for one, mine in zip(sequences, named, strict=True):
        assert len(mine) == len(one) // 4
        assert mine == Names(4).of(one)
        for other, theirs in zip(sequences, named, strict=True):
            equal = sum(1 for x, y in zip(mine, theirs, strict=False) if x == y)
            assert equal == shared_tokens(one, other) // 4


def test_a_head_separates_names() -> None:
    names = Names(4)
    assert not set(names.of(sequence(run(0, 8)), b"a")) & set(names.of(sequence(run(0, 8)), b"b"))


def test_what_names_remember_is_bounded() -> None:
    names = Names(4)
    for i in range(1_000):
        names.of(sequence(run(i, 8)))
    assert len(names) <= 64


@given(st.lists(short, min_size=1, max_size=10), short)
def test_the_longest_match_is_found(kept: list[list[int]], asked: list[int]) -> None:
    streams = TokenStreams(floor=4)
    for ids in kept:
        streams.put(b"", TokenStream(sequence(ids), "", 1.0, 0.0, 10.0, 0.0))
    best = max(naive(sequence(ids), sequence(asked)) for ids in kept)
    found = max((shared for shared, _ in streams.match(b"", sequence(asked), 5.0)), default=0)
    assert found == (best if best >= 4 else 0)
    assert streams.match(b"other", sequence(asked), 5.0) == []
    assert streams.match(b"", sequence(asked), 11.0) == []
    streams.sweep(11.0)
    assert len(streams) == 0


def test_a_sequence_gives_way_to_its_continuation_unless_it_lives_longer() -> None:
    streams = TokenStreams(floor=4)
    streams.put(b"", TokenStream(sequence(run(0, 10)), "", 1.0, 0.0, 10.0, 0.0))
    streams.put(b"", TokenStream(sequence(run(0, 30)), "", 1.0, 0.0, 20.0, 0.0))
    assert [entry.tokens for entry in streams.live(1.0)] == [30]
    streams.put(b"", TokenStream(sequence(run(0, 40)), "", 1.0, 0.0, 15.0, 0.0))
    assert sorted(entry.tokens for entry in streams.live(1.0)) == [30, 40]


def test_streams_are_bounded_by_tokens() -> None:
    streams = TokenStreams(floor=4, capacity=100)
    for i in range(10):
        streams.put(b"", TokenStream(sequence(run(1_000 * i, 30)), "", 1.0, 0.0, 10.0, 0.0))
    assert len(streams) == 3
    assert streams.match(b"", sequence(run(9_000, 30)), 1.0)[0][0] == 30
    assert streams.match(b"", sequence(run(0, 30)), 1.0) == []


def test_the_index_empties_with_the_streams() -> None:
    streams = TokenStreams(floor=4, capacity=100)
    for i in range(10):
        streams.put(b"", TokenStream(sequence(run(1_000 * i, 30)), "", 1.0, 0.0, 10.0, 0.0))
    streams.sweep(11.0)
    assert streams.indexed == 0


def test_tokens_of_a_prompt_with_the_borders_of_its_sections() -> None:
    made = prompt(block([1, 2, 3], "system", section="system"), block([4, 5]), salts={"messages": b"x"})
    found = read(made)
    assert array("I", found.ids).tolist() == [1, 2, 3, 4, 5]
    assert [at for at, _ in found.borders] == [0, 3]


def test_blocks_without_token_ids_get_some_of_their_own() -> None:
    blank = Block("messages", "text", "user", 0, b"digest", 7)
    assert len(block_ids(blank)) == 28
    assert block_ids(blank) == block_ids(Block("messages", "text", "user", 3, b"digest", 7))
    assert block_ids(blank) != block_ids(Block("messages", "text", "user", 0, b"other", 7))
    assert block_ids(Block("messages", "text", "user", 0, b"digest", 1, ids=b"abcdefgh")) == b"abcd"
    assert len(read(prompt(blank, block([1, 2])))) == 9


def test_prompts_made_by_hand_are_told_apart_by_scope_and_model() -> None:
    made = structs.replace(tokens([1, 2, 3]), seeds=())
    assert shared_tokens(read(made), read(structs.replace(made, scope="them"))) == 0
    assert shared_tokens(read(made), read(made)) == 3
    assert made.block_at(3) == 0
    assert made.block_at(2) == -1
