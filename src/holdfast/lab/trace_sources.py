"""What is replayed: trace files as they are, and of logs the latest sessions that can be replayed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from holdfast.config import configured_facts, load_config
from holdfast.errors import HoldfastError, wrong_argument
from holdfast.facts import using
from holdfast.report.logs import (
    KNOWN,
    BrokenSource,
    LogReader,
    Record,
    SecondReading,
    SessionChooser,
    Source,
    Trace,
    home_sources,
    in_words,
    read,
    sniff,
    sources,
)
from holdfast.wording import counted, printable

from .contenders import DEFAULT
from .lab import run
from .models import Course, Used, recorded, used_models
from .options import ReplayOptions
from .results import ReplayReport

_TRACES = ("shapes", "chat")
"""Formats that trace files have too."""
_EMPTY, _UNKNOWN = "empty", "of no known format"
_EXAMPLES = {"strategies": "economic", "models": "claude-opus-5-5"}


class InterruptedReading(Exception):
    """Reading the logs was broken off."""


class NoLogsError(HoldfastError):
    """No path was named, and no known client has left logs."""

    def __init__(self) -> None:
        super().__init__(
            "No logs of known clients were found under your home directory; name a recorded session, a log or a "
            "directory of them."
        )


class LogPass:
    """Reads logs from beginning to end; a command's own shows how far it is."""

    def read(self, sources: Sequence[Source], take: Callable[[Source, Record], None]) -> None:
        """Give all records to `take`. Raises `InterruptedReading`."""
        reader = LogReader()
        for source in sources:
            for record in reader.records(source, lambda count: None):
                take(source, record)

    def found(self, logs: str) -> None:
        """Logs were found, described in words, although no path was named."""

    def left_out(self, broken: int, named: Sequence[BrokenSource]) -> None:
        """So many lines could not be read; the first of them are named."""


class Recordings(Struct, frozen=True):
    """Recorded sessions, with notes on their selection."""

    traces: tuple[Trace, ...]
    logged: tuple[Trace, ...] = ()  # those of them that come from logs
    notes: tuple[str, ...] = ()

    def model_notes(self) -> list[str]:
        """Return notes on the models that the sessions were recorded with."""
        used = used_models(self.traces)
        if self.logged and used.unknown and not used.known:
            raise HoldfastError(
                f"nothing is known of the models of these logs ({_listed(used.unknown)}); name one with --model, "
                "`holdfast models` lists those that are known"
            )
        return list(_model_notes(used, recorded(self.traces), logs=bool(self.logged)))


def gather(
    paths: Sequence[Path], *, limit: int | None = None, session: str | None = None, reading: LogPass | None = None
) -> Recordings:
    """The sessions of trace files and logs; without paths, those of the logs of known clients. Of logs the latest
    `limit` are taken; `session` is how the names of those to take begin."""
    reading = reading or LogPass()
    plain: list[Trace] = []
    by_path: dict[Path, Source] = {}
    for path in paths:
        traces, more = _of_path(path)
        plain += [trace for trace in traces if session is None or trace.name.startswith(session)]
        by_path.update({source.path.resolve(): source for source in more})
    logs = list(by_path.values()) if paths else _home(reading)
    if logs:
        logged, notes = _logged(logs, limit, session, reading, alone=not plain)
        return Recordings((*plain, *logged), logged, notes)
    if not plain:
        raise HoldfastError(f"no session begins with {printable(session or '')!r}; without --session all are replayed.")
    return Recordings(tuple(plain))


def _home(reading: LogPass) -> list[Source]:
    logs = home_sources(Path.home(), os.environ)
    if not logs:
        raise NoLogsError
    reading.found(in_words(logs))
    return logs


def _of_path(path: Path) -> tuple[list[Trace], list[Source]]:
    """The sessions of a path that is a trace file; the logs of one that is not."""
    if path.is_dir():
        traces, logs = list[Trace](), list[Source]()
        for source in sources([path]):
            inside = _trace(source.path, source.format)
            traces += inside or ()
            logs += [source] if inside is None else ()
        return traces, logs
    try:
        form = sniff(path)
    except OSError:
        form = None
    if form is None:
        return _unknown(path), []
    inside = _trace(path, form)
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
    """Give sessions without an author the author of the others in their directory."""
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
    logs: list[Source], limit: int | None, session: str | None, reading: LogPass, *, alone: bool
) -> tuple[tuple[Trace, ...], tuple[str, ...]]:
    """The sessions of logs. The gateway's store comes first: what it has seen it knows best."""
    logs.sort(key=lambda source: source.format != "store")
    described, chooser = in_words(logs), SessionChooser(session)
    try:
        reading.read(logs, chooser.add)
    finally:
        if chooser.broken:
            reading.left_out(chooser.broken, chooser.named)
    again = chooser.chosen(limit)
    reading.read(again.sources, again.add)
    traces = again.tracing.traces()
    if not traces and alone:
        raise HoldfastError(_nothing(chooser, described, session))
    return tuple(traces), tuple(_notes(chooser, again, described, len(traces)))


