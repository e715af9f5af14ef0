"""Of a cure that is for several breaks, what each of them names is told, and the advice once."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast.report.explainer.advice import happened, kind, others, with_others
from holdfast.report.explainer.sessions import CureTally

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
