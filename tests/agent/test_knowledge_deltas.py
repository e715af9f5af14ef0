"""Knowledge as deltas, the default: frozen entries in front of what the user says, sent again to the byte for ever."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.agent.window.entries import KnowledgeNews, Timeline, UserMessage
from holdfast.agent.window.state import told_hashes
from holdfast.memory.knowledge import Knowledge
from tests.agent.bench import MODELS, calls, extends, sound
from tests.agent.knowledge_bench import KnowledgeBench, knowledge_news
from tests.agent.summaries import LIMITS, summarizer, talk

TOOLS = "The deployment needs the token of the build server."


async def test_c23_the_first_turn_is_told_up_to_five_entries_that_fit_it(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        for number in range(8):
            bench.add(f"Deployment rule {number}", f"Deployments of kind {number} wait for the build server.")
        session = await bench.begin("How does the deployment work?")
        (told,) = knowledge_news(session)
        assert told.count("Deployment rule") == 5
        await session.ask("And the deployment of kind 7?")
        assert len(knowledge_news(session)) == 1  # session_start: looked up once
        sound(session)


async def test_c23_every_turn_what_was_told_is_not_told_again(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path, memory={"retrieve": "every_turn"}) as bench:
        first, second = bench.add("Linting rule", "ruff checks it."), bench.add("Deployment rule", "make ships it.")
        session = await bench.begin("What of linting?")
        told = knowledge_news(session)
        await session.ask("What of the deployment rule?")
        await session.ask("What of the deployment rule and of linting?")
        whole = "\n".join(knowledge_news(session))
        assert (whole.count(first.id), whole.count(second.id)) == (1, 1)
        assert knowledge_news(session)[: len(told)] == told


async def test_a_delta_stands_in_front_of_what_the_user_said_and_is_never_the_tail(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        bench.add("Deployment rule", TOOLS)
        session = await bench.begin("How does the deployment work?")
        texts = bench.texts(0)
        assert texts[-1] == "How does the deployment work?"
        assert TOOLS in texts[-2]
        context = next(entry for entry in session.state.window.entries if isinstance(entry, Timeline))
        kinds = [type(item) for item in context.items]
        assert kinds.index(KnowledgeNews) < kinds.index(UserMessage)


async def test_a_preference_that_the_pinned_block_has_not_is_told_to_the_next_session(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        bench.prefer("Short answers", "Answers are short.")
        before = await bench.begin("Hello.")
        entry = bench.prefer("Tea", "Tea, and no coffee.")
        await before.ask("And now?")
        assert knowledge_news(before) == []  # what it goes on with is what it began with
        session = await bench.begin("What is there to drink?")
        assert bench.system() == bench.system(0)
        assert bench.texts()[-2].count(entry.id) == 1
        await session.ask("And now?")
        bench.known.forget(entry.id)
        await session.ask("And then?")
        assert f"{entry.id} (preference) no longer holds: Tea" in knowledge_news(session)[1]
        bench.assert_sound(session)


async def test_what_is_known_of_a_repository_is_known_in_all_of_it(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    async with KnowledgeBench(tmp_path) as bench:  # works in a directory of it
        entry = bench.add("Deployment rule", TOOLS, project=str(tmp_path.resolve()))
        session = await bench.begin("How does the deployment work?")
        assert entry.id in "\n".join(knowledge_news(session))
        await session.ask(calls(("knowledge_add", {"title": "Linting", "content": "ruff checks it."})))
        assert {each.project for each in bench.known.entries(projects="all")} == {entry.project}


async def test_a_first_preference_reaches_a_session_that_was_opened_before_it(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        session = await bench.sessions.create()
        entry = bench.prefer("Tea", "Tea, and no coffee.")
        await session.ask("What is there to drink?")
        assert entry.id in bench.texts()[-2]


@pytest.mark.parametrize("dialect", sorted(MODELS))
async def test_a_delta_is_sent_again_to_the_byte_in_its_place_ever_after(tmp_path: Path, dialect: str) -> None:
    async with KnowledgeBench(tmp_path, model=MODELS[dialect]) as bench:
        entry = bench.add("Deployment rule", TOOLS)
        bench.prefer("Short answers", "Answers are short.")
        session = await bench.begin("How does the deployment work?")
        before = session.messages()
        bench.known.edit(entry.id, content="Deployments need no token any more.")
        bench.add("Deployment news", "Deployments wait for the review.")
        await session.ask("And now?")
        session = await bench.resumed(session, "And after the restart?")
        assert extends(before, session.messages())
        assert len(knowledge_news(session)) == 2
        bench.assert_sound(session)


async def test_a_material_change_of_a_told_entry_is_told_once_and_a_change_of_spelling_is_not(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        entry = bench.add("Deployment rule", TOOLS)
        session = await bench.begin("How does the deployment work?")
        bench.known.edit(entry.id, content=f"  {TOOLS.upper()}\n")
        await session.ask("Anything else?")
        assert len(knowledge_news(session)) == 1
        bench.known.edit(entry.id, content="Deployments need a review by two people.")
        await session.ask("And now?")
        await session.ask("And then?")
        assert len(knowledge_news(session)) == 2
        assert "a review by two people" in knowledge_news(session)[1]


async def test_never_because_ranking_or_a_budget_moved(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        bench.add("Deployment rule", TOOLS, confidence=0.5)
        session = await bench.begin("How does the deployment work?")
        for number in range(12):  # all of them rank before it
            bench.add(f"Deployment {number}", "The deployment works so: it is the deployment.", confidence=1.0)
            await session.ask("How does the deployment work?")
        session.set_model("anthropic:claude-opus-5-5")  # another window, another budget
        await session.ask("How does the deployment work?")
        assert len(knowledge_news(session)) == 1


async def test_an_entry_that_is_forgotten_is_withdrawn_once(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        entry = bench.add("Deployment rule", TOOLS)
        session = await bench.begin("How does the deployment work?")
        bench.known.forget(entry.id)
        await session.ask("And now?")
        await session.ask("And then?")
        assert len(knowledge_news(session)) == 2
        assert entry.id in knowledge_news(session)[1]
        assert TOOLS not in knowledge_news(session)[1]


async def test_nothing_is_told_between_the_calls_of_a_turn(tmp_path: Path) -> None:
    """A delta behind tool results would be the tail of the request: it waits for the user."""
    async with KnowledgeBench(tmp_path) as bench:
        entry = bench.add("Deployment rule", TOOLS)
        session = await bench.begin("How does the deployment work?")
        turn = calls(("knowledge_add", {"title": "Something else", "content": "It is noted."}), ("list_dir", {}))

        async def meanwhile() -> None:
            bench.known.edit(entry.id, content="Deployments need nothing.")

        await meanwhile()
        await session.ask(turn)
        last = bench.raw()["messages"][-1]["content"]
        assert [block["type"] for block in last] == ["tool_result", "tool_result"]
        assert len(knowledge_news(session)) == 2  # it came with the user's message, before the calls
        sound(session)


async def test_what_the_agent_wrote_or_recalled_itself_is_not_told_to_it(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        session = await bench.sessions.create()
        added = calls(("knowledge_add", {"title": "Deployment rule", "content": TOOLS, "category": "gotcha"}))
        await session.ask(added)
        (entry,) = bench.known.entries()
        assert (entry.source, entry.category) == (f"agent:{session.id}", "gotcha")
        await session.ask(calls(("knowledge_replace", {"id": entry.id, "content": "Deployments need a review."})))
        await session.ask("And now?")
        assert knowledge_news(session) == []
        bench.known.edit(entry.id, content="Deployments need two reviews.")  # by somebody else
        await session.ask("And then?")
        assert len(knowledge_news(session)) == 1


async def test_what_was_recalled_is_told_again_when_it_changes(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        session = await bench.begin("Hello.")
        entry = bench.add("Deployment rule", TOOLS)
        await session.ask(calls(("recall", {"query": "deployment"})))
        result = json.dumps(bench.raw()["messages"])
        assert TOOLS in result
        assert knowledge_news(session) == []
        bench.known.edit(entry.id, content="Deployments need a review.")
        await session.ask("And now?")
        assert "Deployments need a review." in knowledge_news(session)[0]


async def test_recall_gives_long_entries_whole_or_names_them_and_counts_those_it_gave(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path, memory={"retrieve_max": 0}) as bench:
        entries = [bench.add(f"Deployment {number}", f"{number} a\n" * 1_900) for number in range(4)]
        session = await bench.begin(calls(("recall", {"query": "deployment"})))
        (result,) = bench.raw()["messages"][-1]["content"]
        said = json.dumps(result)
        assert [entry.id in said for entry in entries] == [True] * 4
        (whole,) = [entry for entry in entries if said.count(f"> {entry.title[-1]} a") == 1_900]  # not put into a file
        assert set(told_hashes(session.state)) == {whole.id}
        other = next(entry for entry in entries if entry is not whole)
        await session.ask(calls(("recall", {"query": other.id})))
        assert set(told_hashes(session.state)) == {whole.id, other.id}


async def test_recall_by_an_id_gives_that_entry_and_no_other_projects(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        session = await bench.sessions.create()
        entry, other = bench.add("Deployment rule", TOOLS), bench.add("Elsewhere", "A secret plan.", project="/other")
        await session.ask(calls(("recall", {"query": entry.id}), ("recall", {"query": other.id})))
        said = json.dumps(bench.raw()["messages"])
        assert TOOLS in said
        assert "A secret plan." not in said


async def test_deltas_that_a_compaction_took_away_are_told_again_as_one(tmp_path: Path) -> None:
    limits = {**LIMITS, "anchor_turns": 0, "limit_tokens": 100_000}
    async with KnowledgeBench(tmp_path, compaction=limits, reply=summarizer()) as bench:
        first, second = bench.add("Linting rule", "ruff checks it."), bench.add("Deployment rule", TOOLS)
        session = await bench.begin("What of the linting, and of the deployment rule?")
        bench.known.edit(second.id, content="Deployments need a review.")
        await talk(session, bench, 6)
        assert len(knowledge_news(session)) == 2
        bench.known.edit(first.id, content="black checks it.")
        await session.compact()
        assert knowledge_news(session) == []
        await session.ask("Where were we?")
        (told,) = knowledge_news(session)
        assert first.id in told
        assert second.id in told
        assert "black checks it." in told
        await session.ask("And now?")
        assert len(knowledge_news(session)) == 1
        bench.assert_sound(session)


async def test_no_more_deltas_than_the_limit_between_two_resets(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path, memory={"delta_max": 3}) as bench:
        entry = bench.add("Deployment rule", TOOLS)
        session = await bench.sessions.create()
        for number in range(8):
            await session.ask(f"How does the deployment work, {number}?")
            bench.known.edit(entry.id, content=f"Deployments need {number} reviews.")
        assert len(knowledge_news(session)) == 3


async def test_a_changed_preference_is_told_and_its_block_stays(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        entry = bench.prefer("Short answers", "Answers are short.")
        session = await bench.begin("Hello.")
        bench.known.edit(entry.id, content="Answers are long.")
        await session.ask("And now?")
        assert bench.system(0)[1]["text"] == bench.system(1)[1]["text"]
        assert "Answers are long." in knowledge_news(session)[-1]


async def test_a_sub_agent_shares_the_block_and_is_told_its_task_alone(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        bench.prefer("Short answers", "Answers are short.")
        bench.add("Deployment rule", TOOLS)
        session = await bench.begin("Hello.", calls(("delegate", {"tasks": [{"task": "Look at the deployment."}]})))
        child = next(raw for name, (_, _, raw) in zip(bench.sent_by, bench.sent, strict=True) if name[0] != session.id)
        mine, theirs = bench.system(0), json.loads(child)["system"]
        assert [block["text"] for block in mine] == [block["text"] for block in theirs]
        assert TOOLS not in json.dumps(json.loads(child)["messages"])


async def test_amnesia_reads_and_does_not_write(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        entry = bench.add("Deployment rule", TOOLS)
        session = await bench.sessions.create(amnesia=True)
        plain = await bench.sessions.create()
        assert session.box.definitions() == plain.box.definitions()  # one prefix for both
        await session.ask("How does the deployment work?")
        assert TOOLS in knowledge_news(session)[0]
        made = (
            ("knowledge_add", {"title": "New", "content": "It is new."}),
            ("knowledge_replace", {"id": entry.id, "content": "Changed."}),
            ("knowledge_forget", {"id": entry.id}),
            ("memory_add", {"file": "user", "text": "Likes tea."}),
            ("recall", {"query": "deployment"}),
        )
        await session.ask(calls(*made))
        results = bench.raw()["messages"][-1]["content"]
        assert [block.get("is_error", False) for block in results] == [True, True, True, True, False]
        session = await bench.resumed(session, calls(("knowledge_forget", {"id": entry.id})))
        assert bench.known.entries() == [entry]
        assert session.memory.read("user") == ""


async def test_without_anything_known_nothing_is_sent_of_it(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        session = await bench.begin("Hello.")
        assert len(bench.system()) == 1
        surroundings, asked = bench.texts()
        assert surroundings.startswith("# Surroundings\n")
        assert asked == "Hello."
        assert knowledge_news(session) == []


async def test_other_projects_and_other_tenants_are_not_told(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        bench.add("Deployment elsewhere", "Another project's.", project="/other")
        Knowledge(bench.store, "stranger", clock=bench.clock.now).add(
            "Deployment of strangers", "A stranger's.", everywhere=True
        )
        bench.add("Deployment everywhere", "Everybody's.", everywhere=True)
        session = await bench.begin("How does the deployment work?")
        (told,) = knowledge_news(session)
        assert "Everybody's." in told
        assert "Another project's." not in told
        assert "A stranger's." not in told


async def test_when_and_why_an_entry_was_shown_is_kept(tmp_path: Path) -> None:
    async with KnowledgeBench(tmp_path) as bench:
        liked, entry = bench.prefer("Short answers", "Answers are short."), bench.add("Deployment rule", TOOLS)
        session = await bench.begin("How does the deployment work?", calls(("recall", {"query": "deployment rule"})))
        bench.store.flush()
        (first,) = bench.known.shown(liked.id)
        assert (first.place, first.why, first.session) == ("stable", "session_start", session.id)
        assert [(each.place, each.why) for each in reversed(bench.known.shown(entry.id))] == [
            ("delta", "session_start"),
            ("recall", "recall"),
        ]