def _nothing(chooser: SessionChooser, logs: str, session: str | None) -> str:
    if chooser.sessions:
        which = counted(chooser.sessions, "session")
        return f"{which} of {logs} cannot be replayed: the requests have neither usage nor bodies; give other logs"
    if session is not None:
        return f"no session in {logs} begins with {printable(session)!r}; without --session the latest are replayed"
    if chooser.broken:
        first = chooser.named[0]
        problem = f"{printable(first.source)} {printable(first.why)}"
        return f"nothing could be read of {logs}; the first problem: {problem}; check that these are logs"
    return f"there is no request in {logs}; give a log with requests"


def _notes(chooser: SessionChooser, again: SecondReading, logs: str, replayed: int) -> list[str]:
    """Describe which sessions of the logs were replayed and which were left out."""
    odd = len(again.sessions) - replayed  # of which the bodies that were all there was could not be read
    replayable = len(chooser.known) - odd
    if replayed == replayable:
        notes = [f"From {logs}: {counted(replayable, 'session')}."]
    else:
        notes = [f"From {logs}: the latest {replayed:,} of {replayable:,} sessions; --limit takes more, --session one."]
    if left := chooser.sessions - replayable:
        notes.append(f"{_were(left, 'session')} left out: no request has usage or a body that can be read.")
    if failed := again.tracing.failed:
        notes.append(f"{_were(failed, 'request')} left out: they have no usage, as those that failed.")
    if chooser.repeated:
        which = _were(len(chooser.repeated), "session")
        notes.append(f"{which} in logs of two kinds, such as the gateway's store and a client's own, and counted once.")
    return notes


def _model_notes(used: Used, course: Course, *, logs: bool) -> Iterator[str]:
    if len(used.known) > 1:
        models = _listed(used.known)
        yield f"Every lane is replayed on the model it was recorded with: {models}; --model puts all on one."
    elif logs:
        yield f"The model is that of the logs: {_listed(used.known)}; --model names others."
    if used.unknown:
        yield f"Nothing is known of the caches of {_listed(used.unknown)}: replayed on {course.model.ref}."


def _listed(models: Sequence[tuple[str, int]]) -> str:
    return ", ".join(f"{printable(name) or 'no name'} ({counted(n, 'request')})" for name, n in models)


def _were(number: int, noun: str) -> str:
    return f"{counted(number, noun)} {'was' if number == 1 else 'were'}"


def replay(
    *paths: Path | str,
    strategies: Sequence[str] = DEFAULT,
    models: Sequence[str] = (),
    limit: int | None = None,
    session: str | None = None,
    options: ReplayOptions | None = None,
) -> ReplayReport:
    """What recorded sessions would have cost under strategies: the data of `holdfast replay`.

    Paths are logs, traces or directories of them; without any, the logs that known clients keep under the home
    directory are read. Of logs the latest sessions are taken, or `limit` of them; `session` is how the names of those
    to take begin. Models are given as `provider:name` or by their bare names; without any, every lane is replayed on
    the one it was recorded with.
    """
    for path in paths:
        if not isinstance(path, (str, Path)):
            raise wrong_argument("replay", path, "logs or directories of them, such as replay('session.jsonl')")
    for name, value in (("strategies", strategies), ("models", models)):
        if isinstance(value, str) or not all(isinstance(each, str) for each in value):
            raise wrong_argument(f"replay({name}=…)", value, f"a list of names, such as {name}=['{_EXAMPLES[name]}']")
    if options is not None and not isinstance(options, ReplayOptions):
        raise wrong_argument(
            "replay(options=…)", options, "ReplayOptions of holdfast, such as ReplayOptions(repair='on')"
        )
    with using(configured_facts(load_config())):
        chosen = gather([Path(path) for path in paths], limit=limit, session=session)
        notes = [] if models else chosen.model_notes()
        report = run(chosen.traces, strategies, models, options)
    return replace(report, notes=(*chosen.notes, *notes, *report.notes))
