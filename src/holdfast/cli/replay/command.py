"""`holdfast replay`: recorded sessions under every strategy, and what each would have cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import click
from msgspec.structs import replace

from holdfast.caches import Noise
from holdfast.cli.noise import read_noise
from holdfast.cli.repair_words import Level
from holdfast.cli.setup import use_configured_facts
from holdfast.errors import HoldfastError
from holdfast.lab import (
    DEFAULT,
    FAULTS,
    PATTERNS,
    SEEDS,
    STRATEGY_NAMES,
    InterruptedReading,
    Lab,
    LogPass,
    NoLogsError,
    Recordings,
    Repair,
    ReplayOptions,
    ReplayReport,
    gather,
    replay_page,
    summary,
)
from holdfast.report.logs import REQUESTS, SESSIONS, BrokenSource, Record, Source
from holdfast.wording import counted

from .. import completion, tables
from ..explain.log_reader import each, progress_bar, tell_broken
from ..store_options import format_option, write_report
from . import table

INTERRUPTED = 130
PAGE = "holdfast-replay.html"
SMALL = 8_192
"""Tokens below which `--noise small=…` takes a prompt for small, unless `small_tokens` says otherwise."""


@click.command()
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path(path_type=Path))
@click.option(
    "--strategy",
    "strategies",
    metavar="NAME,…",
    shell_complete=completion.strategies,
    default=(",".join(DEFAULT),),
    show_default=True,
    multiple=True,
    help="What to compare.",
)
@click.option(
    "--model",
    "models",
    metavar="NAME,…",
    shell_complete=completion.models,
    multiple=True,
    help="Replay everything on these models; by default every lane on the model it was recorded with.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    help=f"At most so many sessions of logs, the latest; default: {SESSIONS}, of together {REQUESTS:,} requests.",
)
@click.option(
    "--session",
    metavar="ID",
    shell_complete=completion.sessions,
    help="Only the session with this id, or those that begin with it.",
)
@click.option("--gaps", metavar="PATTERN", help=f"Impose pauses: {', '.join(PATTERNS)}. Default: as recorded.")
@click.option("--seed", default=SEEDS[0], show_default=True, type=int, help="Of all that is left to chance.")
@click.option("--seeds", metavar="all|N,…", help="Add up over several seeds; all stands for five.")
@click.option("--fault", metavar="NAME", help=f"What the client does wrong: {', '.join(FAULTS)}.")
@click.option("--noise", metavar="NAME=VALUE,…", help="What fleets do to caches: eviction, bounce, replicas, small.")
@click.option(
    "--ttl-raise", type=click.Choice(["yes", "no"]), help="Whether a long marker lengthens a live short entry."
)
@click.option(
    "--repair",
    type=Level(),
    default="suggest",
    show_default=True,
    help="What the engine mends of the client's requests.",
)
@click.option("--client", metavar="NAME", help="A tool whose markers the requests already have.")
@click.option("--fresh", is_flag=True, help="Let the engine forget between sessions.")
@click.option("--cold", is_flag=True, help="Let every session begin with an empty cache, whatever it read first.")
@click.option("--optimum/--no-optimum", default=True, show_default=True, help="Whether to search for the optimum.")
@format_option
@click.option("--output", metavar="FILE", type=click.Path(path_type=Path), help="Write the report here.")
@click.option(
    "--dump", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="Write every body as sent."
)
@click.option("--list", "list_", is_flag=True, help="Say what each strategy does, and nothing else.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[Path, ...],
    strategies: tuple[str, ...],
    models: tuple[str, ...],
    limit: int | None,
    session: str | None,
    gaps: str | None,
    seed: int,
    seeds: str | None,
    fault: str | None,
    noise: str | None,
    ttl_raise: Literal["yes", "no"] | None,
    repair: Repair,
    client: str | None,
    fresh: bool,
    cold: bool,
    optimum: bool,
    form: str,
    output: Path | None,
    dump: Path | None,
    list_: bool,
) -> None:
    """Replay recorded sessions under any strategy: what each would have cost.

    PATH is a log of a client (Claude Code transcripts, Codex rollouts, pi and opencode sessions, the gateway's store,
    JSONL of request bodies), a shape trace, a file of chat dialogues, a session with texts, or a directory of them;
    without one, the logs that known clients keep under your home directory. Of logs the latest sessions are taken.

    The engine plans every request as it does in earnest, and the provider's cache rules say what is billed, at the
    recorded times or under a pattern of pauses. Other tools are modelled on what they send. Nothing is sent anywhere.

    Sessions of one author (a tenant of the gateway's store, a project, a directory) are played in the order in which
    they began, and what the engine learns it keeps for the author's next one. Where the recording has usage, the row
    "as billed" is what the client really paid. With several sessions P50, P90 and WORST are their costs over the
    optimum, and DEARER is the share of them in which a strategy costs more than the bill.

    \b
    Examples:
      holdfast replay
      holdfast replay ~/.claude/projects --limit 50
      holdfast replay session.jsonl
      holdfast replay traces/ --strategy all --gaps office --seeds all
      holdfast replay session.jsonl --model claude-sonnet-5-5,gpt-6.1-sol --format html --output report.html
      holdfast replay session.jsonl --strategy economic --client claude-code --fault clock-at-head --repair on
      holdfast replay session.jsonl --strategy economic,rolling --dump bodies.jsonl
    """
    if list_:
        width = max(map(len, STRATEGY_NAMES))
        for name in STRATEGY_NAMES:
            tables.show(tables.wrapped(f"{name:{width}}  {summary(name)}", tables.width(), indent=" " * (width + 2)))
        return
    use_configured_facts()
    names = _names(",".join(strategies))
    try:
        chosen = gather(paths, limit=limit, session=session, reading=_Reading())
    except NoLogsError as error:
        raise click.UsageError(str(error)) from None
    except InterruptedReading:
        tables.remark("interrupted while the logs were read; nothing was replayed")
        ctx.exit(INTERRUPTED)
    _check(paths, output, dump)
    on_models, model_notes = _models(",".join(models), chosen)
    options = ReplayOptions(
        gaps=gaps,
        seeds=_seeds(seed, seeds),
        fault=fault,
        noise=None if noise is None else _noise(noise, seed),
        ttl_raise=ttl_raise,
        repair=repair,
        client=client,
        fresh=fresh,
        cold=cold,
        optimum=optimum,
        dump=dump,
    )
    lab = Lab(chosen.traces, names, on_models, options)
    finished = _play(lab)
    report = lab.report()
    report = replace(report, notes=(*chosen.notes, *model_notes, *report.notes))
    if report.results or finished:
        _write(report, form, output)
    if dump is not None and finished:
        tables.remark(f"the bodies are in {dump}")
    if not finished:
        tables.remark(f"interrupted: this is what came of {lab.finished} of {lab.sessions} sessions")
        ctx.exit(INTERRUPTED)


class _Reading(LogPass):
    """With a progress bar, until done or interrupted."""

    def read(self, sources: Sequence[Source], take: Callable[[Source, Record], None]) -> None:
        if each(sources, take, quiet=False).stopped:
            raise InterruptedReading

    def found(self, logs: str) -> None:
        tables.remark(f"reading {logs}")

    def left_out(self, broken: int, named: Sequence[BrokenSource]) -> None:
        tell_broken(broken, named)


def _check(paths: Sequence[Path], output: Path | None, dump: Path | None) -> None:
    """Whether the report can be written, before anything is played, and nothing that is read or written is lost."""
    if output is not None and str(output) != "-" and (output.is_dir() or not output.absolute().parent.is_dir()):
        why = "it is a directory" if output.is_dir() else "there is no such directory"
        raise HoldfastError(f"the report cannot be written to {output} ({why}); choose another --output")
    taken = {path.resolve() for path in paths}  # a directory stands for the files in it
    for option, path in (("--dump", dump), ("--output", output)):
        if path is None or (path.exists() and not path.is_file()):  # a device may be named twice
            continue
        if path.resolve() in taken or (path.exists() and not taken.isdisjoint(path.resolve().parents)):
            raise HoldfastError(f"{option} would write over {path}, which is used by this replay; name another file")
        taken.add(path.resolve())


def _play(lab: Lab) -> bool:
    """Play everything; False if Ctrl-C ended it."""
    try:
        with progress_bar(lab.total, f"Replaying {counted(lab.total, 'request')}") as moved:
            lab.play(moved)
    except KeyboardInterrupt:
        return False
    return True


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise HoldfastError("--strategy names nothing; `holdfast replay --list` says what there is.")
    return names


def _models(text: str | None, chosen: Recordings) -> tuple[list[str], list[str]]:
    """Return the models to replay on, none for those of the recording, and notes on that choice."""
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    return (list(dict.fromkeys(names)), []) if names else ([], chosen.model_notes())


def _seeds(seed: int, seeds: str | None) -> tuple[int, ...]:
    if seeds is None:
        return (seed,)
    if seeds.strip() == "all":
        return SEEDS
    try:
        return tuple(int(each) for each in seeds.split(","))
    except ValueError:
        raise HoldfastError(f"--seeds: {seeds!r} is not understood; write all, or numbers such as 11,23.") from None


def _noise(text: str, seed: int) -> Noise:
    """As `holdfast simulate` reads it; `small=0.1` is the share of small prompts that miss."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if any(part.startswith("small=") for part in parts):
        parts = [part.replace("small=", "small_miss=", 1) if part.startswith("small=") else part for part in parts]
        if not any(part.startswith("small_tokens=") for part in parts):
            parts.append(f"small_tokens={SMALL}")
    return read_noise(",".join(parts), seed)


def _write(report: ReplayReport, form: str, output: Path | None) -> None:
    texts: dict[str, Callable[[int | None], str]] = {
        "html": lambda room: replay_page(report),
        "md": lambda room: "\n".join(table.markdown(report)),
        "table": lambda room: "\n".join(table.table(report, room)),
    }
    file = write_report(report, form, output, PAGE, texts)
    if file is not None:
        tables.remark(f"the report is in {file}")
