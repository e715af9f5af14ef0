"""Providers expect one message of the user's at a time: blocks of consecutive ones are put side by side.

Texts are never joined, and a message that has been sent is never extended: an entry with a border begins a new one.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.records import Message


def coalesce(rendered: Iterable[tuple[bool, tuple[Message, ...]]]) -> tuple[Message, ...]:
    """The messages of entries, in order; each entry says whether a new message has to begin with it.

    An entry that renders to nothing passes its border on to the next one.
    """
    out: list[Message] = []
    border = False
    for begins, messages in rendered:
        border = border or begins
        for message in messages:
            if out and not border and _join(out[-1], message):
                out[-1] = Message("user", out[-1].content + message.content)
            else:
                out.append(message)
            border = False
    return tuple(out)


def _join(before: Message, after: Message) -> bool:
    return before.role == after.role == "user" and not before.extra and not after.extra
