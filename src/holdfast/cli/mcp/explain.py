"""The answer of `holdfast mcp` to `explain`: the report of `holdfast explain`, short enough for a conversation.

Reads logs like the command, in a thread and for a limited time: clients have timeouts, and a partial report is better
than none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import click
import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from holdfast.cli.setup import use_configured_facts
from holdfast.config import load_config
from holdfast.errors import HoldfastError
from holdfast.lab import facts_of
from holdfast.report.explainer import Explainer, ExplainReport, RequestWindow, SessionFindings, list_logs
from holdfast.report.logs import megabytes
from holdfast.tools import WorkTimeout, in_thread, run_bounded
from holdfast.wording import counted

from .. import tables
from ..explain import markdown
from ..explain.command import if_nothing
from ..explain.log_reader import LogProgress, read
from ..explain.words import by_loss, dearest
from ..store_options import Moment, as_json

MOST_CHARS = 15_000
"""Characters of an answer: what clients take without cutting it or putting it aside."""

SECONDS = 45.0
"""How long logs are read. Clients give a tool about a minute."""

_GRACE_S = 10.0
_NAMED = 3  # files and broken lines that are named
_LONGEST = 400  # characters of one text in the JSON


class Explain(Struct, frozen=True, forbid_unknown_fields=True):
    paths: Annotated[
        tuple[str, ...],
        Meta(
            description="Logs or directories of logs. Without any: the logs that Claude Code, Codex, pi, opencode and "
            "Holdfast's gateway keep under the user's home directory."
        ),
    ] = ()
    session: Annotated[str | None, Meta(description="Only the session with this id, or those that begin with it.")] = (
        None
    )
    since: Annotated[str | None, Meta(description="Only from here on: 24h, 7d, today, 2026-11-01.")] = None
    model: Annotated[str, Meta(description="The model of requests whose log names none, such as gpt-5.5.")] = ""
    limit: Annotated[int, Meta(description="At most so many sessions and breaks.", ge=1, le=100)] = 10
    format: Annotated[
        Literal["text", "json"], Meta(description="text: Markdown; json: the same as `holdfast explain --json`.")
    ] = "text"


class Explanation(Struct, frozen=True):
    """The answer. `data`, if JSON was requested, has the members of `holdfast explain --json` and what was left out;
    with Markdown it is None: if an answer has both, Claude Code shows a model the data only."""

    text: str
    data: dict[str, Any] | None = None


async def explain(arguments: Explain, *, seconds: float = SECONDS) -> Explanation:
    """The report; a HoldfastError where nothing could be read."""
    stop = threading.Event()
    deadline = time.monotonic() + seconds
    work = partial(in_thread, _explain, arguments, lambda: stop.is_set() or time.monotonic() > deadline)
    try:
        return await run_bounded(work, timeout=seconds + _GRACE_S, grace=0, stopping=stop.set)
    except WorkTimeout:
        raise HoldfastError(f"the logs were not found within {seconds:.0f} seconds; name fewer paths") from None


def _explain(arguments: Explain, stopped: Callable[[], bool]) -> Explanation:
    use_configured_facts()
    window = RequestWindow(_since(arguments.since), None, arguments.session)
    if arguments.model:
        facts_of(arguments.model)  # refuses one of which nothing is known
    explainer = Explainer(model=arguments.model, window=window, settings=load_config().settings)
    sources = list_logs([_path(each) for each in arguments.paths])
    reached = read(sources, explainer, quiet=True, until=stopped)
    report = explainer.result(reached.files)
    report = replace(report, partial=reached.stopped)
    nothing = if_nothing(report, reached, window, "`session` and `since`")
    notes = [nothing] if nothing is not None else []
    notes += _notes(report, reached)
    if arguments.format == "json":
        data = _data(report, arguments.limit, notes)
        return Explanation(msgspec.json.encode(data).decode(), data)
    return Explanation("\n\n".join(notes) if nothing is not None else _text(report, arguments.limit, notes))


def _path(text: str) -> Path:
    if "\0" in text or not text:
        raise HoldfastError(f"{tables.printable(text)!r} is no path; give logs or directories of them")
    try:
        return Path(text).expanduser()
    except RuntimeError:  # a user that does not exist
        return Path(text)


def _since(text: str | None) -> float | None:
    try:
        return None if text is None else Moment().convert(text, None, None) / 1e6
    except click.BadParameter as problem:
        raise HoldfastError(f"since: {problem.message}") from None


def _notes(report: ExplainReport, reached: LogProgress) -> list[str]:
    """What a reader must know of the figures, each in a sentence."""
    sentences = []
    if reached.stopped:
        sentences.append(
            f"Only the first {megabytes(reached.bytes)} of {megabytes(reached.total)} were read, for want of time; "
            "name paths or a session to see the rest."
        )
    if report.broken:
        first = "; ".join(
            f"{tables.printable(each.source)} {tables.printable(each.why)}" for each in report.broken_lines[:_NAMED]
        )
        sentences.append(f"{counted(report.broken, 'line')} could not be read: {first}.")
    return sentences


def _text(report: ExplainReport, limit: int, notes: list[str]) -> str:
    """Markdown with as many rows as there is room for."""
    more = "a larger `limit` shows more"
    for rows in _fewer(limit):
        text = "\n".join(markdown.text(replace(report, partial=False), rows, more))
        text = "\n\n".join([text, *notes])
        if len(text) <= MOST_CHARS:
            return text
        more = "left out to keep this short: name a `session` to see its own"
    beginning = text[:MOST_CHARS].rpartition("\n")[0]
    return (
        f"{beginning}\n\nThe rest ({len(text) - len(beginning):,} characters) is left out; name a `session` to see it."
    )


def _data(report: ExplainReport, limit: int, notes: list[str]) -> dict[str, Any]:
    """The members of `--json` with the dearest sessions and breaks only, and how many others there are."""
    for rows in _fewer(limit):
        data = _cut(report, rows)
        data["notes"] = notes
        if len(msgspec.json.encode(data)) <= MOST_CHARS:
            return data
    return {"totals": data["totals"], "left_out": data["left_out"], "notes": notes}


def _fewer(limit: int) -> list[int]:
    return [limit >> step for step in range(limit.bit_length())]


def _cut(report: ExplainReport, rows: int) -> dict[str, Any]:
    chosen = {id(break_) for _, break_ in dearest(report)[:rows]}
    sessions = [_with(each, chosen) for each in by_loss(report)]
    shown = sorted(sessions, key=lambda each: not each.breaks)[:rows]
    few = replace(report, sessions=tuple(shown), read=report.read[:_NAMED], broken_lines=report.broken_lines[:_NAMED])
    data: dict[str, Any] = _short(msgspec.json.decode(as_json(few, numbers=True)))
    every = sum(len(each.breaks) + each.breaks_left_out for each in report.sessions)
    data["left_out"] = {
        "sessions": len(report.sessions) - len(shown),
        "breaks": every - sum(len(each.breaks) for each in shown),
        "files": len(report.read) - len(few.read),
    }
    return data


def _with(session: SessionFindings, chosen: set[int]) -> SessionFindings:
    breaks = tuple(each for each in session.breaks if id(each) in chosen)
    return replace(session, breaks=breaks, breaks_left_out=session.breaks_left_out + len(session.breaks) - len(breaks))


def _short(value: Any) -> Any:
    """Texts of a log may be of any length."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else value[: _LONGEST - 1] + "…"
    if isinstance(value, list):
        return [_short(each) for each in value]
    if isinstance(value, dict):
        return {name: _short(each) for name, each in value.items()}
    return value
