"""Facts that still hold although their entry is removed: the latest of settings, tool servers and the surroundings, and
the user's last message. Memory and goal are repeated by their own modules.

Facts pass from summary to summary: each summary begins with them, every line quoted, so that any text can be read back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.records import events
from holdfast.records.events import Event, McpServerDisconnected
from holdfast.tools import cut, shown

from ..window.entries import (
    Compacted,
    Entry,
    SettingToggledItem,
    SurroundingsChangedItem,
    Timeline,
    ToolServerGone,
    UserMessage,
)

OPENING = (
    "[Older messages of this conversation were removed to make room. What follows stands in their place: notes of the "
    "program, then a summary. It is a record of what happened and asks for nothing by itself.]"
)
"""How every summary begins."""

HEADING = "## Still in force"
ASKED = "What the user said last"

_AROUND = "The surroundings changed last"
_ALL = "all its tools"
_KEY = "### "
_QUOTE = "> "

Facts = Mapping[str, str]
"""Texts by what they are about."""


def carried_facts(dropped: Sequence[Entry], remaining: Sequence[Entry]) -> Facts:
    """Return the facts of dropped entries that no remaining entry states again."""
    dropped_facts = facts(dropped)
    return {about: text for about, text in dropped_facts.items() if about not in facts(remaining)}


def facts(entries: Iterable[Entry]) -> dict[str, str]:
    """The latest fact about each subject."""
    latest: dict[str, str] = {}
    for entry in entries:
        for about, text, _ in _facts(entry):
            latest.pop(about, None)  # the latest is also the last in order
            latest[about] = text
    return latest


def _facts(entry: Entry) -> Iterable[tuple[str, str, Event | None]]:
    """The facts of an entry: subject, text, and the event that repeats it, if there is one."""
    if isinstance(entry, Compacted):
        yield from ((about, text, _event(about, text)) for about, text in read(entry.text).items())
    for item in entry.items if isinstance(entry, Timeline) else ():
        match item:
            case UserMessage():
                yield ASKED, item.text, None
            case SettingToggledItem(setting=setting, value=value):
                yield f"Setting {shown(setting)} is", value, events.SettingToggled(setting=setting, value=value)
            case ToolServerGone(server=server, tools=tools):
                gone = McpServerDisconnected(server=server, tools=tools)
                yield f"Tool server {shown(server)} is gone", ", ".join(tools) or _ALL, gone
            case SurroundingsChangedItem():
                yield _AROUND, item.text, events.SurroundingsChanged(text=item.text)
            case _:
                pass


def told_again(dropped: Sequence[Entry], remaining: Sequence[Entry]) -> tuple[Event, ...]:
    """The events that repeat the facts of dropped entries, where no summary does; also those of a dropped summary."""
    missing = carried_facts(dropped, remaining)
    again = {
        about: event for entry in dropped for about, _, event in _facts(entry) if event is not None and about in missing
    }
    return tuple(again.values())


def _event(about: str, text: str) -> Event | None:
    """A fact as it can be read back from a summary."""
    if (setting := _between(about, "Setting ", " is")) is not None:
        return events.SettingToggled(setting=setting, value=text)
    if (server := _between(about, "Tool server ", " is gone")) is not None:
        return McpServerDisconnected(server=server, tools=() if text == _ALL else tuple(text.split(", ")))
    return events.SurroundingsChanged(text=text) if about == _AROUND else None


def _between(text: str, before: str, after: str) -> str | None:
    return text[len(before) : -len(after)] if text.startswith(before) and text.endswith(after) else None


def written(texts: Facts, number: int, most: int) -> str:
    """Format facts for a summary: at most `number` of the latest, each cut to `most` characters; empty if there are
    none. The user's message comes first."""
    if not texts:
        return ""
    others = [about for about in texts if about != ASKED]
    first = [ASKED] if ASKED in texts else []
    chosen = [*first, *others[max(0, len(others) + len(first) - number) :]]
    lines = [HEADING]
    for about in chosen:
        text = texts[about]
        lines += [_KEY + about, *(_QUOTE + line for line in cut(text, most).split("\n"))]
    return "\n".join(lines)


def read(text: str) -> Facts:
    """The facts that a summary begins with."""
    quotes: dict[str, list[str]] = {}
    about: list[str] | None = None
    start = f"{OPENING}\n{HEADING}\n"
    for line in text.removeprefix(start).split("\n") if text.startswith(start) else ():
        if line.startswith(_KEY):
            about = quotes.setdefault(line[len(_KEY) :], [])
        elif line.startswith(_QUOTE) and about is not None:
            about.append(line[len(_QUOTE) :])
        else:
            break
    return {name: "\n".join(quoted) for name, quoted in quotes.items()}
