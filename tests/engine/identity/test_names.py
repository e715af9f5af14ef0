"""Sessions and agents by name: headers and fields of known clients, our own, and hostile ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.engine import Lane
from holdfast.engine.identity import Identity
from holdfast.store import Lane as LaneRow
from holdfast.store import open_store
from holdfast.store import operations as op
from tests.engine.identity.desk import Desk, headers_of, run_of, words

SAFE = re.compile(r"[A-Za-z0-9._:@-]{1,130}").fullmatch
UUID = "0f7dd1a2-7f1e-4a57-8a3b-3d6c6f2a9e10"


def _chat(*texts: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    return {"model": "gpt-5", "messages": messages, **more}


def _responses(text: str, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5", "input": [{"role": "user", "content": text}], **more}


def _send(desk: Desk, headers: dict[str, str], content: dict[str, Any] | None = None, dialect: str = "") -> Identity:
    return desk.send(headers, desk.body(dialect or "anthropic", content or words("Hello")))


# Our own headers


def test_our_own_header_comes_first() -> None:
    desk = Desk()
    shape = run_of("claude-code-2.1.325", "basic")[0]
    found = desk.replay(shape, **{"x-holdfast-session": "mine"})
    assert found.lane.id == "mine/main/claude-opus-5-5"
    assert found.why == "header x-holdfast-session"
    assert desk.reads == 0


def test_our_own_agent_header_names_the_agent() -> None:
    desk = Desk()
    headers = {"x-holdfast-session": "s", "x-holdfast-agent": "reviewer"}
    lane = _send(desk, headers).lane
    assert (lane.session, lane.agent, lane.id) == ("s", "reviewer", "s/reviewer/claude-sonnet-4-5")


def test_our_session_keeps_a_clients_sub_agents_apart() -> None:
    desk = Desk()
    own = {"x-holdfast-session": "mine"}
    main, sub = [desk.replay(shape, **own) for shape in run_of("claude-code-2.1.325", "agent")[:2]]
    assert (sub.lane.session, sub.lane.parent, sub.lane.subagent) == ("mine", main.lane.id, True)
    *_, turn, child = [desk.replay(shape, **own) for shape in run_of("opencode-1.18", "anthropic")]
    assert child.lane.id != turn.lane.id
    assert child.lane.parent == turn.lane.id


def test_an_agent_without_a_session_is_part_of_the_lane() -> None:
    desk = Desk()
    one = _send(desk, {"x-holdfast-agent": "a"})
    assert one.lane.id == f"{one.lane.session}/a/claude-sonnet-4-5"
    follow = words("Hello", "Hi", "Go on")
    assert _send(desk, {"x-holdfast-agent": "b"}, follow).lane.id != one.lane.id
    assert _send(desk, {"x-holdfast-agent": "a"}, follow).lane.id == one.lane.id


# Known clients


def test_a_codex_thread_is_a_sub_agent_of_its_session() -> None:
    desk = Desk()
    shape = run_of("codex-0.166", "multiagent")[0]
    session = headers_of(shape)["session-id"]
    main = desk.replay(shape)
    first = desk.replay(shape, **{"thread-id": "t1", "x-codex-parent-thread-id": session})
    second = desk.replay(shape, **{"thread-id": "t2", "x-codex-parent-thread-id": "t1"})
    assert {each.lane.session for each in (main, first, second)} == {session}
    assert (first.lane.agent, first.lane.subagent, first.lane.parent) == ("t1", True, main.lane.id)
    assert (second.lane.agent, second.lane.parent) == ("t2", first.lane.id)


def test_codex_without_a_thread_is_known_by_its_session() -> None:
    shape = run_of("codex-0.166", "basic")[0]
    headers = {name: value for name, value in headers_of(shape).items() if name != "thread-id"}
    desk = Desk()
    found = desk.send(headers, desk.body("openai_responses", shape.body or b""))
    assert found.lane.session == headers["session-id"]


def test_a_parent_of_another_model_is_the_last_one_used() -> None:
    desk = Desk()
    claude = {"x-claude-code-session-id": UUID, "user-agent": "claude-cli/2.1"}
    tools = [{"name": "t", "input_schema": {}}]
    for model in ("claude-opus-5-5", "claude-haiku-4-5", "claude-opus-5-5"):
        _send(desk, claude, words("Hello", model=model, tools=tools))
    sub = {**claude, "x-claude-code-agent-id": "a1"}
    assert _send(desk, sub, words("x", tools=tools)).lane.parent == f"{UUID}/main/claude-opus-5-5"
    haiku = words("x", model="claude-haiku-4-5", tools=tools)
    assert _send(desk, sub, haiku).lane.parent == f"{UUID}/main/claude-haiku-4-5"


def test_a_sub_agent_whose_parent_was_not_seen_has_none() -> None:
    lane = _send(Desk(), {"x-claude-code-session-id": UUID, "x-claude-code-agent-id": "a1"}).lane
    assert (lane.subagent, lane.parent) == (True, None)


def test_a_session_that_names_itself_as_its_parent_has_none() -> None:
    desk = Desk()
    headers = {"x-session-id": "s", "x-session-affinity": "s", "x-parent-session-id": "s"}
    _send(desk, headers)
    lane = _send(desk, headers).lane
    assert (lane.subagent, lane.parent) == (False, None)


def test_a_parent_is_found_in_the_store_after_a_restart(tmp_path: Path) -> None:
    with open_store(tmp_path / "h.db") as store:
        desk = Desk(store)
        tenant = desk.identities.tenant({}, "")
        main = f"{UUID}/main/claude-sonnet-4-5"
        for id_ in (main, f"{UUID}/side"):
            store.write(op.PutLane(LaneRow(tenant=tenant, id=id_, session=UUID, model="", started_at=1))).result()
        headers = {"x-claude-code-session-id": UUID, "x-claude-code-agent-id": "a1"}
        assert _send(desk, headers).lane.parent == main
        other = {**headers, "x-claude-code-session-id": "other"}
        assert _send(desk, other).lane.parent is None


def test_a_provider_side_conversation_names_its_session() -> None:
    for value in ("conv_1", {"id": "conv_1"}):
        found = _send(Desk(), {}, _responses("Hello", conversation=value), "openai_responses")
        assert (found.lane.id, found.why) == ("conv_1/main/gpt-5", "field conversation")


# Names that may be shared by several conversations


SHARED: list[tuple[dict[str, str], dict[str, Any], str]] = [
    ({}, {"prompt_cache_key": "shop"}, "field prompt_cache_key"),
    ({}, {"session_id": "shop", "prompt_cache_key": "x"}, "field session_id"),
    ({"x-session-id": "shop"}, {}, "header x-session-id"),
    ({"session_id": "shop"}, {}, "header session_id"),
    ({"session-id": "shop"}, {}, "header session-id"),
]


@pytest.mark.parametrize(("headers", "fields", "why"), SHARED)
def test_a_shared_name_is_the_session_and_the_chain_says_the_lane(
    headers: dict[str, str], fields: dict[str, Any], why: str
) -> None:
    desk = Desk()
    one = _send(desk, headers, _chat("Where is my parcel?", **fields), "openai_chat")
    two = _send(desk, headers, _chat("I want to give it back", **fields), "openai_chat")
    assert one.why == two.why == f"new, {why}"
    assert {one.lane.session, two.lane.session} == {"shop"}
    assert one.lane.id != two.lane.id
    for first, opening in ((one, "Where is my parcel?"), (two, "I want to give it back")):
        follow = _send(desk, headers, _chat(opening, "One moment.", "Thanks", **fields), "openai_chat")
        assert (follow.lane, follow.why) == (first.lane, "prefix chain")


def test_lanes_of_different_names_are_not_mixed() -> None:
    desk = Desk()
    one = _send(desk, {}, _chat("Hello", prompt_cache_key="a"), "openai_chat")
    other = _send(desk, {}, _chat("Hello", "Hi", "Go on", prompt_cache_key="b"), "openai_chat")
    assert (one.lane.session, other.lane.session) == ("a", "b")


def test_a_shared_name_with_an_agent() -> None:
    found = _send(Desk(), {"x-holdfast-agent": "bot"}, _chat("Hello", prompt_cache_key="a"), "openai_chat")
    assert found.lane.agent == "bot"
    assert re.fullmatch(r"a/bot\.[0-9A-Z]{26}/gpt-5", found.lane.id)


@pytest.mark.parametrize(
    "user",
    [
        json.dumps({"device_id": "d", "account_uuid": "", "session_id": UUID}),
        f"user_{'0f' * 32}_account__session_{UUID}",
    ],
)
def test_claude_codes_session_in_the_users_id(user: str) -> None:
    """Its sub-agents share it without saying so: the chain keeps them apart."""
    desk = Desk()
    main = _send(desk, {}, words("Do it", metadata={"user_id": user}))
    sub = _send(desk, {}, words("Look for it", system="You search.", metadata={"user_id": user}))
    assert main.lane.session == sub.lane.session == UUID
    assert main.lane.id != sub.lane.id


@pytest.mark.parametrize("user", ["someone", "", "{", "{}", '{"session_id": 5}', '{"session_id": ""}', 5, None, [1]])
def test_a_users_id_without_a_session_names_none(user: Any) -> None:
    assert _send(Desk(), {}, words("Hello", metadata={"user_id": user})).why == "new"


@pytest.mark.parametrize("field", ["prompt_cache_key", "session_id", "conversation", "previous_response_id"])
@pytest.mark.parametrize("value", ["", 5, None, [], {}, {"id": 5}, "x" * 5_000], ids=lambda value: str(value)[:10])
def test_odd_fields_name_nothing(field: str, value: Any) -> None:
    found = _send(Desk(), {}, _responses("Hello", **{field: value}), "openai_responses")
    assert found.why == "new"


# Responses that are gone on from


def test_a_request_belongs_to_the_lane_whose_response_it_names() -> None:
    desk = Desk()
    first = _send(desk, {}, _responses("Hello"), "openai_responses")
    desk.identities.answered(first, "resp_1")
    second = _send(desk, {}, _responses("Go on", previous_response_id="resp_1"), "openai_responses")
    assert (second.lane, second.why) == (first.lane, "field previous_response_id")
    desk.identities.answered(second, "resp_2")
    for previous in ("resp_2", "resp_1"):  # the last one, and a fork of the one before
        found = _send(desk, {}, _responses("More", previous_response_id=previous), "openai_responses")
        assert found.lane == first.lane
    assert desk.reads == 1


def test_an_unknown_response_opens_a_new_lane_that_can_be_gone_on_with() -> None:
    desk = Desk()
    first = _send(desk, {}, _responses("Hello", previous_response_id="resp_0"), "openai_responses")
    assert first.why == "new"
    desk.identities.answered(first, "resp_1")
    second = _send(desk, {}, _responses("Go on", previous_response_id="resp_1"), "openai_responses")
    assert second.lane == first.lane


def test_another_tenants_response_is_unknown() -> None:
    desk = Desk()
    first = _send(desk, {"x-api-key": "one"}, _responses("Hello"), "openai_responses")
    desk.identities.answered(first, "resp_1")
    follow = _responses("Go on", previous_response_id="resp_1")
    assert _send(desk, {"x-api-key": "two"}, follow, "openai_responses").why == "new"


def test_a_response_gone_on_from_with_another_model_is_another_lane_of_the_session() -> None:
    desk = Desk()
    first = _send(desk, {}, _responses("Hello"), "openai_responses")
    desk.identities.answered(first, "resp_1")
    content = {**_responses("Go on", previous_response_id="resp_1"), "model": "gpt-5-mini"}
    second = _send(desk, {}, content, "openai_responses")
    assert second.lane.session == first.lane.session
    assert second.lane.id != first.lane.id
    assert second.lane.id.endswith("/gpt-5-mini")


def test_only_the_last_responses_of_a_lane_are_remembered() -> None:
    desk = Desk()
    first = _send(desk, {}, _responses("Hello"), "openai_responses")
    for number in range(20):
        desk.identities.answered(first, f"resp_{number}")
    for odd in ("", "x" * 5_000, "ré", "resp_19"):
        desk.identities.answered(first, odd)
    known = [
        _send(desk, {}, _responses("x", previous_response_id=f"resp_{number}"), "openai_responses").lane == first.lane
        for number in range(20)
    ]
    assert known == [False] * 12 + [True] * 8


def test_answers_of_named_lanes_and_of_unknown_ones_are_no_matter() -> None:
    desk = Desk()
    found = _send(desk, {"x-holdfast-session": "s"})
    desk.identities.answered(found, "resp_1")
    desk.identities.unanswered(found)
    unsent = desk.find({}, desk.body("anthropic", words("Hello")))
    desk.identities.answered(unsent, "resp_1")
    desk.identities.unanswered(unsent)
    assert _send(desk, {}, _responses("x", previous_response_id="resp_1"), "openai_responses").why == "new"


# Names from outside


@pytest.mark.parametrize(
    "value",
    [
        "../../etc/passwd",
        "a/b",
        "x" * 129,
        "x" * 100_000,
        "é",
        "\x00",
        "a b",
        "\ud800",
        "'; DROP TABLE lanes",
        "\r\nx: y",
    ],
    ids=lambda value: ascii(value)[:20],
)
@pytest.mark.parametrize("header", ["x-holdfast-session", "x-holdfast-agent", "x-claude-code-session-id", "session_id"])
def test_odd_names_are_replaced_by_digests(header: str, value: str) -> None:
    desk = Desk()
    lane = _send(desk, {header: value}).lane
    for part in (lane.session, lane.agent or "x"):
        assert SAFE(part)
    assert len(lane.id) <= 400
    assert lane.id.isascii()
    assert value not in lane.id
    again = _send(desk, {header: value}, words("Hello", "Hi", "Go on")).lane
    assert again == lane
    assert _send(desk, {header: value + "2"}).lane.id != lane.id


@pytest.mark.parametrize("value", ["a", "x" * 128, "user@example.org", "run:12.3_b-c"])
def test_plain_names_stay_as_they_are(value: str) -> None:
    assert _send(Desk(), {"x-holdfast-session": value}).lane.session == value


def test_a_models_name_is_bounded_too() -> None:
    desk = Desk()
    headers = {"x-holdfast-session": "s"}
    assert _send(desk, headers, words("x", model="anthropic/claude:beta")).lane.id == "s/main/anthropic/claude:beta"
    ids = {_send(desk, headers, words("x", model=model)).lane.id for model in ("m" * 10_000, "m" * 9_999, "a\nb")}
    assert len(ids) == 3
    assert max(map(len, ids)) < 60


def test_the_same_session_name_of_two_tenants_is_two_lanes() -> None:
    desk = Desk()
    one = _send(desk, {"x-holdfast-session": "s", "x-api-key": "one"}).lane
    two = _send(desk, {"x-holdfast-session": "s", "x-api-key": "two"}).lane
    assert isinstance(one, Lane)
    assert one.tenant != two.tenant
    assert one.id == two.id


def test_parents_are_those_of_the_same_tenant() -> None:
    desk = Desk()
    session = {"x-claude-code-session-id": UUID}
    _send(desk, {**session, "x-api-key": "one"})
    sub = _send(desk, {**session, "x-claude-code-agent-id": "a", "x-api-key": "two"})
    assert sub.lane.parent is None
