"""Every recorded client, replayed in order: one lane for each conversation and agent, titles beside them."""

from __future__ import annotations

import pytest

from holdfast.engine.identity import Identity
from tests.engine.identity.desk import Desk, run_of
from tests.shapes import conversations, load


def _lanes(desk: Desk, client: str, *runs: str) -> list[str]:
    found = [desk.replay(shape) for run in runs for shape in run_of(client, run)]
    return [each.lane.id for each in found if each is not None and not each.side]


def _all(desk: Desk) -> dict[str, Identity]:
    found = {shape.id: desk.replay(shape) for shapes in conversations().values() for shape in shapes}
    return {name: each for name, each in found.items() if each is not None}


# One conversation, one lane: (client, runs that belong together)
CONVERSATIONS = [
    ("claude-agent-sdk", ("basic",)),
    ("claude-code-2.1.325", ("basic", "continue", "continue2")),
    ("claude-code-2.1.325", ("sonnet",)),
    ("claude-code-tui", ("",)),
    ("cline", ("chat",)),
    ("codex-0.166", ("basic", "resume")),
    ("codex-0.166", ("ws",)),
    ("continue-cn", ("anthropic",)),
    ("continue-cn", ("long",)),
    ("deepagents-0.7", ("anthropic",)),
    ("deepagents-0.7", ("chat",)),
    ("deepagents-0.7", ("responses",)),
    ("gemini-cli-0.61", ("basic",)),
    ("gemini-cli-0.61", ("g-f429-ra1",)),
    ("llm-0.36", ("anthropic", "anthropic-c")),
    ("llm-0.36", ("openai",)),
    ("opencode-1.18", ("compat",)),
    ("opencode-1.18", ("openai",)),
    ("pi-0.73", ("anthropic", "anthropic-c")),
    ("pi-0.73", ("responses",)),
    ("pi-0.73", ("chat",)),
    ("pydantic-ai-2.66", ("anthropic",)),
    ("pydantic-ai-2.66", ("anthropic-cache",)),
    ("pydantic-ai-2.66", ("chat",)),
    ("pydantic-ai-2.66", ("responses",)),
    ("qwen-code", ("basic-v0.15",)),
    ("qwen-code", ("basic-latest",)),
    ("qwen-code", ("continue",)),
]


@pytest.mark.parametrize(("client", "runs"), CONVERSATIONS, ids=lambda value: str(value))
def test_a_conversation_is_one_lane_with_its_resumed_runs(client: str, runs: tuple[str, ...]) -> None:
    lanes = _lanes(Desk(), client, *runs)
    assert len(lanes) > 1
    assert len(set(lanes)) == 1


def test_all_of_them_in_one_go_are_still_apart() -> None:
    found = _all(Desk())
    expected = {
        frozenset(
            f"{shape.client}/{shape.run or 'run'}/{shape.n}"
            for run in runs
            for shape in run_of(client, run)
            if shape.body and not found[shape.id].side
        )
        for client, runs in CONVERSATIONS
    }
    lanes: dict[tuple[str, str], set[str]] = {}
    for name, each in found.items():
        if not each.side:
            lanes.setdefault((each.lane.tenant, each.lane.id), set()).add(name)
    made = {frozenset(names) for names in lanes.values()}
    assert {names for names in expected if names not in made} == set()


def test_claude_codes_sub_agents_are_lanes_of_their_own() -> None:
    desk = Desk()
    found = [desk.replay(shape) for shape in run_of("claude-code-2.1.325", "agent")]
    main, sub, *rest = [each.lane for each in found if each is not None]
    assert (main.agent, main.subagent, main.parent) == ("", False, None)
    assert sub.session == main.session
    assert (sub.subagent, sub.parent) == (True, main.id)
    assert [each.id for each in rest] == [main.id, sub.id, main.id]


