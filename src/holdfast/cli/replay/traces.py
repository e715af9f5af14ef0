"""What `holdfast replay` replays: trace files as they are, and of logs the latest sessions that can be replayed."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from holdfast.cli import tables
from holdfast.errors import HoldfastError
from holdfast.lab import Course, Trace, Used, read, recorded, used_models
from holdfast.report.explainer import FileRead
from holdfast.report.logs import KNOWN, SecondReading, SessionChooser, Source, home_sources, sniff, sources

from ..explain.log_reader import each
from ..explain.words import logs as logs_of

_TRACES = ("shapes", "chat")
"""Formats that trace files have too."""
_EMPTY, _UNKNOWN = "empty", "of no known format"


class StoppedError(Exception):
    """Ctrl-C was pressed while logs were read."""


class Gathered(Struct, frozen=True):
    """The sessions, those from logs among them, and what is to be said about them."""

    traces: tuple[Trace, ...]
    logged: tuple[Trace, ...] = ()
    notes: tuple[str, ...] = ()

    def models(self) -> list[str]:
        """What is said of the models that the sessions were recorded with."""
        used = used_models(self.traces)
        if self.logged and used.unknown and not used.known:
            raise HoldfastError(
                f"nothing is known of the models of these logs ({_counted(used.unknown)}); name one with --model, "
                "`holdfast models` lists those that are known"
            )
        return list(_said_of(used, recorded(self.traces), logs=bool(self.logged)))


def gather(paths: Sequence[Path], *, limit: int | None, session: str | None) -> Gathered:
    """The sessions of trace files and logs; without paths, those of the logs of known clients."""
    plain: list[Trace] = []
    found: dict[Path, Source] = {}
    for path in paths:
        traces, more = _path(path)
        plain += [trace for trace in traces if session is None or trace.name.startswith(session)]
        found.update({source.path.resolve(): source for source in more})
    logs = list(found.values()) if paths else _home()
    if logs:
        logged, notes = _logged(logs, limit, session, alone=not plain)
        return Gathered((*plain, *logged), logged, notes)
    if not plain:
        begins = tables.printable(session or "")
        raise HoldfastError(f"no session begins with {begins!r}; without --session all are replayed.")
    return Gathered(tuple(plain))


def _home() -> list[Source]:
    found = home_sources(Path.home(), os.environ)
    if not found:
        raise click.UsageError(
            "No logs of known clients were found under your home directory; name a recorded session, a log or a "
            "directory of them."
        )
    _say(f"reading {logs_of(_files(found))}")
    return found


def _path(path: Path) -> tuple[list[Trace], list[Source]]:
    """The sessions of a path that is a trace file; the logs of one that is not."""
    if path.is_dir():
        traces, found = list[Trace](), list[Source]()
        for source in sources([path]):
            inside = _trace(source.path, source.format)
            traces += inside or ()
            found += [source] if inside is None else ()
        return traces, found
    try:
        known = sniff(path)
    except OSError:
        known = None
    if known is None:
        return _unknown(path), []
    inside = _trace(path, known)
    return (inside, []) if inside is not None else ([], sources([path]))


def _trace(path: Path, format: str) -> list[Trace] | None:
    """A file of shapes or conversations as traces; None where it can only be read as a log."""
    if format not in _TRACES:
        return None
    try:
        return _of_folder(path, read(path))
    except HoldfastError:
        if format == "shapes" and path.suffix == ".jsonl":
            raise
        return None


def _of_folder(path: Path, traces: list[Trace]) -> list[Trace]:
    """Sessions that do not say whose they are belong to whoever the others of their directory belong to."""
    return [trace if trace.author else replace(trace, author=str(path.parent)) for trace in traces]


def _unknown(path: Path) -> list[Trace]:
    """A file that is no log: what is wrong with it as a trace."""
    try:
        return _of_folder(path, read(path))
    except HoldfastError as error:
        for why in (_EMPTY, _UNKNOWN):
            if why in str(error):  # and logs are read too
                raise HoldfastError(f"{path.name} is {why}; known are {KNOWN}.") from error
        raise


def _logged(
    found: list[Source], limit: int | None, session: str | None, *, alone: bool
) -> tuple[tuple[Trace, ...], tuple[str, ...]]:
    """The sessions of logs. The gateway's store comes first: what it has seen it knows best."""
    found.sort(key=lambda source: source.format != "store")
    told, picking = logs_of(_files(found)), SessionChooser(session)
    stopped = each(found, picking.add, quiet=False).stopped
    _broken(picking)
    again = picking.chosen(limit)
    if stopped or each(again.sources, again.add, quiet=False).stopped:
        raise StoppedError
    traces = again.tracing.traces()
    if not traces and alone:
        raise HoldfastError(_nothing(picking, told, session))
    return tuple(traces), tuple(_notes(picking, again, told, len(traces)))


