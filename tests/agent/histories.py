"""Windows as compaction finds them, built by hand or drawn by Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from holdfast.agent.window.entries import (
    AssistantTurn,
    AttemptFeedback,
    Compacted,
    Continue,
    Entry,
    GoalInjection,
    SessionContext,
    SettingToggledItem,
    Timeline,
    ToolServerGone,
    UserMessage,
)
from holdfast.records import Message, Text, ToolResult, ToolUse
from holdfast.skills.tools import POINTERS

CONTEXT = SessionContext(at=0, text="The workspace is empty.")


def user(text: str) -> Timeline:
    return Timeline(at=0, items=(UserMessage(at=0, seq=0, text=text),))


def answer(text: str) -> AssistantTurn:
    return AssistantTurn(at=0, message=Message("assistant", (Text(text),)))


def tool_turn(*made: tuple[str, str], failed: bool = False) -> AssistantTurn:
    """A turn that calls tools, each with its result."""
    calls = tuple(ToolUse(f"c{n}", tool, b"{}") for n, (tool, _) in enumerate(made))
    results = tuple(ToolResult(f"c{n}", (Text(text),), is_error=failed) for n, (_, text) in enumerate(made))
    return AssistantTurn(at=0, message=Message("assistant", calls), results=(Message("user", results),))


def body(name: str) -> AssistantTurn:
    return tool_turn(("skill_load", f"# Skill: {name} (source: workspace)\n\nDo it well."))


def pointer(name: str) -> AssistantTurn:
    return tool_turn(("skill_load", f"# Skill: {name} (source: workspace)\n\n{POINTERS['already_loaded']}"))


_texts = st.text(alphabet="ab\n#> é", max_size=40)
_items = st.one_of(
    st.builds(UserMessage, at=st.just(0), seq=st.just(0), text=_texts),
    st.builds(SettingToggledItem, at=st.just(0), seq=st.just(0), setting=st.sampled_from("xy"), value=_texts),
    st.builds(ToolServerGone, at=st.just(0), seq=st.just(0), server=st.sampled_from("xy")),
    st.builds(Continue, at=st.just(0), seq=st.just(0)),
)
_contexts = st.builds(lambda items: Timeline(at=0, items=tuple(items)), st.lists(_items, min_size=1, max_size=3))
_skills = st.sampled_from(("pdf", "git"))
entries: st.SearchStrategy[Entry] = st.one_of(
    _contexts,
    st.builds(user, _texts),
    st.builds(answer, _texts),
    st.builds(tool_turn, st.tuples(st.sampled_from(("read_file", "run_command")), _texts), failed=st.booleans()),
    st.builds(body, _skills),
    st.builds(pointer, _skills),
    st.builds(lambda text: GoalInjection(at=0, text=text), _texts),
    st.builds(lambda text: AttemptFeedback(at=0, text=text), _texts),
    st.builds(lambda text: Compacted(at=0, text=text), _texts),
)
windows = st.lists(entries, min_size=1, max_size=30).map(lambda found: (CONTEXT, *found))


@st.composite
def sized(draw: st.DrawFn) -> tuple[tuple[Entry, ...], tuple[int, ...]]:
    """A window, and the tokens of its entries."""
    found = draw(windows)
    sizes = st.integers(1, 40_000)
    return found, tuple(draw(st.lists(sizes, min_size=len(found), max_size=len(found))))
