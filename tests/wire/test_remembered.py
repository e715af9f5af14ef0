"""What a reader remembers: blocks in few bytes, the most recent ones, and which conversation a body belongs to."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

from msgspec.structs import replace

from holdfast.caches.prompts import Block
from holdfast.facts import model
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompt_memory import BlockCache
from holdfast.wire.prompts import PromptReader

SONNET = model("anthropic:claude-sonnet-5-5")
BLOCK = Block("messages", "text", "user", 3, b"0123456789abcdef", 17, True)


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_a_block_comes_back_as_it_was() -> None:
    known = BlockCache[str](100, heavy=100)
    odd = Block("tools", "web_search_20250305", "", -1, bytes(16), 2**32 - 1, False)
    assert known.keep(key(1), BLOCK)
    assert known.keep(key(2), odd)
    assert (known.plain(key(1)), known.plain(key(2)), known.plain(key(3))) == (BLOCK, odd, None)


def test_what_does_not_fit_is_refused() -> None:
    known = BlockCache[str](100, heavy=100)
    for block in (replace(BLOCK, ids=b"1234"), replace(BLOCK, digest=b"short"), replace(BLOCK, tokens=2**32)):
        assert not known.keep(key(1), block)
    assert len(known) == 0


def test_what_is_used_stays_and_the_rest_goes() -> None:
    known = BlockCache[str](10, heavy=100)
    for number in range(100):
        known.keep(key(number), BLOCK)
        assert known.plain(key(0)) == BLOCK
        assert len(known) <= 11
    assert known.plain(key(50)) is None
    assert known.plain(key(99)) == BLOCK


def test_others_go_by_their_weight() -> None:
    known = BlockCache[str](10, heavy=100)
    for number in range(5):
        known.keep_other(key(number), f"value {number}", 40)
        assert known.other(key(0)) == "value 0"
    assert known.other(key(1)) is None
    assert len(known) == 2


def conversation(name: str, turns: int) -> bytes:
    said = [{"role": "user", "content": [{"type": "text", "text": f"{name} asks {'something long ' * 60}"}]}]
    for turn in range(turns):
        said.append({"role": "assistant", "content": [{"type": "text", "text": f"{name} hears {turn} " * 30}]})
        said.append({"role": "user", "content": [{"type": "text", "text": f"{name} says {turn} " * 30}]})
    tools = [{"name": f"tool{n}", "description": "does it " * 20, "input_schema": {}} for n in range(5)]
    body = {"model": "claude-sonnet-5-5", "max_tokens": 9, "tools": tools, "system": "be good", "messages": said}
    return json.dumps(body, separators=(",", ":")).encode()


def read(reader: PromptReader, raw: bytes) -> Body:
    body = reader.parse(DIALECTS["anthropic"], raw)
    assert reader.read(body, SONNET).prompt == PromptReader().read(body, SONNET).prompt
    return body


def test_conversations_of_one_client_are_told_apart_before_they_are_parsed() -> None:
    reader = PromptReader()
    before = {name: read(reader, conversation(name, 2)) for name in ("ann", "bob", "cyd", "dan")}
    for name, last in before.items():
        body = read(reader, conversation(name, 3))
        shared = len(last.blocks) - 1
        assert all(body.blocks[place] is last.blocks[place] for place in range(shared)), "taken over, not read again"


def test_a_body_that_comes_again_is_read_from_what_is_remembered_of_its_blocks() -> None:
    reader = PromptReader(kept_bodies=1)  # the body itself is forgotten at once
    for name in ("ann", "bob", "cyd"):
        read(reader, conversation(name, 2))
    before = reader.canonicalised
    for name in ("ann", "bob", "cyd"):
        read(reader, conversation(name, 2))
    assert reader.canonicalised == before


def with_blocks(*blocks: bytes) -> bytes:
    said = b'{"role":"user","content":[' + b",".join(blocks) + b"]}"
    return b'{"model":"claude-sonnet-5-5","messages":[' + said + b"]}"


def test_a_marker_that_moves_on_leaves_the_block_it_was() -> None:
    reader, one, two = PromptReader(), b'{"type":"text","text":"one"}', b'{"type":"text","text":"two"}'
    marker = b',"cache_control":{"type":"ephemeral"}}'
    read(reader, with_blocks(one, two[:-1] + marker))
    before = reader.canonicalised
    read(reader, with_blocks(one[:-1] + marker, two))
    read(reader, with_blocks(one, two))
    assert reader.canonicalised == before


def test_a_marker_behind_another_is_not_cut_off() -> None:
    """Of a block that is known without its last marker, too: with it, the same key stands twice."""
    reader, marked = PromptReader(), b'{"type":"text","text":"one","cache_control":null}'
    read(reader, with_blocks(marked))
    read(reader, with_blocks(marked[:-1] + b',"cache_control":{"type":"ephemeral"}}'))
    nested = b'{"type":"tool_result","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}'
    read(reader, with_blocks(nested))
    read(reader, with_blocks(nested[:-1] + b',"cache_control":{"type":"ephemeral"}}'))


def test_members_behind_the_messages_move_with_them() -> None:
    """Some clients write their messages first."""
    dialect = DIALECTS["anthropic"]
    for turns in range(1, 5):
        short, long = (json.loads(conversation("ann", count)) for count in (turns, turns + 1))
        first, second = (
            json.dumps({"messages": body.pop("messages"), **body}, separators=(",", ":")).encode()
            for body in (short, long)
        )
        before = dialect.parse(first)
        assert isinstance(before, Body)
        after = dialect.parse(second, like=before)
        assert after == dialect.parse(second)
        assert after.blocks[after.messages_from] is before.blocks[before.messages_from]


def test_threads_remember_each_block_as_it_was() -> None:
    """Kinds of blocks get numbers as they come, from several threads at once, with room for few blocks."""
    known, wrong = BlockCache[str](400, heavy=2_000), []

    def work(thread: int) -> None:
        for number in range(3_000):
            block = replace(BLOCK, kind=f"{thread}-{number}", tokens=number)
            name = key(thread * 10_000 + number)
            assert known.keep(name, block)
            known.keep_other(name, block.kind, 500)
            wrong.extend(found for found in (known.plain(name),) if found not in (block, None))
            wrong.extend(found for found in (known.other(name),) if found not in (block.kind, None))

    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
    finally:
        sys.setswitchinterval(switch)
    assert wrong == []
