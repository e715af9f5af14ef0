"""Makes docs/results.md: `python -m benchmarks.results > docs/results.md` (`make results`).

What strategies and clients cost on the sessions under benchmarks/data, which are of our own making, so that anyone gets
the same figures. Automatic caching is the measure, no caching stands beside it.
"""

from __future__ import annotations

import platform
import sys
import textwrap
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import sha256
from importlib.metadata import version

from benchmarks import headlines, public_sessions, tools
from benchmarks.make_data import DATA
from benchmarks.peers.versions import installed
from holdfast import facts
from holdfast.lab import FAULTS, RECORDED, SEEDS, ReplayOptions, Trace, read, run
from holdfast.lab.contenders import summary
from holdfast.lab.peers import PEERS
from holdfast.lab.results import ReplayReport, Result

MODELS = ("claude-opus-4-6", "claude-sonnet-5-5", "openai:gpt-6.1-sol")
"""A model of each kind of multiplier: reads at a tenth, at a twentieth, and one lifetime of the provider's own."""
SETS = (
    ("coding", "real"),
    ("coding", "office"),
    ("dialogues", "none"),
    ("dialogues", "minutes"),
    ("dialogues", "office"),
)
ON_OPENAI = tuple(each for each in SETS if each != ("coding", "office"))
"""Without the one that takes minutes there: bodies of half a megabyte, and no strategy differs from another."""
ENGINE = ("economic", "rolling", "rolling-1h", "two-point", "zones", "three-block")
MARKING = ("claude-code", "opencode", "litellm", "pydantic-ai")
FAULTY = "claude-opus-4-6"
WIDTH = 118
EQUAL = 1.002


def page() -> Iterator[str]:
    yield from _intro()
    yield from _against()
    for model in MODELS:
        yield from _strategies(model)
    yield from _recorded()
    yield from _public()
    yield from _faults()
    yield from _on_top()
    yield from _headlines()
    yield from _method()


def digest() -> str:
    """Stands for the sessions: figures belong to these and no others."""
    whole = sha256()
    for path in sorted(each for each in DATA.iterdir() if each.is_file()):
        whole.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return whole.hexdigest()[:16]


@cache
def traces(kind: str) -> tuple[Trace, ...]:
    return tuple(read(DATA / f"{kind}.jsonl" if kind != "session" else DATA / "session.json"))


@cache
def replayed(kind: str, gaps: str, model: str) -> ReplayReport:
    """All strategies on one set of sessions."""
    _say(f"{model}, {kind} {gaps}")
    return run(traces(kind), (*ENGINE, *PEERS, "optimal"), [model], ReplayOptions(gaps=gaps, seeds=SEEDS))


def cost(report: ReplayReport, strategy: str) -> float | None:
    found = _result(report, strategy)
    return None if found is None else float(found.cost_tokens)


def _result(report: ReplayReport, strategy: str) -> Result | None:
    return next((each for each in report.results if each.strategy == strategy), None)


def _over(report: ReplayReport, one: str, other: str) -> str:
    first, second = cost(report, one), cost(report, other)
    return "-" if first is None or not second else f"{first / second:.3f}"


def _cell(kind: str, gaps: str, model: str, one: str, other: str) -> str:
    if model.startswith("openai:") and (kind, gaps) not in ON_OPENAI:
        return "-"
    return _over(replayed(kind, gaps, model), one, other)


def _intro() -> Iterator[str]:
    yield "# Results"
    yield ""
    yield from _text(
        f"""What caching strategies cost on sessions like those of coding agents and support desks: the input side
        of the bill, as ratios. Every figure on this page is made by `make results` from the sessions in
        `benchmarks/data`, which `benchmarks/make_data.py` makes (digest `{digest()}`), and by an agent at work on
        scripted tasks; nothing was billed by a provider, but for the [public sessions](#public-sessions), of which only
        figures are here."""
    )
    yield "The same from your own logs, in one command ([replay](replay.md) says what it reads):"
    yield ""
    yield "```sh"
    yield "holdfast replay --strategy all --limit 1000 --format html --output results.html"
    yield "```"
    yield ""
    yield from _text(
        """It takes the logs that known clients keep under the home directory, or those of a path behind `replay`;
        `--format md` gives tables like these. Every lane is replayed on the model it was recorded with, at its recorded
        times; the row `as billed` is what was really paid, and DEARER says in how many sessions a strategy would have
        cost more than that."""
    )


