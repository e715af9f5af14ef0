"""Skills in conversations: through the official SDK and the engine to a simulated provider, from files to the bill."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from holdfast.config.sections.agent import SkillsSettings
from holdfast.records import Message, Text, Usage
from holdfast.records.events import CATALOGUE
from tests.skills.sdk_conversation import Conversation, conversing, text
from tests.skills.skill_files import write_skill

BODY = "Open the file with the reader. Then check every page twice.\n" * 40


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, about in (("pdf", "Reads PDF files."), ("pdf-forms", "Fills in forms."), ("zip", "Packs files.")):
        write_skill(tmp_path / "skills", name, description=about, body=f"# How to {name}\n\n{BODY}")
    return tmp_path / "skills"


def play(talk: Conversation, *turns: list[tuple[str, dict[str, Any]]]) -> list[list[Any]]:
    async def all_of_them() -> list[list[Any]]:
        assert talk.client is not None
        async with talk.client:
            return [await talk.ask(*calls) for calls in turns]

    return asyncio.run(all_of_them())


def load(name: str) -> tuple[str, dict[str, Any]]:
    return "skill_load", {"name": name}


def search(query: str) -> tuple[str, dict[str, Any]]:
    return "skill_search", {"query": query}


def read_all(used: list[Usage]) -> bool:
    """Whether each request read all that the one before had read and written."""
    return all(now.read == before.read + before.written > 0 for before, now in pairwise(used))


def head(body: dict[str, Any]) -> bytes:
    return json.dumps([body["tools"], body["system"]]).encode()


def test_a6_loaded_bodies_are_results_and_the_whole_prefix_is_read_again(root: Path, tmp_path: Path) -> None:
    with conversing(tmp_path, root, mode="off", persona="You are a clerk of a small company. " * 800) as talk:
        found = play(talk, [search("pdf")], [load("pdf")], [], [load("zip")], [])
        assert text(found[0][0]).startswith("Skills matching 'pdf' (2):\n- pdf [global] — Reads PDF files.")
        section = "# Skill: pdf (source: global)\n\n# How to pdf\n\n"
        assert text(found[1][0]).startswith(section)
        assert text(found[1][0]).rstrip().endswith(BODY.rstrip())
        assert len(talk.sent) == 8
        assert len({head(body) for body in talk.sent}) == 1, "law 3: loading changes no byte of tools and system"
        assert "How to pdf" not in json.dumps(talk.sent[0])
        assert "How to pdf" not in json.dumps(talk.sent[-1]["system"])
        assert json.dumps(talk.sent[-1]["messages"]).count("How to pdf") == 1
        for before, now in pairwise(talk.sent):
            assert now["messages"][: len(before["messages"])] == before["messages"]
        assert read_all(talk.used())
        assert talk.breaks() == []
        loads = [event.payload for event in talk.events("skill.loaded")]
        assert [(each.skill_id, each.load_reason) for each in loads] == [("pdf", "on_demand"), ("zip", "on_demand")]


@pytest.mark.parametrize("first", [[load("zip")], [search("packs"), load("zip")]], ids=["direct", "search"])
def test_d41_direct_and_search_then_load_are_both_first_class(
    first: list[tuple[str, dict[str, Any]]], root: Path, tmp_path: Path
) -> None:
    with conversing(tmp_path, root, mode="off") as talk:
        found = play(talk, first)[0]
        assert not any(result.is_error for result in found)
        assert text(found[-1]).startswith("# Skill: zip (source: global)\n\n# How to zip")
        names = [item["name"] for item in talk.sent[0]["tools"]]
        assert {"skill_search", "skill_load"} <= set(names)
        assert "- zip: Packs files." in json.dumps(talk.sent[0]["system"])


def test_a45_a62_preloaded_bodies_fill_a_short_prefix_and_are_pointed_at(root: Path, tmp_path: Path) -> None:
    with conversing(tmp_path, root, mode="always") as talk:
        assert talk.composed.preloaded
        name = talk.composed.preloaded[0]
        assert f"- {name} [preloaded]: " in talk.composed.index
        assert talk.composed.text.count(f"# Skill: {name} (source: global)\n\n# How to {name}") == 1
        always = talk.events("skill.loaded")
        assert [event.payload.skill_id for event in always] == list(talk.composed.preloaded)
        assert {(event.payload.load_reason, event.turn) for event in always} == {("always", None)}
        (pointer,), nothing = play(talk, [load(name)], [])
        assert nothing == []
        assert text(pointer).startswith(
            f"# Skill: {name} (source: global)\n\nThis skill's body is already loaded in the"
        )
        assert "# How to" not in text(pointer)
        assert len(talk.events("skill.loaded")) == len(always), "a pointer is told nowhere"
        assert read_all(talk.used())
        assert talk.breaks() == []


def test_a83_what_is_preloaded_is_told_before_the_first_turn(root: Path, tmp_path: Path) -> None:
    with conversing(tmp_path, root, mode="always") as talk:
        play(talk, [load("zip"), search("pdf")], [])
        kinds = [event.payload.type for event in talk.events()]
        last = max(
            n for n, event in enumerate(talk.events()) if event.payload.type == "skill.loaded" and not event.turn
        )
        assert last < kinds.index("llm.call_started")
        assert last < kinds.index("tool.called")


def test_a47_padding_is_the_same_to_the_byte_whoever_composes_it(root: Path, tmp_path: Path) -> None:
    texts = []
    for number in range(2):
        place = tmp_path / f"place-{number}"
        place.mkdir()
        with conversing(place, root, mode="always") as talk:
            texts.append(talk.composed.text)
            play(talk, [load("zip")], [])
            assert {
                body["system"] if isinstance(body["system"], str) else body["system"][0]["text"] for body in talk.sent
            } == {talk.composed.text}
    assert texts[0] == texts[1]
    assert str(tmp_path) not in texts[0]


def test_a45_a_long_prefix_holds_no_body(root: Path, tmp_path: Path) -> None:
    with conversing(tmp_path, root, mode="always", persona="You are a clerk of a small company. " * 800) as talk:
        assert (talk.composed.preloaded, talk.composed.padding) == ((), "")
        assert "# How to" not in talk.composed.text
        assert talk.events("skill.loaded") == []


def test_a66_a67_the_budget_reaches_the_model_as_an_error_and_is_told_as_a_failure(root: Path, tmp_path: Path) -> None:
    with conversing(tmp_path, root, mode="off", settings=SkillsSettings(max_activations=1)) as talk:
        (first, second), _ = play(talk, [load("pdf"), load("zip")], [])
        assert not first.is_error
        assert second.is_error
        said = (
            "activation budget exhausted: 1 skills already activated this session (limit 1). Already loaded: [pdf]. "
            "To free budget, summarize and discard previously loaded skill bodies in your next response."
        )
        assert text(second) == said
        results = talk.sent[-1]["messages"][2]["content"]
        assert [result.get("is_error", False) for result in results] == [False, True]
        assert said in json.dumps(results[1])
        (failed,) = talk.events("tool.failed")
        assert (failed.payload.tool, failed.payload.error_message) == ("skill_load", said)
        kinds = {event.payload.type for event in talk.events() if event.payload.type.startswith(("tool", "skill"))}
        assert kinds == {"tool.called", "tool.completed", "tool.failed", "skill.loaded"}
        assert len(talk.events("skill.loaded")) == 1


def test_a72_the_token_cap_too(root: Path, tmp_path: Path) -> None:
    with conversing(tmp_path, root, mode="off", settings=SkillsSettings(warn_tokens=0, hard_tokens=100)) as talk:
        ((refused,),) = play(talk, [load("pdf")])
        assert refused.is_error
        assert text(refused).startswith("activation budget exhausted: loading pdf would bring loaded skills to ")
        (failed,) = talk.events("tool.failed")
        assert failed.payload.error_message == text(refused)
        assert talk.events("skill.loaded") == []


def test_a74_a75_a_loaded_body_stays_and_nothing_tells_of_an_end(root: Path, tmp_path: Path) -> None:
    with conversing(tmp_path, root, mode="off") as talk:
        found = play(talk, [load("pdf")], [load("zip")], *([[]] * 4), [load("pdf")])
        assert "already in this conversation" in text(found[-1][0])
        assert json.dumps(talk.sent[-1]["messages"]).count("How to pdf") == 1
        assert "skill.unloaded" not in CATALOGUE
        assert "skill.created" not in CATALOGUE
        assert len(talk.events("skill.loaded")) == 2


def test_after_compaction_the_body_is_given_again(root: Path, tmp_path: Path) -> None:
    with conversing(tmp_path, root, mode="off", settings=SkillsSettings(max_activations=1)) as talk:

        async def both() -> list[str]:
            assert talk.client is not None
            async with talk.client:
                first = (await talk.ask(load("pdf")))[0]
                talk.messages[:] = [Message("user", (Text("[]\nA summary of what was said."),)), talk.messages[-1]]
                talk.box.at_reset(talk.messages)
                again = (await talk.ask(load("pdf")))[0]
                pointer = (await talk.ask(load("pdf")))[0]
                return [text(first), text(again), text(pointer)]

        first, again, pointer = asyncio.run(both())
        assert first == again
        assert "already in this conversation" in pointer
        loads = [event.payload for event in talk.events("skill.loaded")]
        assert [each.skill_id for each in loads] == ["pdf", "pdf"]
        assert len({each.triggered_by_tool_use_id for each in loads}) == 2
        assert len({head(body) for body in talk.sent}) == 1


def test_a58_no_word_of_the_user_loads_a_skill(root: Path, tmp_path: Path) -> None:
    with conversing(tmp_path, root, mode="off") as talk:
        talk.messages.append(Message("user", (Text("[]\nPlease read the PDF files and fill in the forms."),)))
        talk.messages.append(Message("assistant", (Text("I will."),)))
        play(talk, [], [search("pdf forms")], [])
        assert talk.events("skill.loaded") == []
        assert "# How to" not in json.dumps(talk.sent[-1])


def test_d42_files_of_a_skill_are_read_with_the_file_tools(root: Path, tmp_path: Path) -> None:
    (root / "pdf" / "references").mkdir()
    (root / "pdf" / "references" / "pages.md").write_text("Pages are numbered from one.\n")
    with conversing(tmp_path, root, mode="off") as talk:
        path = str(root / "pdf" / "references" / "pages.md")
        beside = str(tmp_path / "h.db")
        ((page, refused),) = play(talk, [("read_file", {"path": path}), ("read_file", {"path": beside})])
        assert "Pages are numbered from one." in text(page)
        assert refused.is_error
