"""Guides are given once, with the first result that succeeded, and again when the conversation has lost them."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.records import Block, Message, Text, ToolResult, ToolUse
from holdfast.tools.guides import Guides, GuideSection, wrapped

PRIVILEGED = GuideSection(
    name="privileged", text="Ask before you change an agent.", tools=("agents_manage", "cron_manage")
)
DELEGATION = GuideSection(name="delegation", text="Delegate small tasks.", tools=("delegate", "agents_manage"))


def texts(blocks: Sequence[Text]) -> list[str]:
    return [block.text for block in blocks]


def answered(*results: Sequence[Block]) -> list[Message]:
    return [Message("user", (ToolResult(f"t{at}", tuple(blocks)),)) for at, blocks in enumerate(results)]


def test_c44_a_guide_comes_with_the_first_result_of_its_tool() -> None:
    guides = Guides({"agents_manage": "How to manage agents.", "other": "Other."})
    assert guides.take("agents_manag") == guides.take("AGENTS_MANAGE") == guides.take("read_file") == ()
    assert texts(guides.take("agents_manage")) == [wrapped("How to manage agents.")]
    assert guides.delivered == {"tool:agents_manage"}


@pytest.mark.parametrize("brought", [False, True])
def test_a_guide_holds_no_key(brought: bool) -> None:
    """Filed under the tool's name, or brought along by it."""
    key = "sk-ant-api03-" + "Ab1_" * 20
    guide = f"Log in with {key} first."
    guides = Guides({} if brought else {"x": guide})
    (block,) = guides.take("x", guide if brought else None)
    assert key not in block.text
    assert "Log in with" in block.text


def test_c45_the_wrapper_is_exact() -> None:
    (block,) = Guides({"x": "First line.\nSecond line."}).take("x")
    assert block == Text("---\n[Tool Guide - shown once per session]\nFirst line.\nSecond line.\n---")
    (block,) = Guides({"x": "From a file.\n\n"}).take("x")
    assert block == Text("---\n[Tool Guide - shown once per session]\nFrom a file.\n---")


def test_c46_it_is_given_once() -> None:
    guides = Guides({"x": "guide"}, [PRIVILEGED])
    assert len(guides.take("x")) == 1
    assert guides.take("x") == ()
    assert len(guides.take("cron_manage")) == 1
    assert guides.take("cron_manage") == guides.take("agents_manage") == ()
    assert guides.delivered == {"tool:x", "section:privileged"}


def test_c46_of_results_that_come_side_by_side_one_gets_it() -> None:
    for _ in range(50):
        guides = Guides({"x": "guide"}, [GuideSection(name="s", text="section", tools=("x",))])
        start, given = threading.Barrier(8), []

        def work(guides: Guides = guides, start: threading.Barrier = start, given: list[Text] = given) -> None:
            start.wait()
            given.extend(guides.take("x"))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert texts(given) == [wrapped("guide"), wrapped("section")]


def test_c46_it_stays_given_after_a_restart() -> None:
    before = Guides({"x": "guide", "y": "another"}, [PRIVILEGED])
    before.take("x")
    before.take("cron_manage")
    after = Guides({"x": "guide", "y": "another"}, [PRIVILEGED])
    after.restore(before.delivered)
    assert after.delivered == before.delivered
    assert after.take("x") == after.take("agents_manage") == ()
    assert len(after.take("y")) == 1
    after.restore([])
    assert len(after.take("x")) == 1


def test_c47_resetting_the_session_forgets_what_was_given() -> None:
    guides = Guides({"x": "guide"}, [PRIVILEGED])
    guides.take("x")
    guides.take("cron_manage")
    guides.keep(())
    assert guides.delivered == frozenset()
    assert len(guides.take("x")) == len(guides.take("agents_manage")) == 1


def test_c49_both_sources_may_come_with_one_result_the_tools_own_first() -> None:
    guides = Guides({"agents_manage": "How to manage agents."}, [DELEGATION, PRIVILEGED])
    assert texts(guides.take("agents_manage")) == [
        wrapped("How to manage agents."),
        wrapped("Delegate small tasks."),
        wrapped("Ask before you change an agent."),
    ]
    assert guides.take("delegate") == guides.take("cron_manage") == ()