def _against() -> Iterator[str]:
    yield "## Against automatic caching"
    yield ""
    yield from _text(
        """What Holdfast (`economic`) pays over what the provider's automatic caching costs, which is one line in a
        request and the thing to beat; then over no caching at all. Below 1 is cheaper."""
    )
    heads = [f"{kind} {gaps}" for kind, gaps in SETS]
    for title, base in (("over automatic caching", "automatic"), ("over no caching", "none")):
        yield f"| {title} | " + " | ".join(heads) + " |"
        yield "|---" * (len(heads) + 1) + "|"
        for model in MODELS:
            cells = [_cell(kind, gaps, model, "economic", base) for kind, gaps in SETS]
            yield f"| {model} | " + " | ".join(cells) + " |"
        yield ""
    dearer = [
        f"{model} {kind} {gaps} ({over})"
        for model in MODELS
        for kind, gaps in SETS
        if (over := _cell(kind, gaps, model, "economic", "automatic")) != "-" and float(over) > EQUAL
    ]
    if dearer:
        yield from _text(
            f"""It is dearer than automatic caching in these: {"; ".join(dearer)}. An hour costs more to write than five
            minutes, and is bought before it is known whether anybody will pause."""
        )


def _strategies(model: str) -> Iterator[str]:
    yield f"## Every strategy on {model}"
    yield ""
    yield "Cost over automatic caching."
    yield ""
    yield "| strategy | " + " | ".join(f"{kind} {gaps}" for kind, gaps in SETS) + " |"
    yield "|---" * (len(SETS) + 1) + "|"
    for name in (*ENGINE, *PEERS, "optimal"):
        cells = [_cell(kind, gaps, model, name, "automatic") for kind, gaps in SETS]
        if any(cell != "-" for cell in cells):
            yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""


def _recorded() -> Iterator[str]:
    yield "## Session by session, on the models they name"
    yield ""
    _say("coding, as recorded")
    report = run(traces("coding"), (*ENGINE, "automatic", "none", "optimal"), ())
    yield from _text(
        f"""The coding sessions at their own times, each lane on the model it names ({_models(report)}): what a strategy
        costs over the optimum, in all and for single sessions (the median, what nine in ten do not exceed, the worst);
        over the bill; and the share of sessions in which it is dearer than the bill. The bills are made up like the
        sessions."""
    )
    yield from _session_table(public_sessions.rows(report, RECORDED))


def _public() -> Iterator[str]:
    found = public_sessions.figures()
    yield "## Public sessions"
    yield ""
    yield from _text(
        f"""{found.sessions} sessions of coding agents ({found.requests:,} requests) from five public repositories whose
        licences allow it, as sizes, times and bills; they are not part of this repository. Replayed by version
        {found.version} at their recorded times on the {found.models} models they name, {found.warm} of them beginning
        with what their first request read from the cache of sessions before them. All of them are taken for one
        author's, in no known order."""
    )
    yield from _session_table(found.recorded)
    yield from _text(
        f"The same requests on {public_sessions.CHEAP_READS}, where a read costs a twentieth of plain input:"
    )
    yield from _session_table(found.cheap_reads)
    yield from _text(
        """What else such sessions show, from 292 conversations of 40 authors: people come back after a median of 100
        seconds, 69% within five minutes, 90% within 21 minutes, and 7% never; machines pause for more than five minutes
        in 0.3% of their gaps. Authors differ: between 5% and 59% of their pauses are longer than five minutes. Of 318
        sessions with bills 278 wrote mostly for an hour. Entries for five minutes were read in 92% of the cases after
        270 to 300 seconds, 64% after 300 to 330, 15% after 330 to 360; entries for an hour in about 90% up to the hour,
        for reasons unknown not in all, and once in 67 beyond it. Replays know none of this: there an entry lives
        exactly as long as it is documented to."""
    )


def _session_table(rows: Sequence[public_sessions.Row]) -> Iterator[str]:
    yield "| strategy | over the optimum | p50 | p90 | worst | over the bill | dearer than the bill |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        ratios = (row.optimal, row.p50, row.p90, row.worst, row.billed)
        cells = ["-" if each is None else f"{each:.3f}" for each in ratios]
        share = "-" if row.dearer is None else f"{row.dearer:.0%}"
        yield f"| {row.strategy} | {' | '.join(cells)} | {share} |"
    yield ""


