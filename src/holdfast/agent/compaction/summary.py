"""The summary: the request for it, the check of the answer, and the text of its entry.

One instruction is appended to the conversation, which is sent unchanged; after an unusable answer one more sentence is
appended to that. So each request extends the one before it.

The entry holds what the program knows for certain, then what the assistant wrote, named as such. Where no usable answer
came, an outline of the entries takes its place: the messages of the user, the tools called, the last answer. It is a
pure function of the entries, and bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from holdfast.records import Message, Text, ToolResult, ToolUse
from holdfast.tools import cut, mend, shown
from holdfast.wire import Answer

from ..window.entries import AssistantTurn, Compacted, Entry, SubagentStatus, Timeline, UserMessage
from ..window.state import DelegateState, ProcessState, TaskState
from ..window.texts import one_line
from .carry_over import OPENING, Facts, carried_facts, written

WITHOUT = "(This part was not summarized by the assistant. These are its outlines.)"
ATTEMPTS = 3

SECTIONS = ("Goal", "Decisions and facts", "Files", "Open tasks", "Next step")

INSTRUCTION = """\
Summarize this conversation so that the work can go on from your summary. It will stand in the place of the older \
messages; the newest ones stay as they are. Write for yourself: what is not in it is forgotten. Do not call any tool. \
Answer with these five sections and nothing else, each below its heading:

## Goal
What the user wants, with every demand and limit that was stated.
## Decisions and facts
What was decided and why, what was found out, what was tried and failed. Names, numbers, commands and error messages \
exactly as they are.
## Files
The files that matter: path, what is in each, what was changed.
## Open tasks
What is left to do, in order. Write "none" if nothing is.
## Next step
The one thing to do next.

