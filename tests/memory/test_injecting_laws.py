"""Laws 1, 2 and 5 with memory, on the recorded requests of real clients: what was sent stays, whatever the memory does
meanwhile, or there is a reason; and no plan is ever one that a provider refuses."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.config.sections.agent import MemorySettings
from holdfast.config.sections.cache import CacheSettings
from holdfast.engine.passage import Incoming, Passage
from holdfast.simulator import HttpRequest
from holdfast.wire import DIALECTS
from tests import shapes
from tests.engine.driver import HEADERS
from tests.memory.memory_door import HOST, PROJECT, MemoryDoor, client_request, contents, extends, says

LOCAL = MemorySettings(inject=True, inject_as="local", project=PROJECT, retrieve="every_turn")
RUNS = [
    pytest.param(run, id=f"{client}-{name}")
    for (client, name), run in shapes.conversations().items()
    if any(shape.body and shape.dialect for shape in run)
]
CACHES = {
    "economic-improve": CacheSettings(),
    "economic-manage": CacheSettings(client_markers="manage", repair="on"),
    "three-block-improve": CacheSettings(strategy="three-block"),
    "three-block-respect": CacheSettings(strategy="three-block", client_markers="respect"),
}
HOUR, FIVE = {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral"}


def begun(door: MemoryDoor, shape: shapes.Shape, body: bytes) -> Passage:
    headers = tuple((name.encode(), value.encode("utf-8")) for name, value in shape.headers)
    headers = tuple(each for each in headers if each[0].lower() != b"content-encoding")
    path, _, query = shape.path.partition("?")
    assert shape.dialect is not None
    model = path.rpartition("/")[2].partition(":")[0] if shape.dialect == "gemini" else ""
    return door.passages.begin(Incoming("POST", path, query, headers, body), DIALECTS[shape.dialect], model)


def longer(shape: shapes.Shape) -> bytes:
    """Recorded texts are cut short; a system text is long enough to be cached."""
    assert shape.body is not None
    body = json.loads(shape.body)
    if isinstance(body.get("system"), list):
        body["system"][-1]["text"] += HOST
    elif isinstance(body.get("system"), str):
        body["system"] += HOST
    return json.dumps(body).encode()


@pytest.mark.slow
@pytest.mark.parametrize("how", CACHES)
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("placement", ["deltas", "blocks"])
def test_a_request_begins_with_the_one_before_or_says_why(
    tmp_path: Path, run: list[shapes.Shape], how: str, placement: Any
) -> None:
    door = MemoryDoor(tmp_path / "m.db", MemorySettings(**{**_members(LOCAL), "placement": placement}), CACHES[how])
    ids, lanes, number = door.learn("local"), dict[str, tuple[bytes, Passage]](), count()
    try:
        for shape in run:
            if not shape.body or not shape.dialect:
                continue
            raw, dialect = longer(shape), shape.dialect
            door.clock.advance(7)
            passage = begun(door, shape, raw)
            exchange = door.carry(passage, query={"alt": "sse"} if dialect == "gemini" else None)
            alone = door.simulator.begin(_as_it_came(shape, raw))
            assert (exchange.answer.status < 400) == (alone.answer.status < 400), exchange.answer
            assert passage.bypass is None
            if passage.identity is None or passage.identity.side:
                assert passage.raw == raw
                continue
            before = lanes.get(passage.lane.id)
            if before is not None and not says(passage, b"x-holdfast-reset"):
                old, new = contents(before[0], dialect), contents(raw, dialect)
                if new[: len(old)] == old:
                    assert extends(before[1], passage, dialect)
            lanes[passage.lane.id] = raw, passage
            step = next(number)
            if step % 2:
                title = ("Small commits", "Pointer arithmetic", "Loader timeouts")[step % 3]
                door.knowledge("local").edit(ids[title], content=f"It is otherwise since {step}.")
        assert lanes == {} or any(says(passage) for _, passage in lanes.values())
    finally:
        door.close()


def _members(memory: MemorySettings) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in memory.__struct_fields__}


def _as_it_came(shape: shapes.Shape, raw: bytes) -> HttpRequest:
    path, _, query = shape.path.partition("?")
    return HttpRequest("POST", path, HEADERS, {"alt": "sse"} if "sse" in query else {}, raw)


@pytest.mark.parametrize(
    ("client", "how", "wanted"),
    [
        ("claude-code-2.1.325", "improve", [None, HOUR, None, HOUR]),
        ("claude-code-2.1.325", "manage", [None, None, None, HOUR]),
        ("claude-code-2.1.325", "respect", [None, FIVE, FIVE, FIVE]),
        ("pi-0.73", "improve", [None, HOUR]),
        ("pi-0.73", "manage", [None, HOUR]),
        ("continue-cn", "improve", [None, HOUR]),
        ("pydantic-ai-2.66", "improve", [None, None, HOUR]),
        ("deepagents-0.7", "improve", [None, HOUR]),
    ],
)
def test_e2_e3_the_markers_of_real_clients_give_way(tmp_path: Path, client: str, how: Any, wanted: list[Any]) -> None:
    """Markers that Claude Code has on its first, tiny block stay where they do not cost a slot."""
    door = MemoryDoor(tmp_path / "m.db", LOCAL, CacheSettings(client_markers=how))
    door.learn("local")
    try:
        shape = next(s for s in shapes.load(client) if s.dialect == "anthropic" and b'"tools"' in (s.body or b""))
        passage = begun(door, shape, longer(shape))
        exchange = door.carry(passage)
        assert exchange.answer.status == 200, exchange.answer
        assert [block.get("cache_control") for block in json.loads(passage.raw)["system"]] == wanted
    finally:
        door.close()


ACTIONS = st.lists(
    st.sampled_from(["say", "say", "say", "edit", "forget", "add", "retry", "back", "restart", "off", "idle"]),
    min_size=3,
    max_size=14,
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    ACTIONS,
    st.sampled_from(["anthropic", "openai_chat", "gemini"]),
    st.sampled_from(["deltas", "blocks"]),
    st.booleans(),
)
def test_whatever_happens_a_request_extends_the_last_or_says_why(
    tmp_path: Path, actions: list[str], dialect: str, placement: Any, every: bool
) -> None:
    path = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
    memory = MemorySettings(
        inject=True, project=PROJECT, placement=placement, retrieve="every_turn" if every else "session_start"
    )
    door = MemoryDoor(path, memory)
    known, said, before = list(door.learn().values()), ["Where does the pointer come from?"], None
    try:
        for step, action in enumerate(actions):
            if action == "add":
                known.append(door.knowledge().add(f"Title {step}", f"The pointer has {step} bytes.").id)
            elif action == "edit":
                door.knowledge().edit(known[step % len(known)], content=f"It is otherwise since {step}.")
            elif action == "forget" and len(known) > 1:
                door.knowledge().forget(known.pop(step % len(known)))
            elif action == "restart":
                door.restart()
            elif action == "idle":
                door.clock.advance(4_000)
            else:
                if action == "back" and len(said) > 2:
                    said = said[:-2]
                elif action != "retry" and before is not None:
                    said = [*said, f"Answer {step}.", f"And what of {step}?"]
                raw = client_request(*said, dialect=dialect)
                ours = {"memory": "off"} if action == "off" else {}
                passage, exchange = door.send(raw, dialect, **ours)
                assert exchange.answer.status == 200, exchange.answer
                assert passage.bypass is None
                if before is not None and not says(passage, b"x-holdfast-reset"):
                    old, new = contents(before, dialect), contents(passage, dialect)
                    short = min(len(old), len(new))
                    assert old[:short] == new[:short], action
                before = passage
        found = [getattr(each.payload, "cause", "") for each in door.told("cache.break")]
        lost = ("likely_server_side", "ttl_expired_5m", "ttl_expired_1h")  # time passed, not a byte changed
        assert set(found) <= set(lost)
    finally:
        door.close()


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sets(st.integers(0, 9), max_size=4),
    st.integers(0, 4),
    st.sampled_from(["economic", "three-block", "two-point", "rolling", "zones"]),
    st.sampled_from(["improve", "manage", "respect"]),
    st.sampled_from(["deltas", "blocks"]),
    st.sampled_from([None, "short", "long", "none"]),
    st.sampled_from([0.0, 0.25]),
)
def test_beside_any_markers_of_a_client_no_plan_is_refused(
    tmp_path: Path, places: set[int], long: int, strategy: Any, how: Any, placement: Any, retention: Any, credit: float
) -> None:
    overrides = {} if retention is None else {"claude-": retention}
    cache = CacheSettings(
        strategy=strategy, client_markers=how, retention_overrides=overrides, probe_credit_usd=credit, repair="on"
    )
    memory = MemorySettings(inject=True, project=PROJECT, placement=placement)
    door = MemoryDoor(tmp_path / f"{len(list(tmp_path.iterdir()))}.db", memory, cache)
    door.learn()
    try:
        for turns in range(3):
            passage, exchange = door.send(_marked(turns, sorted(places), long))
            assert exchange.answer.status == 200, exchange.answer
            assert passage.bypass is None  # a strict engine raises on a bad plan
            if how == "respect" or strategy == "passthrough":
                theirs = passage.raw.count(b"cache_control")
                assert theirs >= len(places)
    finally:
        door.close()


def _marked(turns: int, places: list[int], long: int) -> bytes:
    """A request with ten blocks and more, of which some are marked: the first `long` of those for an hour."""
    tools = [{"name": name, "description": HOST, "input_schema": {"type": "object"}} for name in ("a", "b")]
    system = [{"type": "text", "text": f"{number} {HOST}"} for number in range(3)]
    messages: list[dict[str, Any]] = []
    for number in range(5 + 2 * turns):
        role = "assistant" if number % 2 else "user"
        messages.append({"role": role, "content": [{"type": "text", "text": f"{number} was said. {HOST[:2000]}"}]})
    blocks: list[dict[str, Any]] = [*tools, *system, *(message["content"][0] for message in messages)]
    for order, place in enumerate(places):
        blocks[place]["cache_control"] = HOUR if order < long else FIVE
    body = {"model": "claude-sonnet-5-5", "max_tokens": 9, "tools": tools, "system": system, "messages": messages}
    return json.dumps(body).encode()