def _models(report: ReplayReport) -> str:
    return " and ".join(_short(name) for name in report.models)


def _faults() -> Iterator[str]:
    yield "## Clients that break their own prefix"
    yield ""
    yield from _text(
        f"""One coding session with texts on {FAULTY}, ten seconds between turns, and what common mistakes make of
        it. `alone` is the client with automatic caching. Holdfast with its defaults changes nothing but order;
        with `cache.repair = "on"` it moves what changes to where it costs nothing. Costs over the same client
        alone, in brackets over no caching."""
    )
    yield "| client | alone | with Holdfast's defaults | with all repairs |"
    yield "|---|---|---|---|"
    for fault in (None, *FAULTS):
        _say(f"{FAULTY}, fault {fault}")
        names = ("automatic", "none", "economic")
        shy, bold = (
            run(
                traces("session"),
                names,
                [FAULTY],
                ReplayOptions(gaps="none", fault=fault, repair=repair, client="automatic", optimum=False),
            )
            for repair in ("suggest", "on")
        )
        none = cost(shy, "none") or 1.0
        alone = cost(shy, "automatic") or 1.0
        cells = [
            f"{paid / alone:.3f} ({paid / none:.3f})"
            for paid in (alone, cost(shy, "economic") or 0.0, cost(bold, "economic") or 0.0)
        ]
        yield f"| {fault or 'no mistake'} | " + " | ".join(cells) + " |"
    yield ""


def _on_top() -> Iterator[str]:
    yield "## In front of clients that place markers themselves"
    yield ""
    yield from _text(
        f"""What the client pays through Holdfast over what it pays alone, on {FAULTY}; its markers as the tool
        places them, kept while they pay (`cache.client_markers = "improve"`)."""
    )
    yield "| client | " + " | ".join(f"{kind} {gaps}" for kind, gaps in SETS) + " |"
    yield "|---" * (len(SETS) + 1) + "|"
    for peer in MARKING:
        cells = []
        for kind, gaps in SETS:
            _say(f"in front of {peer}, {kind} {gaps}")
            report = run(
                traces(kind),
                ("economic", peer),
                [FAULTY],
                ReplayOptions(gaps=gaps, seeds=SEEDS, client=peer, optimum=False),
            )
            cells.append(_over(report, "economic", peer))
        yield f"| {peer} | " + " | ".join(cells) + " |"
    yield ""


def _headlines() -> Iterator[str]:
    yield "## The headline figures of the documents"
    yield ""
    yield from _text(
        f"""The documents that Holdfast implements lead with figures of other programs' sessions, which nobody else can
        measure. Here is what work of the same kind gives in the simulator, played by the whole agent (`open_agent`)
        with its default strategy, `economic`, and with the one of the document, `zones`; `benchmarks/headlines.py`
        holds both. Coding: {headlines.CALLS} requests in one session, {headlines.TASKS} tasks of searching, reading,
        patching and testing, with the pauses of people in public transcripts, over {len(SEEDS)} seeds. Channel: one
        session, {headlines.MESSAGES} messages in a day, a median of three minutes between them, sized so that a day
        costs about $26 without a cache at $3 per million tokens. Tools: {tools.TASKS} tasks with sixty tools."""
    )
    yield "| the document's figure | model | strategy | here |"
    yield "|---|---|---|---|"
    for strategy in headlines.STRATEGIES:
        _say(f"headlines, coding, {strategy}")
        played = headlines.coding(strategy)
        yield (
            "| 76-call Opus session: 16.9 tokens read for one written, 94% of the input from the cache "
            f"| {_short(headlines.CODING_MODEL)} | {strategy} | {played.ratio:.1f} tokens, {played.from_cache:.1%}; "
            f"{played.dollars / played.uncached:.3f} of the cost without a cache |"
        )
    _say("headlines, coding at once")
    at_once = headlines.coding(headlines.STRATEGIES[0], SEEDS[:1], at_once=True)
    for name in headlines.CHANNEL_MODELS:
        for strategy in headlines.STRATEGIES:
            _say(f"headlines, channel, {name}, {strategy}")
            played = headlines.channel(name, strategy)
            yield (
                f"| a Sonnet agent in a channel: $26 a day without a cache, $5 with it (0.19) | {_short(name)} "
                f"| {strategy} | ${played.uncached:.2f} and ${played.dollars:.2f} "
                f"({played.dollars / played.uncached:.2f}); {played.ratio:.1f} tokens read for one written |"
            )
    _say("headlines, deferral")
    saved, declared, brought = headlines.deferral()
    model = _short(tools.ROUTES[0][0])
    share = f"{saved:.0%}, of the array {declared:.0%}"
    yield f"| deferral saves 81% of the tokens for tool definitions | {model} | | {share} |"
    yield f"| about 1,700 tokens for each discovery | {model} | | {brought:,} tokens |"
    yield ""
    yield from _text(
        f"""Where a figure is lower here, this is why. People leave the coding session for longer than an entry lives,
        and what was cached is written again; with 30 seconds between their messages instead, the same session reads
        {at_once.ratio:.1f} tokens for one written, {at_once.from_cache:.1%} of the input. Of the definitions
        those that a search brought back are counted as long as they stand in the history; without them the
        array itself shrinks by more than the document says. A result of a search is short, so that there is
        less to win back from it. What `zones` reads and pays in a channel depends on the pauses: it writes for
        five minutes until it has seen longer ones, and many messages here come later than that. The dollars of
        a day depend on its length and on the prices of the model; only the ratio can be compared."""
    )


