"""Claude Code's recorded conversations against the simulator: what each request reads, worked out by hand.

Its three markers stand on two system blocks and on the last block of the last message, so by A3 and A4 a request reads
exactly what the one before it of its lane had covered, and its first one what another session with the same head left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from holdfast.records import Usage
from holdfast.simulator import HttpRequest, Simulator, VirtualClock
from tests.shapes import Shape, load

CLIENT = "claude-code-2.1.325"


def bill(simulator: Simulator, shape: Shape, key: str = "k") -> Usage:
    headers = {name.lower(): value for name, value in shape.headers} | {"x-api-key": key}
    exchange = simulator.bill(HttpRequest("POST", shape.path.partition("?")[0], headers, {}, shape.body or b""))
    exchange.finish()
    assert exchange.record.usage is not None
    return exchange.record.usage


def runs(*names: str, client: str = CLIENT) -> list[Shape]:
    return [shape for name in names for shape in load(client) if shape.run == name and shape.dialect is not None]


def billed(shapes: Iterable[Shape], pause: float = 1.0, simulator: Simulator | None = None) -> list[Usage]:
    clock = VirtualClock()
    simulator = simulator or Simulator(clock=clock)
    found = []
    for shape in shapes:
        found.append(bill(simulator, shape))
        clock.advance(pause)
    return found


def covered(usage: Usage) -> int:
    return usage.read + usage.written


@pytest.mark.parametrize(
    "names", [("basic", "continue", "continue2"), ("sonnet",), ("cache1h",)], ids=lambda names: "+".join(names)
)
def test_every_request_reads_what_the_one_before_it_covered(names):
    """Also over `--continue`, a new process: the history comes back as it was, with other spellings."""
    usages = billed(runs(*names))
    assert usages[0].read == 0
    assert [usage.read for usage in usages[1:]] == [covered(usage) for usage in usages[:-1]]
    assert all(usage.input == 0 and usage.written > 0 for usage in usages)


def test_a_sub_agent_is_a_lane_of_its_own():
    shapes = runs("agent")
    last: dict[str | None, int] = {}
    for shape, usage in zip(shapes, billed(shapes), strict=True):
        agent = shape.header("x-claude-code-agent-id")
        assert usage.read == last.get(agent, 0)
        last[agent] = covered(usage)
    assert len(last) == 2


@pytest.mark.parametrize(("name", "lifetime"), [("basic", 300.0), ("cache1h", 3_600.0)])
def test_the_lifetime_is_the_one_it_asks_for(name, lifetime):
    assert all(usage.read for usage in billed(runs(name), lifetime)[1:])
    assert not any(usage.read for usage in billed(runs(name), lifetime + 1))


def test_a_title_request_takes_no_part():
    """It has no marker (A6) and leaves nothing for the conversation that follows it."""
    title, first, second = runs("", client="claude-code-tui")[:3]
    usages = billed([title, first, second])
    assert (usages[0].read, usages[0].written) == (0, 0)
    assert usages[1].read == 0
    assert usages[2].read == covered(usages[1])


def test_a_billing_line_that_differs_on_every_request_is_no_part_of_the_prefix():
    """The client's first system block does so while its real sessions hit."""
    shapes = runs("basic")
    line = re.compile(rb"(x-anthropic-billing-header: cc_version=)[^;]*")
    changed = [
        Shape(s.client, s.run, s.n, s.at, s.method, s.path, s.headers, line.sub(rb"\g<1>2.1.%d" % i, s.body or b""))
        for i, s in enumerate(shapes)
    ]
    assert [s.body for s in changed] != [s.body for s in shapes]
    assert billed(changed) == billed(shapes)


def test_an_older_model_keeps_its_thinking_because_the_client_asks_for_it():
    """A14: a new user turn on sonnet-4-5 with thinking would lose everything from the first thought on."""
    shapes = runs("basic", client="claude-agent-sdk")
    usages = billed(shapes)
    assert [usage.read for usage in usages[1:]] == [covered(usage) for usage in usages[:-1]]
    asked = b'"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},'
    plain = [
        Shape(s.client, s.run, s.n, s.at, s.method, s.path, s.headers, (s.body or b"").replace(asked, b""))
        for s in shapes
    ]
    without = billed(plain)
    assert without[:-1] == usages[:-1]
    assert without[-1].read == covered(usages[0])
