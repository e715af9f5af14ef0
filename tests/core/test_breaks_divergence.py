"""The first divergence: what a request is to the one before it, and where exactly they part."""

from __future__ import annotations

import pytest

from holdfast.caches.prompts import Block, Prompt
from holdfast.caches.providers import prompt as prompt_of
from holdfast.core.divergence import Comparison, compare, place
from holdfast.facts import model
from tests.caches.prompts import OPUS, block, prompt
from tests.core.break_lane import sent

HEAD = [block("bash", 100, section="tools"), block("read", 100, section="tools"), block("host", 800, section="system")]


def said(names: str, *, at: int = 0) -> list[Block]:
    """Messages by letters: capitals are answers, a dot joins a block to the message before it."""
    blocks: list[Block] = []
    message, joined = at - 1, False
    for name in names:
        if name == ".":
            joined = True
            continue
        message += 0 if joined else 1
        joined = False
        role = "assistant" if name.isupper() else "user"
        blocks.append(block(name, 1_000, role=role, message=message))
    return blocks


def compared(old: str, new: str) -> Comparison:
    return compare(sent(prompt([*HEAD, *said(old)])), prompt([*HEAD, *said(new)]), (), OPUS)


@pytest.mark.parametrize("kind", ["function_call", "custom_tool_call", "reasoning"])
def test_an_answer_without_a_role_is_one(kind: str) -> None:
    """OpenAI's Responses: a conversation of calls and their outputs alone. An output that was rewritten is no fork."""

    def items(first: str, *more: str) -> list[Block]:
        rest = [block(name, 1_000, role="", kind=kind, message=3 + i) for i, name in enumerate(more)]
        call = block("call", 1_000, role="", kind=kind, message=1)
        return [block("ask", 1_000), call, block(first, 1_000, role="", kind="function_call_output", message=2), *rest]

    before = sent(prompt([*HEAD, *items("output")]))
    found = compare(before, prompt([*HEAD, *items("cleared", "next")]), (), OPUS)
    assert found.course == "rewrite"


@pytest.mark.parametrize(
    ("old", "new", "course"),
    [
        ("aBc", "aBcDe", "extension"),
        ("aBc", "aBc", "resend"),
        ("aBcDe", "aBx", "fork"),  # another question at an earlier place
        ("aBcDe", "aB", "fork"),  # cut off there
        ("aBcDe", "aBcDx", "fork"),  # the last question again, in other words
        ("aBcDe", "aBxDeFg", "rewrite"),  # what followed comes again
        ("aBc", "aBxDe", "rewrite"),  # the answer to what it was stands behind it: history, not a fork
        ("aBcDeFg", "cDeFgHi", "window"),
        ("aBcDeFg", "aeFgHi", "window"),  # the first message kept as an anchor
        ("aBcDeFg", "aBcgHi", "rewrite"),  # a hole further down is no window
        ("aBcDeFgHi", "s", "compaction"),
        ("aBcDeFgHi", "aBsi", "compaction"),
        ("aBcDeFgHi", "aBcDeFgX", "rewrite"),  # not shorter
    ],
)
def test_courses(old: str, new: str, course: str) -> None:
    found = compared(old, new)
    assert found.course == course
    assert (found.divergence is None) == (course in ("extension", "resend"))


@pytest.mark.parametrize(
    ("old", "new", "what", "at", "gone", "came"),
    [
        ("aBcDe", "aBxDeFg", "changed", 2, 0, 0),
        ("aBcDe", "aBDeFg", "removed", 2, 1, 0),
        ("aBcDe", "aBcxDeFg", "inserted", 3, 0, 1),
        ("aBc.r", "aBcDe.r", "moved", 3, 0, 2),  # a reminder that goes along with the newest message
        ("aBc.r", "aBcDe.s", "removed", 3, 1, 0),  # another one each time
        ("aB.rcDe", "aBcDe.rFg", "moved", 2, 1, 0),
        ("aBcDeFg", "cDeFgHi", "trimmed", 0, 2, 0),
    ],
)
def test_what_happened_there(old: str, new: str, what: str, at: int, gone: int, came: int) -> None:
    found = compared(old, new).divergence
    assert (found.what, found.block - len(HEAD), found.gone, found.new) == (what, at, gone, came)
    assert (found.kept, found.section) == (1_000 + 1_000 * at, "messages")
    assert found.behind == 1_000 * (len(old.replace(".", "")) - at)


def heads(*names: str) -> list[Block]:
    return [block(name, 100, section="tools") for name in names]