def test_c50_a_section_comes_at_the_first_use_of_any_tool_of_its_group() -> None:
    guides = Guides({}, [PRIVILEGED, DELEGATION])
    assert texts(guides.take("cron_manage")) == [wrapped(PRIVILEGED.text)]
    assert texts(guides.take("agents_manage")) == [wrapped(DELEGATION.text)]


def test_a_tool_that_comes_late_brings_its_guide() -> None:
    guides = Guides({"filed": "filed under its name"})
    assert texts(guides.take("late", "late guide")) == [wrapped("late guide")]
    assert guides.take("late", "late guide") == ()
    assert texts(guides.take("filed", "its own")) == [wrapped("filed under its name")]
    assert guides.keep(answered([Text(wrapped("late guide"))])) == ("tool:filed",)


def test_an_empty_guide_is_none() -> None:
    guides = Guides({"x": " \n"}, [GuideSection(name="s", text="", tools=("x",))])
    assert guides.take("x", "") == ()
    assert guides.delivered == frozenset()


def test_a_section_and_a_tool_of_one_name_are_two_guides() -> None:
    guides = Guides({"x": "tool"}, [GuideSection(name="x", text="section", tools=("x",))])
    assert len(guides.take("x")) == 2
    with pytest.raises(HoldfastError, match="two held-back sections are named 'x'"):
        Guides({}, [GuideSection(name="x", text="a", tools=()), GuideSection(name="x", text="b", tools=())])


# Compaction


def test_compaction_that_removes_a_guide_frees_it() -> None:
    guides = Guides({"x": "guide of x", "y": "guide of y"}, [PRIVILEGED])
    x, y, section = guides.take("x"), guides.take("y"), guides.take("cron_manage")
    whole = answered([Text("result"), *x], [*y], [Text("done"), *section])
    assert guides.keep(whole) == ()
    assert guides.keep(whole[1:2]) == ("section:privileged", "tool:x")
    assert guides.delivered == {"tool:y"}
    assert guides.take("y") == ()
    assert guides.take("x") == x
    assert guides.keep([]) == ("tool:x", "tool:y")


def test_a_guide_stands_only_in_a_tool_result_and_only_whole() -> None:
    guides = Guides({"x": "guide of x"})
    (block,) = guides.take("x")
    call = Message("assistant", (ToolUse("t", "x", b"{}"),))
    assert guides.keep([call, *answered([Text(f"joined by a dialect\n{block.text}")])]) == ()
    assert guides.keep([Message("tool", (ToolResult("t", (block,)),))]) == ()
    assert guides.keep([Message("user", (block,)), *answered([Text("guide of x")], [])]) == ("tool:x",)


@pytest.mark.parametrize(
    "text",
    ["a\n---\nb", "---", wrapped("another guide"), "[Tool Guide - shown once per session]", "\n---\n"],
)
def test_a_guide_may_contain_what_it_is_wrapped_in(text: str) -> None:
    guides = Guides({"x": text, "y": "guide of y"})
    (x,), (y,) = guides.take("x"), guides.take("y")
    assert x.text == f"---\n[Tool Guide - shown once per session]\n{text.rstrip(chr(10))}\n---"
    assert guides.keep(answered([Text("r"), x, y])) == ()
    assert guides.keep(answered([y])) == ("tool:x",)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.text(min_size=1), max_size=4),
    st.lists(st.sampled_from("abcd"), max_size=30),
)
def test_whatever_is_called_each_guide_comes_once_and_in_the_first_result(
    texts: dict[str, str], calls: list[str]
) -> None:
    guides = Guides(texts, [GuideSection(name="s", text="section", tools=("a", "b"))])
    given = [(call, block.text) for call in calls for block in guides.take(call)]
    expected = []
    for at, call in enumerate(calls):
        if call not in calls[:at] and texts.get(call, "").strip():
            expected.append((call, wrapped(texts[call])))
        if call in "ab" and not set(calls[:at]) & set("ab"):
            expected.append((call, wrapped("section")))
    assert given == expected
