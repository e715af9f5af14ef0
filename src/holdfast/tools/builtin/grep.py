"""grep_files: a search for a pattern in the files of the workspace, in a program of its own (`grep_program`)."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..contract import Tool, ToolContext, ToolExecutionError, ToolOutput, Touch
from ..toolkit import as_bytes, flag, in_words, opened_directory, path_of, schema, text, whole
from . import grep_program
from .processes import Processes, to_end
from .safe_text import output_text

SECONDS = 30
"""How long a search may take."""
MATCHES, MOST_MATCHES = 100, 1000
_MOST_OUTPUT = 20_000_000
_ALONE = (sys.executable, "-I", "-S", "-W", "ignore", str(Path(grep_program.__file__).resolve()))
"""Without packages, variables of ours, and warnings about the pattern among the results."""


def grep_files(processes: Processes, *, seconds: float = SECONDS) -> Tool:
    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return await _search(input, context, processes, seconds)

    return Tool(
        name="grep_files",
        description="Search files for lines that match a Python regular expression. Leaves out what .gitignore names.",
        run=run,
        effect="read",
        input_schema=schema(
            {"pattern": text(minLength=1, maxLength=2000)},
            {
                "path": text("File or directory"),
                "glob": text("Only files like *.py", maxLength=500),
                "ignore_case": flag(),
                "context": whole("Lines around a match", minimum=0, maximum=10),
                "limit": whole(f"Matches, {MATCHES} unless told", minimum=1, maximum=MOST_MATCHES),
            },
        ),
        paths=(Touch("path", "read"),),
        source="builtin",
        core=True,
        subject=path_of,
    )


async def _search(input: Mapping[str, Any], context: ToolContext, processes: Processes, seconds: float) -> ToolOutput:
    workspace, named = context.workspace, input.get("path", ".")
    as_bytes("pattern", input["pattern"])
    path = workspace.resolve(named, "read")
    task: dict[str, Any] = {
        "pattern": input["pattern"],
        "glob": input.get("glob"),
        "ignore_case": input.get("ignore_case", False),
        "context": int(input.get("context", 0)),
        "limit": int(input.get("limit", MATCHES)),
        "parts": path.relative_to(workspace.root).parts,
        "closed": [directory.relative_to(workspace.root).parts for directory in workspace.closed],
        "seconds": int(seconds) + 5,
    }
    with in_words(named), opened_directory(workspace.root, ()) as root:
        group = processes.begin(
            [*_ALONE, msgspec.json.encode({**task, "root": root}).decode()],
            directory="/",
            environment={"PATH": os.defpath},
            keep=_MOST_OUTPUT,
            pass_fds=(root,),
        )
    try:
        end = await to_end(group, seconds, context.cancel)
        matches, _, summary = group.output().partition(b"\0")
    finally:
        group.release()
    if end == "cancel":
        raise ToolExecutionError("The search was cancelled.")
    return _output(input, output_text(matches), _summary(summary) if end == "exit" else None, seconds)


def _summary(text: bytes) -> Mapping[str, Any]:
    try:
        return dict(msgspec.json.decode(text))
    except (msgspec.DecodeError, TypeError, ValueError) as problem:
        raise ToolExecutionError("The search broke off; try a simpler pattern.") from problem


def _output(input: Mapping[str, Any], matches: str, summary: Mapping[str, Any] | None, seconds: float) -> ToolOutput:
    if summary is None:
        late = f"The search was ended at its limit of {seconds:g} s; use a simpler pattern or a narrower path"
        if not matches:
            raise ToolExecutionError(f"{late}.")
        return ToolOutput(content=f"{matches.rstrip()}\n[{late}.]", metadata={"timed_out": True})
    if "problem" in summary:
        raise ToolExecutionError(f"{input.get('path', '.')} cannot be searched: {summary['problem']}.")
    for name, kind in (("pattern", "a regular expression"), ("glob", "a glob")):
        if name in summary:
            raise ToolExecutionError(f"{name} is not {kind}: {summary[name]}.")
    if not summary["matches"]:
        return ToolOutput(content="[No matches.]", metadata=summary)
    counted = "1 match" if summary["matches"] == 1 else f"{summary['matches']} matches"
    more = f"\n[Ended after {counted}; there may be more.]" if summary["cut"] else ""
    return ToolOutput(content=matches.rstrip("\n") + more, metadata=summary)
