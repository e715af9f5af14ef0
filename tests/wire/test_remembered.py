"""What a reader remembers: blocks in few bytes, the most recent ones, and which conversation a body belongs to."""

from __future__ import annotations

import json

from msgspec.structs import replace

from holdfast.caches.values import Block
from holdfast.facts import model
from holdfast.wire import DIALECTS, Body
from holdfast.wire.prompts import PromptReader
from holdfast.wire.remembered import Remembered

SONNET = model("anthropic:claude-sonnet-5-5")
BLOCK = Block("messages", "text", "user", 3, b"0123456789abcdef", 17, True)


def key(number: int) -> bytes:
    return number.to_bytes(16, "big")


def test_a_block_comes_back_as_it_was() -> None:
    known = Remembered[str](100, heavy=100)
    odd = Block("tools", "web_search_20250305", "", -1, bytes(16), 2**32 - 1, False)
    assert known.keep(key(1), BLOCK)
    assert known.keep(key(2), odd)
    assert (known.plain(key(1)), known.plain(key(2)), known.plain(key(3))) == (BLOCK, odd, None)


def test_what_does_not_fit_is_refused() -> None:
    known = Remembered[str](100, heavy=100)
    for block in (replace(BLOCK, ids=b"1234"), replace(BLOCK, digest=b"short"), replace(BLOCK, tokens=2**32)):
        assert not known.keep(key(1), block)
    assert len(known) == 0


def test_what_is_used_stays_and_the_rest_goes() -> None:
    known = Remembered[str](10, heavy=100)
    for number in range(100):
        known.keep(key(number), BLOCK)
        assert known.plain(key(0)) == BLOCK
        assert len(known) <= 11
    assert known.plain(key(50)) is None
    assert known.plain(key(99)) == BLOCK


def test_others_go_by_their_weight() -> None:
    known = Remembered[str](10, heavy=100)
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
    assert isinstance(body, Body)
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
