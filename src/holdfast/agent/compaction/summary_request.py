"""What the model is asked for, and whether its answer can be used.

One instruction stands behind the conversation, which is sent as it is; after an answer that cannot be used, one more
sentence stands behind that. So each request extends the one before it.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.records import Message, Text, ToolUse
from holdfast.tools import mend
from holdfast.wire import Answer

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
    """An answer that is no summary; the text says why, without words of the answer."""


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
    found = sections(mend(text))
    missing = [name for name in SECTIONS if not found.get(name, "").strip()]
    if missing:
        raise UnusableSummary(f"sections are missing or empty: {', '.join(missing)}")
    return "\n".join(f"### {name}\n{found[name].strip()}" for name in SECTIONS)


def sections(text: str) -> Mapping[str, str]:
    """The sections of a text by name, whatever their headings look like. What stands before the first one belongs to
    none; of two with the same name both count."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    fenced = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            if current is None:
                continue  # around the whole answer
            fenced = not fenced
        name = None if fenced else _name(line)
        if name is not None:
            current = found.setdefault(name, [])
        elif current is not None:
            current.append(line)
    return {name: _unfenced("\n".join(lines)) for name, lines in found.items()}


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
