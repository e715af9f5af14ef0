"""What each of the sixteen mechanisms does, where it is, and what it is worth in a session that gives it work.

`python -m benchmarks mechanisms` prints the figures, `python -m benchmarks.mechanisms --markdown` makes
docs/mechanisms.md of them. The same figures come out everywhere: nothing here depends on the machine or the day, but
for the length of a temporary path in the offloaded results. What acts through which door is shown by the checks of
tests/doors, which are run for the page (minutes).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection, Iterator
from functools import cache
from textwrap import wrap
from typing import Literal

from msgspec import Struct

from benchmarks import Result, mechanisms_agent, mechanisms_doors, mechanisms_prefix
from benchmarks.mechanisms_driving import MODEL, Effect
from tests.doors.table import PENDING, Cell, failing

EQUAL, WIDTH = 0.005, 118


class Mechanism(Struct, frozen=True):
    name: str
    does: str
    setting: str
    modules: tuple[str, ...]
    seen: str
    measure: Callable[[], Iterator[Effect]]


MECHANISMS = (
    Mechanism(
        "escalation of lifetimes",
        "entries live 5 minutes first, an hour after confirmed reads",
        "`cache.escalate_after_reads` (zones)",
        ("core/retention.py",),
        "event `cache.retention_changed`",
        mechanisms_prefix.escalation,
    ),
    Mechanism(
        "fast escalation",
        "a first write above 20,000 tokens makes the next ones long",
        "`cache.escalate_first_write_tokens` (zones)",
        ("core/retention.py",),
        "event `cache.retention_changed`",
        mechanisms_prefix.fast_escalation,
    ),
    Mechanism(
        "detection of an unstable prefix",
        "reads that stay flat make lifetimes short again",
        "`cache.unstable_after_turns` (zones)",
        ("core/retention.py",),
        "event `cache.retention_changed`",
        mechanisms_prefix.instability,
    ),
    Mechanism(
        "fence",
        "what lies under a live entry is edited only if that pays, and then for ever",
        "`cache.edits`",
        ("core/fence.py", "core/edits.py", "tools/masking.py"),
        "event `cache.planned` (edits), `holdfast show CALL`",
        mechanisms_prefix.fence,
    ),
    Mechanism(
        "staggered sub-agents",
        "of a fan-out the first goes ahead, the others follow its first token",
        "`agent.delegates.hold_s`",
        ("agent/delegation/prefix_warmup.py", "agent/delegation/crew.py"),
        "event `delegate.started`, the notices of `holdfast chat`",
        mechanisms_agent.staggering,
    ),
    Mechanism(
        "detection of breaks in two steps",
        "expected before the call, compared after it",
        "`cache.breaks.min_drop`, `cache.breaks.min_tokens`",
        ("core/breaks.py", "core/suspects.py"),
        "events `cache.verdict`, `cache.break`, `holdfast breaks`",
        mechanisms_prefix.detection,
    ),
    Mechanism(
        "break reports",
        "a line for every break with exactly what changed, masked unless `store.keep_bodies` is set",
        "`cache.breaks.dir`, `cache.breaks.keep`",
        ("engine/reports.py",),
        "the files in that directory",
        mechanisms_prefix.reports,
    ),
    Mechanism(
        "priming of sub-agents",
        "tools and system text of the parent to the byte",
        "-",
        ("agent/delegates.py", "agent/delegation/crew.py"),
        "event `cache.planned` of a sub-agent's lane: what it is predicted to read",
        mechanisms_agent.priming,
    ),
    Mechanism(
        "short or no writes of sub-agents",
        "they read the parent's entries and buy no long ones",
        "`cache.strategy`",
        ("core/retention.py", "core/strategies/economic.py"),
        "event `cache.planned` (markers), `holdfast show CALL`",
        mechanisms_prefix.suppression,
    ),
    Mechanism(
        "lifetimes by zone",
        "recent messages short, older ones long",
        "`cache.placement`, `cache.promote_recent_zone` (zones)",
        ("core/strategies/zones.py", "core/retention.py"),
        "event `cache.planned` (markers)",
        mechanisms_prefix.zones,
    ),
    Mechanism(
        "Anthropic's markers",
        "`cache_control` with 5m or 1h on legal blocks",
        "`cache.client_markers`",
        ("wire/anthropic.py", "core/strategies/places.py"),
        "event `cache.planned` (markers)",
        mechanisms_prefix.markers,
    ),
    Mechanism(
        "Gemini's cached contents",
        "made, renewed at half of their life, let go",
        "`cache.gemini.enabled`, `cache.gemini.ttl_s`",
        ("core/gemini_contents.py", "engine/gemini_contents.py"),
        "`holdfast show CALL`",
        mechanisms_prefix.contents,
    ),
    Mechanism(
        "stored completions",
        "Responses requests ask to be stored",
        "`cache.openai.store_completions`",
        ("wire/cache_parameters.py",),
        "the request",
        mechanisms_prefix.stored,
    ),
    Mechanism(
        "offloading",
        "long tool results go to a file before they are first sent",
        "`tools.offload.inline_chars`",
        ("tools/offload.py",),
        "event `tool.offloaded`",
        mechanisms_agent.offloading,
    ),
    Mechanism(
        "schema stripping",
        "schemas that discovery found become a line",
        "`tools.deferral.strip`",
        ("tools/carriers.py", "tools/masking.py"),
        "event `cache.planned` (edits)",
        mechanisms_agent.stripping,
    ),
    Mechanism(
        "deferral with discovery",
        "definitions that are not needed wait to be found",
        "`tools.deferral.mode`",
        ("tools/deferral.py", "tools/discovery.py"),
        "events `tool.deferred`, `tool.discovered`",
        mechanisms_agent.deferral,
    ),
)
"""In the order of their numbers."""


def run(*, quick: bool) -> Iterator[Result]:
    for number, mechanism in enumerate(MECHANISMS, start=1):
        for effect in mechanism.measure():
            better: Literal["lower", "higher"] = "lower" if effect.unit == "x" else "higher"
            yield Result(f"{number} {effect.name}", effect.value, effect.unit, None, better, effect.note)


@cache
def measured() -> tuple[tuple[Effect, ...], ...]:
    return tuple(tuple(mechanism.measure()) for mechanism in MECHANISMS)


def page(without: Collection[Cell] = frozenset(PENDING)) -> Iterator[str]:
    """docs/mechanisms.md. `without` are cells of the second table that stay empty although they have a check."""
    yield "# The sixteen mechanisms"
    yield ""
    yield from paragraph(
        """What keeps a prefix in the cache: each mechanism with the setting that governs it, the module it lives in,
        what it was worth, and the place where it can be seen at work. Events stand in the store, and
        `holdfast show CALL` shows those of a call; [conformance.md](conformance.md) names the tests."""
    )
    yield from paragraph(
        f"""The measured effect is made by `python -m benchmarks.mechanisms --markdown`: a session in which the
        mechanism has something to do, played with it and without it by the real engine, agent and tools against the
        simulated provider, on a virtual clock and, unless said otherwise, on {MODEL}. Figures are the cost of all
        prompts over their cost without the mechanism: below 1 it saves, above 1 it costs. The sessions were chosen to
        give each something to do, so these are no averages; [results.md](results.md) has whole workloads."""
    )
    yield "| | name | what it does | setting | module | measured effect | seen in |"
    yield "|---|---|---|---|---|---|---|"
    for number, (mechanism, effects) in enumerate(zip(MECHANISMS, measured(), strict=True), start=1):
        modules = " ".join(f"`{module}`" for module in mechanism.modules)
        told = "; ".join(effect.text for effect in effects)
        cells = (mechanism.name, mechanism.does, mechanism.setting, modules, told, mechanism.seen)
        yield f"| {number} | {' | '.join(cells)} |"
    yield ""
    yield from _in_vain()
    yield from paragraph(
        """Those with (zones) act with `cache.strategy = "zones"`; the default `economic` decides lifetimes by expected
        cost ([strategies](strategies.md)). Modules are below `src/holdfast/`."""
    )
    yield from mechanisms_doors.section(without)


def paragraph(text: str) -> Iterator[str]:
    yield from wrap(" ".join(text.split()), WIDTH, break_long_words=False, break_on_hyphens=False)
    yield ""


def _in_vain() -> Iterator[str]:
    """What did not pay, said as plainly as the rest."""
    ratios = [(number, each) for number, group in enumerate(measured(), start=1) for each in group if each.unit == "x"]
    dearer = [f"{number} {each.name} ({each.value:.2f})" for number, each in ratios if each.value > 1 + EQUAL]
    equal = [f"{number} {each.name}" for number, each in ratios if abs(each.value - 1) <= EQUAL]
    if dearer:
        yield from paragraph(f"Dearer with the mechanism than without: {'; '.join(dearer)}.")
    if equal:
        yield from paragraph(f"No difference: {'; '.join(equal)}.")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mechanisms", description=__doc__)
    parser.add_argument("--markdown", action="store_true", required=True, help="print docs/mechanisms.md")
    parser.parse_args()
    failed = failing()
    for cell in sorted(failed):
        print(f"left empty, its check fails: {' / '.join(cell)}", file=sys.stderr)
    print("\n".join(page(failed)).rstrip("\n"))


if __name__ == "__main__":
    main()