def _short(name: str) -> str:
    return name.partition(":")[2]


def _method() -> Iterator[str]:
    here = installed()
    yield "## Method"
    yield ""
    coding, dialogues, seeds = traces("coding"), traces("dialogues"), ", ".join(map(str, SEEDS))
    yield from _point(
        f"""Sessions: {len(coding)} coding sessions ({_steps(coding):,} requests, sizes and times), {len(dialogues)}
        support dialogues ({_steps(dialogues):,} requests, texts, no times), one coding session with texts
        ({_steps(traces("session")):,} requests)."""
    )
    yield from _point(
        f"""Gaps: `real` as made; `none` ten seconds before a user's turn; `minutes` log-normal with a median of
        four minutes; `office` bursts with pauses of 10 to 50 minutes. Random ones over the seeds {seeds}."""
    )
    yield from _point(
        """The real engine plans each request; the providers' cache rules ([cache-rules.md](cache-rules.md)) bill
        what is sent. A session begins with what the first request of each lane was billed as read, and with an
        empty cache where it has no bill; what the engine has learned carries over to the next session."""
    )
    yield from _point(
        """`optimal` knows the future: the cheapest markers and lifetimes, without pings, under the same rules
        (`ttl_raise` no)."""
    )
    yield from _point("Other tools are modelled by the markers they place, and by nothing else of them:")
    for name, peer in PEERS.items():
        found = here.get(name)
        checked = f"installed here: {found}" if found else "not installed here"
        compared = f" Compared with version {peer.version}; {checked}." if peer.version else ""
        yield from _point(f"`{name}`: {summary(name)}{compared}", "  ")
    yield ""
    yield "## Limits"
    yield ""
    yield from _point("The sessions are made up; on yours the figures differ. Replay your own before you decide.")
    yield from _point(
        """Parameters of `economic` were chosen on recorded sessions of the same kinds; these are others, but made
        to look like them."""
    )
    yield from _point(
        "Token counts are estimates, the same for all strategies. Output is the same for all and left out."
    )
    yield from _point(
        """The rules are the documented ones; evictions and replicas are left out (`holdfast replay --noise` adds
        them)."""
    )
    yield ""
    yield "## Versions"
    yield ""
    packages = ", ".join(f"{name} {version(name)}" for name in ("holdfast", "genai-prices", "tiktoken", "msgspec"))
    yield f"Python {platform.python_version()}, {packages}; facts of {facts.model(MODELS[0]).as_of}."


def _text(paragraph: str) -> Iterator[str]:
    yield from textwrap.wrap(" ".join(paragraph.split()), WIDTH, break_long_words=False, break_on_hyphens=False)
    yield ""


def _point(text: str, indent: str = "") -> Iterator[str]:
    line = f"{indent}- " + " ".join(text.split())
    yield from textwrap.wrap(
        line,
        WIDTH,
        subsequent_indent=f"{indent}  ",
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def _steps(sessions: Sequence[Trace]) -> int:
    return sum(len(trace.steps) for trace in sessions)


def _say(what: str) -> None:
    print(f"results: {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    for line in page():
        print(line)