def _nothing(picking: SessionChooser, told: str, session: str | None) -> str:
    if picking.sessions:
        which = tables.counted(picking.sessions, "session")
        return f"{which} of {told} cannot be replayed: the requests have neither usage nor bodies; give other logs"
    if session is not None:
        begins = tables.printable(session)
        return f"no session in {told} begins with {begins!r}; without --session the latest are replayed"
    if picking.broken:
        first = picking.named[0]
        problem = f"{tables.printable(first.source)} {tables.printable(first.why)}"
        return f"nothing could be read of {told}; the first problem: {problem}; check that these are logs"
    return f"there is no request in {told}; give a log with requests"


def _notes(picking: SessionChooser, again: SecondReading, told: str, replayed: int) -> list[str]:
    """What was replayed of the logs, and what was left out."""
    odd = len(again.sessions) - replayed  # of which the bodies that were all there was could not be read
    known = len(picking.known) - odd
    if replayed == known:
        said = [f"From {told}: {tables.counted(known, 'session')}."]
    else:
        said = [f"From {told}: the latest {replayed:,} of {known:,} sessions; --limit takes more, --session one."]
    if left := picking.sessions - known:
        said.append(f"{_were(left, 'session')} left out: no request has usage or a body that can be read.")
    if failed := again.tracing.failed:
        said.append(f"{_were(failed, 'request')} left out: they have no usage, as those that failed.")
    if picking.repeated:
        which = _were(len(picking.repeated), "session")
        said.append(f"{which} in logs of two kinds, such as the gateway's store and a client's own, and counted once.")
    return said


def _were(number: int, what: str) -> str:
    return f"{tables.counted(number, what)} {'was' if number == 1 else 'were'}"


def _said_of(used: Used, course: Course, *, logs: bool) -> Iterator[str]:
    if len(used.known) > 1:
        models = _counted(used.known)
        yield f"Every lane is replayed on the model it was recorded with: {models}; --model puts all on one."
    elif logs:
        yield f"The model is that of the logs: {_counted(used.known)}; --model names others."
    if used.unknown:
        yield f"Nothing is known of the caches of {_counted(used.unknown)}: replayed on {course.model.ref}."


def _counted(models: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{tables.printable(name) or 'no name'} ({tables.counted(n, 'request')})" for name, n in models)


def _broken(picking: SessionChooser) -> None:
    if picking.broken:
        which = "1 line" if picking.broken == 1 else f"{picking.broken:,} lines"
        _say(f"{which} could not be read and {'was' if picking.broken == 1 else 'were'} left out:")
        for line in picking.named:
            _say(f"  {line.source}: {line.why}")
        if picking.broken > len(picking.named):
            _say(f"  and {picking.broken - len(picking.named):,} more")


def _files(found: Sequence[Source]) -> list[FileRead]:
    return [FileRead(path="", format=source.format, client=source.client, size=source.size) for source in found]


def _say(text: str) -> None:
    click.echo(f"holdfast: {tables.printable(text)}", err=True)
