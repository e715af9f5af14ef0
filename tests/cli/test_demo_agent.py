"""The demo's second half: Holdfast's own agent does the session, each mechanism has work to do, and each alternative
changes what it names and nothing else."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from holdfast.agent.compaction.summary import INSTRUCTION
from holdfast.cli import demo
from holdfast.demo import MechanismSaving, session, workspace
from holdfast.demo.agent import SCOUTS, AgentRun, all_bodies, apart, play, write_skills
from holdfast.demo.arms import ARMS, WHOLE, Arm
from holdfast.demo.model import SKILLS, SUMMARIZE, asked, model, scout_task
from holdfast.demo.runs import DemoRun
from holdfast.records import Message, Request, Text
from holdfast.records.events.sessions import CompactionCompleted, DelegateCompleted
from holdfast.records.events.tools import SkillLoaded, ToolOffloaded
from holdfast.report import Sums
from holdfast.simulator.messages import Reply, ToolCall, Words

MODEL = "anthropic:claude-opus-5-5"
TURNS = session.turns(12)


def played(arm: Arm, folder: Path, turns: int = 12) -> AgentRun:
    return play(arm, folder / "played", MODEL, TURNS[:turns])


def alternative(mechanism: str) -> Arm:
    return next(arm for arm in ARMS if arm.mechanism == mechanism)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> AgentRun:
    return played(WHOLE, tmp_path_factory.mktemp("whole"))


@pytest.mark.slow
def test_everything_happens_in_one_session(whole: AgentRun) -> None:
    assert whole.count(SkillLoaded) == len(set(SKILLS.values()))
    assert whole.count(ToolOffloaded) >= 3
    assert whole.told >= 3
    assert whole.count(DelegateCompleted) == SCOUTS
    assert whole.pauses == (660, 1440, 900, 660)
    (summary,) = (each for each in whole.events if isinstance(each, CompactionCompleted))
    assert not summary.elided
    assert summary.tokens_after < summary.tokens_before
    assert whole.done
    assert whole.read > 0.8 * whole.prompt
    assert whole.cost < whole.without / 3


@pytest.mark.slow
def test_the_same_session_costs_the_same(whole: AgentRun, tmp_path_factory: pytest.TempPathFactory) -> None:
    again = played(WHOLE, tmp_path_factory.mktemp("whole"))
    assert (again.cost, again.prompt, again.read, again.calls) == (whole.cost, whole.prompt, whole.read, whole.calls)


@pytest.mark.slow
def test_skills_in_the_system_text_are_not_loaded(whole: AgentRun, tmp_path: Path) -> None:
    found = played(alternative("skills loaded on request"), tmp_path)
    assert found.done
    assert found.count(SkillLoaded) == 0
    assert found.without > whole.without
    assert found.prompt > whole.prompt


@pytest.mark.slow
def test_results_that_stay_are_offloaded_nowhere(whole: AgentRun, tmp_path: Path) -> None:
    found = played(alternative("long results kept in files"), tmp_path)
    assert found.done
    assert found.count(ToolOffloaded) == 0
    assert found.cost > whole.cost


@pytest.mark.slow
def test_memory_in_a_system_block_is_read_less_from_the_cache(whole: AgentRun, tmp_path: Path) -> None:
    found = played(alternative("changed memory appended"), tmp_path)
    assert found.done
    assert found.told == 3
    assert found.read / found.prompt < whole.read / whole.prompt
    assert found.cost > whole.cost


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["first sub-agent goes ahead", "sub-agents on one prefix"])
def test_sub_agents_in_another_way_write_more(mechanism: str, tmp_path: Path) -> None:
    turns = 2
    ours, found = (
        played(arm, tmp_path / str(number), turns) for number, arm in enumerate((WHOLE, alternative(mechanism)))
    )
    assert found.calls == ours.calls
    assert found.cost > ours.cost
    again = played(alternative(mechanism), tmp_path / "again", turns)
    assert again.cost == found.cost


@pytest.mark.slow
def test_a_summary_apart_from_the_conversation_costs_more_and_is_the_same(whole: AgentRun, tmp_path: Path) -> None:
    found = played(alternative("summary asked on cached prefix"), tmp_path)
    summaries = [[e.summary for e in each.events if isinstance(e, CompactionCompleted)] for each in (whole, found)]
    assert summaries[0] == summaries[1]
    assert found.calls == whole.calls
    assert found.cost > whole.cost
    assert abs((found.prompt - found.read) - (whole.prompt - whole.read)) > 10_000  # sent in full, once more


@pytest.mark.slow
def test_without_a_summary_more_is_sent(whole: AgentRun, tmp_path: Path) -> None:
    found = played(alternative("old history summarized"), tmp_path)
    assert found.count(CompactionCompleted) == 0
    assert found.prompt > whole.prompt


def test_every_alternative_is_named() -> None:
    assert all(arm.mechanism and arm.instead for arm in ARMS)
    assert len({arm.title for arm in (WHOLE, *ARMS)}) == len(ARMS) + 1


# The workspace


@pytest.mark.slow
def test_the_careless_client_does_the_same_in_the_same_files(tmp_path: Path) -> None:
    workspace.lay_out(tmp_path, TURNS)
    assert not workspace.is_done(tmp_path, TURNS)
    results = workspace.carried_out(tmp_path, TURNS)
    assert workspace.is_done(tmp_path, TURNS)
    assert len(results) == sum(len(turn.calls) for turn in TURNS)
    assert max(map(len, results)) > 8_000
    tests = [found for found in results if found.endswith("all passed\n")]
    assert len(tests) == sum(name == "run_tests" for turn in TURNS for name, _ in turn.calls)


@pytest.mark.slow
def test_a_function_that_sorts_the_wrong_way_fails_its_cases(tmp_path: Path) -> None:
    workspace.lay_out(tmp_path, TURNS)
    patch = next(given for turn in TURNS for name, given in turn.calls if name == "patch_file")
    workspace.carried_out(tmp_path, TURNS)
    place = tmp_path / patch["path"]
    place.write_text(place.read_text().replace(patch["new"], patch["new"].replace("reverse=True", "reverse=False")))
    assert not workspace.is_done(tmp_path, TURNS)


def test_a_pasted_skill_is_what_would_be_loaded(tmp_path: Path) -> None:
    write_skills(tmp_path)
    pasted = all_bodies()
    files = sorted((tmp_path / ".holdfast" / "skills").glob("*/SKILL.md"))
    assert len(files) == 12
    assert all(file.read_text().split("---\n", 2)[2].strip() in pasted for file in files)
    assert set(SKILLS.values()) <= {file.parent.name for file in files}


# The model


def request(*messages: Message, system: str = "") -> Request:
    return Request(model="m", system_prompt=system, messages=messages)


def said(text: str) -> Message:
    return Message("user", (Text(text),))


def called(reply: Reply) -> tuple[str, object]:
    call = reply.parts[-1]
    assert isinstance(call, ToolCall)
    return call.name, json.loads(call.input)


def test_the_model_knows_the_agents_request_for_a_summary() -> None:
    assert INSTRUCTION.startswith(SUMMARIZE)
    (words,) = model(TURNS)(request(said(asked(0, TURNS[0])), said(INSTRUCTION))).parts
    assert isinstance(words, Words)
    assert words.text.count("## ") == 5


def test_the_model_loads_a_skill_unless_it_is_there() -> None:
    reply, ask = model(TURNS), said(asked(0, TURNS[0]))
    assert called(reply(request(ask))) == ("skill_load", {"name": "measure-then-speed-up"})
    assert called(reply(request(ask, system=all_bodies())))[0] == "read_file"


def test_the_model_of_a_scout_reads_its_part() -> None:
    assert called(model(TURNS)(request(said(scout_task("billing"))))) == ("read_file", {"path": "billing.py"})


def test_the_model_that_finds_no_ask_answers_and_calls_nothing() -> None:
    assert model(TURNS)(request(said("Hello."))).parts == (Words(TURNS[-1].answer),)


def test_a_request_apart_says_the_same_without_tools_and_markers() -> None:
    marked = {"type": "ephemeral"}
    call = {"type": "tool_use", "id": "t", "name": "read_file", "input": {"path": "a.py"}}
    body = {
        "model": "m",
        "system": "persona",
        "tools": [{"name": "read_file"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "look", "cache_control": marked}]},
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "text of a"}]},
            {"role": "user", "content": INSTRUCTION},
        ],
    }
    made = json.loads(apart(json.dumps(body).encode()))
    assert made.keys() == {"model", "system", "messages"}
    (message,) = made["messages"]
    assert all(words in message["content"] for words in ("look", "a.py", "text of a", INSTRUCTION))
    assert "persona" not in made["system"]


# What is said


def test_a_mechanism_that_loses_is_shown_with_its_loss() -> None:
    lines = list(
        demo.saved({"one": [MechanismSaving("kept", "not", Decimal("2.5"), Decimal("2.25"))], "none": []}, None)
    )
    assert lines[-1].split() == ["kept", "not", "$2.25", "-$0.25", "0.90x"]
    assert lines[-2].split() == ["one", "$2.50"]


def test_small_costs_are_shown_in_hundredths_of_a_cent_and_nothing_as_nothing() -> None:
    savings = [
        MechanismSaving("a", "b", Decimal("0.01"), Decimal("0.0125")),
        MechanismSaving("c", "d", Decimal("0"), Decimal("-0.000001")),
    ]
    said = list(demo.saved({"one": savings}, None))
    assert said[-2].split() == ["a", "b", "$0.0125", "$0.0025", "1.25x"]
    assert said[-1].split() == ["c", "d", "$0.0000", "$0.0000", "-"]


def test_a_session_without_pauses_and_summaries_says_so() -> None:
    nothing = AgentRun(calls=1, prompt=1, read=0, cost=Decimal(1), without=Decimal(1), events=(), pauses=(), done=False)
    (line,) = demo.happened(nothing, None)
    assert "no pause, no summary of old history. THE FILES ARE NOT AS ASKED FOR." in line
    assert list(demo.payback(nothing, None)) == []


def test_runs_without_breaks_or_costs_have_nothing_to_tell() -> None:
    idle = DemoRun(Sums(), (), {})
    assert list(demo.dearest(idle, None)) == []
    assert list(demo.told({"a": idle, "b": idle, "c": idle}, None, None)) == []
