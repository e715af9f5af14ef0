"""Write docs/cures: a page for every name of the cure library, from an example that really runs and prose beside it.

python -m scripts.make_cures
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

from msgspec import Struct

from holdfast import facts
from holdfast.cli.tables import dollars
from holdfast.core.cures import FAULTS, MANAGE, NAMES, REPAIR, VALUES
from holdfast.records import BREAK_CAUSES
from holdfast.report.pages.explain import MEANINGS
from scripts.cures.examples import EXAMPLES, WANTED, departures
from scripts.cures.playing import Example, Found, Played, play

REPOSITORY = Path(__file__).parents[1]
PROSE = REPOSITORY / "scripts" / "cures" / "prose"
PAGES = REPOSITORY / "docs" / "cures"
SPLIT = "\n## In your own code\n"
_FACT = re.compile(r"\{\{(floor|lookback|write_5m|write_1h) ([\w.-]+)\}\}")
ROWS = {
    "as sent": "as the client sends it",
    "defaults": "Holdfast as it comes",
    "values": f"`{VALUES}`",
    "repairs": f"`{REPAIR}`",
    "manage": f"`{MANAGE}`",
}


class Prose(Struct, frozen=True):
    """What we say ourselves: a title, related names, how it happens, and how to cure it in one's own code."""

    title: str
    related: tuple[str, ...]
    happens: str
    code: str


class Case(Struct, frozen=True):
    """An example as it ran: the first break with the page's name, and the bill of each way of sending it."""

    name: str
    example: Example
    shown: Found
    ways: dict[str, Played]

    @property
    def sent(self) -> Played:
        return self.ways[self.example.way]

    def left(self, way: str) -> int:
        """How often it still happens."""
        return sum(found.cure.name == self.name for found in self.ways[way].found)


def pages() -> dict[str, str]:
    """Every page by its file's name."""
    proses = {name: prose(name) for name in (*NAMES, "resets")}
    cases = {name: run(name) for name in NAMES}
    made = {f"{name}.md": "\n".join(_page(cases[name], proses)) for name in NAMES}
    return {"index.md": "\n".join(_index(cases, proses)), **made, "resets.md": "\n".join(_resets(proses))}


def prose(name: str) -> Prose:
    text = _FACT.sub(_fact, (PROSE / f"{name}.md").read_text(encoding="utf-8"))
    head, _, rest = text.strip().partition("\n\n")
    title, _, related = head.partition("\nrelated: ")
    happens, _, code = rest.partition(SPLIT)
    names = tuple(each.strip() for each in related.split(",") if each.strip())
    return Prose(title.removeprefix("# "), names, happens.strip(), code.strip())


def _fact(match: re.Match[str]) -> str:
    """What is known of an Anthropic model: a floor, the lookback, or a write as a multiple of the input price."""
    known, price = facts.model(f"anthropic:{match[2]}"), facts.rates(f"anthropic:{match[2]}")
    assert price is not None
    if match[1].startswith("write_"):
        return f"{price.write(match[1].removeprefix('write_')) / price.input:f}"
    return f"{getattr(known, match[1]):,}"


def run(name: str) -> Case:
    example = EXAMPLES[name]
    first = play(example, example.way)
    shown = next(found for found in first.found if found.cure.name == name)
    wanted = ["as sent", "defaults", *(["values"] if shown.cure.setting == VALUES else []), "repairs"]
    wanted += ["manage"] if shown.cure.setting == MANAGE else []
    if shown.finding.cause is None:
        wanted = [example.way]
    return Case(name, example, shown, {way: first if way == example.way else play(example, way) for way in wanted})


def _page(case: Case, proses: dict[str, Prose]) -> Iterator[str]:
    told = proses[case.name]
    yield f"# {told.title}\n"
    yield f"{_facts(case)}\n"
    yield f"{told.happens}\n"
    yield "## What the report says\n"
    yield f"{_about(case)}\n"
    yield "```text"
    yield from _report(case.shown)
    yield "```\n"
    if alone := _usage_alone(case):
        yield f"{alone}\n"
    yield "## What Holdfast does about it\n"
    yield f"{_verdict(case)}\n"
    yield "| | the prompts cost | read from the cache | breaks | repairs made |"
    yield "|---|---:|---:|---:|---|"
    for way, played in case.ways.items():
        repairs = ", ".join(f"`{each}`" for each in played.repairs) or "-"
        yield f"| {ROWS[way]} | {dollars(played.cost)} | {played.hit_rate:.0%} | {played.breaks} | {repairs} |"
    yield f"{SPLIT}\n{told.code}\n"
    links = ", ".join(f"[{each}]({each}.md)" for each in told.related)
    yield f"Related: {links}. All of them: [the catalogue](index.md)."
    yield ""


def _facts(case: Case) -> str:
    cure, finding = case.shown.cure, case.shown.finding
    kind = f"cause `{finding.cause}`" if finding.cause else f"reset `{finding.reason}`"
    setting = f"setting `{cure.setting}`" if cure.setting else "no setting does it for you"
    return f"Reports call it `{cure.name}` ({kind}); {setting}."


def _about(case: Case) -> str:
    asks = case.example.asks
    gaps = sorted({ask.gap for ask in asks[1:]})
    apart = " or ".join(f"{gap:,.0f} s" for gap in gaps)
    model = asks[0].body["model"]
    way = "" if case.example.way == "as sent" else f" with {ROWS[case.example.way]}"
    return (
        f"An example of {len(asks)} requests to `{model}`, {apart} apart, sent to the simulated provider{way}; "
        f"this is said of request {case.shown.request}:"
    )


