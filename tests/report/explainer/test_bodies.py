"""Breaks whose bytes are known: cause, place and cure are the core's, the advice is told once for all that it names."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.report.explainer import bodies as module
from holdfast.report.explainer.advice import happened, kind, others, with_others
from holdfast.report.explainer.results import BreakFinding, ExplainReport
from holdfast.report.explainer.sessions import CureTally
from holdfast.report.logs.records import LoggedRequest
from tests.engine.driver import HOST, talk
from tests.properties.sessions import Talk
from tests.report.explainer.logs import DAY, Said, billed, breaks, explained, growing, sent, told
from tests.shapes import conversations

SONNET = "claude-sonnet-5-5"
RULES = "Rules of the house. " * 400


def with_clock(said: Said, minute: int) -> Said:
    system = (HOST, f"Current time: 2026-11-15 13:{minute:02}:00\n{RULES}")
    return replace(said, talk=talk((len(said.talk.turns) - 1) // 2, system=system, marks=tuple(said.talk.marks)))


def edited(said: list[Said], number: int, change: Callable[[Talk], object]) -> list[Said]:
    """The session with a change from a request on."""
    found = []
    for count, each in enumerate(said, 1):
        after = copy.deepcopy(each.talk)
        if count >= number:
            change(after)
        found.append(replace(each, talk=after))
    return found


def only(report: ExplainReport) -> BreakFinding:
    (found,) = breaks(report)
    return found


def test_a_clock_is_named_with_its_byte_and_its_cure() -> None:
    said = [with_clock(each, number) for number, each in enumerate(growing(6))]
    records = sent(said, "anthropic", SONNET)
    report = explained(records)
    assert told(report) == [(number, "system_prompt_changed") for number in range(2, 7)]
    found = breaks(report)[2]
    body = records[3].body
    assert found.offset is not None
    assert (found.path, found.cure, found.setting) == ("system[1]", "clock", 'cache.repair = "values"')
    assert body[: found.offset].endswith(b"13:0")
    assert body[found.offset : found.offset + 1] == b"3"
    assert report.totals.cures[0].cure == "clock"
    assert report.totals.cures[0].breaks == 5
    assert "Current" not in json.dumps([found.before, found.after]), "words of a prompt are masked"


@pytest.mark.parametrize(
    ("change", "cause", "path", "cure"),
    [
        (lambda said: said.tools.reverse(), "tools_changed", "tools[0]", "tool_order"),
        (lambda said: said.tools.insert(0, "grep"), "tools_changed", "tools[0]", "tool_added"),
        (lambda said: said.tools.pop(0), "tools_changed", "tools[0]", "tool_removed"),
        (lambda said: said.settings.update(thinking=True), "parameters_changed", "thinking", "parameters_changed"),
        (lambda said: said.turns.__delitem__(slice(0, 2)), "messages_rewritten", "messages[0]", "sliding_window"),
    ],
)
def test_what_changed_is_recognised(change: Callable[[Talk], object], cause: str, path: str, cure: str) -> None:
    found = only(explained(sent(edited(growing(7), 5, change), "anthropic", SONNET)))
    assert (found.request, found.cause, found.cure, found.evidence) == (5, cause, cure, "bytes")
    assert str(found.path).startswith(path)
    assert found.advice


def test_a_reset_of_the_log_is_one_where_the_bytes_part_as_it_says() -> None:
    records = sent(edited(growing(7), 5, lambda said: said.turns.__delitem__(slice(0, 4))), "anthropic", SONNET)
    records[4] = replace(records[4], reset="compaction")
    found = only(explained(records))
    assert (found.cause, found.reset, found.evidence) == (None, "compaction", "bytes")
    tools = sent(edited(growing(7), 5, lambda said: said.tools.reverse()), "anthropic", SONNET)
    tools[4] = replace(tools[4], reset="compaction")
    assert told(explained(tools)) == [(5, "tools_changed")]


def test_one_that_goes_back_and_says_something_else_is_told_as_such() -> None:
    said = growing(7)
    back = copy.deepcopy(said[3].talk)
    back.turns[-1] = ("user", 77, ["Rather do this. " * 300])
    said = [*said[:6], Said(back), *(replace(each, talk=each.talk) for each in [Said(back)])]
    report = explained(sent(said[:7], "anthropic", SONNET))
    found = only(report)
    assert (found.request, found.cause, found.path) == (7, "messages_rewritten", "messages[6].content[0]")


def test_two_at_once_are_a_race() -> None:
    first, second = sent(growing(2), "anthropic", SONNET)
    raced = replace(second, at=(first.at or 0) + 0.5, usage=billed(read=0, short=9_000))
    found = only(explained([first, raced]))
    assert (found.request, found.cause, found.evidence) == (2, "parallel_race", "bytes")


def test_what_the_provider_lost_is_not_held_against_the_client() -> None:
    records = sent(growing(5), "anthropic", SONNET)
    usage = records[3].usage
    records[3] = replace(records[3], usage=billed(read=0, short=usage.prompt - usage.input, input=usage.input))
    assert told(explained(records)) == [(4, "likely_server_side")]


def test_where_the_request_before_is_forgotten_usage_has_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    records = sent(edited(growing(4), 4, lambda said: said.tools.reverse()), "anthropic", SONNET)
    other = [replace(each, session="other") for each in sent(growing(2), "anthropic", SONNET)]
    assert only(explained([*records[:3], *other, records[3]])).evidence == "bytes"
    monkeypatch.setattr(module, "BODIES", 1_000)
    report = explained([*records[:3], *other, records[3]])
    assert (breaks(report)[0].evidence, told(report)) == ("usage", [(4, "unknown")])


def test_bodies_that_cannot_be_read_are_judged_by_their_usage() -> None:
    records = sent(edited(growing(4), 4, lambda said: said.tools.reverse()), "anthropic", SONNET)
    spoilt = [replace(each, body=b"{nonsense") for each in records]
    assert told(explained(spoilt)) == [(4, "unknown")]
    nothing = explained([replace(each, body=b"{nonsense", usage=None) for each in records])
    assert (nothing.sessions[0].requests, nothing.sessions[0].cost_usd) == (4, None)


def test_failures_before_the_first_bill_are_no_reason_to_estimate() -> None:
    records = sent(growing(6), "anthropic", SONNET)
    failed = [replace(each, usage=None) if number in (0, 1, 3) else each for number, each in enumerate(records)]
    report = explained(failed)
    session = report.sessions[0]
    assert (session.requests, session.estimated) == (6, False)
    used = [each.usage for each in failed if each.usage is not None]
    assert session.usage.read == sum(each.read for each in used)
    assert session.usage.prompt == sum(each.prompt for each in used)


def test_without_times_requests_are_ten_seconds_apart() -> None:
    said = growing(6)
    said[3] = replace(said[3], gap=4_000.0)
    timeless = [replace(each, at=None, first_token_at=None) for each in sent(said, "anthropic", SONNET, usages=False)]
    report = explained(timeless)
    assert told(report) == []
    assert report.sessions[0].estimated
    assert report.sessions[0].started is None
    timed = explained(sent(said, "anthropic", SONNET, usages=False))
    assert told(timed) == [(4, "ttl_expired_5m")]


def test_requests_without_markers_are_a_cure_of_their_own() -> None:
    said = [Said(talk(number)) for number in range(8)]
    report = explained(sent(said, "anthropic", SONNET))
    assert told(report) == []
    (cure,) = report.totals.cures
    assert (cure.cure, cure.breaks, cure.requests) == ("no_marker", 0, 8)
    assert report.totals.cost_usd is not None
    assert cure.saves_usd is not None
    marked = explained(sent([Said(talk(n, marks=(("last", "5m"),))) for n in range(8)], "anthropic", SONNET))
    assert marked.totals.cures == ()
    assert marked.totals.cost_usd is not None
    assert float(report.totals.cost_usd - cure.saves_usd) == pytest.approx(float(marked.totals.cost_usd), rel=0.02)
    single = explained(sent([Said(talk(3))], "anthropic", SONNET))
    assert single.totals.cures == (), "one alone gains nothing by a write"


def _records(shapes: list[Any]) -> list[LoggedRequest]:
    found = []
    for number, shape in enumerate(shapes, 1):
        model = json.loads(shape.body).get("model", "gemini-2.5-pro")
        at = DAY + shape.at
        about = {"session": shape.run or "run", "source": f"x:{number}", "at": at, "model": model}
        agent = shape.header("x-claude-code-agent-id") or shape.header("x-session-id") or ""
        agent = agent if "tools" in json.loads(shape.body) else "side"
        found.append(LoggedRequest(**about, agent=agent, body=shape.body, dialect=shape.dialect))
    return found


@pytest.mark.parametrize("client", ["claude-code-2.1.325", "codex-0.166", "opencode-1.18"])
def test_recorded_clients_that_keep_their_prefix_do_not_break(client: str) -> None:
    """Moving markers, strings that become blocks, attribution lines: none of that is a change."""
    runs = [shapes for (name, _), shapes in conversations().items() if client == name]
    assert runs
    for shapes in runs:
        calls = [shape for shape in shapes if shape.dialect is not None and shape.body is not None]
        report = explained(_records(calls))
        found = [each for session in report.sessions for each in session.breaks]
        assert found == [], (client, shapes[0].run)


def test_what_the_entry_stood_on_may_have_expired() -> None:
    """An hour written on top of five minutes goes with them, which the two bodies alone do not show."""
    short, long = (("system", "5m"), ("last", "5m")), (("system", "1h"), ("last", "1h"))
    said = [Said(talk(number, marks=short if number < 3 else long)) for number in range(6)]
    said[5] = replace(said[5], gap=400.0)
    for found in (explained(sent(said, "anthropic", SONNET)), explained(sent(said, "anthropic", SONNET, usages=False))):
        assert told(found) == [(6, "ttl_expired_5m")]
        assert breaks(found)[0].evidence == "bytes"


LIST = "The list of skills changed at system[0]"
SKILL = LIST + " ({}) and everything behind it was lost: keep the list."
RESULT = "The tool result at messages[{}].content[0] was shortened after it had been sent: shorten it before."


@pytest.mark.parametrize(
    ("sentence", "what"),
    [
        (SKILL.format("added: zip; new description: a"), f"{LIST} (added: zip; new description: a)"),
        (RESULT.format(14), "The tool result at messages[14].content[0] was shortened after it had been sent"),
        ("The pause was longer. Written for an hour: $1.20.", "The pause was longer"),
        ("Nothing to do.", "Nothing to do"),
        ("", ""),
    ],
)
def test_what_happened_stands_before_what_to_do(sentence: str, what: str) -> None:
    assert happened(sentence) == what
    assert happened(what) == what


def test_a_place_or_a_number_is_no_other_thing() -> None:
    assert kind(RESULT.format(14)) == kind(RESULT.format(22))
    assert kind("The oldest 2 blocks were left out.") == kind("The oldest 1,024 blocks were left out.")
    assert kind(SKILL.format("added: pdf-2")) != kind(SKILL.format("added: pdf-3"))


def test_three_are_told_at_most() -> None:
    said = [SKILL.format(f"added: {name}") for name in ("a", "b", "a", "c", "d", "")]
    also = others(said[0], said[1:])
    assert also == tuple(f"{LIST} (added: {name})" for name in ("b", "c"))
    assert with_others(said[0], also) == f"{said[0]} Also: {also[0]}; {also[1]}."
    assert with_others(said[0], ()) == said[0]
    assert others(RESULT.format(1), [RESULT.format(number) for number in range(9)]) == ()


def test_the_dearest_are_told_over_all_sessions() -> None:
    whole = CureTally()
    for number in range(4):
        session = CureTally()
        for name, cost in ((f"cheap-{number}", 1), (f"dear-{number}", 10 + number)):
            session.read_as(SKILL.format(f"added: {name}"), None, Decimal(cost))
        whole.read_like(session)
    found = whole.result("skill_added")
    assert "dear-3" in found.advice
    assert [each.rpartition(" ")[2] for each in found.also] == ["dear-2)", "dear-1)"]
