"""The tables `[mcp.servers.NAME]`: checked one key at a time, and put together from all layers.

Unlike other tables they are merged: servers of the user and of a workspace are used side by side. A workspace cannot
replace a server of the user's own. No message shows a value: a variable or a header may hold a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.config.document import Origin, printable
from holdfast.config.keys import SERVER_KEYS, SERVERS
from holdfast.config.sections.mcp import DeclaredServer

from .parse import NotAllowedError, check

LONGEST_NAME = 64

Place = Callable[[tuple[str, ...]], Origin]
"""Where the key stands that these steps lead to, from the table of servers on."""
Report = Callable[[Origin, str], None]


def read(value: object, place: Place, report: Report, *, project: bool = False) -> dict[str, DeclaredServer]:
    """Read the servers of one layer; invalid ones are reported and left out."""
    if not isinstance(value, Mapping):
        report(place(()), f"{SERVERS} holds one table per server; write [{SERVERS}.NAME]")
        return {}
    declared: dict[str, DeclaredServer] = {}
    for name, table in value.items():
        if not isinstance(table, Mapping):
            report(place((name,)), f"{SERVERS} holds one table per server; write [{SERVERS}.NAME]")
        elif not is_name(name):
            report(
                place((name,)), f"a server's name has 1 to {LONGEST_NAME} printable characters; give it another name"
            )
        else:
            _read_one(name, table, place, report, declared, project)
    return declared


def _read_one(
    name: str,
    table: Mapping[str, object],
    place: Place,
    report: Report,
    declared: dict[str, DeclaredServer],
    project: bool,
) -> None:
    values: dict[str, Any] = {}
    sound = True
    for key, value in table.items():
        origin = place((name, key))
        shown = f"{SERVERS}.{name}"
        if key not in SERVER_KEYS:
            near = difflib.get_close_matches(key[:100], list(SERVER_KEYS), n=1, cutoff=0.0)[0]
            report(origin, f"unknown key {shown}.{printable(key[:100])}; the nearest known name is {shown}.{near}")
            sound = False
            continue
        try:
            values[key] = check(SERVER_KEYS[key], value)
        except NotAllowedError:
            report(origin, f"{shown}.{key} is not allowed; it must be {SERVER_KEYS[key].allowed}")
            sound = False
    if not sound:
        return
    if wrong := contradiction(values):
        report(place((name,)), f"{SERVERS}.{name} {wrong}")
        return
    declared[name] = DeclaredServer(**values, origin=str(place((name,))), project=project)


def is_name(text: str) -> bool:
    """Whether a server can be called so."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable()


def contradiction(values: Mapping[str, Any]) -> str:
    """What does not go together in one server's table, as the end of a sentence; empty where all is well."""
    command, url = values.get("command"), values.get("url")
    if command is None and url is None:
        return "says neither what to start nor where to connect; give it a command or a url"
    if command is not None and url is not None:
        return "has both a command and a url; keep one of them"
    for key in ("args", "env", "cwd") if url is not None else ("headers",):
        if values.get(key):
            return f"has {key}, which go with a {'command' if url is not None else 'url'}; remove them"
    return ""


def merged(below: Mapping[str, DeclaredServer], above: Mapping[str, DeclaredServer]) -> Mapping[str, DeclaredServer]:
    """Two layers of servers as one: the upper one wins, unless it is a workspace's and the lower one the user's."""
    taken = {
        name: server
        for name, server in above.items()
        if not (server.project and name in below and not below[name].project)
    }
    return {**below, **taken}
