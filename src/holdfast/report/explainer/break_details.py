"""A break as the bytes show it: the core's cause, where the two bodies part, and the cure that is recognised there."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core import DEFAULTS, Expectation, Finding, expect, judge
from holdfast.core.cures import Cure, case, cure_for
from holdfast.engine import Where, where
from holdfast.facts import Rates
from holdfast.records import BreakCause, Usage, expiry

from .bodies import ANY_LOSS, ComparedBody


class BreakEvidence(Struct, frozen=True):
    cause: str | None
    reset: str | None
    where: Where
    cure: Cure


def shown(
    seen: ComparedBody, usage: Usage, expected: int, rates: Rates | None, expired: float | None
) -> BreakEvidence | None:
    """Why a request read less than `expected`; None where there is nothing to compare it with. `expired` is a lifetime
    that had passed, as usage shows it."""
    model, expectation = seen.prepared.request.model, _expected(seen, expected)
    finding = None if expectation is None else judge(expectation, usage, rates, ANY_LOSS, tolerance=DEFAULTS)
    if finding is None:
        return None
    finding = _known_better(finding, expired)
    found = where(seen.body, seen.prepared.prompt, seen.earlier, finding.divergence)
    marks = seen.prepared.plan.marks
    cure = cure_for(case(finding, model, path=found.path, before=found.said, after=found.says, marks=marks))
    return BreakEvidence(finding.cause, finding.reason, found, cure)


def _expected(seen: ComparedBody, expected: int) -> Expectation | None:
    """What the core expected, with what was really covered. Where chance denied the request before its hit, the core
    takes nothing for covered and has not asked why it may not be read."""
    found, prepared = seen.prepared.expectation, seen.prepared
    if found.grounds is None:
        if prepared.before is None or prepared.comparison is None:
            return None
        before, outcome, model = replace(prepared.before, covered=expected), prepared.outcome, prepared.request.model
        pool, reset = seen.tenant.pool(model), prepared.request.reset
        found = expect(before, prepared.comparison, outcome, pool, model, reset=reset)
    return replace(found, expected=expected, counted=True)


def _known_better(finding: Finding, expired: float | None) -> Finding:
    """The finding with what the core cannot know here or does not hold against a client.

    It sees the request before and not what that one stood on: a part that lives shorter may have gone. And one that
    goes back to an earlier place and says something else has left out what followed."""
    comparison = finding.comparison
    unexplained: tuple[BreakCause, ...] = ("likely_server_side", "unknown")
    if finding.cause not in unexplained or comparison is None:
        return finding
    if comparison.course == "fork":
        return replace(finding, cause="messages_rewritten", divergence=comparison.divergence)
    return finding if expired is None else replace(finding, cause=expiry(expired))
