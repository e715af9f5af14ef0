"""Streams of several caches in one room: what they may take together, and whose go first."""

from __future__ import annotations

import gc

from holdfast import facts
from holdfast.caches.openai import OpenAIPrefix
from holdfast.caches.providers import cache
from holdfast.caches.streams import Room, TokenStream, TokenStreams
from holdfast.core.tenants import Tenant

from .token_prompts import ask, run, tokens

FACTS = facts.model("openai:gpt-5.5")


def test_caches_in_one_room_share_its_size_and_the_least_recently_used_goes() -> None:
    room = Room(10_000)
    one, other = OpenAIPrefix(FACTS, room=room), OpenAIPrefix(FACTS, room=room)
    ask(one, tokens(run(0, 4_000)))
    ask(other, tokens(run(10_000, 4_000)))
    ask(one, tokens(run(20_000, 4_000)))
    assert ask(one, tokens(run(0, 4_000)), 1.0).read == 0, "the oldest went, to make room for the third"
    assert ask(one, tokens(run(20_000, 4_000)), 1.0).read == 3_968


def test_without_a_room_every_cache_has_its_own() -> None:
    one, other = OpenAIPrefix(FACTS), OpenAIPrefix(FACTS)
    ask(one, tokens(run(0, 4_000)))
    assert ask(other, tokens(run(0, 4_000)), 1.0).read == 0
    assert ask(one, tokens(run(0, 4_000)), 1.0).read == 3_968


def test_what_a_cache_that_is_gone_had_makes_room() -> None:
    room = Room(10_000)

    def fill(streams: TokenStreams, start: int) -> None:
        streams.put(b"", TokenStream(room.tokens(tokens(run(start, 4_000))), "", 60.0, 0.0, 60.0, 0.0))

    kept = TokenStreams(256, room=room)
    fill(TokenStreams(256, room=room), 0)
    gc.collect()
    fill(kept, 10_000)
    fill(kept, 20_000)
    assert (len(kept), len(room)) == (2, 2)


def test_a_prompt_is_one_sequence_for_all_that_are_asked_about_it() -> None:
    room, asked = Room(), tokens(run(0, 2_000))
    assert room.tokens(asked) is room.tokens(asked)
    assert room.tokens(tokens(run(0, 2_000), scope="them")) != room.tokens(asked)


def test_every_cache_that_matches_token_by_token_takes_the_room_it_is_given() -> None:
    for ref in ("openai:gpt-5.5", "gemini:gemini-2.5-pro", "deepseek:deepseek-chat"):
        room = Room(1)
        model = facts.model(ref)
        small = cache(model, room=room)
        ask(small, tokens(run(0, 8_000)))
        ask(small, tokens(run(50_000, 8_000)))
        assert len(room) == 1, ref


def test_all_pools_of_a_tenant_stand_in_its_room() -> None:
    tenant = Tenant()
    tenant.room = Room()
    for pool in (tenant.pool(FACTS), tenant.pool_alone(FACTS)):
        pool.first_token(pool.begin(tokens(run(0, 4_000)), 0.0), 0.0)
    assert len(tenant.room) == 2