def _report(found: Found) -> Iterator[str]:
    finding, place = found.finding, found.where.place
    if found.where.path is not None:
        byte = "" if found.where.offset is None else f", byte {found.where.offset:,}"
        yield f"at       {found.where.path}{byte}"
    if place is not None:
        yield f"before   {place.before}"
        yield f"after    {place.after}"
    yield from wrap(f"cure     {found.cure.name}: {found.cure.sentence}", 100, subsequent_indent=" " * 9)
    if found.cure.setting:
        yield f"setting  {found.cure.setting}"
    lost = f"{finding.tokens:,} of {finding.expected:,} tokens"
    yield f"lost     {lost}, {dollars(finding.dollars)} more than reading them"


def _usage_alone(case: Case) -> str:
    """What `explain` finds in the same requests without their bodies."""
    if case.example.asks[case.shown.request - 1].through != "holdfast":
        return ""
    listed = [each for session in case.sent.explained.sessions for each in session.breaks]
    found = next((each for each in listed if each.source == f"example:{case.shown.request}"), None)
    says = "`holdfast explain` finds no break here."
    if found is not None:
        name = found.cure or found.cause
        link = f"`{name}`" if name == case.name else f"[`{name}`]({name}.md)"
        says = f"`holdfast explain` says {link}: {found.advice}"
    return "\n".join(wrap(f"From billed usage alone, without the requests' bytes, {says}", 120, break_on_hyphens=False))


def cured(case: Case) -> str | None:
    """What cures it: nothing beyond Holdfast itself (the empty text), a setting, or None."""
    if not case.left("defaults"):
        return ""
    if "values" in case.ways and not case.left("values"):
        return VALUES
    if not case.left("repairs"):
        return REPAIR
    return MANAGE if "manage" in case.ways and case.left("manage") < case.left("as sent") else None


def _verdict(case: Case) -> str:
    if case.shown.finding.cause is None:
        return "It comes of what Holdfast itself puts into requests, so it is for you to say what it may:"
    told: dict[str | None, str] = {
        "": "Holdfast cures it as it comes, without any setting:",
        VALUES: f"Holdfast cures it with `{VALUES}`; as it comes it changes no content and only says so:",
        REPAIR: f"Holdfast cures it with `{REPAIR}`; as it comes it changes no content and only says so:",
        MANAGE: f"Holdfast leaves a client's own markers as they are. With `{MANAGE}` it places them itself, with "
        "lifetimes by what the pauses have been so far:",
        None: "Holdfast does not change it: only who makes the requests can. It tells where, and what it costs:",
    }
    return told[cured(case)]


def _index(cases: dict[str, Case], proses: dict[str, Prose]) -> Iterator[str]:
    yield "# Cures\n"
    yield (PROSE / "index.md").read_text(encoding="utf-8").strip() + "\n"
    groups = (
        ("Recognised faults", FAULTS),
        ("Causes", BREAK_CAUSES),
        ("Resets with a cure", tuple(name for name in NAMES if name not in (*FAULTS, *BREAK_CAUSES))),
    )
    for title, names in groups:
        yield f"## {title}\n"
        yield "| name | what happened | cured by Holdfast | in its example |"
        yield "|---|---|---|---|"
        for name in names:
            shown = cases[name].shown.finding
            lost = f"{shown.tokens:,} tokens, {dollars(shown.dollars)}"
            yield f"| [`{name}`]({name}.md) | {proses[name].title} | {_mended(cases[name])} | {lost} |"
        yield ""
    yield "[Resets that are wanted](resets.md) have a page together.\n"
    yield f"{_prices(cases)}\n"


def _mended(case: Case) -> str:
    if case.shown.finding.cause is None:
        return "-"
    by = cured(case)
    return "no" if by is None else f"with `{by}`" if by else "yes"


def _prices(cases: dict[str, Case]) -> str:
    versions = sorted({played.prices for case in cases.values() for played in case.ways.values()})
    return f"Prices are those of {', '.join(versions)}; the dollars are what one such request costs too much."


def _resets(proses: dict[str, Prose]) -> Iterator[str]:
    told = proses["resets"]
    yield f"# {told.title}\n"
    yield f"{told.happens}\n"
    yield "| reason | what it means | where the prefix may change | in an example | what the report says |"
    yield "|---|---|---|---|---|"
    for reason in WANTED:
        believed = wanted(reason)
        places = "anywhere" if len(believed) == len(departures(reason)) else ", ".join(believed)
        finding, cure = next((found.finding, found.cure) for found in believed.values())
        lost = f"{finding.tokens:,} tokens, {dollars(finding.dollars)}"
        yield f"| `{reason}` | {MEANINGS[reason]} | {places} | {lost} | {cure.sentence} |"
    yield f"{SPLIT}\n{told.code}\n"
    yield "All cures: [the catalogue](index.md)."
    yield ""


def wanted(reason: str) -> dict[str, Found]:
    """The places where the reason is believed, and what was found there."""
    runs = {place: play(example, "as sent").found for place, example in departures(reason).items()}
    return {place: found[0] for place, found in runs.items() if found[0].finding.reason == reason}


def main() -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    made = pages()
    for old in PAGES.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, page in made.items():
        (PAGES / name).write_text(page, encoding="utf-8")
    print(f"{len(made)} pages in {PAGES.relative_to(REPOSITORY)}", file=sys.stderr)


if __name__ == "__main__":
    main()