@pytest.mark.parametrize(
    ("tools", "what", "at"),
    [
        (heads("read", "bash"), "reordered", 0),
        (heads("bash"), "removed", 1),
        (heads("bash", "new", "read"), "inserted", 1),
        (heads("bash", "read", "new"), "inserted", 2),
        (heads("bash", "other"), "changed", 1),
        ([], "removed", 0),
    ],
)
def test_a_change_of_the_tools_loses_everything(tools: list[Block], what: str, at: int) -> None:
    before = sent(prompt([*HEAD, *said("aBc")]))
    found = compare(before, prompt([*tools, HEAD[2], *said("aBcDe")]), (), OPUS).divergence
    assert (found.what, found.section, found.block) == (what, "tools", at)
    assert (found.kept, found.behind) == (0, 4_000)


def test_a_change_of_the_system_text_keeps_the_tools() -> None:
    before = sent(prompt([*HEAD, *said("aBc")]))
    for system in ([block("other", 900, section="system")], []):
        found = compare(before, prompt([*HEAD[:2], *system, *said("aBcDe")]), (), OPUS).divergence
        assert (found.section, found.block, found.kept, found.behind) == ("system", 2, 200, 3_800)


def openai(*blocks: Block) -> Prompt:
    return prompt_of(model("openai:gpt-6.1-sol"), blocks)


def test_where_tools_stand_behind_the_system_text_they_still_lose_all_of_it() -> None:
    facts = model("openai:gpt-6.1-sol")
    system, tools = HEAD[2], HEAD[:2]
    before = sent(openai(system, *tools, *said("a")))
    found = compare(before, openai(system, *reversed(tools), *said("aBc")), (), facts).divergence
    assert (found.section, found.what, found.block, found.kept) == ("tools", "reordered", 1, 0)
    found = compare(before, openai(block("x", 9, section="system"), *tools, *said("aBc")), (), facts).divergence
    assert (found.section, found.block) == ("system", 0)


@pytest.mark.parametrize(
    ("name", "section", "kept"),
    [("tool_choice", "messages", 1_000), ("speed", "system", 200), ("output_config.format", "tools", 0)],
)
def test_a_changed_setting_loses_its_section_and_what_follows(name: str, section: str, kept: int) -> None:
    whole = prompt([*HEAD, *said("aBc")])
    after = prompt([*HEAD, *said("aBcDe")])
    for before, now in (((), ((name, b"x"),)), (((name, b"x"),), ()), (((name, b"x"),), ((name, b"y"),))):
        found = compare(sent(whole, settings=before), after, now, OPUS).divergence
        assert (found.what, found.setting, found.section, found.kept) == ("settings", name, section, kept)
    assert compare(sent(whole, settings=((name, b"x"),)), after, ((name, b"x"),), OPUS).divergence is None


def test_another_model_loses_everything_whatever_the_blocks() -> None:
    before = sent(prompt([*HEAD, *said("aBc")]))
    other = model("anthropic:claude-opus-4-5")
    found = compare(before, prompt([*HEAD, *said("aBcDe")], model=other), (), other).divergence
    assert (found.what, found.block, found.kept, found.behind) == ("model", 0, 0, 4_000)


def test_thinking_that_the_model_drops_at_a_new_turn_is_stripped_and_no_window() -> None:
    """A14: the body still has it, the cache is not shown it any more."""
    haiku = model("anthropic:claude-haiku-4-5")
    asked = {"thinking": b'{"type":"enabled"}'}
    thought = block("t", 500, kind="thinking", role="assistant", message=1)
    first = [*HEAD, *said("a"), thought, block("B", 1_000, kind="tool_use", role="assistant", message=1)]
    first.append(block("r", 1_000, kind="tool_result", message=2))
    before = sent(prompt(first, model=haiku, settings=asked))
    after = prompt([*first, *said("Cd", at=3)], model=haiku, settings=asked)
    found = compare(before, after, (), haiku)
    assert (found.course, found.divergence.what, found.divergence.block) == ("rewrite", "stripped", 4)


@pytest.mark.parametrize(
    ("before", "after", "offset"),
    [
        ("the same start, old", "the same start, new", 16),
        ("", "x", 0),
        ("abc", "abcd", 3),
        ("abcd", "abc", 3),
        ("über alt", "über neu", 6),  # bytes, not characters
        (b"\xff\xfe old", b"\xff\xfe new", 3),  # not UTF-8
        ("x" * 3_000_000 + "a" + "y" * 3_000_000, "x" * 3_000_000 + "b" + "y" * 3_000_000, 3_000_000),
    ],
)
def test_the_byte_inside_the_block(before: str | bytes, after: str | bytes, offset: int) -> None:
    found = place(before, after)
    assert found.offset == offset
    assert len(found.before) < 60
    assert len(found.after) < 60


def test_a_block_that_came_or_went_has_a_place_and_equal_texts_have_none() -> None:
    assert place("same", "same") is None
    assert place(None, None) is None
    came, went = place(None, "new"), place("old", None)
    assert (came.offset, came.before, came.after) == (0, "", "xxx")
    assert (went.before, went.after) == ("xxx", "")
