"""Gemini's cached contents around a passage: made beside the request, named by the next, gone without harm."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from holdfast.config.sections.cache import CacheSettings, GeminiSettings
from holdfast.engine.passage import Passage
from holdfast.simulator import HttpRequest
from tests.engine.driver import HEADERS, raw_of, talk
from tests.engine.passage.door import Door

CONTENTS = CacheSettings(gemini=GeminiSettings(enabled=True), repair="off")


def talked(door: Door, first: int, last: int) -> list[Passage]:
    """Turns of a conversation whose calls beside the requests are made by whoever carries it."""
    passages = []
    for turns in range(first, last):
        passage, exchange = door.send(raw_of(talk(turns), "gemini"), "gemini")
        assert exchange.answer.status == 200
        passages.append(passage)
        for call in () if passage.prepared is None else passage.prepared.before:
            send = call.send
            answer = door.simulator.answer(HttpRequest(send.method, send.path, HEADERS, send.query, send.body))
            door.engine.chore_done(passage.lane, call, answer.status, answer.body, now=door.clock.now())
    return passages


@pytest.fixture
def warm(doors: Callable[..., Door]) -> tuple[Door, int]:
    """A lane that has an object, and how many turns that took."""
    door = doors(CONTENTS)
    for turns in range(10):
        (passage,) = talked(door, turns, turns + 1)
        if passage.prepared is not None and passage.prepared.use is not None:
            return door, turns + 1
    raise AssertionError("no object was made")


def test_what_was_made_is_named_by_the_next_request(doors: Callable[..., Door]) -> None:
    door = doors(CONTENTS)
    passages = talked(door, 0, 6)
    made = [index for index, each in enumerate(passages) if each.prepared is not None and each.prepared.before]
    named = [index for index, each in enumerate(passages) if each.prepared is not None and each.prepared.use]
    assert made
    assert named[0] == made[0] + 1
    request = passages[named[0]]
    assert not request.verbatim
    assert json.loads(request.raw)["cachedContent"].startswith("cachedContents/")
    assert "systemInstruction" not in json.loads(request.raw)
    row = door.rows()[named[0]]
    assert row.usage.read > 3_000


def test_what_could_not_be_made_is_not_named(doors: Callable[..., Door]) -> None:
    door = doors(CONTENTS)
    for turns in range(6):
        passage, _ = door.send(raw_of(talk(turns), "gemini"), "gemini")
        assert passage.prepared.use is None
        for call in passage.prepared.before:
            door.engine.chore_done(passage.lane, call, 0, b"", now=door.clock.now())
    assert {row.status for row in door.rows()} == {"settled"}


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_an_object_that_vanished(warm: tuple[Door, int], encoding: str) -> None:
    door, turns = warm
    raw = raw_of(talk(turns), "gemini")
    door.clock.advance(10)
    door.simulator.reset()
    passage = door.begin(raw, "gemini", encoding=encoding)
    name = json.loads(passage.raw)["cachedContent"].encode()
    refused = door.ask(passage).answer
    assert refused.status == 403
    assert passage.refused(refused.status, refused.body) == raw
    assert (passage.raw, passage.verbatim) == (raw, False)
    exchange = door.carry(passage)
    assert exchange.answer.status == 200
    row = door.rows()[-1]
    assert row.status == "settled"
    assert row.usage.prompt == exchange.record.usage.prompt
    assert passage.refused(403, refused.body) is None  # it names nothing any more
    following = door.begin(raw_of(talk(turns + 1), "gemini"), "gemini")
    assert name not in following.raw  # it is forgotten


def test_another_refusal_is_the_client_s(warm: tuple[Door, int]) -> None:
    door, turns = warm
    passage = door.begin(raw_of(talk(turns), "gemini"), "gemini")
    sent = passage.raw
    assert passage.refused(429, b'{"error":{"code":429,"status":"RESOURCE_EXHAUSTED"}}') is None
    assert passage.raw == sent
    passage.answer(429, [])
    passage.finish()
    assert door.rows()[-1].error == "HTTP 429"


def test_an_engine_that_fails_there_does_not_disturb(warm: tuple[Door, int], monkeypatch: pytest.MonkeyPatch) -> None:
    door, turns = warm
    passage = door.begin(raw_of(talk(turns), "gemini"), "gemini")

    def fails(*_args: object, **_more: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(door.engine, "gone", fails)
    assert passage.refused(403, b"{}") is None


def test_other_requests_name_nothing(door: Door) -> None:
    passage = door.begin(raw_of(talk(1)))
    assert passage.refused(404, b"{}") is None
    assert door.begin(raw_of(talk(1)), switch="off").refused(404, b"{}") is None
