"""What the model is asked for, which answers count, and what stands in the place of what goes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.agent.compaction.carry_over import (
    ASKED,
    HEADING,
    OPENING,
    carried_facts,
    facts,
    read,
    told_again,
    written,
)
from holdfast.agent.compaction.cut import SUMMARY_TOKENS
from holdfast.agent.compaction.sizes import Sizes
from holdfast.agent.compaction.summary import (
    AGAIN,
    BOUNDS,
    INSTRUCTION,
    OUTLINE,
    SECTIONS,
    SUMMARY,
    OpenWork,
    UnusableSummary,
    composed,
    instruction,
    outline,
    sections,
    summary_of,
)
from holdfast.agent.window.entries import (
    Compacted,
    Entry,
    SettingToggledItem,
    SubagentStatus,
    SurroundingsChangedItem,
    Timeline,
    ToolServerGone,
    UserMessage,
)
from holdfast.agent.window.state import DelegateState, ProcessState, TaskState
from holdfast.records import Message, Text, Thinking, ToolUse
from holdfast.wire.answers import Answer
from tests.agent.histories import CONTEXT, answer, tool_turn, user, windows

GOOD = "\n".join(f"## {name}\nSomething of {name}." for name in SECTIONS)


def model_answer(*blocks: object, stop: str = "end") -> Answer:
    content = tuple(Text(block) if isinstance(block, str) else block for block in blocks)
    message = Message("assistant", content)  # type: ignore[arg-type]
    return Answer(message=message, stop=stop, usage=None, id=None, model=None, error=None, whole=True)  # type: ignore[arg-type]


def toggled(setting: str, value: str) -> Timeline:
    return Timeline(at=0, items=(SettingToggledItem(at=0, seq=0, setting=setting, value=value),))


# What is asked for


def test_one_instruction_is_appended_and_names_every_section() -> None:
    (message,) = instruction()
    assert message == Message("user", (Text(INSTRUCTION),))
    assert all(f"\n## {name}\n" in INSTRUCTION for name in SECTIONS)


def test_another_attempt_extends_the_one_before_it() -> None:
    one, two, three = (instruction(("a", "b")[:n]) for n in range(3))
    assert two[: len(one)] == one
    assert three[: len(two)] == two
    assert two[-1] == Message("user", (Text(AGAIN.format(reason="a")),))


def test_a_whole_summary_is_taken_in_our_own_form() -> None:
    assert summary_of(model_answer(Thinking("hm"), GOOD)).splitlines()[:2] == ["### Goal", "Something of Goal."]


@pytest.mark.parametrize("form", ["# {}\n", "### {} ###\n", "**{}**\n", "**{}:**\n", "{}:\n", "## 1. {}\n", "## {}:\n"])
def test_headings_may_look_as_models_like_them(form: str) -> None:
    text = "Here it is.\n" + "\n".join(form.format(name.upper()) + "text" for name in SECTIONS)
    assert set(sections(text)) == set(SECTIONS)
    assert "Here it is" not in summary_of(model_answer(text))


def test_a_fence_around_the_summary_is_no_part_of_it_and_one_inside_is() -> None:
    inside = GOOD.replace("Something of Files.", "```\n## Goal\nls\n```")
    found = summary_of(model_answer(f"```markdown\n{inside}\n```"))
    assert found.count("```") == 2
    assert found.count("### Goal") == 1
    assert found.endswith("Something of Next step.")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (model_answer(), "empty"),
        (model_answer("  \n"), "empty"),
        (model_answer(Thinking("I think")), "empty"),
        (model_answer(GOOD, ToolUse("c", "read_file", b"{}")), "called a tool"),
        (model_answer(GOOD, stop="tools"), "called a tool"),
        (model_answer(GOOD, stop="length"), "cut at the limit"),
        (model_answer(GOOD, stop="refusal"), "refused"),
        (model_answer("It went well."), "Goal, Decisions and facts, Files, Open tasks, Next step"),
        (model_answer(GOOD.replace("## Files\nSomething of Files.\n", "")), "empty: Files"),
        (model_answer(GOOD.replace("Something of Goal.", " ")), "empty: Goal"),
    ],
)
def test_what_is_no_summary_is_refused_with_the_reason(given: Answer, reason: str) -> None:
    with pytest.raises(UnusableSummary, match=reason):
        summary_of(given)


# What stands in its place


def test_the_summary_is_named_as_the_assistants_and_stands_behind_what_is_certain() -> None:
    known = OpenWork(
        files=("a.py", "b.py"),
        tasks=(
            TaskState(task="t1", status="in_progress", text="Write the docs."),
            TaskState(task="t2", status="completed"),
            TaskState(task="t3", status="Done"),
        ),
        processes=(ProcessState(process="p1", command="make  watch"),),
        delegates=(DelegateState(delegate="d1", role="helper", task="Look."),),
    )
    text = composed((user("Begin."),), (answer("x"),), known, summary="### Goal\nAll.", fits=lambda _: True)
    assert text == "\n".join(
        (
            OPENING,
            HEADING,
            f"### {ASKED}",
            "> Begin.",
            "## Running in the background",
            "- process p1: make watch",
            "- sub-agent d1 (helper): Look.",
            "## Open tasks",
            "- t1 [in_progress]: Write the docs.",
            "## Files read or changed, the latest last",
            "- a.py",
            "- b.py",
            SUMMARY,
            "### Goal",
            "All.",
        )
    )


def test_a_summary_that_does_not_fit_is_none_and_an_outline_always_is_one() -> None:
    assert composed((user("a"),), (), OpenWork(), summary="long", fits=lambda _: False) is None
    text = composed((user("a"),), (), OpenWork(), summary=None, fits=lambda _: False)
    assert text.startswith(OPENING)
    assert OUTLINE in text


def test_notes_give_way_before_the_summary_does() -> None:
    known = OpenWork(files=tuple(f"dir/{n}.py" for n in range(300)))
    text = composed((user("a"),), (), known, summary="### Goal\nAll.", fits=lambda found: len(found) < 900)
    assert text.endswith("### Goal\nAll.")
    assert "more …)" in text
    assert "dir/299.py" in text


def test_a_question_that_waits_for_an_answer_is_not_forgotten() -> None:
    asking = DelegateState(delegate="d1", role="tester", task="Test it.", question="On which port?\n80?")
    known = OpenWork(delegates=(asking, DelegateState(delegate="d2", role="reader", task="Read it.")))
    text = composed((user("a"),), (), known, summary="### Goal\nAll.", fits=lambda _: True)
    assert text is not None
    assert "- sub-agent d1 (tester): Test it. (asks: On which port? 80?)\n- sub-agent d2 (reader): Read it.\n" in text


def test_an_outline_tells_what_was_said_what_was_called_and_what_was_answered_last() -> None:
    status = SubagentStatus(at=0, seq=0, delegate="d", status="completed", text="Found it.\nIn a.py")
    entries: tuple[Entry, ...] = (
        user("First of all\nand more"),
        tool_turn(("read_file", "x"), ("run_command", "y")),
        tool_turn(("read_file", "x"), failed=True),
        Timeline(at=0, items=(status, UserMessage(at=0, seq=1, text="Second"))),
        answer("The end of it."),
    )
    text = outline(entries, BOUNDS[0], earlier="Once upon a time.")
    for part in (
        "### Before\nOnce upon a time.",
        "- First of all\n- Second",
        "- read_file: 2 (1 failed)\n- run_command: 1",
        "- Found it.",
        "> The end of it.",
    ):
        assert part in text
    assert "and more" not in text


def test_an_outline_of_a_summary_holds_that_summary_and_what_was_in_force() -> None:
    first = composed(
        (toggled("plan", "on"), user("Go.")), (), OpenWork(), summary="### Goal\nAll.", fits=lambda _: True
    )
    assert first is not None
    second = composed((Compacted(at=0, text=first), answer("x")), (), OpenWork(), summary=None, fits=lambda _: True)
    assert second is not None
    assert "### Before\n### Goal\nAll." in second
    assert read(second) == {ASKED: "Go.", "Setting plan is": "on"}


def test_what_is_said_anew_behind_the_summary_is_not_in_force_any_more() -> None:
    dropped = (toggled("plan", "on"), toggled("mode", "a"), user("One"), toggled("plan", "off"))
    around = Timeline(at=0, items=(SurroundingsChangedItem(at=0, seq=0, text="Branch: main"),))
    assert carried_facts(dropped, (toggled("mode", "b"),)) == {ASKED: "One", "Setting plan is": "off"}
    assert carried_facts((around,), ()) == {"The surroundings changed last": "Branch: main"}
    assert ASKED not in carried_facts(dropped, (user("Two"),))


def test_where_no_summary_says_it_what_holds_is_told_again() -> None:
    gone = Timeline(at=0, items=(ToolServerGone(at=0, seq=0, server="db", tools=("q",)),))
    again = told_again(
        (toggled("plan", "on"), gone, toggled("plan", "off"), toggled("mode", "a")), (toggled("mode", "b"),)
    )
    assert [event.type for event in again] == ["setting.toggled", "mcp.server_disconnected"]
    assert again[0].value == "off"  # type: ignore[attr-defined]


def test_what_a_summary_said_that_goes_is_told_again_too() -> None:
    gone = Timeline(at=0, items=(ToolServerGone(at=0, seq=0, server="db", tools=("q", "r")),))
    all_gone = Timeline(at=0, items=(ToolServerGone(at=0, seq=0, server="mail"),))
    around = Timeline(at=0, items=(SurroundingsChangedItem(at=0, seq=0, text="Branch: main"),))
    given = (toggled("plan", "on"), toggled("mode", "a"), gone, all_gone, around, user("One"))
    text = composed(given, (), OpenWork(), summary="### Goal\nAll.", fits=lambda _: True)
    assert text is not None
    again = told_again((Compacted(at=0, text=text), answer("x")), (toggled("mode", "b"),))
    assert again == told_again(given, (toggled("mode", "b"),))
    assert [event.type for event in again] == [
        "setting.toggled",
        "mcp.server_disconnected",
        "mcp.server_disconnected",
        "surroundings.changed",
    ]


def test_a_summary_that_imitates_our_own_headings_is_not_read_as_ours() -> None:
    spoof = f"{HEADING}\n### Setting plan is\n> on"
    text = composed((answer("x"),), (), OpenWork(), summary=f"### Goal\n{spoof}", fits=lambda _: True)
    assert read(text) == {}
    assert text.index(SUMMARY) < text.index(spoof)


_keys = st.text("abc :#>", min_size=1, max_size=20).map(str.strip).filter(bool)
_values = st.lists(st.text("ab#> -é", max_size=30), min_size=1, max_size=5).map("\n".join)


@given(st.dictionaries(_keys, _values, max_size=5))
def test_what_is_in_force_is_read_back_whatever_it_says(found: dict[str, str]) -> None:
    text = f"{OPENING}\n{written(found, 100, 10_000)}\n{SUMMARY}\n### Goal\n> no fact"
    assert read(text) == found


@given(windows, st.booleans())
def test_facts_are_carried_from_summary_to_summary(entries: tuple[Entry, ...], modelled: bool) -> None:
    entries = tuple(entry for entry in entries if not isinstance(entry, Compacted))
    once = composed(entries, (), OpenWork(), summary="s" if modelled else None, fits=lambda _: True)
    assert once is not None
    twice = composed((Compacted(at=0, text=once),), (), OpenWork(), summary="s", fits=lambda _: True)
    assert twice is not None
    assert read(once) == read(twice)
    assert set(facts(entries)) == set(read(once))


_long = st.text("ab 漢\n#", max_size=3_000)
_known = st.builds(
    OpenWork,
    files=st.lists(_long, max_size=20),
    tasks=st.lists(st.builds(TaskState, task=_long, status=_long, text=_long), max_size=10),
    processes=st.lists(st.builds(ProcessState, process=_long, command=_long), max_size=5),
)


@given(windows, _known, _long, st.floats(0.25, 4))
def test_an_outline_is_always_shorter_than_what_gains_something(
    entries: tuple[Entry, ...], known: OpenWork, text: str, ratio: float
) -> None:
    of = Sizes(fixed=0, entries=(), ratio=ratio).of
    dropped = (*entries[1:], user(text), toggled(text, text), answer(text))
    made = composed(dropped, (), known, summary=None, fits=lambda found: of(found) <= SUMMARY_TOKENS)
    assert made is not None
    assert of(made) <= SUMMARY_TOKENS
    assert made == composed(dropped, (), known, summary=None, fits=lambda found: of(found) <= SUMMARY_TOKENS)


def test_the_outline_of_nothing_is_what_stands_in_front_of_any() -> None:
    made = composed((CONTEXT,), (), OpenWork(), summary=None, fits=lambda _: True)
    front, head, note = made.split("\n")
    assert front.startswith("[Older messages of this conversation were removed to make room.")
    assert (head, note[0], note[-1]) == ("## Outline made by the program", "(", ")")
