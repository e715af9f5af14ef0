"""The closed catalogue: every event type there is, by name.

A type that is not here cannot be read back. Budget rejections of skills are `tool.failed`; skills are never created or
unloaded by an event.
"""

from __future__ import annotations

from . import agent, calls, sessions, tools
from .fields import Event

CATALOGUE: dict[str, type[Event]] = {
    each.type: each
    for module in (sessions, calls, tools, agent)
    for each in vars(module).values()
    if isinstance(each, type) and issubclass(each, Event) and each is not Event
}
