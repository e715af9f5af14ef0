"""The library of faults: each is recognised where it is one and not where it only looks like it."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.caches.prompts import Entry, Mark
from holdfast.config.keys import KEYS
from holdfast.config.parse import parse
from holdfast.core.breaks import Finding
from holdfast.core.cures import RECOGNISERS, Cure, case, cure_for
from holdfast.core.divergence import Comparison, Divergence
from holdfast.facts import model
from holdfast.lab import FAULTS, SEEDS, with_gaps
from holdfast.records import BREAK_CAUSES, CAUSES, BreakCause
from tests.core.break_lane import Judged, Lane, enlarged, marked
from tests.engine.repair_lane import Lane as RepairLane
from tests.engine.repair_lane import talk
from tests.lab.recordings import needs_recordings, own, recorded

OPUS = model("anthropic:claude-opus-4-6")
HOST = "You are a coding agent.\nFollow the rules of the house.\n" * 30


def finding(
    cause: BreakCause = "system_prompt_changed", *, what: str = "changed", section: str = "system", **more: Any
) -> Finding:
    divergence = Divergence(what=what, block=5, section=section, kept=100, behind=9_000, setting="speed")  # type: ignore[arg-type]
    known = {"reason": None, "tokens": 9_000, "dollars": Decimal(1), "expected": 9_000, "read": 0}
    return Finding(cause=cause, **({"divergence": divergence} | known | more))


def cured(before: str, after: str, found: Finding | None = None, *, path: str = "system[1]") -> Cure:
    def content(text: str) -> bytes:
        return json.dumps({"type": "text", "text": text}, separators=(",", ":"), ensure_ascii=False).encode()

    return cure_for(case(found or finding(), OPUS, path=path, before=content(before), after=content(after)))


@pytest.mark.parametrize(
    ("line", "before", "after", "name"),
    [
        ("Current time: {}", "2026-11-15T13:01:22.123Z", "2026-11-15T13:04:07.001Z", "clock"),
        ("It is {} now.", "1:05 PM", "11:59 PM", "clock"),
        ("Now: {}", "Sunday, November 15, 2026 9:59", "Monday, November 16, 2026 10:00", "clock"),
        ("ts={}", "1794747661", "1794747721", "clock"),
        ("ts={}", "1794747661123", "1794747721456", "clock"),
        ("Today's date: {}", "2026-11-15", "2026-11-16", "date"),
        ("Today is {}.", "Sunday, November 15, 2026", "Monday, November 16, 2026", "date"),
        ("Today is {}.", "9 November 2026", "10 November 2026", "date"),
        ("Date: {}", "11/15/2026", "11/16/2026", "date"),
        ("Session {}", "0b91a2c4-3f00-4b7e-9f53-1d6a0c2b7e11", "7d5c1f20-a1b2-4c3d-8e9f-001122334455", "uuid"),
        ("request req_{}", "01HZX3K9QW8E7R6T5Y4U", "01HZX3M2ZA9S8D7F6G5H", "uuid"),
        ("Context used: {} tokens", "41,200", "55,801", "usage_meter"),
        ("You have spent {}", "$0.12", "$1.40", "usage_meter"),
        ("{} of the window is full", "12%", "47%", "usage_meter"),
        ("This is turn {} of the conversation.", "9", "10", "counter"),
        ("gitStatus: branch main, {}", "clean", "M src/app.py", "git_state"),
        ("Current branch: {}", "main", "feature/login", "git_state"),
        ("Recent commits:\n{} fix", "a1b2c3d", "e4f5a6b", "git_state"),
        ("# Memory\n- likes tea\n{}", "", "- likes coffee", "memory_in_prefix"),
        ("<memory>\n{}\n</memory>", "a fact", "another fact", "memory_in_prefix"),
        ("## User preferences\n{}", "tabs", "spaces", "memory_in_prefix"),
        ("A sentence with {} in it.", "two  spaces", "two spaces", "whitespace"),
        ("The end.{}", "", "\n\n", "whitespace"),
        ("You are {} today.", "helpful", "thorough", "system_prompt_changed"),
        ("Section {}", "one: read", "two: write", "system_prompt_changed"),
    ],
)
@pytest.mark.parametrize("place", ["head", "middle", "end"])
def test_values_that_change_by_themselves(line: str, before: str, after: str, name: str, place: str) -> None:
    def whole(value: str) -> str:
        told = line.format(value)
        return {"head": f"{told}\n\n{HOST}", "middle": f"{HOST}\n{told}\n\n# Rules\n{HOST}", "end": HOST + told}[place]

    cure = cured(whole(before), whole(after))
    assert cure.name == name
    assert "system[1]" in cure.sentence


@pytest.mark.parametrize(
    ("before", "after", "name", "repaired"),
    [
        ("Current time: 2026-11-02 09:59:00", "Current time: 2026-11-02 10:00:00", "clock", True),
        ("It is 9:59.", "It is 10:00.", "clock", True),
        ("Today is Monday", "Today is Tuesday", "date", True),
        ("run 550e8400-e29b-41d4-a716-446655440000", "run 660e8400-e29b-41d4-a716-446655440000", "uuid", True),
        ("Request: req_01ABCDEFGHJKMNPQ", "Request: req_01ABCDEFGHJKMNPZ9", "uuid", True),
        ("Context left: 93%", "Context left: 91%", "usage_meter", True),
        ("Turn 3 of 30", "Turn 4 of 30", "counter", True),
        ("Current branch: main", "Current branch: dev", "git_state", True),
        ("# Memory\n- likes tea", "# Memory\n- likes tea\n- likes coffee", "memory_in_prefix", True),
        ("# Notes\n- a", "# Notes\n- b", "system_prompt_changed", True),
        ("You have 14 open files.", "You have 15 open files.", "counter", False),
        ("Temperature: 21.5", "Temperature: 20.1", "counter", False),
        ("ts 1450000000", "ts 1450000777", "counter", False),
        ("On branch main\nnothing to commit", "On branch dev\nmodified: a.py", "git_state", False),
        ("Limit is 10 requests", "Limit is 3 requests", "system_prompt_changed", False),
        ("Never spend more than $500.", "Never spend more than $50.", "system_prompt_changed", False),
        ("It is 9:59. Be kind.", "It is 10:00. Be brief.", "system_prompt_changed", False),
    ],
)
def test_a_setting_is_named_where_the_repair_acts_and_nowhere_else(
    before: str, after: str, name: str, repaired: bool
) -> None:
    """The texts go through the repairs themselves: what the cure promises is what they do."""
    cure = cured(f"{before}\n\n{HOST}", f"{after}\n\n{HOST}", path="system[0]")
    assert cure.name == name
    lane = RepairLane(mode="suggest")
    lane.send(talk(0, f"{before}\n\n{HOST}"))
    suggested = lane.send(talk(1, f"{after}\n\n{HOST}")).repairs
    assert bool(suggested) == repaired
    level = "values" if all(each.exact for each in suggested) else "on"
    assert cure.setting == (f'cache.repair = "{level}"' if repaired else None)


@pytest.mark.parametrize(
    ("line", "level"),
    [("Current time: 2026-11-02 09:{}:00", "values"), ("# Memory\n- likes tea {}", "on"), ("Context left: {}%", "on")],
)
def test_the_least_level_that_acts_is_named(line: str, level: str) -> None:
    cure = cured(f"{HOST}\n\n{line.format(41)}", f"{HOST}\n\n{line.format(43)}", path="system[0]")
    assert cure.setting == f'cache.repair = "{level}"'


def test_an_end_that_changes_is_repaired_where_the_text_can_be_split() -> None:
    texts = f"{HOST}\n\nThe style is calm.", f"{HOST}\n\nThe style is loud."
    assert cured(*texts, path="system[1]").setting == 'cache.repair = "on"'
    assert cured(*texts, path="system[0]").setting is None  # clients are recognised by the first
    gpt = case(finding(), model("openai:gpt-6.1-sol"), path="system[1]", before=f'"{HOST}a"', after=f'"{HOST}b"')
    assert cure_for(gpt).setting is None  # no markers to split for


@pytest.mark.parametrize(
    ("section", "cause", "setting"),
    [("tools", "tools_changed", 'cache.repair = "on"'), ("messages", "messages_rewritten", None)],
)
def test_a_clock_elsewhere_is_repaired_in_tools_alone(section: str, cause: BreakCause, setting: str | None) -> None:
    found = finding(cause, section=section)
    cure = cure_for(
        case(found, OPUS, before='{"name":"a","description":"at 9:01"}', after='{"name":"a","description":"at 9:02"}')
    )
    assert (cure.name, cure.setting) == ("clock", setting)


def test_a_clock_in_a_line_longer_than_what_is_compared() -> None:
    for before, after, name in (("9:59", "10:00", "clock"), ("turn 9", "turn 10", "counter")):
        text = "no line ends here " * 400
        assert cured(f"{text}{before} {text}", f"{text}{after} {text}").name == name
    text = "no line ends here " * 400
    assert cured(f"at 9:59 {text}", f"at 10:00 {text[:200]}").name == "system_prompt_changed"  # more than the time


def test_a_changed_sentence_beside_an_unchanged_clock_is_no_clock() -> None:
    assert cured("At 13:01 say yes.", "At 13:01 say no.").name == "system_prompt_changed"


def tool_use(arguments: str) -> bytes:
    return b'{"type":"tool_use","id":"t1","name":"bash","input":' + arguments.encode() + b"}"


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ('{"a":1,"b":{"c":2,"d":3}}', '{"b":{"d":3,"c":2},"a":1}', True),
        ('{"a":1,"b":2}', '{"b":1,"a":2}', False),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('{"a":true}', '{"a":1}', False),
        (
            '"{\\"a\\":1,\\"b\\":2}"',
            '"{\\"b\\":2,\\"a\\":1}"',
            True,
        ),  # arguments as text, as OpenAI's dialects have them
    ],
)
def test_key_order(before: str, after: str, same: bool) -> None:
    found = finding("messages_rewritten", section="messages")
    cure = cure_for(case(found, OPUS, path="messages[3].content[1]", before=tool_use(before), after=tool_use(after)))
    assert (cure.name == "key_order") == same
    assert "messages[3].content[1]" in cure.sentence


@pytest.mark.parametrize(
    ("what", "section", "cause", "name"),
    [
        ("reordered", "tools", "tools_changed", "tool_order"),
        ("inserted", "tools", "tools_changed", "tool_added"),
        ("removed", "tools", "tools_changed", "tool_removed"),
        ("changed", "tools", "tools_changed", "tools_changed"),
        ("reordered", "system", "system_prompt_changed", "system_prompt_changed"),
        ("inserted", "system", "system_prompt_changed", "system_prompt_changed"),
        ("trimmed", "messages", "messages_rewritten", "sliding_window"),
        ("moved", "messages", "messages_rewritten", "moved_reminder"),
        ("moved", "system", "system_prompt_changed", "system_prompt_changed"),
        ("stripped", "messages", "messages_rewritten", "stripped_thinking"),
        ("removed", "messages", "messages_rewritten", "messages_rewritten"),
    ],
)
def test_what_happened_to_the_blocks(what: str, section: str, cause: BreakCause, name: str) -> None:
    assert cure_for(case(finding(cause, what=what, section=section), OPUS, path="tools[2]")).name == name


REMINDER = "<system-reminder>\nThe list is empty.\n</system-reminder>"


@pytest.mark.parametrize(
    ("what", "before", "after", "name"),
    [
        ("removed", REMINDER, None, "moved_reminder"),
        ("removed", "a plain note", None, "messages_rewritten"),
        ("changed", "do it\n" + REMINDER, "do it", "moved_reminder"),
        ("changed", "do it", "do it\n" + REMINDER, "moved_reminder"),
        ("changed", REMINDER + "\ndo it", REMINDER + "\ndo that", "messages_rewritten"),
    ],
)
def test_reminders(what: str, before: str, after: str | None, name: str) -> None:
    found = finding("messages_rewritten", what=what, section="messages")
    assert cure_for(case(found, OPUS, before=before, after=after)).name == name


def test_thinking_that_the_client_left_out() -> None:
    found = finding("messages_rewritten", section="messages")
    thought, call = '{"type":"thinking","thinking":"hm","signature":"s"}', '{"type":"tool_use","id":"t"}'
    assert cure_for(case(found, OPUS, before=thought, after=call)).name == "stripped_thinking"
    assert cure_for(case(found, OPUS, before=thought, after=thought + " ")).name != "stripped_thinking"


def test_a_result_that_was_shortened_afterwards() -> None:
    found = finding("messages_rewritten", section="messages")
    result = '{"type":"tool_result","tool_use_id":"t","content":"%s"}'
    long, short = result % ("words of the result " * 50), result % "[removed]"
    assert cure_for(case(found, OPUS, before=long, after=short)).name == "old_result_replaced"
    assert cure_for(case(found, OPUS, before=short, after=long)).name == "messages_rewritten"


def test_compaction() -> None:
    found = finding("messages_rewritten", section="messages", comparison=Comparison("compaction"))
    assert cure_for(case(found, OPUS)).name == "compaction"


@pytest.mark.parametrize(("seconds", "name"), [(300.0, "mixed_ttl"), (3_600.0, "ttl_expired_1h")])
def test_an_hour_on_top_of_five_minutes(seconds: float, name: str) -> None:
    entry = Entry(b"k", 9_000, "1h", seconds, 0.0, seconds, 0.0)
    cause: BreakCause = "ttl_expired_5m" if seconds == 300 else "ttl_expired_1h"
    cure = cure_for(case(finding(cause, divergence=None, entry=entry), OPUS))
    assert cure.name == name
    assert "1h" in cure.sentence


@pytest.mark.parametrize(("marks", "name"), [((), "no_marker"), ((Mark(3, "5m"),), "marker_beyond_lookback")])
def test_markers_that_reach_nothing(marks: tuple[Mark, ...], name: str) -> None:
    cure = cure_for(case(finding("lookback_exceeded", divergence=None), OPUS, marks=marks))
    assert cure.name == name


def test_positions_are_told_only_where_a_marker_looks_back_by_them() -> None:
    sol = model("openai:gpt-6.1-sol")
    cure = cure_for(case(finding("lookback_exceeded", divergence=None), sol, marks=(Mark(3, "30m"),)))
    assert cure.name == "lookback_exceeded"
    assert "positions" not in cure.sentence


def test_a_place_is_named_where_there_is_one() -> None:
    gone = cure_for(case(finding("tools_changed", what="removed", section="tools"), OPUS, path="system[0]"))
    assert "removed at the end of the tools and" in gone.sentence
    setting = finding("parameters_changed", what="settings", section="messages")
    assert "from the messages on" in cure_for(case(setting, OPUS, path="speed")).sentence


@pytest.mark.parametrize("cause", BREAK_CAUSES)
def test_every_cause_has_a_plain_cure(cause: BreakCause) -> None:
    cure = cure_for(case(finding(cause, divergence=None), OPUS, marks=(Mark(0, "5m"),)))
    assert cure.sentence.endswith(".")
    assert "{" not in cure.sentence
    assert CAUSES[cause].cure is not None


def test_a_reset_has_nothing_to_cure() -> None:
    reset = msgspec.structs.replace(finding(), cause=None, reason="priced_edit")
    assert cure_for(case(reset, OPUS, path="system[0]")).name == "priced_edit"


def test_what_memory_resets_is_cured() -> None:
    block = msgspec.structs.replace(finding(), cause=None, reason="memory_block_changed")
    assert cure_for(case(block, OPUS, path="system[2]")).setting == 'memory.placement = "deltas"'
    past = msgspec.structs.replace(finding(), cause=None, reason="bypassed")
    assert "x-holdfast-memory" in cure_for(case(past, OPUS, path="system[1]")).sentence


def test_every_setting_that_a_cure_names_exists_and_takes_that_value() -> None:
    cures = [
        *(cured(f"{line} {before}", f"{line} {after}") for line, before, after in (("t", "9:01", "9:02"),)),
        *(cause.cure for cause in CAUSES.values() if cause.cure is not None),
        cure_for(case(finding("lookback_exceeded", divergence=None), OPUS)),
        cure_for(case(finding("lookback_exceeded", divergence=None), OPUS, marks=(Mark(0, "5m"),))),
        cure_for(case(finding("messages_rewritten", what="trimmed", section="messages"), OPUS)),
        cure_for(case(finding("messages_rewritten", section="messages", comparison=Comparison("compaction")), OPUS)),
    ]
    named = [cure.setting for cure in cures if cure.setting]
    assert len(named) >= 7
    for setting in named:
        key, _, value = setting.partition(" = ")
        parse(KEYS[key], value.strip('"'))


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400), st.binary(max_size=400), st.sampled_from(BREAK_CAUSES))
def test_whatever_the_bytes_there_is_a_cure(before: bytes, after: bytes, cause: BreakCause) -> None:
    assert cure_for(case(finding(cause), OPUS, before=before, after=after)).name


@pytest.mark.parametrize(
    "filler", ["1", "12:", "a-", "0123456789abcdef", "<", "{", "[", " ", "\\n", "é", "Mon", "x_", "1,1.", '"{', '{"a":']
)
def test_huge_and_hostile_texts_are_answered(filler: str) -> None:
    """A pattern that backtracks would not come back from these."""
    text = filler * (2_000_000 // len(filler))
    short = filler * 20_000
    for before, after in ((text + "1", text + "2"), ("1" + text, "2" + text), (short + "1", short + "2")):
        assert cure_for(case(finding(), OPUS, before=before, after=after)).name


def test_recognisers_are_functions_of_a_case_alone() -> None:
    found = case(finding(), OPUS, before="at 9:01", after="at 9:02")
    names = [cure.name for recognise in RECOGNISERS if (cure := recognise(found)) is not None]
    assert names == ["clock", "counter"]  # the specific one first


def driven(fault: str, session: str = "session", *, times: int = 12) -> list[Judged]:
    """A session of a client with a fault, against the simulator, at a pace at which nothing expires."""
    trace = enlarged(with_gaps(own(session), "none", SEEDS[0]), times)
    lane = Lane()
    return [lane.send(marked(step.content, "claude-opus-4-6"), after=30) for step in FAULTS[fault](trace, 0).steps]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fault", "cause", "cure", "path", "offset", "breaks"),
    [
        ("clock-at-head", "system_prompt_changed", "clock", "system[0]", range(37, 70), 17),
        ("clock-in-middle", "system_prompt_changed", "clock", "system[0]", range(10_000, 11_000), 17),
        ("tools-shuffled", "tools_changed", "tool_order", "tools[", range(8, 30), 17),
        ("memory-in-system", "system_prompt_changed", "memory_in_prefix", "system[0]", range(20_000, 21_000), 2),
        ("sliding-window", "messages_rewritten", "sliding_window", "messages[0].content[0]", range(20, 40), 6),
        ("keys-reordered", "messages_rewritten", "key_order", "messages[", range(50, 150), 14),
        ("results-pruned", "messages_rewritten", "old_result_replaced", "messages[", range(70, 100), 6),
    ],
)
def test_each_fault_of_a_client_is_named_with_its_place_and_its_cure(
    fault: str, cause: str, cure: str, path: str, offset: range, breaks: int
) -> None:
    found = [judged for judged in driven(fault) if judged.finding is not None]
    assert len(found) == breaks
    for judged in found:
        assert (judged.finding.cause, judged.cure.name) == (cause, cure)
        assert (judged.path or "").startswith(path)
        assert judged.path is not None
        assert judged.path in judged.cure.sentence
        assert judged.place.offset in offset
        assert judged.explained
        assert judged.finding.dollars > 0


def test_without_a_fault_there_is_nothing_to_cure() -> None:
    trace = enlarged(with_gaps(own("session"), "none", SEEDS[0]))
    lane = Lane()
    for step in trace.steps:
        assert lane.send(marked(step.content, "claude-opus-4-6"), after=30).finding is None  # type: ignore[arg-type]


@needs_recordings
@pytest.mark.slow
@pytest.mark.parametrize("fault", list(FAULTS))
def test_the_same_on_a_recorded_session(fault: str) -> None:
    expected = {
        "clock-at-head": {"clock"},
        "clock-in-middle": {"clock"},
        "tools-shuffled": {"tool_order"},
        "memory-in-system": {"memory_in_prefix"},
        "sliding-window": {"sliding_window"},
        "keys-reordered": {"key_order"},
        "results-pruned": {"old_result_replaced"},
    }[fault]
    trace = FAULTS[fault](with_gaps(recorded("session-60"), "none", SEEDS[0]), 0)
    lane = Lane()
    names = set()
    for step in trace.steps:
        judged = lane.send(marked(step.content, "claude-opus-4-6"), after=5)  # type: ignore[arg-type]
        if judged.cure is not None:
            names.add(judged.cure.name)
    assert names == expected
