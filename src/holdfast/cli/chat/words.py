"""The texts of `holdfast chat` as plain lines: costs, tool calls and their results, and text that is safe to show.

Output of models and tools may contain control characters, which a terminal would obey. They are removed here, so that
none moves the cursor, changes a title or hides a part of the line.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from decimal import Decimal

from holdfast.agent import CostLine
from holdfast.cli.tables import cut, dollars
from holdfast.config import printable
from holdfast.records import Block, Text, ToolUse
from holdfast.tools import DISCOVER_TOOLS, ToolAnswer, is_guide
from holdfast.wording import counted

DOT = " · "
_JOINERS = "\u200c\u200d"
"""Of emoji, and of scripts that cannot be written without them."""

_SAYS = {
    "run_command": "command",
    "read_file": "path",
    "write_file": "path",
    "patch_file": "path",
    "list_dir": "path",
    "grep_files": "pattern",
    "process_output": "process",
    "process_stop": "process",
    "skill_load": "name",
    "skill_search": "query",
    "discover_tools": "query",
    "call_tool": "name",
}
"""The member of a tool's input that describes a call."""


class TextCleaner:
    """A stream of text, made safe piece by piece; lines end in a line feed, whoever wrote them."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        piece, self._held = self._held + piece, ""
        if piece.endswith("\r"):
            piece, self._held = piece[:-1], "\r"
        return clean(piece)

    def close(self) -> str:
        rest, self._held = self._held, ""
        return clean(rest)


def clean(text: str) -> str:
    """The text with its lines and tabs, and everything else that is not to be seen as an escape."""
    text = text.replace("\r\n", "\n")
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if _harmless(char) else printable(char) for char in text)


def _harmless(char: str) -> bool:
    return char.isprintable() or char in "\n\t" or char in _JOINERS or unicodedata.category(char) == "Zs"


def one_line(text: str) -> str:
    """The text on one line that is safe to show."""
    return " ".join(clean(text).split())


def cost_lines(line: CostLine, room: int, delegated: Decimal = Decimal(0)) -> list[str]:
    """The same in lines that fit, parted where its parts are."""
    lines: list[str] = []
    for part in cost_line(line, delegated).split(DOT):
        longer = f"{lines[-1]}{DOT}{part}" if lines else part
        if lines and places(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def cost_line(line: CostLine, delegated: Decimal = Decimal(0)) -> str:
    """`anthropic:claude-haiku-4-5 · 3 calls · in 812 · read 14,203 (91%) · written 601 · out 240 · $0.0042 (without
    cache $0.0168)`, and what sub-agents cost besides."""
    used = line.usage
    rate = "" if line.hit_rate is None else f" ({line.hit_rate:.0%})"
    parts = [
        one_line(line.model),
        counted(line.calls, "call"),
        f"in {used.input:,}",
        f"read {used.read:,}{rate}",
        f"written {used.written:,}",
        f"out {used.output:,}",
    ]
    if line.cost is None:
        parts.append("price unknown")
    elif line.without is None:
        parts.append(dollars(line.cost))
    else:
        parts.append(f"{dollars(line.cost)} (without cache {dollars(line.without)})")
    if line.short:
        parts.append(f"nothing cached: {line.short:,} tokens, below the {line.floor:,} it needs")
    if delegated:
        parts.append(f"sub-agents {dollars(delegated)}")
    if line.resets:
        parts.append(f"reset: {', '.join(dict.fromkeys(line.resets))}")
    if line.breaks:
        parts.append(f"{counted(line.breaks, 'break')}, see /cache")
    return DOT.join(parts)


def call_words(call: ToolUse) -> tuple[str, str]:
    """The name of the tool, and what it is called about."""
    return one_line(call.name), one_line(_about(call))


def _about(call: ToolUse) -> str:
    try:
        arguments = json.loads(call.input or b"{}")
    except ValueError:
        return call.input.decode("utf-8", "replace")
    if not isinstance(arguments, dict) or not arguments:
        return "" if arguments in ({}, None) else json.dumps(arguments, ensure_ascii=False)
    if call.name == "delegate" and (tasks := _tasks(arguments.get("tasks"))):
        return tasks
    member = _SAYS.get(call.name)
    if member is not None and isinstance(arguments.get(member), str):
        return str(arguments[member])
    if len(arguments) == 1 and isinstance(only := next(iter(arguments.values())), str):
        return only
    return json.dumps(arguments, ensure_ascii=False)


def _tasks(given: object) -> str:
    """What sub-agents are to do: `reviewer: Read the tests; helper: …`."""
    tasks = [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []
    return "; ".join(f"{each.get('role') or 'helper'}: {each.get('task', '')}" for each in tasks)


def result_words(answer: ToolAnswer) -> tuple[str, str]:
    """Return the first line of a result, and notes on it: further lines, a hidden guide for the model, the time it
    took. For a search for tools it is their names: the model reads schemas or references there, which a user does not
    need."""
    content = [each for each in answer.result.content if not (isinstance(each, Text) and is_guide(each.text))]
    lines = [line for line in clean(_text(content)).splitlines() if line.strip()]
    first = one_line(lines[0]) if lines else "no output"
    notes = [] if len(lines) < 2 else [counted(len(lines) - 1, "more line")]
    if names := _found(answer):
        first, notes = one_line(f"found {', '.join(names)}"), []
    if len(content) < len(answer.result.content):
        notes.append("with a guide")
    if answer.elapsed_us >= 1_000_000:
        notes.append(f"{answer.elapsed_us / 1_000_000:.1f} s")
    return first, ", ".join(notes)


def _found(answer: ToolAnswer) -> list[str]:
    """The tools that a search has found."""
    if answer.tool != DISCOVER_TOOLS or answer.output is None:
        return []
    metadata = answer.output.metadata
    return [str(name) for name in (*metadata.get("found", ()), *metadata.get("declared", ()))]


def _text(blocks: Sequence[Block]) -> str:
    texts = [block.text if isinstance(block, Text) else f"({type(block).__name__.lower()})" for block in blocks]
    return "\n".join(texts)


def call_line(call: ToolUse | None, answer: ToolAnswer, room: int | None) -> tuple[str, str]:
    """Describe a finished call on two lines: the call and its result."""
    name, about = (one_line(answer.tool), "") if call is None else call_words(call)
    first, notes = result_words(answer)
    mark = "cancelled: " if answer.cancelled else "error: " if answer.result.is_error else ""
    if mark and first.lower().startswith(mark[:-2]):
        mark = ""
    upper = f"{name}  {about}".rstrip()
    lower = f"{mark}{first}"
    if room is None:
        return upper, f"{lower} ({notes})" if notes else lower
    upper = fitted(upper, room)
    tail = f" ({notes})" if notes else ""
    if len(tail) > room // 2:
        tail = ""
    return upper, fitted(lower, room - len(tail)) + tail


def fitted(text: str, room: int) -> str:
    """Return the text in at most `room` columns; a cut text ends in `…`."""
    return text if places(text) <= room else cut(text, max(room, 1))


def places(text: str) -> int:
    """Columns that a text takes at most: East Asian characters and emoji take two."""
    return len(text) + sum(unicodedata.east_asian_width(char) in "WF" for char in text if char > "\u10ff")
