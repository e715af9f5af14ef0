"""patch_file: replaces one exact piece of a file's text.

The text is matched as read_file shows it, so line ends of either kind match, and the replacement gets the line ends of
its place. Bytes that are not UTF-8, a byte order mark and everything else outside the piece stay unchanged.
"""

from __future__ import annotations

import difflib
import re
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct

from ..contract import Tool, ToolContext, ToolExecutionError, ToolOutput, Touch
from ..time_limits import in_thread
from ..toolkit import as_bytes, flag, go_on, path_of, schema, text
from .file_pages import LOOK, not_text

MOST_BYTES = 1 << 24
_MOST_COMPARED = 20_000
"""Lines among which the nearest is looked for."""
_MOST_TRIED = 500
"""Of these, how many are compared closely."""
_SHOWN = 160
_NAMED = 8
_CRLF = re.compile("\r\n")
_LONE_FEED = re.compile(r"(?<!\r)\n")


def patch_file() -> Tool:
    async def run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return await in_thread(_run, input, context)

    return Tool(
        name="patch_file",
        description="Replace text in a file. old must match exactly, and once unless replace_all is set.",
        run=run,
        effect="write",
        input_schema=schema(
            {"path": text(), "old": text(minLength=1), "new": text()},
            {"replace_all": flag()},
        ),
        paths=(Touch("path", "write"),),
        source="builtin",
        core=True,
        subject=path_of,
    )


class PatchedText(Struct, frozen=True):
    text: str
    lines: tuple[int, ...]


def _run(input: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    old, new, named = input["old"], input["new"], input["path"]
    as_bytes("old", old)
    as_bytes("new", new)
    before = _content(named, context)
    shown = context.workspace.relative(context.workspace.resolve(named, "write"))
    if reason := not_text(before[:LOOK]):
        raise ToolExecutionError(f"{shown} {reason}.")
    patched = patch(
        before.decode("utf-8", "surrogateescape"), old, new, shown, everywhere=input.get("replace_all", False)
    )
    go_on(context)
    if _content(named, context) != before:
        raise ToolExecutionError(f"{shown} was changed by somebody else at the same time; read it again.")
    context.workspace.write(named, patched.text.encode("utf-8", "surrogateescape"))
    count = len(patched.lines)
    replacements = f"{count} replacements" if count > 1 else "1 replacement"
    return ToolOutput(
        content=f"Patched {shown}: {replacements} at {_named(patched.lines)}.",
        metadata={"path": shown, "replacements": count},
        files_modified=(shown,),
    )


def _content(named: str, context: ToolContext) -> bytes:
    with context.workspace.open_read(named) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ToolExecutionError(
            f"{named} is larger than {MOST_BYTES >> 20} MB, which is too much to patch; change it with run_command."
        )
    return data


def patch(content: str, old: str, new: str, shown: str, *, everywhere: bool = False) -> PatchedText:
    """The text with `new` in place of `old`, and the lines where that was."""
    old = old.replace("\r\n", "\n")
    if old == new.replace("\r\n", "\n"):
        raise ToolExecutionError("old and new are the same; there is nothing to replace.")
    places = _places(content, old)
    if not places:
        raise ToolExecutionError(f"old was not found in {shown}. {_nearest(content, old)}")
    lines = _lines_of(content, [start for start, _ in places])
    if len(places) > 1 and not everywhere:
        raise ToolExecutionError(
            f"old occurs {len(places)} times in {shown}, at {_named(lines)}; "
            "take in more of the text around the one that is meant, or set replace_all."
        )
    crlf = content.count("\r\n") * 2 > content.count("\n")
    pieces: list[str] = []
    at = 0
    for start, end in places:
        here = "\r\n" in content[start:end] if "\n" in old else crlf
        pieces += (content[at:start], _LONE_FEED.sub("\r\n", new) if here else new)
        at = end
    pieces.append(content[at:])
    return PatchedText("".join(pieces), lines)


def _places(content: str, old: str) -> list[tuple[int, int]]:
    """Where `old` begins and ends, with line ends of either kind. A plain search, because a regular expression takes
    for ever where much of the text is alike, and nothing else in the process runs meanwhile."""
    plain = content.replace("\r\n", "\n")
    places: list[tuple[int, int]] = []
    at = plain.find(old)
    while at >= 0:
        places.append((at, at + len(old)))
        at = plain.find(old, at + len(old))
    if len(plain) == len(content):
        return places
    feeds = array("q", (match.start() - before for before, match in enumerate(_CRLF.finditer(content))))
    return [(start + bisect_left(feeds, start), end + bisect_left(feeds, end)) for start, end in places]


def _lines_of(content: str, places: Sequence[int]) -> tuple[int, ...]:
    lines: list[int] = []
    line, at = 1, 0
    for place in places:
        line += content.count("\n", at, place)
        at = place
        lines.append(line)
    return tuple(lines)


def _named(lines: Sequence[int]) -> str:
    if len(lines) == 1:
        return f"line {lines[0]}"
    more = f" and {len(lines) - _NAMED} more" if len(lines) > _NAMED else ""
    return f"lines {', '.join(map(str, lines[:_NAMED]))}{more}"


def _nearest(content: str, old: str) -> str:
    """Where the text most like it stands, so that the next attempt can be right."""
    old_lines = [line.strip() for line in old.split("\n")]
    there = [line.strip() for line in content.split("\n")]
    telling = max(old_lines, key=len)
    if not telling:
        return "Read the file again."
    first = old_lines.index(telling)
    likely = (at - first for at, line in enumerate(there) if line == telling and at >= first)
    for at in islice(likely, _MOST_TRIED):
        if there[at : at + len(old_lines)] == old_lines:
            return f"It stands at line {at + 1} with other white space; copy it exactly."
    sample = [line[:_SHOWN] for line in there[:_MOST_COMPARED]]
    best, score, tried = -1, 0.5, 0
    matcher = difflib.SequenceMatcher(None, "", telling[:_SHOWN], autojunk=False)
    for at, line in enumerate(sample):
        if not line:
            continue
        matcher.set_seq1(line)
        if matcher.real_quick_ratio() <= score or matcher.quick_ratio() <= score:
            continue
        tried += 1
        if tried > _MOST_TRIED:  # lines of digits all look alike, and to compare one closely takes milliseconds
            break
        if (ratio := matcher.ratio()) > score:
            best, score = at, ratio
    if best < 0:
        return "Nothing in it is like it; read the file again."
    exact = content.split("\n")[best].rstrip("\r")
    return f"The nearest is line {best + 1}: {_visible(exact)}"


def _visible(line: str) -> str:
    mended = line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return mended if len(mended) <= _SHOWN else mended[:_SHOWN] + "…"
