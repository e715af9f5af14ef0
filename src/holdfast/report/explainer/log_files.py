"""Logs explained in one call, as `holdfast explain` does."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path

from holdfast.config import configured_facts, load_config
from holdfast.errors import ArgumentError, HoldfastError, kind_of, wrong_argument
from holdfast.facts import SERVICES, default, using
from holdfast.wording import printable

from ..logs import KNOWN, BrokenSource, LoggedRequest, LogReader, Source, home_sources, in_words, sources
from .explainer import Explainer
from .results import ExplainReport, FileRead, utf8
from .sessions import RequestWindow

_LOGS = "logs or directories of them, such as explain('requests.jsonl'), or LoggedRequest records of your own"


def explain(
    *logs: Path | str | Iterable[LoggedRequest],
    since: datetime | float | None = None,
    until: datetime | float | None = None,
    session: str | None = None,
    model: str = "",
    tier: str = "",
    min_tokens: int = 0,
) -> ExplainReport:
    """What broke the cache, what it cost and what to do: the data of `holdfast explain`.

    `logs` are files, directories, or requests of a format of your own; without any, those that known clients keep under
    the home directory are read. `session` is how the names of the sessions to count begin; `model` and `tier` are those
    of requests whose log names none. A break loses more tokens than `min_tokens`.
    """
    paths, records = _split_files(logs)
    texts: dict[str, object] = {"session": session or "", "model": model, "tier": tier}
    for name, value in texts.items():
        if not isinstance(value, str):
            raise wrong_argument(f"explain({name}=…)", value, "a text")
    if tier and tier not in SERVICES:
        raise HoldfastError(f"explain knows no tier {tier!r}; give one of {', '.join(sorted(SERVICES))}")
    window = RequestWindow(_seconds("since", since), _seconds("until", until), session)
    config = load_config()
    with using(configured_facts(config)):
        if model and not default().model(model).known:
            raise HoldfastError(
                f"nothing is known of the model {model!r}; `holdfast models` lists those that are known."
            )
        explainer = Explainer(min_tokens=min_tokens, model=model, tier=tier, window=window, settings=config.settings)
        files = list_logs(paths) if paths or not logs else []
        if not logs and not files:
            raise HoldfastError(
                "No logs of known clients were found under your home directory. Name a log or a directory of logs, "
                f"such as explain('requests.jsonl'): {KNOWN} are read."
            )
        reader = LogReader()
        for file in files:
            for record in reader.records(file, lambda count: None):
                explainer.add(record, file.format, str(file.path))
        for own in records:
            for each in own:
                if not isinstance(each, (LoggedRequest, BrokenSource)):
                    raise wrong_argument("explain", each, _LOGS)
                explainer.add(each)
        report = explainer.result([file_read(file) for file in files])
    if report.broken and not report.sessions:
        raise unreadable(report)
    return report


def list_logs(paths: Sequence[Path]) -> list[Source]:
    """The logs to read. The gateway's store first: what it has seen it knows best."""
    files = sources(paths) if paths else home_sources(Path.home(), os.environ)
    return sorted(files, key=lambda source: source.format != "store")


def file_read(source: Source) -> FileRead:
    return FileRead(path=utf8(str(source.path)), format=source.format, client=source.client, size=source.size)


def unreadable(report: ExplainReport) -> HoldfastError:
    """Return the error for logs of which nothing could be read."""
    first = report.broken_lines[0]
    of = f" of {in_words(report.read)}" if report.read else ""
    return HoldfastError(
        f"nothing could be read{of}; the first problem: {printable(first.source)} {printable(first.why)}; check that "
        "these are logs of a known format"
    )


def _split_files(logs: Sequence[object]) -> tuple[list[Path], list[Iterable[object]]]:
    paths: list[Path] = []
    records: list[Iterable[object]] = []
    for each in logs:
        if isinstance(each, (str, Path)):
            paths.append(Path(each))
        elif isinstance(each, Iterable) and not isinstance(each, (bytes, dict)):
            records.append(each)
        else:
            raise wrong_argument("explain", each, _LOGS)
    return paths, records


def _seconds(name: str, at: datetime | float | None) -> float | None:
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ArgumentError(f"explain({name}=…) got a datetime without a time zone; give one, such as UTC")
        return at.timestamp()
    if at is None or (isinstance(at, (int, float)) and not isinstance(at, bool)):
        return at
    raise ArgumentError(f"explain({name}=…) got {kind_of(at)}; give a datetime, or seconds since 1970")