Write no more than 1,500 words."""

AGAIN = "That answer cannot be used as a summary: {reason}. Write the summary now, with the five sections."

_NAMES = {name.lower(): name for name in SECTIONS}


class UnusableSummary(Exception):
    """An answer that is not a summary. The message gives the reason without quoting the answer."""


def instruction(problems: tuple[str, ...] = ()) -> tuple[Message, ...]:
    """What is appended to the conversation; `problems` are those of the answers so far."""
    paragraphs = (INSTRUCTION, *(AGAIN.format(reason=problem) for problem in problems))
    return tuple(Message("user", (Text(text),)) for text in paragraphs)


def summary_of(answer: Answer) -> str:
    """The summary in an answer, in our own form. Unusable where it is none."""
    if any(isinstance(block, ToolUse) for block in answer.message.content) or answer.stop == "tools":
        raise UnusableSummary("it called a tool")
    text = "\n".join(block.text for block in answer.message.content if isinstance(block, Text))
    if not text.strip():
        raise UnusableSummary("it was empty")
    if answer.stop == "length":
        raise UnusableSummary("it was cut at the limit of its length")
    if answer.stop == "refusal":
        raise UnusableSummary("it was refused")
    by_name = sections(mend(text))
    missing = [name for name in SECTIONS if not by_name.get(name, "").strip()]
    if missing:
        raise UnusableSummary(f"sections are missing or empty: {', '.join(missing)}")
    return "\n".join(f"### {name}\n{by_name[name].strip()}" for name in SECTIONS)


def sections(text: str) -> Mapping[str, str]:
    """The sections of a text by name, whatever their headings look like. What stands before the first one belongs to
    none; of two with the same name both count."""
    by_name: dict[str, list[str]] = {}
    current: list[str] | None = None
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            if current is None:
                continue  # around the whole answer
            fenced = not fenced
        name = None if fenced else _name(line)
        if name is not None:
            current = by_name.setdefault(name, [])
        elif current is not None:
            current.append(line)
    return {name: _unfenced("\n".join(lines)) for name, lines in by_name.items()}


def _name(line: str) -> str | None:
    """The section that a line is the heading of. A bare word is none: it may be the end of a sentence."""
    marked = line.lstrip().startswith(("#", "**", "__")) or line.rstrip().endswith(":")
    return _NAMES.get(line.strip("#*_: \t0123456789.)").lower()) if marked else None


def _unfenced(text: str) -> str:
    """Without a fence that was opened before the first section and is closed in the last."""
    stripped = text.rstrip()
    if stripped.endswith("```") and stripped.count("```") % 2:
        return stripped[:-3].rstrip()
    return text


class Bounds(Struct, frozen=True, kw_only=True):
    """How much a summary may hold of each thing."""

    messages: int
    line: int
    tools: int
    said: int
    earlier: int
    files: int
    tasks: int
    facts: int
    fact: int


BOUNDS = (
    Bounds(messages=60, line=240, tools=40, said=2_000, earlier=16_000, files=100, tasks=50, facts=40, fact=8_000),
    Bounds(messages=24, line=160, tools=20, said=800, earlier=4_000, files=40, tasks=30, facts=30, fact=4_000),
    Bounds(messages=8, line=120, tools=8, said=300, earlier=1_200, files=15, tasks=15, facts=20, fact=1_500),
    Bounds(messages=3, line=80, tools=3, said=120, earlier=300, files=5, tasks=5, facts=10, fact=300),
    Bounds(messages=0, line=0, tools=0, said=0, earlier=0, files=0, tasks=0, facts=1, fact=120),
)
"""From the longest to the shortest: the first that fits is taken. The last fits wherever something is gained."""


def outline(entries: Sequence[Entry], bounds: Bounds, *, earlier: str = "") -> str:
    """Outline these entries without a model; `earlier` is the summary that was among them."""
    parts = [WITHOUT]
    if bounds.earlier and earlier.strip():
        parts.append("### Before\n" + cut(earlier.strip(), bounds.earlier))
    messages = [f"- {_line(text, bounds.line)}" for text in _messages(entries)]
    if bounds.messages and messages:
        parts.append("### The user said\n" + "\n".join(middle_out(messages, bounds.messages)))
    calls = _calls(entries)
    if bounds.tools and calls:
        parts.append("### Tools called\n" + "\n".join(calls[: bounds.tools]))
    results = [f"- {_line(item.text, bounds.line)}" for item in _delegated(entries)]
    if bounds.messages and results:
        parts.append("### Sub-agents reported\n" + "\n".join(middle_out(results, bounds.messages)))
    last = _last_answer(entries)
    if bounds.said and last:
        parts.append("### The assistant said last\n" + "\n".join(f"> {line}" for line in _short(last, bounds.said)))
    return "\n".join(parts)


def middle_out(lines: Sequence[str], most: int) -> list[str]:
    """The first and the last lines, where there are too many: the subject, and the present state."""
    if len(lines) <= most:
        return list(lines)
    front = most // 3
    back = most - front
    return [*lines[:front], f"- (… {len(lines) - most} more …)", *lines[len(lines) - back :]]


def _messages(entries: Sequence[Entry]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, Timeline):
            yield from (item.text for item in entry.items if isinstance(item, UserMessage) and item.text.strip())


def _delegated(entries: Sequence[Entry]) -> list[SubagentStatus]:
    items = (item for entry in entries if isinstance(entry, Timeline) for item in entry.items)
    return [item for item in items if isinstance(item, SubagentStatus) and item.status != "started" and item.text]


def _calls(entries: Sequence[Entry]) -> list[str]:
    """Tools by how often they were called."""
    called: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for entry in entries:
        if not isinstance(entry, AssistantTurn):
            continue
        names = {block.id: block.name for block in entry.message.content if isinstance(block, ToolUse)}
        called.update(names.values())
        for message in entry.results:
            for block in message.content:
                if isinstance(block, ToolResult) and block.is_error and block.tool_use_id in names:
                    failed[names[block.tool_use_id]] += 1
    ordered = sorted(called.items(), key=lambda each: (-each[1], each[0]))
    return [f"- {shown(name)}: {n}" + (f" ({failed[name]} failed)" if failed[name] else "") for name, n in ordered]


def _last_answer(entries: Sequence[Entry]) -> str:
    for entry in reversed(entries):
        if isinstance(entry, Compacted):
            return ""
        if isinstance(entry, AssistantTurn):
            text = "\n".join(block.text for block in entry.message.content if isinstance(block, Text)).strip()
            if text:
                return text
    return ""


def _line(text: str, most: int) -> str:
    """Return the first non-blank line of a text, cut to `most` characters."""
    line = next((line.strip() for line in mend(text).splitlines() if line.strip()), "")
    return line if len(line) <= most else f"{line[:most]}…"


def _short(text: str, most: int) -> list[str]:
    return cut(mend(text), most).splitlines()


SUMMARY = "## Summary written by the assistant"
OUTLINE = "## Outline made by the program"

CLOSED = frozenset({"completed", "complete", "done", "closed", "cancelled", "canceled", "failed", "dropped", "skipped"})
"""States of a task that is open no more."""


class OpenWork(Struct, frozen=True, kw_only=True):
    """What is known for certain, whatever a model remembers."""

    files: Sequence[str] = ()
    tasks: Sequence[TaskState] = ()
    processes: Sequence[ProcessState] = ()
    delegates: Sequence[DelegateState] = ()


def composed(
    dropped: Sequence[Entry],
    remaining: Sequence[Entry],
    open_work: OpenWork,
    *,
    summary: str | None,
    fits: Callable[[str], bool],
) -> str | None:
    """The text that takes the place of `dropped`, in front of `kept`. `summary` is the assistant's; None if it does not
    fit. Without one the entries are outlined, as shortly as they have to be."""
    facts = carried_facts(dropped, remaining)
    earlier = "\n".join(_summary_in(entry.text) for entry in dropped if isinstance(entry, Compacted))
    for bounds in BOUNDS:
        last = [OUTLINE, outline(dropped, bounds, earlier=earlier)] if summary is None else [SUMMARY, summary]
        text = "\n".join((*_notes(facts, open_work, bounds), *last))
        if fits(text) or (summary is None and bounds is BOUNDS[-1]):
            return text
    return None


def _notes(facts: Facts, open_work: OpenWork, bounds: Bounds) -> list[str]:
    parts = [OPENING]
    if in_force := written(facts, bounds.facts, bounds.fact):
        parts.append(in_force)
    running = [f"- process {shown(each.process)}: {one_line(each.command)}" for each in open_work.processes]
    running += [
        f"- sub-agent {shown(each.delegate)} ({shown(each.role)}): {one_line(each.task)}{_asks(each)}"
        for each in open_work.delegates
    ]
    tasks = [f"- {shown(each.task)} [{shown(each.status)}]" + _text(each) for each in open_work.tasks if is_open(each)]
    files = [f"- {shown(each)}" for each in open_work.files]
    for heading, lines, most in (
        ("## Running in the background", running, bounds.tasks),
        ("## Open tasks", tasks, bounds.tasks),
        ("## Files read or changed, the latest last", files, bounds.files),
    ):
        if lines and most:
            parts += [heading, *middle_out(lines, most)]
    return parts


def is_open(task: TaskState) -> bool:
    return task.status.strip().lower() not in CLOSED


def _asks(delegate: DelegateState) -> str:
    """Format the question that a sub-agent is waiting for an answer to."""
    return f" (asks: {one_line(delegate.question)})" if delegate.question else ""


def _text(task: TaskState) -> str:
    return f": {one_line(task.text)}" if task.text.strip() else ""


def _summary_in(text: str) -> str:
    """The summary within such a text. Everything before it is quoted or in lists, so its heading is the first."""
    for heading in (SUMMARY, OUTLINE):
        _, separator, summary = text.partition(f"\n{heading}\n")
        if separator:
            return summary
    return text