def test_opencodes_title_comes_first_and_defines_nothing() -> None:
    desk = Desk()
    title, *turns, sub = [desk.replay(shape) for shape in run_of("opencode-1.18", "anthropic")]
    assert title.side
    assert title.lane.id == f"{title.lane.session}/side"
    mains = {each.lane.id for each in turns if each is not None}
    assert mains == {f"{title.lane.session}/main/claude-sonnet-4-5"}
    assert sub.lane.session != title.lane.session
    assert (sub.lane.subagent, sub.lane.parent) == (True, mains.pop())
    again = [desk.replay(shape) for shape in run_of("opencode-1.18", "anthropic-continue")]
    assert {each.lane.id for each in again if each is not None} == {f"{title.lane.session}/main/claude-sonnet-4-5"}


def test_a_sub_agent_with_a_prompt_of_its_own_gets_a_lane_of_its_own() -> None:
    for client, run in (("deepagents-0.7", "anthropic-agent"), ("openai-agents-0.24", "responses")):
        *main, sub = _lanes(Desk(), client, run)
        assert len(set(main)) == 1
        assert sub not in main


def test_exactly_the_titles_stand_beside_their_conversations() -> None:
    sides = {name for name, each in _all(Desk()).items() if each.side}
    assert sides == {"claude-code-tui/run/2"} | {
        f"opencode-1.18/{run}/1" for run in ("compat", "anthropic", "openai", "oc-f429-ra1")
    }


def test_clients_that_send_an_id_are_known_without_reading_the_body() -> None:
    for client in ("claude-code-2.1.325", "claude-agent-sdk", "claude-code-tui", "codex-0.166", "opencode-1.18"):
        desk = Desk()
        for shape in load(client):
            desk.replay(shape)
        assert desk.reads == 0, client


def test_a_body_is_read_once_for_find_and_sent() -> None:
    desk = Desk()
    shapes = run_of("pi-0.73", "anthropic")
    for shape in shapes:
        desk.replay(shape)
    assert desk.reads == len(shapes)


def test_aider_rewrites_its_history_and_never_lands_in_another_run() -> None:
    """On Anthropic it rewrites only its last question: one lane. On OpenAI it moves what it said before behind what it
    says now, and no request repeats the one before: a new lane each time."""
    desk = Desk()
    runs = ("openai", "anthropic", "multi-anthropic", "multi-openai")
    lanes = {run: _lanes(desk, "aider-0.86", run) for run in runs}
    assert {run: (len(each), len(set(each))) for run, each in lanes.items()} == {
        "openai": (1, 1),
        "anthropic": (1, 1),
        "multi-anthropic": (3, 1),
        "multi-openai": (4, 4),
    }
    assert len({lane for each in lanes.values() for lane in each}) == 7


def test_conversations_with_the_same_examples_in_front_stay_apart() -> None:
    """An older qwen-code opens every conversation with the same question and the same answer."""
    desk = Desk()
    first, second = run_of("qwen-code", "basic-v0.15")[0], run_of("qwen-code", "basic-v0.15")[1]
    other = first.body.replace(b"foni puvedi", b"something else")
    assert other != first.body
    headers = {"user-agent": "QwenCode/0.15.10 (linux; x64)", "authorization": "Bearer one"}
    lanes = [desk.send(headers, desk.body("openai_chat", raw)).lane.id for raw in (first.body, other)]
    assert lanes[0] != lanes[1]
    assert second.body is not None
    assert desk.send(headers, desk.body("openai_chat", second.body)).lane.id == lanes[0]


def test_two_tenants_with_the_same_requests_share_nothing() -> None:
    desk = Desk()
    lanes = {"mine": set[tuple[str, str]](), "theirs": set[tuple[str, str]]()}
    for shapes in conversations().values():
        for shape in shapes:
            mine = desk.replay(shape, authorization="Bearer mine")
            theirs = desk.replay(shape, authorization="Bearer theirs")
            assert (mine is None) == (theirs is None)
            if mine is not None and theirs is not None:
                assert mine.lane.tenant != theirs.lane.tenant
                assert not mine.scope or mine.lane.id != theirs.lane.id
                lanes["mine"].add((mine.lane.tenant, mine.lane.id))
                lanes["theirs"].add((theirs.lane.tenant, theirs.lane.id))
    assert len(lanes["mine"]) == len(lanes["theirs"]) > 20
