"""New sessions that could not share the head of the one before: a note that names why, where all of it is proved."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.report.explainer import RequestWindow
from holdfast.report.explainer import heads as module
from holdfast.report.explainer.bodies import BodyMemory
from holdfast.report.explainer.results import ExplainReport, HeadFinding
from holdfast.report.logs.records import LoggedRequest
from tests.engine.driver import HOST, talk
from tests.report.explainer.logs import DAY, Said, explained, sent

SONNET = "claude-sonnet-5-5"
SHORT, LONG = (("system", "5m"), ("last", "5m")), (("system", "1h"), ("last", "1h"))
RULES = "Rules of the house. " * 600
CLOCK = "The time is {}.\n" + RULES
BEFORE, AFTER = (HOST, CLOCK.format("13:01:10")), (HOST, CLOCK.format("13:06:42"))


def begun(
    system: Sequence[str],
    about: str,
    *,
    gap: float = 10.0,
    marks: tuple[tuple[str, str], ...] = SHORT,
    tools: Sequence[str] = ("bash", "read"),
) -> Said:
    """The first request of a session."""
    said = talk(0, system=tuple(system), marks=marks)
    said.tools = list(tools)
    said.turns = [("user", 0, [f"Please look at {about}."])]
    return Said(said, gap)


def named(said: Sequence[Said], dialect: str = "anthropic", model: str = SONNET, **more: Any) -> list[LoggedRequest]:
    """A session of its own for each request, all in front of one provider."""
    records = sent(said, dialect, model, **more)
    return [replace(each, session=f"s{number}") for number, each in enumerate(records, 1)]


def notes(report: ExplainReport) -> dict[str, HeadFinding]:
    return {each.session: each.head for each in report.sessions if each.head is not None}


def two(after: Sequence[str] = AFTER, **more: Any) -> list[LoggedRequest]:
    return named([begun(BEFORE, "a"), begun(after, "b", **more)])


def test_what_differs_is_named_with_its_place_its_tokens_and_their_price() -> None:
    records = two()
    report = explained(records)
    (note,) = notes(report).values()
    assert (note.cure, note.before, note.request, note.gap_s, note.path) == ("clock", "s1", 1, 10.0, "system[1]")
    assert note.what == "The clock at system[1] changes on every request"
    body = records[1].body
    assert note.offset is not None
    assert body[: note.offset].endswith(b"13:0")
    could, did = two(BEFORE)[1].usage, records[1].usage
    assert note.tokens == could.read - did.read > 3_000, "what the same head would have read"
    assert note.cost_usd is not None
    assert note.cost_usd > 0
    assert notes(explained(two(BEFORE))) == {}
    (total,) = report.totals.heads
    assert (total.cure, total.sessions, total.tokens, total.cost_usd) == ("clock", 1, note.tokens, note.cost_usd)


def test_a_note_is_in_no_other_sum() -> None:
    report = explained(two())
    assert (report.totals.breaks, report.totals.resets, report.totals.tokens_lost) == (0, 0, 0)
    assert (report.totals.break_cost_usd, report.totals.cures, report.totals.causes) == (Decimal(0), (), ())
    assert report.totals.money.rewritten == 0
    assert all(each.breaks == () for each in report.sessions)


@pytest.mark.parametrize(
    ("gap", "marks", "told"),
    [(298.0, SHORT, True), (310.0, SHORT, False), (310.0, LONG, True), (3_610.0, LONG, False)],
)
def test_only_while_the_entry_lived(gap: float, marks: tuple[tuple[str, str], ...], told: bool) -> None:
    records = named([begun(BEFORE, "a", marks=marks), begun(AFTER, "b", marks=marks, gap=gap)])
    assert bool(notes(explained(records))) == told


def test_what_the_session_before_used_last_keeps_its_head_alive() -> None:
    said = [Said(talk(n, system=BEFORE, marks=SHORT), 200.0) for n in range(4)]
    records = sent([*said, begun(AFTER, "b", gap=200.0)], "anthropic", SONNET)
    records[-1] = replace(records[-1], session="next")
    note = notes(explained(records))["next"]
    assert (note.before, note.gap_s) == ("s", 200.0)


OTHERS = {
    "persona": {"system": ("You write poems about the sea. " * 500, RULES * 2)},
    "tools": {"system": ("You sort letters into boxes. " * 900,), "tools": ("sort", "open")},
    "agent": {"agent": "reviewer"},
    "client": {"client": "another"},
    "model": {"model": "claude-opus-4-6"},
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_other_agents_are_none_of_it(other: dict[str, Any]) -> None:
    said = {name: other[name] for name in ("system", "tools") if name in other}
    records = named([begun(BEFORE, "a"), begun(said.pop("system", AFTER), "b", **said)])
    records[1] = replace(records[1], **{name: other[name] for name in ("agent", "client", "model") if name in other})
    assert notes(explained(records)) == {}


def test_two_that_have_half_in_common_are_one_agent() -> None:
    records = named([begun((HOST, RULES * 2), "a"), begun(("Something else altogether. " * 500, RULES * 2), "b")])
    assert notes(explained(records))["s2"].cure == "system_prompt_changed"


def test_another_tool_is_named() -> None:
    records = named([begun(BEFORE, "a"), begun(BEFORE, "b", tools=("bash", "grep", "read"))])
    note = notes(explained(records))["s2"]
    assert note.cure == "tool_added"
    assert note.what == "1 tool was added at tools[1]"


def test_what_is_not_known_is_not_told() -> None:
    one, two_ = two()
    assert one.at is not None
    assert notes(explained([one, two_]))
    for pair in (
        [replace(one, usage=None), two_],
        [one, replace(two_, usage=None)],
        [replace(one, body=None), two_],
        [one, replace(two_, body=None)],
        [replace(one, at=None), two_],
        [one, replace(two_, at=None)],
        [one, replace(two_, body=b"{nonsense")],
        [one, replace(two_, at=one.at - 60)],  # another file, of a session before
        [replace(one, first_token_at=one.at + 90), two_],  # there was nothing to read yet
        [one, replace(two_, session=one.session)],  # a break
    ):
        assert notes(explained(pair)) == {}, pair
    assert notes(explained(two(), window=RequestWindow(session="s2"))) == {}
    assert notes(explained(two(), window=RequestWindow(until=DAY + 15))) == {}
    assert notes(explained(two(), window=RequestWindow(since=DAY + 15))).keys() == {"s2"}


def test_without_a_marker_behind_the_head_there_is_nothing_to_share() -> None:
    last = (("last", "5m"),)
    records = named([begun(BEFORE, "a", marks=last), begun(AFTER, "b", marks=last)])
    assert notes(explained(records)) == {}


@pytest.mark.parametrize(
    ("dialect", "model", "told"),
    [
        ("openai_chat", "gpt-5.5", True),  # by token
        ("openai_chat", "gpt-6.1-sol", False),  # up to a message, without a marker in front of it
        ("gemini", "gemini-2.5-pro", False),  # by chance
    ],
)
def test_as_the_rules_of_the_provider_have_it(dialect: str, model: str, told: bool) -> None:
    said = [begun(BEFORE, "a"), begun(AFTER, "b")]
    assert bool(notes(explained(named(said, dialect, model)))) == told


def test_the_same_head_that_the_provider_lost_is_no_note() -> None:
    one, again = two(BEFORE)
    cold = two()[1].usage
    assert notes(explained([one, replace(again, usage=cold)])) == {}


def test_kinds_are_summed_and_each_is_named_once() -> None:
    said = [begun((HOST, CLOCK.format(f"13:0{n}:00")), str(n)) for n in range(5)]
    said += [
        begun((HOST, RULES + end), end, gap=400.0 if end == "One." else 10.0) for end in ("One.", "Two.", "Three.")
    ]
    report = explained(named(said))
    sums = {each.cure: each for each in report.totals.heads}
    assert (sums["clock"].sessions, sums["clock"].also) == (4, ())
    assert sums["system_prompt_changed"].sessions == 2
    assert sum(each.tokens for each in sums.values()) == sum(note.tokens for note in notes(report).values())


def test_agents_are_forgotten_in_the_order_of_their_use(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two_ = two()
    others = [replace(one, session=f"o{n}", agent=f"agent {n}") for n in range(3)]
    assert notes(explained([one, *others, two_]))
    monkeypatch.setattr(module, "AGENTS", 3)
    assert notes(explained([one, *others, two_])) == {}
    assert notes(explained([one, *others[:2], two_]))


def test_of_one_agent_so_many_are_looked_at_and_the_others_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    records = named([begun((HOST, CLOCK.format(f"13:0{n}:00")), str(n)) for n in range(5)])
    assert (len(notes(explained(records))), explained(records).totals.heads_left_out) == (4, 0)
    monkeypatch.setattr(module, "LOOKS", 1)
    assert (len(notes(explained(records))), explained(records).totals.heads_left_out) == (1, 3)


def test_sessions_that_read_as_much_as_others_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies are long, and most heads stay the same."""
    said = [begun(BEFORE, f"{n} " * 3_000) for n in range(6)] + [begun(AFTER, "z")]
    looked = []
    beside = BodyMemory.beside

    def counting(self: BodyMemory, record: LoggedRequest, *more: Any) -> Any:
        looked.append(record.session)
        return beside(self, record, *more)

    monkeypatch.setattr(BodyMemory, "beside", counting)
    assert notes(explained(named(said))).keys() == {"s7"}
    assert looked == ["s2", "s7"]
