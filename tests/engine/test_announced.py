"""Who drives the engine says beforehand why a request will depart from the last one of its lane."""

from __future__ import annotations

import json

import pytest

from holdfast.engine import EngineCore, Lane
from holdfast.wire import DIALECTS, Body
from tests.engine.driver import START, raw_of, talk

LANE = Lane(tenant="t", session="s", id="s/main")


def body(raw: bytes) -> Body:
    parsed = DIALECTS["anthropic"].parse(raw)
    assert isinstance(parsed, Body)
    return parsed


@pytest.mark.parametrize("announced", [True, False])
def test_a_reset_that_was_announced_is_no_break(announced: bool) -> None:
    engine = EngineCore()
    first = engine.prepare(body(raw_of(talk(8))), lane=LANE, now=START)
    engine.settle(first, first.core.outcome.usage(5), now=START + 1)
    if announced:
        engine.announce(LANE, "compaction", now=START + 2)
    after = json.loads(raw_of(talk(8)))
    after["messages"] = [{"role": "user", "content": "A summary. " * 900}]
    second = engine.prepare(body(json.dumps(after).encode()), lane=LANE, now=START + 3)
    verdict = engine.settle(second, second.core.outcome.usage(5), now=START + 4)
    assert verdict.finding.reason == ("compaction" if announced else None)
